import { equalBytes, fromHex, HASH_BYTES, joined, sha256, sha256Hex } from '../hashes.ts'

// A Merkle map: a set of keys of 32 bytes with a text each. Its root depends only on the set. At depth d, a subtree with
// several leaves is split by bit d of their keys, counted from the first:
//   no leaf:        32 zero bytes
//   one leaf:       SHA-256(0x00 || key || value)
//   several leaves: SHA-256(0x01 || hash of the keys with bit 0 || hash of the keys with bit 1)

const LEAF = Uint8Array.of(0)
const NODE = 1
const KEY_BITS = HASH_BYTES * 8
const UTF8 = new TextEncoder()

/** A subtree of a map. `leaves` is 2 for two or more leaves. */
export interface Subtree {
  readonly leaves: 0 | 1 | 2
  readonly hash: Uint8Array
}

export const EMPTY_SUBTREE: Subtree = { leaves: 0, hash: new Uint8Array(HASH_BYTES) }

/** Returns the key of a name or an id: the SHA-256 of its UTF-8. */
export function mapKey(text: string): Uint8Array {
  return fromHex(sha256Hex(text))
}

export function leafSubtree(key: Uint8Array, value: string): Subtree {
  return { leaves: 1, hash: sha256(joined(LEAF, key, UTF8.encode(value))) }
}

/** Reused, because a map hashes millions of nodes, one at a time. */
const pair = new Uint8Array(1 + 2 * HASH_BYTES).fill(NODE)

function pairHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  pair.set(left, 1)
  pair.set(right, 1 + HASH_BYTES)
  return sha256(pair)
}

/** Joins the subtrees of the keys with bit 0 and of the keys with bit 1. */
export function joinSubtrees(left: Subtree, right: Subtree): Subtree {
  if (right.leaves === 0 && left.leaves < 2) return left
  if (left.leaves === 0 && right.leaves < 2) return right
  return { leaves: 2, hash: pairHash(left.hash, right.hash) }
}

export interface MapLeaf {
  readonly key: Uint8Array
  readonly subtree: Subtree
}

/** Returns the subtree at `depth` with the leaves from `from` to `to` of `leaves`, which are sorted by key. */
export function subtreeOfLeaves(
  leaves: readonly MapLeaf[],
  depth: number,
  from = 0,
  to: number = leaves.length,
): Subtree {
  if (to === from) return EMPTY_SUBTREE
  if (to - from === 1) return leaves[from]?.subtree ?? EMPTY_SUBTREE
  let split = from
  while (split < to && bitAt(leaves[split]?.key, depth) === 0) split += 1
  return joinSubtrees(
    subtreeOfLeaves(leaves, depth + 1, from, split),
    subtreeOfLeaves(leaves, depth + 1, split, to),
  )
}

/** Returns bit `depth` of `key`, counted from the first. */
export function bitAt(key: Uint8Array | undefined, depth: number): 0 | 1 {
  return (((key?.[depth >> 3] ?? 0) >> (7 - (depth & 7))) & 1) === 0 ? 0 : 1
}

/** A proof of the value at a key of a map, or that there is none. */
export interface MapProof {
  /** The hashes beside the path, from the root down. */
  readonly path: readonly Uint8Array[]
  /** The only leaf of the subtree at the end of the path; null if the subtree is empty. */
  readonly leaf: { readonly key: Uint8Array; readonly value: string } | null
}

/**
 * Returns the value at `key` that `proof` proves for the map of `root`: null if the map has no such key, undefined if
 * the proof is wrong.
 */
export function provenValue(
  key: Uint8Array,
  root: Uint8Array,
  { path, leaf }: MapProof,
): string | null | undefined {
  if (path.length > KEY_BITS || path.some((hash) => hash.length !== HASH_BYTES)) return undefined
  if (leaf !== null && !startsEqual(leaf.key, key, path.length)) return undefined
  let { hash } = leaf === null ? EMPTY_SUBTREE : leafSubtree(leaf.key, leaf.value)
  for (let depth = path.length - 1; depth >= 0; depth -= 1) {
    const sibling = path[depth] ?? hash
    hash = bitAt(key, depth) === 0 ? pairHash(hash, sibling) : pairHash(sibling, hash)
  }
  if (!equalBytes(hash, root)) return undefined
  return leaf !== null && equalBytes(leaf.key, key) ? leaf.value : null
}

/** Whether the first `bits` bits of two keys are equal. */
function startsEqual(one: Uint8Array, other: Uint8Array, bits: number): boolean {
  if (one.length !== HASH_BYTES) return false
  for (let depth = 0; depth < bits; depth += 1) {
    if (bitAt(one, depth) !== bitAt(other, depth)) return false
  }
  return true
}
