/** Tags of a TIFF. Source: TIFF 6.0. */
export const TIFF_TAGS = { planarConfiguration: 284, extraSamples: 338 } as const

const BIG_TIFF = 43

/**
 * Returns the first value of a tag with 16-bit values in the first directory of a TIFF; null if it is absent, or if the
 * file is damaged. Source: TIFF 6.0, section 2; BigTIFF.
 */
export function readTiffTag(bytes: Uint8Array, tag: number): number | null {
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
