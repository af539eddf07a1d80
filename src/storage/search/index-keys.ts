import type { JsonObject } from '../../base/json.ts'
import {
  type Bound,
  COMPOUND,
  type Path,
  type Scalar,
  type SortValue,
  scalarsAt,
  sortText,
  sortValueAt,
} from '../../filter/index.ts'

/** First byte of a key: types in the order in which `filter` sorts them. */
const TYPE = {
  null: 0x00,
  false: 0x10,
  true: 0x11,
  number: 0x20,
  text: 0x30,
  compound: 0x40,
} as const

/** One entry of an index for an item. */
export interface IndexKey {
  readonly key: Uint8Array
  /** Whether the item is at this key in the order; it is so at exactly one. */
  readonly sorts: boolean
}

/**
 * The entries that `item` has in an index on `path`: one per value that a condition looks at, and the
 * one that places it in the order. Of long texts a key holds the beginning that orders go by.
 */
export function keysOf(item: JsonObject, path: Path): IndexKey[] {
  const place = keyOf(sortValueAt(item, path))
  const keys = [{ key: place, sorts: true }]
  const seen = new Set([hex(place)])
  for (const value of scalarsAt(item, path)) {
    const key = keyOf(value)
    if (seen.has(hex(key))) continue
    seen.add(hex(key))
    keys.push({ key, sorts: false })
  }
  return keys
}

function hex(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1')
}

/** The key of one value: keys compare bytewise as the values do. */
export function keyOf(value: SortValue): Buffer {
  if (value === null) return Buffer.of(TYPE.null)
  if (value === COMPOUND) return Buffer.of(TYPE.compound)
  if (typeof value === 'boolean') return Buffer.of(value ? TYPE.true : TYPE.false)
  if (typeof value === 'number') return numberKey(value)
  const text = Buffer.from(`\0${sortText(value)}`)
  text[0] = TYPE.text
  return text
}

/** Big-endian binary64; positive ones with the sign bit set, negative ones with all bits turned. */
function numberKey(value: number): Buffer {
  const key = Buffer.allocUnsafe(9)
  key[0] = TYPE.number
  key.writeDoubleBE(value, 1)
  const mask = (key[1] ?? 0) & 0x80 ? 0xff : 0
  key[1] = (key[1] ?? 0) ^ (mask | 0x80)
  for (let at = 2; at < 9; at += 1) key[at] = (key[at] ?? 0) ^ mask
  return key
}

/** Keys from `from` on (or behind it) up to `to` (or before it). */
export interface KeyRange {
  readonly from: Uint8Array
  readonly fromIncluded: boolean
  readonly to: Uint8Array
  readonly toIncluded: boolean
}

/** Where the values between two bounds of one type are; both must be whole (below). */
export function keyRange(from: Bound | null, to: Bound | null): KeyRange {
  const type = typeof (from ?? to)?.value === 'number' ? TYPE.number : TYPE.text
  return {
    from: from === null ? Buffer.of(type) : keyOf(from.value),
    fromIncluded: from === null || from.inclusive,
    to: to === null ? Buffer.of(type + 1) : keyOf(to.value),
    toIncluded: to?.inclusive === true,
  }
}

/**
 * Whether a key says all of `value`, so that an equal key is an equal value: of a text that is cut it
 * does not, nor of one so long that a cut one could look like it.
 */
export function isWhole(value: Scalar): boolean {
  return typeof value !== 'string' || sortText(`${value}..`).length > value.length + 1
}
