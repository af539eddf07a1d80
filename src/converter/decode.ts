import assert from 'node:assert/strict'
import sharp, { type Metadata, type Sharp } from 'sharp'
import { bmpSize, readBmp } from './bmp.ts'
import { ConverterError } from './errors.ts'
import { essentialPng, formatOf, type ImageFormat, undecodable } from './format.ts'
import type { Grid } from './grid.ts'
import { type Resample, resample } from './resample.ts'

/** Pixels of an image at most. */
const PIXELS_MAX = 100_000_000
/** What a decoder may hold at once when it cannot work row by row. */
const DECODER_BYTES_MAX = 224 * 1024 * 1024
/** Background of an SVG by default: its transparent pixels have no colour. */
const SVG_BACKGROUND = 0xffffff
/** Part of the messages of libtiff and libvips about valid files that they do not decode. */
const TIFF_UNSUPPORTED = new RegExp(
  [
    'not (?:configured|implemented|supported)|unsupported tiff|Unsupported (?:Bits|photometric|sample)',
    "doesn't support|only supports|must be (?:1 for|either)|no known route|not SGI-compressed",
    'not a whole number of bytes|samples out of range|exceeds channel limit|can ?not handle',
  ].join('|'),
  'i',
)
/** Up to here the pixels between two steps stand plain; beyond, they are packed. */
const PLAIN_BYTES_MAX = 48 * 1024 * 1024

/** What decoding is told. */
export interface DecodeOptions {
  readonly resample: Resample
  readonly grayscale: boolean
  /** 0xRRGGBB behind what is transparent; null leaves alpha aside. */
  readonly background: number | null
}

/** The image and the pixels of its cells. */
export interface Decoded {
  readonly format: ImageFormat
  /** Pixels of the image as it is to be looked at: after the EXIF orientation. */
  readonly width: number
  readonly height: number
  readonly grid: Grid
  /** Three bytes per cell, row by row. */
  readonly rgb: Uint8Array
}

// All loaders are shut, then those of the accepted formats opened: what `formatOf` lets through can
// only ever reach these.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif', 'Tiff', 'Svg'].map(
    (name) => `VipsForeignLoad${name}Buffer`,
  ),
})
sharp.cache(false)
sharp.concurrency(1)

/**
 * Decodes the first frame of an image, turns it upright, and resizes it to the grid that `gridFor`
 * chooses for its size. Colours are brought to sRGB, eight bits per channel.
 *
 * Errors: FORMAT_NOT_ACCEPTED, IMAGE_TOO_LARGE, IMAGE_UNDECODABLE, and what `gridFor` throws.
 * Source: docs/decisions/0024-decoding.md.
 */
