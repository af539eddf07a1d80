import assert from 'node:assert/strict'
import sharp, { type Metadata, type Sharp } from 'sharp'
import { bmpSize, readBmp } from './bmp.ts'
import { ConverterError, undecodable } from './errors.ts'
import type { ConversionOptions, Grid, ImageSize, Resample } from './options.ts'
import { resample } from './resample.ts'

const PIXELS_MAX = 100_000_000
/** Maximum memory of a decoder that cannot decode an image row by row. */
const DECODER_BYTES_MAX = 224 * 1024 * 1024
/** White, the default background of an SVG, which needs one because its transparent pixels have no colour. */
const SVG_BACKGROUND = 0xffffff
/** Matches messages of libtiff and libvips about valid files that they cannot decode. */
const TIFF_UNSUPPORTED = new RegExp(
  [
    'not (?:configured|implemented|supported)|unsupported tiff|Unsupported (?:Bits|photometric|sample)',
    "doesn't support|only supports|must be (?:1 for|either)|no known route|not SGI-compressed",
    'not a whole number of bytes|samples out of range|exceeds channel limit|can ?not handle',
  ].join('|'),
  'i',
)
/** Maximum bytes of an uncompressed intermediate image. A larger one is compressed or reduced, to save memory. */
const PLAIN_BYTES_MAX = 48 * 1024 * 1024

export type DecodeOptions = Pick<ConversionOptions, 'resample' | 'grayscale' | 'background'>

/** A decoded image and the colours of its cells. */
export interface Decoded extends ImageSize {
  readonly format: ImageFormat
  readonly grid: Grid
  /** Three bytes per cell, row by row. */
  readonly rgb: Uint8Array
}

// Enables the loaders for the accepted formats, and no others.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif', 'Tiff', 'Svg'].map(
    (name) => `VipsForeignLoad${name}Buffer`,
  ),
})
sharp.cache(false)
sharp.concurrency(1)

/**
 * Decodes the first frame of an image, applies the EXIF orientation, and resizes the frame to the grid that `gridFor`
 * returns for the size of the image. Colours become sRGB with eight bits per channel.
 *
 * Errors: FORMAT_NOT_ACCEPTED, IMAGE_TOO_LARGE, IMAGE_UNDECODABLE, and those of `gridFor`. Source: decision 0011.
 */
export async function decode(
  bytes: Uint8Array,
  options: DecodeOptions,
  gridFor: (size: ImageSize) => Grid,
): Promise<Decoded> {
  const format = formatOf(bytes)
  const input = format === 'png' ? essentialPng(bytes) : bytes
  try {
    const source = format === 'bmp' ? openBmp(input) : await open(input, format)
    const { width, height } = source
    const grid = gridFor({ width, height })
    const background = options.background ?? (format === 'svg' ? SVG_BACKGROUND : null)
    const rgb = await cellsOf(source, grid, { ...options, background })
    return { format, width, height, grid, rgb: options.grayscale ? gray(rgb) : rgb }
  } catch (error) {
    if (error instanceof ConverterError) throw error
    if (format === 'tiff' && TIFF_UNSUPPORTED.test(String(error))) {
      throw new ConverterError(
        'FORMAT_NOT_ACCEPTED',
        'this TIFF has an unsupported compression or pixel format; save it with 8 bits per channel and LZW',
        { cause: error },
      )
    }
    throw undecodable(format, error)
  }
}

/** An image before decoding. Width and height are those after the EXIF orientation is applied. */
interface Source extends ImageSize {
  readonly hasAlpha: boolean
  /** Whether the image is a vector image, which is rendered at the size of the grid. */
  readonly isScalable: boolean
  /** EXIF orientation, 1..8; 1 is upright. */
  readonly orientation: number
  readonly start: () => Sharp
}

async function open(bytes: Uint8Array, format: ImageFormat): Promise<Source> {
  // Treats any warning about missing or wrong data as an error.
  const start = () => sharp(bytes, { failOn: 'error', limitInputPixels: false, pages: 1 })
  const meta = await start().metadata()
  const isScalable = format === 'svg'
  if (!isScalable) requireDecodable(meta.width * meta.height, decoderBytesPerPixel(format, meta))
  const { width, height } = meta.autoOrient
  const { hasAlpha, orientation = 1 } = meta
  return { width, height, hasAlpha, isScalable, orientation, start }
}

