import { ConverterError, undecodable } from './errors.ts'
import type { ImageSize } from './options.ts'

interface Header extends ImageSize {
  readonly topDown: boolean
  readonly bitsPerPixel: number
  /** Offset of the pixel rows. */
  readonly offset: number
  /** Bytes per row, including padding to a multiple of four. */
  readonly stride: number
  /** Bit masks of red, green, blue and alpha (0 if there is no alpha), for 16 and 32 bits per pixel. */
  readonly masks: readonly [number, number, number, number]
  /** Palette for up to 8 bits per pixel, 0xRRGGBB each. */
  readonly colors: Uint32Array
}

const FILE_HEADER_BYTES = 14
const CORE_HEADER_BYTES = 12
/** Bytes of the shortest header of OS/2 2.0, which is a prefix of the header of Windows. */
const OS2_HEADER_BYTES_MIN = 16
const INFO_HEADER_BYTES = 40
/** Bytes of the shortest header with a mask for alpha. */
const V3_HEADER_BYTES = 56
const RGB = 0
const BIT_FIELDS = 3
const ALPHA_BIT_FIELDS = 6

export interface BmpInfo extends ImageSize {
  /** Four if the file has alpha. */
  readonly channels: 3 | 4
}

/** Returns the size of a BMP without decoding its pixels. Errors: those of `readBmp`. */
export function readBmpInfo(bytes: Uint8Array): BmpInfo {
  const { width, height, masks } = readHeader(toDataView(bytes))
  return { width, height, channels: masks[3] === 0 ? 3 : 4 }
}

/**
 * Decodes an uncompressed BMP of 1, 2, 4, 8, 16, 24 or 32 bits per pixel to one byte per channel.
 * `fast-bmp` 4.0.1 is not used, because it reads only 1, 8, 24 and 32 bits with a V5 header.
 *
 * Errors: IMAGE_UNDECODABLE; FORMAT_NOT_ACCEPTED if the BMP is run-length encoded or contains a JPEG or PNG.
 * Source: Microsoft, “Bitmap storage” (BITMAPCOREHEADER, BITMAPINFOHEADER, V4, V5).
 */
export function readBmp(bytes: Uint8Array): BmpInfo & { readonly pixels: Uint8Array } {
  const view = toDataView(bytes)
  const header = readHeader(view)
  const { width, height, stride, offset } = header
  if (offset + stride * height > bytes.byteLength) throw undecodable('bmp')
  const channels = header.masks[3] === 0 ? 3 : 4
  const pixels = new Uint8Array(width * height * channels)
  const readRow = rowReader(header)
  for (let row = 0; row < height; row += 1) {
    const stored = header.topDown ? row : height - 1 - row
    readRow(view, offset + stored * stride, pixels, row * width * channels)
  }
  if (channels === 4) makeOpaqueIfEmpty(pixels)
  return { width, height, channels, pixels }
}

/** Like other decoders, takes alpha that is 0 everywhere as unused, because programs without alpha leave it so. */
function makeOpaqueIfEmpty(rgba: Uint8Array): void {
  for (let at = 3; at < rgba.length; at += 4) if (rgba[at] !== 0) return
  for (let at = 3; at < rgba.length; at += 4) rgba[at] = 255
}

