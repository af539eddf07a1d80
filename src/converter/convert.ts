import sharp from 'sharp'
import { decode } from './decode.ts'
import type { ImageFormat } from './formats.ts'
import { toSheetName } from './names.ts'
import { type ConversionOptions, computeGrid, type Grid, type ImageSize } from './options.ts'
import { createPalette, type Palette, repaint } from './palette.ts'
import { SHEET_PART, sheetXml, workbookParts } from './workbook.ts'
import { ZipWriter } from './zip.ts'

/** Cells from which a workbook is compressed with LEVEL_FAST, 2.4 times as fast as LEVEL_SMALL, but 14 % larger. */
const FAST_CELLS = 300_000
const LEVEL_SMALL = 6
const LEVEL_FAST = 1
/** Minimum bytes of each piece of the product, except the last piece. */
const PIECE_BYTES = 64 * 1024

export interface Job {
  /** Content of the image file. */
  readonly bytes: Uint8Array
  /** Name of the image file. */
  readonly name: string
  readonly options: ConversionOptions
  readonly cellsMax: number
  /** `preview` is a PNG with one pixel per cell, in the colours of the workbook. */
  readonly product: 'workbook' | 'preview'
}

/** Properties of a conversion that are computed before its result. `width` and `height` are the size of the image. */
export interface ConversionPlan extends ImageSize {
  readonly format: ImageFormat
  readonly grid: Grid
  /** Number of colours in the workbook. */
  readonly colors: number
  /** Number of different colours of the cells, before `createPalette` merges similar colours. */
  readonly distinct: number
}

/**
 * Messages of a worker about its job: `plan`, then `rows` while the worker writes the product to the pipe, then `end`
 * with the number of bytes. `failed` ends the job instead, at any time; its code is null for an unexpected error.
 */
export type ConversionMessage =
  | { readonly kind: 'plan'; readonly plan: ConversionPlan }
  | { readonly kind: 'rows'; readonly rows: number }
  | { readonly kind: 'end'; readonly bytes: number }
  | { readonly kind: 'failed'; readonly code: string | null; readonly message: string }

/** File descriptor of the pipe through which a worker sends the product. */
export const PRODUCT_FD = 4

/** A piece of the product, and the number of rows that are complete up to this piece. */
interface Piece {
  readonly bytes: Uint8Array
  readonly rows: number
}

/**
 * Decodes an image, and returns a generator of the product. Runs in the calling process, unlike `ConversionWorkers`.
 * Errors: ConverterError. The generator never throws.
 */
export async function convert(
  job: Job,
): Promise<{ readonly plan: ConversionPlan; readonly pieces: Iterable<Piece> }> {
  const { options } = job
  const { format, width, height, grid, rgb } = await decode(job.bytes, options, (size) =>
    computeGrid(size, options, job.cellsMax),
  )
  const palette = createPalette(rgb, options.colors)
  const { colors, distinct } = palette
  const plan = { format, width, height, grid, colors: colors.length, distinct }
  if (job.product === 'workbook') return { plan, pieces: workbookPieces(job, grid, rgb, palette) }
  repaint(rgb, palette)
  const raw = { width: grid.columns, height: grid.rows, channels: 3 } as const
  const png = sharp(rgb, { raw, limitInputPixels: false }).png({ compressionLevel: 1 })
  return { plan, pieces: [{ bytes: await png.toBuffer(), rows: grid.rows }] }
}

function* workbookPieces(
  job: Job,
  grid: Grid,
  rgb: Uint8Array,
  palette: Palette,
): Generator<Piece> {
  const zip = new ZipWriter(grid.columns * grid.rows < FAST_CELLS ? LEVEL_SMALL : LEVEL_FAST)
  let rows = 0
  const sheet = function* (): Generator<Uint8Array> {
    for (const chunk of sheetXml(grid, rgb, palette, job.options)) {
      rows = chunk.rows
      yield chunk.bytes
    }
  }
  const archive = function* (): Generator<Uint8Array> {
    for (const { name, pieces } of workbookParts(toSheetName(job.name), palette)) {
      yield* zip.part(name, pieces)
    }
    yield* zip.part(SHEET_PART, sheet())
    yield* zip.end()
  }
  for (const bytes of joinChunks(archive())) yield { bytes, rows }
}

/** Joins chunks into pieces of at least PIECE_BYTES. */
function* joinChunks(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
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