export async function decode(
  bytes: Uint8Array,
  options: DecodeOptions,
  gridFor: (size: { width: number; height: number }) => Grid,
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

/** An image that is understood but not yet decoded. */
interface Source {
  /** As it is to be looked at. */
  readonly width: number
  readonly height: number
  readonly hasAlpha: boolean
  /** Drawn at the size of the grid. */
  readonly scalable: boolean
  /** EXIF, 1..8; 1 is upright. */
  readonly orientation: number
  /** The image as it is stored. */
  readonly start: () => Sharp
}

async function open(bytes: Uint8Array, format: ImageFormat): Promise<Source> {
  // The first frame only. Any warning that data is missing or wrong is an error.
  const start = () => sharp(bytes, { failOn: 'error', limitInputPixels: false, pages: 1 })
  const meta = await start().metadata()
  const scalable = format === 'svg'
  if (!scalable) requireBearable(meta.width * meta.height, decoderBytesPerPixel(format, meta))
  const { width, height } = meta.autoOrient
  const { hasAlpha, orientation = 1 } = meta
  return { width, height, hasAlpha, scalable, orientation, start }
}

function openBmp(bytes: Uint8Array): Source {
  const { width, height } = bmpSize(bytes)
  requireBearable(width * height, 3)
  const start = () => {
    const { rgb } = readBmp(bytes)
    return sharp(rgb, { raw: { width, height, channels: 3 }, limitInputPixels: false })
  }
  return { width, height, hasAlpha: false, scalable: false, orientation: 1, start }
}

function requireBearable(pixels: number, bytesPerPixel: number): void {
  if (pixels > PIXELS_MAX) throw tooLarge(`${pixels} pixels; at most ${PIXELS_MAX}`)
  if (pixels * bytesPerPixel > DECODER_BYTES_MAX) {
    throw tooLarge(
      `an image of this kind must be decoded as a whole; at most ` +
        `${Math.trunc(DECODER_BYTES_MAX / bytesPerPixel)} pixels, this has ${pixels}`,
    )
  }
}

/** Bytes that decoding holds for every pixel at once; 0 where it works row by row. */
function decoderBytesPerPixel(
  format: ImageFormat,
  meta: Pick<Metadata, 'isProgressive' | 'channels' | 'depth' | 'chromaSubsampling' | 'hasAlpha'>,
): number {
  const plain = meta.channels * (meta.depth === 'uchar' ? 1 : 2)
  switch (format) {
    case 'jpeg':
      // A progressive JPEG keeps two bytes for every coefficient until the end.
      return meta.isProgressive ? (meta.chromaSubsampling === '4:2:0' ? 3 : plain * 2) : 0
    case 'png':
      return meta.isProgressive ? plain : 0
    default:
      // The whole frame, and with alpha its opaque copy (see `withoutAlpha`).
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
  // What came without alpha has three channels in this colour space, shades of gray included.
  assert.equal(info.channels, 3)
  return resample(data, size, grid, options.resample)
}

/** Size to request from libvips. Where libvips shifts the image, `resample` does the rest. */
function sizeFromDecoder({ width, height, scalable }: Source, grid: Grid, how: Resample): Grid {
  if (scalable) return grid
  const whole = how === 'nearest' && width * height * 3 <= PLAIN_BYTES_MAX
  // Reducing, libvips takes the first pixel of each cell: of twice as many, every second is in the middle.
  const times = whole ? Number.POSITIVE_INFINITY : how === 'nearest' ? 2 : 1
  return {
    columns: Math.min(grid.columns * times, width),
    rows: Math.min(grid.rows * times, height),
  }
}

/**
 * The image upright and without alpha, before it is resized: resizing weighs pixels by their alpha,
 * so that what is transparent would come out black, whatever its colour.
 */
async function withoutAlpha(source: Source, background: number | null): Promise<Sharp> {
  const { width, height, hasAlpha, orientation, start } = source
  if (!hasAlpha) return start().autoOrient()
  if (background !== null) {
    const [r, g, b] = [background >>> 16, (background >>> 8) & 255, background & 255]
    return start().autoOrient().flatten({ background: { r, g, b } })
  }
  if (width * height * 3 > PLAIN_BYTES_MAX) {
    // Stored as it lies, so that it goes through row by row; turned when it is small.
    const packed = start().removeAlpha().toColourspace('srgb').png({ compressionLevel: 1 })
    const bytes = await packed.withExif({ IFD0: { Orientation: `${orientation}` } }).toBuffer()
    return sharp(bytes, { limitInputPixels: false }).autoOrient()
  }
  const opaque = start().autoOrient().removeAlpha().toColourspace('srgb').raw()
  const { data, info } = await opaque.toBuffer({ resolveWithObject: true })
  const { channels } = info
  return sharp(data, { raw: { width: info.width, height: info.height, channels } })
}

/** Luma by Rec. 709, rounded, in place. */
function gray(rgb: Uint8Array): Uint8Array {
  for (let at = 0; at < rgb.length; at += 3) {
    const luma = 0.2126 * (rgb[at] ?? 0) + 0.7152 * (rgb[at + 1] ?? 0) + 0.0722 * (rgb[at + 2] ?? 0)
    rgb.fill(Math.round(luma), at, at + 3)
  }
  return rgb
}
