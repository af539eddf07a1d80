import assert from 'node:assert/strict'
import { leafHashInto, nodeHashInto } from './hashing.ts'
import { HASH_BYTES } from './log/hashes.ts'

/**
 * The Merkle tree hash of `leaves`, lowercase hex.
 *
 * Shapes: `leaves` holds 1..n leaf data of 32 bytes each, back to back.
 * Works level by level; a last hash without a partner rises as it is, which gives the same tree as
 * the recursive definition (split at the largest power of two below n).
 * Source: RFC 6962 section 2.1.
 */
export function treeHash(leaves: Uint8Array): string {
  return levelsOf(leaves, () => {}).toString('hex', 0, HASH_BYTES)
}

/**
 * The hashes that lead from leaf `index` to the tree hash of `leaves`, from its sibling upwards.
 * Source: RFC 6962 section 2.1.1.
 */
export function commitmentPath(leaves: Uint8Array, index: number): Uint8Array[] {
  const path: Uint8Array[] = []
  let at = index
  levelsOf(leaves, (level, count) => {
    const sibling = at % 2 === 0 ? at + 1 : at - 1
    if (sibling < count) {
      path.push(Uint8Array.from(level.subarray(sibling * HASH_BYTES, (sibling + 1) * HASH_BYTES)))
    }
    at = Math.floor(at / 2)
  })
  return path
}

/** Computes level after level and shows each but the root's, whose hash is the first of what it returns. */
function levelsOf(leaves: Uint8Array, show: (level: Buffer, count: number) => void): Buffer {
  assert(leaves.length >= HASH_BYTES && leaves.length % HASH_BYTES === 0)
  const data = Buffer.from(leaves.buffer, leaves.byteOffset, leaves.length)
  let count = leaves.length / HASH_BYTES
  const level = Buffer.allocUnsafe(leaves.length)
  for (let index = 0; index < count; index += 1) {
    leafHashInto(level, index * HASH_BYTES, data, index * HASH_BYTES)
  }
  while (count > 1) {
    show(level, count)
    const pairs = count >> 1
    for (let pair = 0; pair < pairs; pair += 1) {
      nodeHashInto(level, pair * HASH_BYTES, level, pair * 2 * HASH_BYTES)
    }
    if (count % 2 === 1) {
      level.copyWithin(pairs * HASH_BYTES, (count - 1) * HASH_BYTES, count * HASH_BYTES)
    }
    count = pairs + (count % 2)
  }
  return level
}