function openBmp(bytes: Uint8Array): Source {
  const { width, height } = bmpSize(bytes)
  requireDecodable(width * height, 3)
  const start = () => {
    const { rgb } = readBmp(bytes)
    return sharp(rgb, { raw: { width, height, channels: 3 }, limitInputPixels: false })
  }
  return { width, height, hasAlpha: false, isScalable: false, orientation: 1, start }
}

function requireDecodable(pixels: number, bytesPerPixel: number): void {
  if (pixels > PIXELS_MAX)
    throw tooLarge(`the image has ${pixels} pixels; it may have at most ${PIXELS_MAX}`)
  if (pixels * bytesPerPixel > DECODER_BYTES_MAX) {
    throw tooLarge(
      `the image has ${pixels} pixels; the maximum for images with this encoding is ` +
        `${Math.trunc(DECODER_BYTES_MAX / bytesPerPixel)}, because they must be decoded as a whole`,
    )
  }
}

/** Returns the bytes per pixel that the decoder needs for the whole image, or 0 if it decodes row by row. */
function decoderBytesPerPixel(
  format: ImageFormat,
  meta: Pick<Metadata, 'isProgressive' | 'channels' | 'depth' | 'chromaSubsampling' | 'hasAlpha'>,
): number {
  const plain = meta.channels * (meta.depth === 'uchar' ? 1 : 2)
  switch (format) {
    case 'jpeg':
      // The decoder stores two bytes for every coefficient of a progressive JPEG until the end.
      if (!meta.isProgressive) return 0
      return meta.chromaSubsampling === '4:2:0' ? 3 : plain * 2
    case 'png':
      return meta.isProgressive ? plain : 0
    default:
      // Memory for the whole frame, and for a second opaque copy if the image has alpha (see `withoutAlpha`).
      return (format === 'tiff' ? plain : 4) + (meta.hasAlpha ? 3 : 0)
  }
}

function tooLarge(message: string): ConverterError {
  return new ConverterError('IMAGE_TOO_LARGE', message)
}

async function cellsOf(source: Source, grid: Grid, options: DecodeOptions): Promise<Uint8Array> {
  const image = await withoutAlpha(source, options.background)
  const size = sizeFromDecoder(source, grid, options.resample)
  const { data, info } = await image
    .resize({ width: size.columns, height: size.rows, fit: 'fill', kernel: options.resample })
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true })
  // After the conversion to sRGB, a gray image also has three channels.
  assert.equal(info.channels, 3)
  return resample(data, size, grid, options.resample)
}

/** Returns the size to which libvips resizes the image. `resample` then resizes the result to `grid`. */
function sizeFromDecoder(
  { width, height, isScalable }: Source,
  grid: Grid,
  method: Resample,
): Grid {
  if (isScalable) return grid
  const { columns, rows } = grid
  if (method === 'cubic') return { columns: Math.min(columns, width), rows: Math.min(rows, height) }
  if (width * height * 3 <= PLAIN_BYTES_MAX) return { columns: width, rows: height }
  // When libvips reduces an image with `nearest`, it takes the first pixel of each cell, not the middle. In a result
  // twice as wide and high as `grid`, every second pixel is therefore from the middle of a cell of `grid`.
  return { columns: Math.min(columns * 2, width), rows: Math.min(rows * 2, height) }
}

/**
 * Returns the image without alpha. Alpha must be removed before resizing, because resizing weights pixels by their
 * alpha and would turn transparent pixels black.
 */
async function withoutAlpha(source: Source, background: number | null): Promise<Sharp> {
  const { width, height, hasAlpha, orientation, start } = source
  if (!hasAlpha) return start().autoOrient()
  if (background !== null) {
    const [r, g, b] = [background >>> 16, (background >>> 8) & 255, background & 255]
    return start().autoOrient().flatten({ background: { r, g, b } })
  }
  if (width * height * 3 > PLAIN_BYTES_MAX) {
    // The image is not rotated here, but after this step, so that this compression can work row by row.
    const packed = start().removeAlpha().toColourspace('srgb').png({ compressionLevel: 1 })
    const bytes = await packed.withExif({ IFD0: { Orientation: `${orientation}` } }).toBuffer()
    return sharp(bytes, { limitInputPixels: false }).autoOrient()
  }
  const opaque = start().autoOrient().removeAlpha().toColourspace('srgb').raw()
  const { data, info } = await opaque.toBuffer({ resolveWithObject: true })
  const { channels } = info
  return sharp(data, { raw: { width: info.width, height: info.height, channels } })
}

