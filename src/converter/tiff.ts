const TAGS = { compression: 259, photometric: 262, planarConfiguration: 284, extraSamples: 338 }
const BIG_TIFF = 43
const YCBCR = 6
const JPEG_COMPRESSIONS = [6, 7]
const SEPARATE_PLANES = 2

/** Whether a TIFF has colours that libvips would read as others: YCbCr without JPEG, CIELAB and rarer ones. */
export function hasUnknownColours(bytes: Uint8Array): boolean {
  const photometric = readTag(bytes, TAGS.photometric) ?? 0
  if (photometric !== YCBCR) return photometric > YCBCR
  return !JPEG_COMPRESSIONS.includes(readTag(bytes, TAGS.compression) ?? 0)
}

/** Whether a TIFF has a plane per channel instead of one for all. */
export function hasSeparatePlanes(bytes: Uint8Array): boolean {
  return readTag(bytes, TAGS.planarConfiguration) === SEPARATE_PLANES
}

/** Whether the fourth sample of a pixel, or the second of a gray one, has a meaning other than alpha. */
export function hasUnspecifiedSample(bytes: Uint8Array): boolean {
  return readTag(bytes, TAGS.extraSamples) === 0
}

/**
 * Returns the first value of a tag with 16-bit values in the first directory of a TIFF; null if it is absent, or if the
 * file is damaged. Source: TIFF 6.0, section 2; BigTIFF.
 */
function readTag(bytes: Uint8Array, tag: number): number | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const little = view.getUint8(0) === 0x49
  try {
    const big = view.getUint16(2, little) === BIG_TIFF
    const start = big ? Number(view.getBigUint64(8, little)) : view.getUint32(4, little)
    const count = big ? Number(view.getBigUint64(start, little)) : view.getUint16(start, little)
    const [first, step, value] = big ? [start + 8, 20, 12] : [start + 2, 12, 8]
    for (let at = first; at < first + count * step; at += step) {
      if (view.getUint16(at, little) === tag) return view.getUint16(at + value, little)
    }
    return null
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}
