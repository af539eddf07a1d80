import { ConverterError, undecodable } from './errors.ts'
import { isSvg } from './svg.ts'

export type ImageFormat = 'jpeg' | 'png' | 'gif' | 'webp' | 'avif' | 'tiff' | 'bmp' | 'svg'

const ACCEPTED = 'JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP, SVG'
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
export function detectFormat(bytes: Uint8Array): ImageFormat {
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

/** Yields the chunks of a PNG, from `start` to `end` (excluded). The last one may be incomplete. */
function* pngChunks(file: Buffer): Generator<{ type: string; start: number; end: number }> {
  for (let start = 8; start + 12 <= file.length; ) {
    const end = start + 12 + file.readUInt32BE(start)
    yield { type: file.toString('latin1', start + 4, start + 8), start, end }
    start = end
  }
}

/**
 * Returns a PNG without the chunks that do not affect pixels. Errors: IMAGE_UNDECODABLE if the last chunk is missing.
 * This is checked here, because decoders would accept such a file.
 */
export function essentialPng(bytes: Uint8Array): Uint8Array {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const result = Buffer.alloc(file.length)
  let resultBytes = file.copy(result, 0, 0, 8)
  for (const { type, start, end } of pngChunks(file)) {
    if (PNG_CHUNKS.has(type) && (type !== 'eXIf' || end - start <= PNG_EXIF_BYTES_MAX)) {
      resultBytes += file.copy(result, resultBytes, start, end)
    }
    if (type === 'IEND' && end <= file.length) return result.subarray(0, resultBytes)
  }
  throw undecodable('png')
}

/** Exponents that are nearly that of sRGB, 1 / 2.2, so that the file needs no correction. */
const SRGB_GAMMA = [0.43, 0.48] as const

/**
 * Returns the exponent with which a PNG was encoded, or null if its colours are sRGB or described by a profile.
 * Source: PNG (third edition), sections 4.3 and 11.3.2.2.
 */
export function readPngGamma(bytes: Uint8Array): number | null {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let gamma: number | null = null
  for (const { type, start } of pngChunks(file)) {
    if (type === 'sRGB' || type === 'iCCP') return null
    if (type === 'IDAT') break
    if (type === 'gAMA') gamma = file.readUInt32BE(start + 8) / 100_000
  }
  const isSrgb = gamma !== null && gamma >= SRGB_GAMMA[0] && gamma <= SRGB_GAMMA[1]
  return gamma === 0 || isSrgb ? null : gamma
}
