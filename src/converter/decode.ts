import assert from 'node:assert/strict'
import sharp, { type Metadata, type Sharp } from 'sharp'
import { readBmp, readBmpInfo } from './bmp.ts'
import { ConverterError, undecodable } from './errors.ts'
import { detectFormat, essentialPng, type ImageFormat, readPngGamma } from './formats.ts'
import { readGifFrame } from './gif.ts'
import type { ConversionOptions, Grid, ImageSize, Resample } from './options.ts'
import { resample } from './resample.ts'
import { readSvg } from './svg.ts'
import { hasSeparatePlanes, hasUnknownColours, hasUnspecifiedSample } from './tiff.ts'

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
/** Bytes per pixel of four channels with 16 bits. */
const RGBA16_BYTES = 8
/** Maximum side of a rendered SVG, below that of librsvg. A larger grid is enlarged from it. */
const SVG_SIDE_MAX = 16_384
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
  const format = detectFormat(bytes)
  try {
    const source = await OPENERS[format](bytes, options.background)
    const { width, height } = source
    const grid = gridFor({ width, height })
    const rgb = await readCells(source, grid, options.resample)
    return { format, width, height, grid, rgb: options.grayscale ? gray(rgb) : rgb }
  } catch (error) {
    if (error instanceof ConverterError) throw error
    if (format === 'tiff' && TIFF_UNSUPPORTED.test(String(error))) throw unsupportedTiff(error)
    throw undecodable(format, error)
  }
}

/** An image before decoding. Width and height are those after the EXIF orientation is applied. */
interface Source extends ImageSize {
  readonly hasAlpha: boolean
  /** The colour behind transparent pixels; null if alpha is ignored. */
  readonly background: number | null
  /** Whether the image is a vector image, which is rendered at the size of the grid. */
  readonly isScalable: boolean
  /** EXIF orientation, 1..8; 1 is upright. */
  readonly orientation: number
  readonly start: (grid: Grid) => Sharp | Promise<Sharp>
}

type Opener = (bytes: Uint8Array, background: number | null) => Source | Promise<Source>

const OPENERS: Readonly<Record<ImageFormat, Opener>> = {
  jpeg: (bytes, background) => open(bytes, 'jpeg', background),
  webp: (bytes, background) => open(bytes, 'webp', background),
  avif: (bytes, background) => open(bytes, 'avif', background),
  png: openPng,
  gif: openGif,
  tiff: openTiff,
  bmp: openBmp,
  svg: openSvg,
}

function load(bytes: Uint8Array): Sharp {
  // Treats any warning about missing or wrong data as an error.
  return sharp(bytes, { failOn: 'error', limitInputPixels: false, pages: 1 })
}

async function open(
  bytes: Uint8Array,
  format: ImageFormat,
  background: number | null,
): Promise<Source & Pick<Metadata, 'depth' | 'channels'>> {
  const meta = await load(bytes).metadata()
  requireDecodable(meta.width * meta.height, decoderBytesPerPixel(format, meta))
  const { hasAlpha, orientation = 1, depth, channels } = meta
  const start = () => load(bytes)
  return {
    ...{ ...meta.autoOrient, hasAlpha, background, isScalable: false, orientation, start },
    ...{ depth, channels },
  }
}

async function openPng(bytes: Uint8Array, background: number | null): Promise<Source> {
  const png = essentialPng(bytes)
  const source = await open(png, 'png', background)
  const gamma = readPngGamma(png)
  if (gamma === null) return source
  const { width, height } = source
  requireDecodable(width * height, RGBA16_BYTES)
  const isDeep = source.depth === 'ushort'
  return { ...source, orientation: 1, start: () => correctGamma(png, gamma, isDeep) }
}

/** Decodes a PNG of another gamma than that of sRGB, with all its bits so that dark colours stay different. */
async function correctGamma(png: Uint8Array, gamma: number, isDeep: boolean): Promise<Sharp> {
  const upright = load(png).autoOrient()
  const decoded = isDeep
    ? upright.toColourspace('rgb16').raw({ depth: 'ushort' })
    : upright.toColourspace('srgb').raw()
  const { data, info } = await decoded.toBuffer({ resolveWithObject: true })
  const samples = isDeep ? new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2) : data
  const most = isDeep ? 65_535 : 255
  const curve = Uint8Array.from({ length: most + 1 }, (_, value) =>
    toSrgb((value / most) ** (1 / gamma)),
  )
  const { width, height, channels } = info
  const pixels = new Uint8Array(samples.length)
  for (let at = 0; at < samples.length; at += 1) {
    const value = samples[at] ?? 0
    const isAlpha = channels === 4 && at % 4 === 3
    pixels[at] = isAlpha ? Math.round((value * 255) / most) : (curve[value] ?? 0)
  }
  return sharp(pixels, { raw: { width, height, channels }, limitInputPixels: false })
}

