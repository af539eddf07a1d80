/** Room for the entries of one block in a packed position; a power of two above ENTRIES_MAX. */
const INDEX_ROOM = 16_384

/**
 * A position as one integer that sorts as the chain does: stores keep it, and a database and an
 * item's creation are named by it, equal on every node that replays the chain.
 */
export function packPosition(height: number, index: number): number {
  return height * INDEX_ROOM + index
}

/** The position as `<height>.<index>`, the form in headers and messages. */
export function positionText(packed: number): string {
  return `${Math.floor(packed / INDEX_ROOM)}.${packed % INDEX_ROOM}`
}

/** The height in a packed position. */
export function heightOf(packed: number): number {
  return Math.floor(packed / INDEX_ROOM)
}

/** The packed position that `<height>.<index>` stands for, or null when `text` is none. */
export function parsePosition(text: string): number | null {
  const match = /^(0|[1-9]\d{0,11})\.(0|[1-9]\d{0,4})$/.exec(text)
  if (match === null) return null
  const [height, index] = [Number(match[1]), Number(match[2])]
  const packed = packPosition(height, index)
  return index < INDEX_ROOM && Number.isSafeInteger(packed) ? packed : null
}

/** The height and the index that `packPosition` made `packed` of. */
export function unpackPosition(packed: number): { height: number; index: number } {
  return { height: Math.floor(packed / INDEX_ROOM), index: packed % INDEX_ROOM }
}
