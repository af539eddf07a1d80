import { columnWidth, type Grid, rowHeight } from './grid.ts'
import type { Palette } from './palette.ts'

/** The sheet is handed out in chunks of about this many bytes. */
const CHUNK_BYTES = 512 * 1024
/** More than a cell `<c r="XFD1048576" s="65428" t="s"><v>0</v></c>` with a row's tags around it. */
const SPARE_BYTES = 256

/** How the sheet looks beyond its cells. */
export interface SheetLook {
  /** Side of a cell in pixels. */
  readonly px: number
  /** Magnification in per cent, 10..400, or null for the reader's own. */
  readonly zoom: number | null
}

/** A piece of the sheet's XML, and how many rows are complete with it. */
export interface SheetChunk {
  readonly bytes: Uint8Array
  readonly rows: number
}

/** The letters of column `index` (the first is 0): A, B … Z, AA … XFD. */
function columnName(index: number): string {
  let name = ''
  for (let rest = index + 1; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    name = String.fromCharCode(65 + ((rest - 1) % 26)) + name
  }
  return name
}

/**
 * Short texts side by side in one table of 32-bit words, to be stored four bytes at a time. One
 * table instead of an object per text: there are up to 65,428 of them, used in no order, and what
 * counts is how much memory is touched.
 */
class Stamps {
  readonly #words: Int32Array
  readonly #wordsEach: number
  readonly #lengths: Uint8Array

  constructor(texts: readonly string[]) {
    this.#lengths = Uint8Array.from(texts, (text) => text.length)
    const longest = this.#lengths.reduce((most, length) => Math.max(most, length), 0)
    this.#wordsEach = (longest + 3) >> 2
    const bytes = Buffer.alloc(texts.length * this.#wordsEach * 4)
    for (const [at, text] of texts.entries()) bytes.write(text, at * this.#wordsEach * 4, 'latin1')
    this.#words = Int32Array.from({ length: bytes.length / 4 }, (_, at) =>
      bytes.readInt32LE(at * 4),
    )
  }

  /** Stores text `index` at `at` and returns where it ends; bytes beyond that may be spoilt. */
  put(view: DataView, index: number, at: number): number {
    const words = this.#words
    const from = index * this.#wordsEach
    for (let word = 0; word < this.#wordsEach; word += 1) {
      view.setInt32(at + word * 4, words[from + word] ?? 0, true)
    }
    return at + (this.#lengths[index] ?? 0)
  }
}

/**
 * The XML of the sheet: one cell per pixel, an empty string each, painted by its style.
 *
 * `rgb` holds three bytes per cell, row by row. Colour i of the palette is style i + 1 (see
 * `workbook.ts`). The bytes of a chunk are overwritten by the next one. Cells have the exact form
 * `<c r="A1" s="1" t="s"><v>0</v></c>` because it is the one that all readers take for an empty
 * string; the reference must stay too.
 * Source: specification, “Output workbook” 3 to 7; ECMA-376 part 1, 18.3.1;
 * docs/decisions/0023-own-writer.md.
 */
export function* sheetXml(
  grid: Grid,
  rgb: Uint8Array,
  palette: Palette,
  look: SheetLook,
): Generator<SheetChunk> {
  yield { bytes: Buffer.from(opening(grid, look)), rows: 0 }
  const { set, colorOf } = palette
  const opens = new Stamps(
    Array.from({ length: grid.columns }, (_, at) => `<c r="${columnName(at)}`),
  )
  const styles = new Stamps(Array.from(palette.colors, (_, at) => String(at + 1)))
  const close = new Stamps(['" t="s"><v>0</v></c>'])
  const height = rowHeight(look.px)
  const chunk = Buffer.alloc(CHUNK_BYTES + SPARE_BYTES)
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  let end = 0
  let pixel = 0
  for (let row = 1; row <= grid.rows; row += 1) {
    end += chunk.write(`<row r="${row}" ht="${height}" customHeight="1">`, end, 'latin1')
    const rowAndStyle = new Stamps([`${row}" s="`])
    for (let column = 0; column < grid.columns; column += 1) {
      const color = set.indexOfPixel(rgb, pixel)
      pixel += 3
      end = opens.put(view, column, end)
      end = rowAndStyle.put(view, 0, end)
      end = styles.put(view, colorOf[color] ?? 0, end)
      end = close.put(view, 0, end)
      if (end >= CHUNK_BYTES) {
        yield { bytes: chunk.subarray(0, end), rows: row - 1 }
        end = 0
      }
    }
    end += chunk.write('</row>', end, 'latin1')
  }
  yield { bytes: chunk.subarray(0, end), rows: grid.rows }
  yield { bytes: Buffer.from('</sheetData></worksheet>'), rows: grid.rows }
}

function opening({ columns, rows }: Grid, { px, zoom }: SheetLook): string {
  const corner = `${columnName(columns - 1)}${rows}`
  const used = corner === 'A1' ? 'A1' : `A1:${corner}`
  const scale = zoom === null ? '' : ` zoomScale="${zoom}" zoomScaleNormal="${zoom}"`
  const width = columnWidth(px)
  // One element per column, not one for all: some readers look only at the first it names.
  const cols = Array.from(
    { length: columns },
    (_, at) => `<col min="${at + 1}" max="${at + 1}" width="${width}" customWidth="1"/>`,
  )
  return (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' +
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">' +
    `<dimension ref="${used}"/>` +
    `<sheetViews><sheetView tabSelected="1" workbookViewId="0"${scale}/></sheetViews>` +
    // Rows beyond the picture keep the usual height.
    '<sheetFormatPr defaultRowHeight="15"/>' +
    `<cols>${cols.join('')}</cols><sheetData>`
  )
}