/** Converts pixels to their luma (Rec. 709), in place. */
function gray(rgb: Uint8Array): Uint8Array {
  for (let at = 0; at < rgb.length; at += 3) {
    const luma = 0.2126 * (rgb[at] ?? 0) + 0.7152 * (rgb[at + 1] ?? 0) + 0.0722 * (rgb[at + 2] ?? 0)
    rgb.fill(Math.round(luma), at, at + 3)
  }
  return rgb
}

export type ImageFormat = 'jpeg' | 'png' | 'gif' | 'webp' | 'avif' | 'tiff' | 'bmp' | 'svg'

const ACCEPTED = 'JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP, SVG'
/** Maximum bytes in which the SVG loader searches for the root element. */
const SVG_HEAD_BYTES = 1_000
/**
 * The PNG chunks that affect pixels. Other chunks are removed, because decoders would decompress text chunks of any
 * size.
 */
const PNG_CHUNKS: ReadonlySet<string> = new Set([
  'IHDR',
  'PLTE',
  'IDAT',
  'IEND',
  'tRNS',
  'gAMA',
  'cHRM',
  'sRGB',
  'iCCP',
  'eXIf',
])
/** Maximum bytes of an EXIF chunk, equal to the maximum in a JPEG. A larger chunk is removed. */
const PNG_EXIF_BYTES_MAX = 65_536

/**
 * Detects the format of an image from its first bytes, not from its name or declared type. Errors:
 * FORMAT_NOT_ACCEPTED, including for compressed SVG.
 */
function formatOf(bytes: Uint8Array): ImageFormat {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 64))
  const starts = (latin1: string, at = 0) =>
    head.toString('latin1', at, at + latin1.length) === latin1
  if (starts('\xff\xd8\xff')) return 'jpeg'
  if (starts('\x89PNG\r\n\x1a\n')) return 'png'
  if (starts('GIF87a') || starts('GIF89a')) return 'gif'
  if (starts('RIFF') && starts('WEBP', 8)) return 'webp'
  if (starts('ftyp', 4) && isAvif(head)) return 'avif'
  if (starts('II*\0') || starts('MM\0*') || starts('II+\0') || starts('MM\0+')) return 'tiff'
  if (starts('BM')) return 'bmp'
  if (isSvg(bytes)) return 'svg'
  throw new ConverterError(
    'FORMAT_NOT_ACCEPTED',
    `the file is not an image in an accepted format: ${ACCEPTED}`,
  )
}

/** Checks the major brand and the first compatible brands. Source: AVIF 1.2 section 6. */
function isAvif(head: Buffer): boolean {
  const brands = head.toString('latin1', 8, Math.min(head.length, head.readUInt32BE(0)))
  return (
    brands.startsWith('avif') || brands.startsWith('avis') || /^(?:.{4}){2,}?avif/s.test(brands)
  )
}

function isSvg(bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.subarray(0, SVG_HEAD_BYTES)).toString()
  return /^\ufeff?\s*</.test(head) && /<(?:\w+:)?svg[\s>]/.test(head)
}

/**
 * Returns a PNG without the chunks that do not affect pixels. Errors: IMAGE_UNDECODABLE if the last chunk is missing.
 * This is checked here, because decoders would accept such a file.
 */
export function essentialPng(bytes: Uint8Array): Uint8Array {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const result = Buffer.alloc(file.length)
  let resultBytes = file.copy(result, 0, 0, 8)
  for (let at = 8; at + 12 <= file.length; ) {
    const type = file.toString('latin1', at + 4, at + 8)
    const end = at + 12 + file.readUInt32BE(at)
    if (PNG_CHUNKS.has(type) && (type !== 'eXIf' || end - at <= PNG_EXIF_BYTES_MAX)) {
      resultBytes += file.copy(result, resultBytes, at, end)
    }
    if (type === 'IEND' && end <= file.length) return result.subarray(0, resultBytes)
    at = end
  }
  throw undecodable('png')
}
