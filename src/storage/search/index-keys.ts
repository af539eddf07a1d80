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

/** First byte of a key by type, in the sort order of `filter`. */
const TYPE = {
  null: 0x00,
  false: 0x10,
  true: 0x11,
  number: 0x20,
  text: 0x30,
  compound: 0x40,
} as const

export interface IndexKey {
  readonly key: Uint8Array
  /** Whether this key is the key by which an order sorts the item. Each item has exactly one such key. */
  readonly sorts: boolean
}

/**
 * Returns the entries of `item` in an index on `path`: one entry per value that conditions compare, and the entry that
 * sorts the item. The key of a long text contains only the beginning of the text.
 */
export function toIndexKeys(item: JsonObject, path: Path): IndexKey[] {
  const sortKey = toIndexKey(sortValueAt(item, path))
  const keys = [{ key: sortKey, sorts: true }]
  const seen = new Set([hex(sortKey)])
  for (const value of scalarsAt(item, path)) {
    const key = toIndexKey(value)
    if (seen.has(hex(key))) continue
    seen.add(hex(key))
    keys.push({ key, sorts: false })
  }
  return keys
}

function hex(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1')
}

/** Returns the key of one value. Keys compare bytewise in the order of their values. */
export function toIndexKey(value: SortValue): Buffer {
  if (value === null) return Buffer.of(TYPE.null)
  if (value === COMPOUND) return Buffer.of(TYPE.compound)
  if (typeof value === 'boolean') return Buffer.of(value ? TYPE.true : TYPE.false)
  if (typeof value === 'number') return numberKey(value)
  const text = Buffer.from(`\0${sortText(value)}`)
  text[0] = TYPE.text
  return text
}

/**
 * Encodes a big-endian binary64. Flips the sign bit of a positive number, and all bits of a negative number, so that
 * the bytes compare like the numbers.
 */
function numberKey(value: number): Buffer {
  const key = Buffer.allocUnsafe(9)
  key[0] = TYPE.number
  key.writeDoubleBE(value, 1)
  const mask = (key[1] ?? 0) & 0x80 ? 0xff : 0
  key[1] = (key[1] ?? 0) ^ (mask | 0x80)
  for (let at = 2; at < 9; at += 1) key[at] = (key[at] ?? 0) ^ mask
  return key
}

export interface KeyRange {
  readonly from: Uint8Array
  readonly fromIncluded: boolean
  readonly to: Uint8Array
  readonly toIncluded: boolean
}

/** Returns the keys of values between two bounds of one type; both bounds must satisfy `isExactKey`. */
export function keyRange(from: Bound | null, to: Bound | null): KeyRange {
  const type = typeof (from ?? to)?.value === 'number' ? TYPE.number : TYPE.text
  return {
    from: from === null ? Buffer.of(type) : toIndexKey(from.value),
    fromIncluded: from === null || from.inclusive,
    to: to === null ? Buffer.of(type + 1) : toIndexKey(to.value),
    toIncluded: to?.inclusive === true,
  }
}

/**
 * Returns whether an equal key means an equal value. False for a truncated text, and for a text so long that
 * a truncated text could have the same key.
 */
export function isExactKey(value: Scalar): boolean {
  return typeof value !== 'string' || sortText(`${value}..`).length > value.length + 1
}
