import type { ConversionOptions, Grid } from './options.ts'
import type { Palette } from './palette.ts'

/** A part of the OOXML package, with its name in the archive and its XML. */
export interface Part {
  readonly name: string
  readonly pieces: Iterable<Uint8Array>
}

/** Name of the part with the sheet, to which other parts refer. */
export const SHEET_PART = 'xl/worksheets/sheet1.xml'

const HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
const MAIN = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
const OFFICE = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const PACKAGE = 'http://schemas.openxmlformats.org/package/2006'
const TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml'
const COLORS_PER_CHUNK = 2_048

/**
 * Returns all parts of the workbook except the sheet, in order. The only shared string is empty, because cells have no
 * text. Colour i of the palette is a solid fill with style i + 1. Source: ECMA-376 part 1, 18.2, 18.4 and 18.8; part 2,
 * 10.1.2.
 */
export function workbookParts(sheetName: string, palette: Palette): Part[] {
  return [
    toPart('[Content_Types].xml', contentTypes()),
    toPart('_rels/.rels', formatRelationships([['officeDocument', 'xl/workbook.xml']])),
    toPart('xl/workbook.xml', formatWorkbook(sheetName)),
    toPart(
      'xl/_rels/workbook.xml.rels',
      formatRelationships([
        ['worksheet', 'worksheets/sheet1.xml'],
        ['styles', 'styles.xml'],
        ['sharedStrings', 'sharedStrings.xml'],
      ]),
    ),
    toPart(
      'xl/sharedStrings.xml',
      `${HEAD}<sst xmlns="${MAIN}" uniqueCount="1"><si><t/></si></sst>`,
    ),
    { name: 'xl/styles.xml', pieces: formatStyles(palette.colors) },
  ]
}

function toPart(name: string, xml: string): Part {
  return { name, pieces: [Buffer.from(xml)] }
}

function contentTypes(): string {
  const overrides = [
    ['xl/workbook.xml', 'sheet.main'],
    [SHEET_PART, 'worksheet'],
    ['xl/styles.xml', 'styles'],
    ['xl/sharedStrings.xml', 'sharedStrings'],
  ].map(([name, type]) => `<Override PartName="/${name}" ContentType="${TYPE}.${type}+xml"/>`)
  return (
    `${HEAD}<Types xmlns="${PACKAGE}/content-types">` +
    '<Default Extension="rels" ' +
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
    `<Default Extension="xml" ContentType="application/xml"/>${overrides.join('')}</Types>`
  )
}

function formatRelationships(targets: readonly (readonly [string, string])[]): string {
  const lines = targets.map(
    ([type, target], at) =>
      `<Relationship Id="rId${at + 1}" Type="${OFFICE}/${type}" Target="${target}"/>`,
  )
  return `${HEAD}<Relationships xmlns="${PACKAGE}/relationships">${lines.join('')}</Relationships>`
}

function formatWorkbook(sheetName: string): string {
  const name = sheetName
    .replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
    // Readers decode `_x003A_`, the escape of a colon in texts. Source: ECMA-376 part 1, 22.9.2.19.
    .replace(/_(?=x[0-9a-f]{4}_)/gi, '_x005F_')
  return (
    `${HEAD}<workbook xmlns="${MAIN}" xmlns:r="${OFFICE}">` +
    '<bookViews><workbookView/></bookViews>' +
    `<sheets><sheet name="${name}" sheetId="1" r:id="rId1"/></sheets></workbook>`
  )
}

function* formatStyles(colors: Uint32Array): Generator<Uint8Array> {
  const count = colors.length
  yield Buffer.from(
    `${HEAD}<styleSheet xmlns="${MAIN}">` +
      '<fonts count="1"><font><sz val="11"/><name val="Calibri"/>' +
      '<family val="2"/></font></fonts>' +
      // Excel reserves the first two fills.
      `<fills count="${count + 2}"><fill><patternFill patternType="none"/></fill>` +
      '<fill><patternFill patternType="gray125"/></fill>',
  )
  for (let from = 0; from < count; from += COLORS_PER_CHUNK) {
    const some = Array.from(colors.subarray(from, from + COLORS_PER_CHUNK), formatFill)
    yield Buffer.from(some.join(''), 'latin1')
  }
  yield Buffer.from(
    '</fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border>' +
      '</borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>' +
      `</cellStyleXfs><cellXfs count="${count + 1}">` +
      '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>',
  )
  for (let from = 0; from < count; from += COLORS_PER_CHUNK) {
    const some = Array.from({ length: Math.min(COLORS_PER_CHUNK, count - from) }, (_, at) =>
      format(from + at + 2),
    )
    yield Buffer.from(some.join(''), 'latin1')
  }
  yield Buffer.from(
    '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/>' +
      '</cellStyles></styleSheet>',
  )
}

