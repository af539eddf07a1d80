import { crc32 } from 'node:zlib'
import {
  EMPTY_SUBTREE,
  HASH_BYTES,
  joinSubtrees,
  leafSubtree,
  type MapLeaf,
  type Subtree,
} from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'

// A stored map is a tree of pages. A page has the keys that begin with some hexadecimal digits, its prefix: their leaves,
// or, if they are too many, the subtree of each next digit.

/** Children of an inner page: one for each hexadecimal digit. */
export const CHILDREN = 16
const BITS_PER_PAGE = 4

/** A leaf with its bytes in a page: key, hash, length of the value, packed value. The value is decoded when it is needed. */
export interface PageLeaf extends MapLeaf {
  readonly encoded: Buffer
}

/** The subtree of a page below another one. */
export interface ChildPage extends Subtree {
  /** Check sum of the page; NO_PAGE if the subtree is empty. */
  readonly sum: number
}

export const NO_PAGE = 0

export type MapPage =
  | { readonly kind: 'leaves'; readonly leaves: readonly PageLeaf[] }
  | { readonly kind: 'inner'; readonly children: readonly ChildPage[] }

export function pageLeaf(key: Uint8Array, value: string): PageLeaf {
  const subtree = leafSubtree(key, value)
  const packed = packValue(value)
  const bytes = Buffer.byteLength(packed)
  const encoded = Buffer.allocUnsafe(VALUE_AT + bytes)
  encoded.set(key)
  encoded.set(subtree.hash, HASH_BYTES)
  encoded.writeUInt32BE(bytes, LENGTH_AT)
  encoded.write(packed, VALUE_AT)
  return { key, subtree, encoded }
}

export function leafValue({ encoded }: PageLeaf): string {
  return unpackValue(encoded.toString('utf8', VALUE_AT))
}

/** Returns digit `at` of a key: a half of a byte. */
export function keyDigit(key: Uint8Array, at: number): number {
  const byte = key[at >> 1] ?? 0
  return (at & 1) === 0 ? byte >> BITS_PER_PAGE : byte & (CHILDREN - 1)
}

/** Returns the subtree of the children from `from` to `to`. */
export function subtreeOfChildren(
  children: readonly Subtree[],
  from = 0,
  to: number = CHILDREN,
): Subtree {
  if (to - from === 1) return children[from] ?? EMPTY_SUBTREE
  const split = (from + to) / 2
  return joinSubtrees(
    subtreeOfChildren(children, from, split),
    subtreeOfChildren(children, split, to),
  )
}

/** Returns the depth in bits of the keys with a prefix of this many digits. */
export function pageDepth(prefix: string): number {
  return prefix.length * BITS_PER_PAGE
}

/** Bytes of a leaf before its value. */
const LENGTH_AT = 2 * HASH_BYTES
const VALUE_AT = LENGTH_AT + 4
const CRC_BYTES = 4
const HEAD_BYTES = CRC_BYTES + 1
const CHILD_SUM_AT = 1 + HASH_BYTES
const CHILD_BYTES = CHILD_SUM_AT + CRC_BYTES
const INNER = 1
const LEAVES = 0
/** Start of most values, and its shorter form. */
const PLAIN = '{"position":"'

/**
 * Encodes a page. It begins with its check sum, which its parent has, too: a page that was changed, lost, moved or
 * replaced by an older one never leads to a wrong root.
 */
export function encodePage(page: MapPage): Buffer {
  const isInner = page.kind === 'inner'
  const bytes = isInner
    ? CHILDREN * CHILD_BYTES
    : page.leaves.reduce((sum, { encoded }) => sum + encoded.length, 0)
  const encoded = Buffer.allocUnsafe(HEAD_BYTES + bytes)
  encoded[CRC_BYTES] = isInner ? INNER : LEAVES
  let at = HEAD_BYTES
  if (isInner) {
    for (const { leaves, hash, sum } of page.children) {
      encoded[at] = leaves
      encoded.set(hash, at + 1)
      encoded.writeUInt32BE(sum, at + CHILD_SUM_AT)
      at += CHILD_BYTES
    }
  } else {
    for (const leaf of page.leaves) {
      encoded.set(leaf.encoded, at)
      at += leaf.encoded.length
    }
  }
  encoded.writeUInt32BE(crc32(encoded.subarray(CRC_BYTES)))
  return encoded
}

export function pageSum(encoded: Uint8Array): number {
  return encoded.length < HEAD_BYTES ? NO_PAGE : asBuffer(encoded).readUInt32BE()
}

function asBuffer(encoded: Uint8Array): Buffer {
  return Buffer.from(encoded.buffer, encoded.byteOffset, encoded.length)
}

/** Inverse of `encodePage`. Errors: STORE_DAMAGED. */
export function decodePage(encoded: Uint8Array): MapPage {
  const bytes = asBuffer(encoded)
  if (bytes.length < HEAD_BYTES || pageSum(bytes) !== crc32(bytes.subarray(CRC_BYTES))) {
    throw new StoreError('STORE_DAMAGED', 'a page of the state map is damaged')
  }
  if (bytes[CRC_BYTES] === INNER) {
    const children = Array.from({ length: CHILDREN }, (_, child): ChildPage => {
      const at = HEAD_BYTES + child * CHILD_BYTES
      const leaves = bytes[at] === 0 ? 0 : bytes[at] === 1 ? 1 : 2
      const hash = bytes.subarray(at + 1, at + CHILD_SUM_AT)
      return { leaves, hash, sum: bytes.readUInt32BE(at + CHILD_SUM_AT) }
    })
    return { kind: 'inner', children }
  }
  const leaves: PageLeaf[] = []
  for (let at = HEAD_BYTES; at < bytes.length; ) {
    const end = at + VALUE_AT + bytes.readUInt32BE(at + LENGTH_AT)
    const hash = bytes.subarray(at + HASH_BYTES, at + LENGTH_AT)
    const encoded = bytes.subarray(at, end)
    leaves.push({ key: encoded.subarray(0, HASH_BYTES), subtree: { leaves: 1, hash }, encoded })
    at = end
  }
  return { kind: 'leaves', leaves }
}

/** Shortens `{"position":"7.0"}`, the value of most items, to `7.0`. */
function packValue(value: string): string {
  return value.startsWith(PLAIN) ? value.slice(PLAIN.length, -2) : value
}

function unpackValue(packed: string): string {
  return packed.startsWith('{') ? packed : `${PLAIN}${packed}"}`
}
