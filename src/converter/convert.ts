import sharp from 'sharp'
import { decode, type ImageFormat } from './decode.ts'
import { sheetNameOf } from './names.ts'
import { type ConversionOptions, type Grid, gridOf, type ImageSize } from './options.ts'
import { type Palette, paletteOf, repaint } from './palette.ts'
import { SHEET_PART, sheetXml, workbookParts } from './workbook.ts'
import { ZipWriter } from './zip.ts'

/** Number of cells from which the fast compression level is used: 2.4 times faster, 14 % larger. */
const FAST_CELLS = 300_000
const LEVEL_SMALL = 6
const LEVEL_FAST = 1
/** Minimum size of a piece of the product, except the last one. */
const PIECE_BYTES = 64 * 1024

/** One image to convert. */
export interface Job {
  /** The image file. */
  readonly bytes: Uint8Array
  /** The name of the upload. */
  readonly name: string
  readonly options: ConversionOptions
  readonly cellsMax: number
  /** A workbook, or a PNG with one pixel per cell and the colours of the workbook. */
  readonly product: 'workbook' | 'preview'
}

/** Properties of the result, known before its first byte. Its size is that of the image. */
export interface Plan extends ImageSize {
  readonly format: ImageFormat
  readonly grid: Grid
  /** Number of colours in the workbook. */
  readonly colors: number
  /** Number of different colours among the cells before any were merged. */
  readonly distinct: number
}

/**
 * Messages of a conversion worker about its job: `plan`, then `rows` while the product is written to the pipe, then
 * `end` with its number of bytes; or `failed` at any time, with null for an unexpected error.
 */
export type WorkerMessage =
  | { readonly kind: 'plan'; readonly plan: Plan }
  | { readonly kind: 'rows'; readonly rows: number }
  | { readonly kind: 'end'; readonly bytes: number }
  | { readonly kind: 'failed'; readonly code: string | null; readonly message: string }

/** File descriptor of the pipe for the product, in the worker. */
export const PRODUCT_FD = 4

/** A part of the product, and the number of complete rows. */
interface Piece {
  readonly bytes: Uint8Array
  readonly rows: number
}

/**
 * Decodes an image. Its product is created while the pieces are consumed, in the calling process; see `workers.ts`.
 * Errors: ConverterError, only before it resolves.
 */
export async function convert(
  job: Job,
): Promise<{ readonly plan: Plan; readonly pieces: Iterable<Piece> }> {
  const { options } = job
  const { format, width, height, grid, rgb } = await decode(job.bytes, options, (size) =>
    gridOf(size, options, job.cellsMax),
  )
  const palette = paletteOf(rgb, options.colors)
  const { colors, distinct } = palette
  const plan = { format, width, height, grid, colors: colors.length, distinct }
  if (job.product === 'workbook') return { plan, pieces: workbook(job, grid, rgb, palette) }
  repaint(rgb, palette)
  const raw = { width: grid.columns, height: grid.rows, channels: 3 } as const
  const png = sharp(rgb, { raw, limitInputPixels: false }).png({ compressionLevel: 1 })
  return { plan, pieces: [{ bytes: await png.toBuffer(), rows: grid.rows }] }
}

function* workbook(job: Job, grid: Grid, rgb: Uint8Array, palette: Palette): Generator<Piece> {
  const zip = new ZipWriter(grid.columns * grid.rows < FAST_CELLS ? LEVEL_SMALL : LEVEL_FAST)
  let rows = 0
  const sheet = function* (): Generator<Uint8Array> {
    for (const chunk of sheetXml(grid, rgb, palette, job.options)) {
      rows = chunk.rows
      yield chunk.bytes
    }
  }
  const archive = function* (): Generator<Uint8Array> {
    for (const { name, pieces } of workbookParts(sheetNameOf(job.name), palette)) {
      yield* zip.part(name, pieces)
    }
    yield* zip.part(SHEET_PART, sheet())
    yield* zip.end()
  }
  for (const bytes of gathered(archive())) yield { bytes, rows }
}

/** Joins chunks into fewer, larger ones. */
function* gathered(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let pending: Uint8Array[] = []
  let bytes = 0
  for (const chunk of chunks) {
    pending.push(chunk)
    bytes += chunk.byteLength
    if (bytes < PIECE_BYTES) continue
    yield Buffer.concat(pending, bytes)
    pending = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(pending, bytes)
}