function toDataView(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function readHeader(view: DataView): Header {
  try {
    return parseHeader(view)
  } catch (error) {
    // A RangeError means that the file is truncated, because it is thrown by a read beyond the end.
    if (error instanceof RangeError) throw undecodable('bmp', error)
    throw error
  }
}

function parseHeader(view: DataView): Header {
  const headerBytes = view.getUint32(FILE_HEADER_BYTES, true)
  const core = headerBytes === CORE_HEADER_BYTES
  if (!core && headerBytes < OS2_HEADER_BYTES_MIN) throw undecodable('bmp')
  // A short OS/2 header ends before the compression.
  const short = headerBytes < INFO_HEADER_BYTES
  const at = FILE_HEADER_BYTES + 4
  const width = core ? view.getUint16(at, true) : view.getInt32(at, true)
  const signedHeight = core ? view.getUint16(at + 2, true) : view.getInt32(at + 4, true)
  const height = Math.abs(signedHeight)
  const bitsPerPixel = view.getUint16(at + (core ? 6 : 10), true)
  const compression = short ? RGB : view.getUint32(at + 12, true)
  const bitFields =
    (compression === BIT_FIELDS || compression === ALPHA_BIT_FIELDS) && bitsPerPixel >= 16
  if (compression !== RGB && !bitFields) {
    throw new ConverterError('FORMAT_NOT_ACCEPTED', 'this BMP is compressed; save it uncompressed')
  }
  if (width < 1 || height < 1 || ![1, 2, 4, 8, 16, 24, 32].includes(bitsPerPixel)) {
    throw undecodable('bmp')
  }
  const colorsAt = FILE_HEADER_BYTES + headerBytes
  const colorsUsed = short ? 0 : view.getUint32(at + 28, true)
  const colorBytes = core ? 3 : 4
  const count = bitsPerPixel <= 8 ? colorCount(bitsPerPixel, colorsUsed) : 0
  const isLong = headerBytes > INFO_HEADER_BYTES
  const maskBytes = isLong || !bitFields ? 0 : compression === ALPHA_BIT_FIELDS ? 16 : 12
  // Some programs leave the offset 0. Then the pixels follow the header.
  const offset = view.getUint32(10, true) || colorsAt + count * colorBytes + maskBytes
  if (offset < colorsAt) throw undecodable('bmp')
  return {
    width,
    height,
    topDown: signedHeight < 0,
    bitsPerPixel,
    offset,
    stride: Math.ceil((width * bitsPerPixel) / 32) * 4,
    // The masks always follow the first 40 bytes of the header. (In a longer header, they are part of the header.)
    masks: bitFields
      ? readMasks(view, at + 36, headerBytes >= V3_HEADER_BYTES || compression === ALPHA_BIT_FIELDS)
      : defaultMasks(bitsPerPixel),
    colors: readColors(view, colorsAt, colorBytes, count),
  }
}

function colorCount(bitsPerPixel: number, used: number): number {
  const all = 1 << bitsPerPixel
  return used === 0 ? all : Math.min(used, all)
}

function readColors(view: DataView, at: number, step: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, index) => {
    const from = at + index * step
    return (view.getUint8(from + 2) << 16) | (view.getUint8(from + 1) << 8) | view.getUint8(from)
  })
}

type Masks = Header['masks']

function readMasks(view: DataView, at: number, hasAlpha: boolean): Masks {
  const read = (index: number) => view.getUint32(at + index * 4, true)
  return [read(0), read(1), read(2), hasAlpha ? read(3) : 0]
}

function defaultMasks(bitsPerPixel: number): Masks {
  return bitsPerPixel === 16 ? [0x7c00, 0x03e0, 0x001f, 0] : [0xff0000, 0x00ff00, 0x0000ff, 0]
}

type RowReader = (view: DataView, from: number, rgb: Uint8Array, to: number) => void

function rowReader(header: Header): RowReader {
  const { bitsPerPixel } = header
  if (bitsPerPixel <= 8) return indexedRow(header)
  if (bitsPerPixel === 24) return plainRow(header.width)
  return maskedRow(header)
}

function indexedRow({ width, bitsPerPixel, colors }: Header): RowReader {
  const perByte = 8 / bitsPerPixel
  const mask = (1 << bitsPerPixel) - 1
  return (view, from, rgb, to) => {
    for (let x = 0; x < width; x += 1) {
      const byte = view.getUint8(from + Math.trunc(x / perByte))
      const index = (byte >> (8 - bitsPerPixel * ((x % perByte) + 1))) & mask
      // Like other decoders, treats an index outside of the palette as black.
      const color = colors[index] ?? 0
      rgb[to + x * 3] = color >>> 16
      rgb[to + x * 3 + 1] = (color >>> 8) & 255
      rgb[to + x * 3 + 2] = color & 255
    }
  }
}

function plainRow(width: number): RowReader {
  return (view, from, rgb, to) => {
    for (let x = 0; x < width * 3; x += 3) {
      rgb[to + x] = view.getUint8(from + x + 2)
      rgb[to + x + 1] = view.getUint8(from + x + 1)
      rgb[to + x + 2] = view.getUint8(from + x)
    }
  }
}

function maskedRow({ width, bitsPerPixel, masks }: Header): RowReader {
  const bytes = bitsPerPixel / 8
  const channels = (masks[3] === 0 ? masks.slice(0, 3) : masks).map(channelReader)
  return (view, from, pixels, to) => {
    let out = to
    for (let at = from; at < from + width * bytes; at += bytes) {
      const value = bytes === 2 ? view.getUint16(at, true) : view.getUint32(at, true)
      for (const read of channels) pixels[out++] = read(value)
    }
  }
}

/** Returns a function that extracts the bits under `mask` from a pixel and scales them to 0..255. */
function channelReader(mask: number): (value: number) => number {
  if (mask === 0) return () => 0
  const shift = 31 - Math.clz32(mask & -mask)
  const most = mask >>> shift
  return (value) => Math.round((((value & mask) >>> shift) * 255) / most)
}
