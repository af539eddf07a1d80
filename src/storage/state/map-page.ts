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

export interface PageLeaf extends MapLeaf {
  /** The key in hexadecimal digits. */
  readonly hex: string
  readonly value: string
}

export type MapPage =
  | { readonly kind: 'leaves'; readonly leaves: readonly PageLeaf[] }
  | { readonly kind: 'inner'; readonly children: readonly Subtree[] }

export function pageLeaf(key: Uint8Array, hex: string, value: string): PageLeaf {
  return { key, hex, value, subtree: leafSubtree(key, value) }
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

const CRC_BYTES = 4
const INNER = 1
const LEAVES = 0
/** Start of most values, and the text that stands for it. */
const PLAIN = '{"position":"'

/** Encodes a page, with a check sum, so that a damaged file never leads to a wrong root. */
export function encodePage(page: MapPage): Buffer {
  const parts: Uint8Array[] = [Buffer.alloc(CRC_BYTES)]
  if (page.kind === 'inner') {
    parts.push(Uint8Array.of(INNER))
    for (const { leaves, hash } of page.children) parts.push(Uint8Array.of(leaves), hash)
  } else {
    parts.push(Uint8Array.of(LEAVES))
    for (const { key, subtree, value } of page.leaves) {
      const bytes = Buffer.from(packValue(value))
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      parts.push(key, subtree.hash, length, bytes)
    }
  }
  const encoded = Buffer.concat(parts)
  encoded.writeUInt32BE(crc32(encoded.subarray(CRC_BYTES)))
  return encoded
}

/** Inverse of `encodePage`. Errors: STORE_DAMAGED. */
export function decodePage(encoded: Uint8Array): MapPage {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.length)
  if (bytes.readUInt32BE() !== crc32(bytes.subarray(CRC_BYTES))) {
    throw new StoreError('STORE_DAMAGED', 'a page of the state map is damaged')
  }
  let at = CRC_BYTES + 1
  const next = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  if (bytes[CRC_BYTES] === INNER) {
    const children = Array.from({ length: CHILDREN }, (): Subtree => {
      const leaves = next(1)[0] === 0 ? 0 : bytes[at - 1] === 1 ? 1 : 2
      return { leaves, hash: next(HASH_BYTES) }
    })
    return { kind: 'inner', children }
  }
  const leaves: PageLeaf[] = []
  while (at < bytes.length) {
    const key = next(HASH_BYTES)
    const subtree: Subtree = { leaves: 1, hash: next(HASH_BYTES) }
    const value = unpackValue(next(next(4).readUInt32BE()).toString())
    leaves.push({ key, hex: key.toString('hex'), subtree, value })
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
