import sharp from 'sharp'
import { decode } from './decode.ts'
import type { ImageFormat } from './format.ts'
import { type Grid, gridOf } from './grid.ts'
import { sheetNameOf } from './names.ts'
import type { ConversionOptions } from './options.ts'
import { type Palette, paletteOf, repaint } from './palette.ts'
import { type SheetChunk, sheetXml } from './sheet.ts'
import { SHEET_PART, workbookParts } from './workbook.ts'
import { ZipWriter } from './zip.ts'

/** From this many cells on, speed is worth 14 % of size. */
const FAST_CELLS = 300_000
const LEVEL_SMALL = 6
const LEVEL_FAST = 1
/** Pieces are handed over when they are at least this long, but for the last. */
const PIECE_BYTES = 64 * 1024

/** One image to convert. */
export interface Job {
  /** The image file. */
  readonly bytes: Uint8Array
  /** The name it was uploaded with. */
  readonly name: string
  readonly options: ConversionOptions
  readonly cellsMax: number
  /** A workbook, or a PNG with one pixel per cell that shows what the workbook would. */
  readonly product: 'workbook' | 'preview'
}

/** What a conversion will yield, known before its first byte. */
export interface Plan {
  /** The image: its kind and its size in pixels. */
  readonly format: ImageFormat
  readonly width: number
  readonly height: number
  readonly grid: Grid
  /** Colours in the workbook. */
  readonly colors: number
  /** Different colours among the cells before any were merged. */
  readonly distinct: number
}

/** Some bytes of the product, and how many rows of cells are done with them. */
interface Piece {
  readonly bytes: Uint8Array
  readonly rows: number
}

/** A conversion that has decoded its image; the product is made as its pieces are asked for. */
export interface Converting {
  readonly plan: Plan
  readonly pieces: Iterable<Piece>
}

/**
 * Converts one image. All of the work happens here, in the calling process, so call it from one that
 * nobody waits for (see `workers.ts`); between two pieces it can simply be given up.
 *
 * Errors: ConverterError for images and grids that are refused; after it has resolved, none.
 */
export async function convert(job: Job): Promise<Converting> {
  const { options } = job
  const { format, width, height, grid, rgb } = await decode(job.bytes, options, (size) =>
    gridOf(size, options, options.defaultWidth, job.cellsMax),
  )
  const palette = paletteOf(rgb, options.colors)
  const { distinct } = palette
  const plan = { format, width, height, grid, colors: palette.colors.length, distinct }
  if (job.product === 'preview') {
    repaint(rgb, palette)
    const raw = { width: grid.columns, height: grid.rows, channels: 3 } as const
    const png = sharp(rgb, { raw, limitInputPixels: false }).png({ compressionLevel: 1 })
    return { plan, pieces: [{ bytes: await png.toBuffer(), rows: grid.rows }] }
  }
  return { plan, pieces: workbook(job, grid, rgb, palette) }
}

function* workbook(job: Job, grid: Grid, rgb: Uint8Array, palette: Palette): Generator<Piece> {
  const zip = new ZipWriter(grid.columns * grid.rows < FAST_CELLS ? LEVEL_SMALL : LEVEL_FAST)
  let rows = 0
  const counted = function* (chunks: Iterable<SheetChunk>): Generator<Uint8Array> {
    for (const chunk of chunks) {
      rows = chunk.rows
      yield chunk.bytes
    }
  }
  const all = function* (): Generator<Uint8Array> {
    for (const { name, pieces } of workbookParts(sheetNameOf(job.name), palette)) {
      yield* zip.part(name, pieces)
    }
    yield* zip.part(SHEET_PART, counted(sheetXml(grid, rgb, palette, job.options)))
    yield* zip.end()
  }
  for (const bytes of gathered(all())) yield { bytes, rows }
}

/** The same bytes in fewer pieces. */
function* gathered(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let waiting: Uint8Array[] = []
  let bytes = 0
  for (const chunk of chunks) {
    waiting.push(chunk)
    bytes += chunk.byteLength
    if (bytes < PIECE_BYTES) continue
    yield Buffer.concat(waiting, bytes)
    waiting = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(waiting, bytes)
}
