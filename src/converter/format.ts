import { ConverterError } from './errors.ts'

/** The kinds of image that are decoded; everything else is refused before a decoder sees it. */
export type ImageFormat = 'jpeg' | 'png' | 'gif' | 'webp' | 'avif' | 'tiff' | 'bmp'

/** The kinds, as people call them. */
const ACCEPTED = 'JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP'

/**
 * Which kind of image `bytes` are, by their first bytes: names and declared types are not believed.
 *
 * Errors: FORMAT_NOT_ACCEPTED for anything else. SVG is refused on purpose: it is a program that
 * names other files.
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

/**
 * Refuses a PNG that ends before its last chunk: the decoder is content once it has all pixels.
 *
 * Errors: IMAGE_UNDECODABLE.
 */
export function requireWholePng(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const END = 0x4945_4e44 // IEND
  let at = 8
  while (at + 12 <= bytes.byteLength) {
    const type = view.getUint32(at + 4)
    at += 12 + view.getUint32(at)
    if (type === END && at <= bytes.byteLength) return
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
