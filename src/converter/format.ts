import { ConverterError } from './errors.ts'

/** The kinds of image that are decoded; everything else is refused before a decoder sees it. */
export type ImageFormat = 'jpeg' | 'png' | 'gif' | 'webp' | 'avif' | 'tiff' | 'bmp' | 'svg'

/** The kinds, as people call them. */
const ACCEPTED = 'JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP, SVG'
/** The SVG loader looks for the root element this far. */
const SVG_HEAD_BYTES = 1_000
/**
 * The PNG chunks that pixels depend on. Others are dropped, because decoders inflate text chunks of any number to any
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
/** Larger EXIF data is dropped. JPEG cannot hold more. */
const PNG_EXIF_BYTES_MAX = 65_536

/**
 * Which kind of image `bytes` are, by their first bytes: names and declared types are not believed.
 *
 * Errors: FORMAT_NOT_ACCEPTED for anything else, compressed SVG included.
 */
export function formatOf(bytes: Uint8Array): ImageFormat {
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
    `this is not an image of a kind taken here: ${ACCEPTED}`,
  )
}

/** Major brand or one of the first compatible brands. Source: AVIF 1.2 section 6. */
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
 * The PNG without the chunks that its pixels do not depend on.
 *
 * Errors: IMAGE_UNDECODABLE when it ends before its last chunk, which decoders accept.
 */
export function essentialPng(bytes: Uint8Array): Uint8Array {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const kept = Buffer.alloc(file.length)
  let keptBytes = file.copy(kept, 0, 0, 8)
  for (let at = 8; at + 12 <= file.length; ) {
    const type = file.toString('latin1', at + 4, at + 8)
    const end = at + 12 + file.readUInt32BE(at)
    if (PNG_CHUNKS.has(type) && (type !== 'eXIf' || end - at <= PNG_EXIF_BYTES_MAX)) {
      keptBytes += file.copy(kept, keptBytes, at, end)
    }
    if (type === 'IEND' && end <= file.length) return kept.subarray(0, keptBytes)
    at = end
  }
  throw undecodable('png')
}

/** What a damaged image is answered with; decoders' own texts say nothing to a user. */
export function undecodable(format: ImageFormat, cause?: unknown): ConverterError {
  return new ConverterError(
    'IMAGE_UNDECODABLE',
    `the ${format.toUpperCase()} image cannot be decoded: it is damaged or cut short`,
    { cause },
  )
}
