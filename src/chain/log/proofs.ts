import { isCount } from '../../base/json.ts'
import { equalBytes, HASH_BYTES, sha256 } from '../hashes.ts'
import { coveringNodes, folded, type LeafRange, nodeHash, type ReadNodes } from '../merkle-tree.ts'

/** Maximum hashes of a proof: more than needed for any size that is a safe integer. Source: c2sp.org/tlog-witness. */
export const HASHES_MAX = 63

/** Hashes of a proof in the order of RFC 6962, from the leaves to the root. */
export type Hashes = readonly Uint8Array[]

/** Returns the leaf ranges whose hashes prove that the tree of `size` leaves contains leaf `index`. */
function inclusionRanges(index: number, size: number): LeafRange[] {
  const ranges: LeafRange[] = []
  let [from, to] = [0, size]
  while (to - from > 1) {
    const split = from + largestPowerBelow(to - from)
    if (index < split) {
      ranges.push({ from: split, to })
      to = split
    } else {
      ranges.push({ from, to: split })
      from = split
    }
  }
  return ranges.reverse()
}

/** Returns the leaf ranges whose hashes prove that the tree of `size` leaves continues the tree of `before` leaves. */
function consistencyRanges(before: number, size: number): LeafRange[] {
  const ranges: LeafRange[] = []
  let [from, to] = [0, size]
  while (before !== to) {
    const split = from + largestPowerBelow(to - from)
    if (before <= split) {
      ranges.push({ from: split, to })
      to = split
    } else {
      ranges.push({ from, to: split })
      from = split
    }
  }
  // A range that starts at 0 is the whole old tree, whose hash the verifier has.
  if (from !== 0) ranges.push({ from, to })
  return ranges.reverse()
}

/**
 * Proves that leaf `index` is in the tree of `size` leaves, with 0 <= index < size. Source: RFC 6962 section 2.1.1.
 */
export async function proveInclusion(
  index: number,
  size: number,
  read: ReadNodes,
): Promise<Hashes> {
  if (!(index >= 0 && index < size))
    throw new RangeError(`a log of ${size} leaves has no leaf ${index}`)
  return readHashes(inclusionRanges(index, size), read)
}

/**
 * Proves that the tree of `size` leaves begins with the tree of `before` leaves, with 0 <= before <= size. The
 * proof is empty if `before` is 0. Source: RFC 6962 section 2.1.2.
 */
export async function proveConsistency(
  before: number,
  size: number,
  read: ReadNodes,
): Promise<Hashes> {
  if (!(before >= 0 && before <= size))
    throw new RangeError(`size ${before} is not within 0..${size}`)
  return before === 0 ? [] : readHashes(consistencyRanges(before, size), read)
}

/** Reads the nodes of all ranges in one call. */
async function readHashes(ranges: readonly LeafRange[], read: ReadNodes): Promise<Hashes> {
  const nodes = ranges.map(coveringNodes)
  const hashes = await read(nodes.flat())
  let at = 0
  return nodes.map(({ length }) => {
    at += length
    return folded(hashes.slice(at - length, at))
  })
}

interface Rooted {
  readonly size: number
  readonly root: Uint8Array
}

/** Whether `proof` proves that `leaf` (a leaf hash) is leaf `index` of `tree`. */
export function verifyInclusion(
  { index, leaf }: { readonly index: number; readonly leaf: Uint8Array },
  tree: Rooted,
  proof: Hashes,
): boolean {
  if (!isCount(index) || !isCount(tree.size) || index >= tree.size || !areHashes(proof)) {
    return false
  }
  const root = rootOfPath(leaf, index, tree.size, proof)
  return root !== null && equalBytes(root, tree.root)
}

/**
 * Computes the root of a tree of `size` leaves from the path of leaf `index` (RFC 6962 section 2.1.1). Returns null if
 * the path has the wrong length.
 */
function rootOfPath(
  leaf: Uint8Array,
  index: number,
  size: number,
  path: Hashes,
): Uint8Array | null {
  const sibling = path.at(-1)
  if (size === 1 || sibling === undefined) return size === 1 && path.length === 0 ? leaf : null
  const split = largestPowerBelow(size)
  const rest = path.slice(0, -1)
  if (index < split) {
    const left = rootOfPath(leaf, index, split, rest)
    return left && nodeHash(left, sibling)
  }
  const right = rootOfPath(leaf, index - split, size - split, rest)
  return right && nodeHash(sibling, right)
}

/** Whether `proof` proves that `tree` begins with all leaves of `before`. */
export function verifyConsistency(before: Rooted, tree: Rooted, proof: Hashes): boolean {
  if (!isCount(before.size) || !isCount(tree.size) || before.size > tree.size) return false
  if (!areHashes(proof)) return false
  if (before.size === tree.size) return proof.length === 0 && equalBytes(before.root, tree.root)
  if (before.size === 0) {
    return proof.length === 0 && equalBytes(before.root, sha256(new Uint8Array(0)))
  }
  const roots = rootsOfProof(before.size, tree.size, proof, before.root)
  return roots !== null && equalBytes(roots.old, before.root) && equalBytes(roots.new, tree.root)
}

/**
 * Computes the roots of the first `before` leaves and of all `size` leaves from a proof (RFC 6962 section 2.1.2).
 * Returns null if the proof has the wrong length. `known` is the root of the first `before` leaves if the proof does
 * not contain it.
 */
function rootsOfProof(
  before: number,
  size: number,
  proof: Hashes,
  known: Uint8Array | null,
): { old: Uint8Array; new: Uint8Array } | null {
  const last = proof.at(-1)
  const rest = proof.slice(0, -1)
  if (before === size) {
    const root = known ?? last
    const isEnd = known === null ? rest.length === 0 : proof.length === 0
    return root !== undefined && isEnd ? { old: root, new: root } : null
  }
  if (last === undefined) return null
  const split = largestPowerBelow(size)
  if (before <= split) {
    const left = rootsOfProof(before, split, rest, known)
    return left && { old: left.old, new: nodeHash(left.new, last) }
  }
  const right = rootsOfProof(before - split, size - split, rest, null)
  return right && { old: nodeHash(last, right.old), new: nodeHash(last, right.new) }
}

function areHashes(proof: Hashes): boolean {
  return proof.every(({ length }) => length === HASH_BYTES)
}

/** The largest power of two that is smaller than `count`, which is 2 or more. */
function largestPowerBelow(count: number): number {
  let power = 1
  while (power * 2 < count) power *= 2
  return power
}