/** Returns a channel of sRGB, 0..255, for a linear one, 0..1. Source: IEC 61966-2-1. */
function toSrgb(linear: number): number {
  return Math.round(
    255 * (linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055),
  )
}

async function openGif(bytes: Uint8Array, background: number | null): Promise<Source> {
  const source = await open(bytes, 'gif', background)
  const frame = readGifFrame(bytes)
  if (frame === null || source.hasAlpha || background === null) return source
  // The decoder makes the rest of the canvas black, not transparent.
  const start = async () => {
    const decoded = load(bytes).ensureAlpha().toColourspace('srgb').raw()
    const { data, info } = await decoded.toBuffer({ resolveWithObject: true })
    for (let at = 0; at < data.length; at += 4) {
      const [x, y] = [(at / 4) % info.width, Math.trunc(at / 4 / info.width)]
      const isCovered = x >= frame.left && x < frame.right && y >= frame.top && y < frame.bottom
      if (!isCovered) data[at + 3] = 0
    }
    return sharp(data, { raw: { width: info.width, height: info.height, channels: 4 } })
  }
  return { ...source, hasAlpha: true, start }
}

async function openTiff(bytes: Uint8Array, background: number | null): Promise<Source> {
  if (hasUnknownColours(bytes)) throw unsupportedTiff()
  const source = await open(bytes, 'tiff', background)
  // libvips reads other samples without an error, but scales them wrong. Three floats are linear RGB.
  const isLinear = source.depth === 'float' && source.channels === 3 && !hasSeparatePlanes(bytes)
  if (!isLinear && !['uchar', 'ushort'].includes(source.depth)) throw unsupportedTiff()
  return hasUnspecifiedSample(bytes) ? { ...source, background: null } : source
}

function openBmp(bytes: Uint8Array, background: number | null): Source {
  const { width, height, channels } = readBmpInfo(bytes)
  requireDecodable(width * height, channels)
  const start = () => {
    const { pixels } = readBmp(bytes)
    return sharp(pixels, { raw: { width, height, channels }, limitInputPixels: false })
  }
  const hasAlpha = channels === 4
  return { width, height, hasAlpha, background, isScalable: false, orientation: 1, start }
}

function openSvg(bytes: Uint8Array, background: number | null): Source {
  const { width, height, atSize } = readSvg(bytes)
  const start = ({ columns, rows }: Grid) =>
    load(atSize({ columns: Math.min(columns, SVG_SIDE_MAX), rows: Math.min(rows, SVG_SIDE_MAX) }))
  return {
    ...{ width, height, hasAlpha: true, background: background ?? SVG_BACKGROUND },
    ...{ isScalable: true, orientation: 1, start },
  }
}

function unsupportedTiff(cause?: unknown): ConverterError {
  return new ConverterError(
    'FORMAT_NOT_ACCEPTED',
    'this TIFF has an unsupported compression or pixel format; save it with 8 bits per channel and LZW',
    { cause },
  )
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

async function readCells(source: Source, grid: Grid, method: Resample): Promise<Uint8Array> {
  const image = await withoutAlpha(source, grid)
  const size = sizeFromDecoder(source, grid, method)
  const { data, info } = await image
    .resize({ width: size.columns, height: size.rows, fit: 'fill', kernel: method })
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true })
  // After the conversion to sRGB, a gray image also has three channels.
  assert.equal(info.channels, 3)
  return resample(data, size, grid, method)
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
async function withoutAlpha(source: Source, grid: Grid): Promise<Sharp> {
  const { width, height, hasAlpha, background, orientation, start } = source
  const image = await start(grid)
  if (!hasAlpha) return image.autoOrient()
  if (background !== null) {
    const [r, g, b] = [background >>> 16, (background >>> 8) & 255, background & 255]
    // A gray image becomes RGB first, because its background would be gray too.
    return image.autoOrient().pipelineColourspace('srgb').flatten({ background: { r, g, b } })
  }
  if (width * height * 3 > PLAIN_BYTES_MAX) {
    // The image is not rotated here, but after this step, so that this compression can work row by row.
    const packed = image.removeAlpha().toColourspace('srgb').png({ compressionLevel: 1 })
    const bytes = await packed.withExif({ IFD0: { Orientation: `${orientation}` } }).toBuffer()
    return sharp(bytes, { limitInputPixels: false }).autoOrient()
  }
  const opaque = image.autoOrient().removeAlpha().toColourspace('srgb').raw()
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