function formatFill(color: number): string {
  const rgb = color.toString(16).toUpperCase().padStart(6, '0')
  return (
    '<fill><patternFill patternType="solid">' +
    `<fgColor rgb="FF${rgb}"/><bgColor indexed="64"/></patternFill></fill>`
  )
}

function format(fillId: number): string {
  return `<xf numFmtId="0" fontId="0" fillId="${fillId}" borderId="0" xfId="0" applyFill="1"/>`
}

const CHUNK_BYTES = 512 * 1024
/** Additional bytes of the chunk buffer for its last cell, because the cell can begin just before CHUNK_BYTES. */
const SPARE_BYTES = 256

type SheetOptions = Pick<ConversionOptions, 'px' | 'zoom'>

/** A chunk of the sheet's XML, and the number of rows that are complete up to this chunk. */
export interface SheetChunk {
  readonly bytes: Uint8Array
  readonly rows: number
}

/** Returns the letters of column `index`: A for 0, B … Z, AA … XFD. */
function columnName(index: number): string {
  let name = ''
  for (let rest = index + 1; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    name = String.fromCharCode(65 + ((rest - 1) % 26)) + name
  }
  return name
}

/**
 * Stores short strings as 32-bit words, so that `put` copies four bytes at a time. The table is compact, so that up to
 * 65,428 strings, which are accessed in random order, stay in the CPU cache.
 */
class TextTable {
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

  /** Copies text `index` to `at`, and returns the offset of its end. May overwrite three bytes after the end. */
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
 * Yields the XML of the sheet: for each pixel a cell with an empty string and the style of its colour. `rgb` has three
 * bytes per cell, row by row. All chunks share one buffer, so a chunk is valid until the next chunk is requested.
 *
 * A cell is written as `<c r="A1" s="1" t="s"><v>0</v></c>`, because all readers parse this as an empty string, but not
 * shorter variants. Source: specification, “Output workbook” 3 to 7; ECMA-376 part 1, 18.3.1; decision 0011.
 */
export function* sheetXml(
  grid: Grid,
  rgb: Uint8Array,
  palette: Palette,
  options: SheetOptions,
): Generator<SheetChunk> {
  yield { bytes: Buffer.from(formatOpening(grid, options)), rows: 0 }
  const { set, colorOf } = palette
  const opens = new TextTable(
    Array.from({ length: grid.columns }, (_, at) => `<c r="${columnName(at)}`),
  )
  const styles = new TextTable(Array.from(palette.colors, (_, at) => String(at + 1)))
  const close = new TextTable(['" t="s"><v>0</v></c>'])
  const height = rowHeight(options.px)
  const chunk = Buffer.alloc(CHUNK_BYTES + SPARE_BYTES)
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  let end = 0
  let pixel = 0
  for (let row = 1; row <= grid.rows; row += 1) {
    end += chunk.write(`<row r="${row}" ht="${height}" customHeight="1">`, end, 'latin1')
    const rowAndStyle = new TextTable([`${row}" s="`])
    for (let column = 0; column < grid.columns; column += 1) {
      const color = set.indexForPixel(rgb, pixel)
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

function formatOpening({ columns, rows }: Grid, { px, zoom }: SheetOptions): string {
  const corner = `${columnName(columns - 1)}${rows}`
  const used = corner === 'A1' ? 'A1' : `A1:${corner}`
  const scale = zoom === null ? '' : ` zoomScale="${zoom}" zoomScaleNormal="${zoom}"`
  const width = columnWidth(px)
  // One element per column, because some readers apply a range only to its first column.
  const cols = Array.from(
    { length: columns },
    (_, at) => `<col min="${at + 1}" max="${at + 1}" width="${width}" customWidth="1"/>`,
  )
  return (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' +
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">' +
    `<dimension ref="${used}"/>` +
    `<sheetViews><sheetView tabSelected="1" workbookViewId="0"${scale}/></sheetViews>` +
    // The default height applies to the rows below the picture.
    '<sheetFormatPr defaultRowHeight="15"/>' +
    `<cols>${cols.join('')}</cols><sheetData>`
  )
}

/**
 * Returns the `width` attribute of a column that is `px` pixels wide.
 *
 * The unit of the attribute is the width of the widest digit in the normal font, 7 pixels for Calibri 11 at 96 dpi. The
 * value is rounded down to a multiple of 1/256. Source: ECMA-376 part 1, 18.3.1.13.
 */
export function columnWidth(px: number): number {
  return Math.trunc((px * 256) / 7) / 256
}

/** Returns the `ht` attribute of a row that is `px` pixels high, in points (1/72 inch; a pixel is 1/96 inch). */
export function rowHeight(px: number): number {
  return px * 0.75
}
