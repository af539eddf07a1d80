/** The part of the canvas that the first frame of a GIF covers, in pixels; `right` and `bottom` are exclusive. */
export interface GifFrame {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

const EXTENSION = 0x21
const IMAGE = 0x2c
const SCREEN_BYTES = 13

/** Finds the first frame of a GIF; null if there is none. Source: GIF89a, sections 18 to 23. */
export function readGifFrame(bytes: Uint8Array): GifFrame | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    const flags = view.getUint8(10)
    let at = SCREEN_BYTES + (flags & 0x80 ? 3 << ((flags & 7) + 1) : 0)
    while (view.getUint8(at) === EXTENSION) {
      at += 2
      while (view.getUint8(at) !== 0) at += 1 + view.getUint8(at)
      at += 1
    }
    if (view.getUint8(at) !== IMAGE) return null
    const [left = 0, top = 0, width = 0, height = 0] = [1, 3, 5, 7].map((offset) =>
      view.getUint16(at + offset, true),
    )
    return { left, top, right: left + width, bottom: top + height }
  } catch (error) {
    // The file ends before its first frame.
    if (error instanceof RangeError) return null
    throw error
  }
}
