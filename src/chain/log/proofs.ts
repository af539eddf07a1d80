import { equalBytes, HASH_BYTES, sha256 } from '../hashes.ts'
import { folded, type LeafRange, nodeHash, nodesOf, type ReadNodes } from '../merkle-tree.ts'

/** Hashes of a proof, in the order of RFC 6962: from the leaves upwards. */
export type Hashes = readonly Uint8Array[]

/** The parts of the tree of `size` leaves whose hashes prove that leaf `index` is in it. */
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

/** The parts of the tree of `size` leaves whose hashes prove that it continues the one of `before`. */
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
  // The whole old tree needs no hash of its own: the verifier has it.
  if (from !== 0) ranges.push({ from, to })
  return ranges.reverse()
}

/**
 * Proves that leaf `index` is in the tree of `size` leaves. 0 <= index < size.
 * Source: RFC 6962 section 2.1.1.
 */
export async function proveInclusion(
  index: number,
  size: number,
  read: ReadNodes,
): Promise<Hashes> {
  if (!(index >= 0 && index < size)) throw new RangeError(`no leaf ${index} in ${size}`)
  return hashesOf(inclusionRanges(index, size), read)
}

/**
 * Proves that the tree of `size` leaves begins with the one of `before`. 0 <= before <= size; with 0
 * there is nothing to prove. Source: RFC 6962 section 2.1.2.
 */
export async function proveConsistency(
  before: number,
  size: number,
  read: ReadNodes,
): Promise<Hashes> {
  if (!(before >= 0 && before <= size)) throw new RangeError(`no size ${before} before ${size}`)
  return before === 0 ? [] : hashesOf(consistencyRanges(before, size), read)
}

/** One reading for all ranges. */
async function hashesOf(ranges: readonly LeafRange[], read: ReadNodes): Promise<Hashes> {
  const nodes = ranges.map(nodesOf)
  const hashes = await read(nodes.flat())
  let at = 0
  return nodes.map(({ length }) => {
    at += length
    return folded(hashes.slice(at - length, at))
  })
}

/** A leaf or a tree by its hash. */
interface Rooted {
  readonly size: number
  readonly root: Uint8Array
}

/**
 * Whether `proof` shows that `leaf`, a leaf hash, is leaf `index` of `tree`.
 * Source: RFC 9162 section 2.1.3.2, which verifies proofs of RFC 6962.
 */
export function verifyInclusion(
  { index, leaf }: { readonly index: number; readonly leaf: Uint8Array },
  tree: Rooted,
  proof: Hashes,
): boolean {
  if (!isIndex(index) || !isIndex(tree.size) || index >= tree.size || !areHashes(proof))
    return false
  const path = new Ascent(index, tree.size - 1)
  let hash = leaf
  for (const sibling of proof) {
    if (path.atTop) return false
    hash = path.step() ? nodeHash(sibling, hash) : nodeHash(hash, sibling)
  }
  return path.atTop && equalBytes(hash, tree.root)
}

/**
 * Whether `proof` shows that `tree` begins with all leaves of `before`.
 * Source: RFC 9162 section 2.1.4.2, which verifies proofs of RFC 6962.
 */
export function verifyConsistency(before: Rooted, tree: Rooted, proof: Hashes): boolean {
  if (!isIndex(before.size) || !isIndex(tree.size) || before.size > tree.size) return false
  if (!areHashes(proof)) return false
  if (before.size === tree.size) return proof.length === 0 && equalBytes(before.root, tree.root)
  if (before.size === 0) {
    return proof.length === 0 && equalBytes(before.root, sha256(new Uint8Array(0)))
  }
  const path = new Ascent(before.size - 1, tree.size - 1)
  path.skipComplete()
  // A complete old tree is a node of the new one, and its hash is the root that is known.
  const [start, ...rest] = path.fromStart ? [before.root, ...proof] : proof
  if (start === undefined) return false
  let [oldHash, newHash] = [start, start]
  for (const sibling of rest) {
    if (path.atTop) return false
    if (path.step()) {
      oldHash = nodeHash(sibling, oldHash)
      newHash = nodeHash(sibling, newHash)
    } else {
      newHash = nodeHash(newHash, sibling)
    }
  }
  return path.atTop && equalBytes(oldHash, before.root) && equalBytes(newHash, tree.root)
}

/** The way from a node up to the root, beside the way of the last node of the tree. */
class Ascent {
  #node: number
  #last: number

  constructor(node: number, last: number) {
    this.#node = node
    this.#last = last
  }

  /** Whether the root is reached. */
  get atTop(): boolean {
    return this.#last === 0
  }

  /** Whether the node is the first one of its level. */
  get fromStart(): boolean {
    return this.#node === 0
  }

  /** Goes up one level that gives a hash; says whether the sibling stands on the left. */
  step(): boolean {
    const left = this.#node % 2 === 1 || this.#node === this.#last
    // The last node of a level rises without a sibling as long as it has none.
    if (left) while (this.#node % 2 === 0 && this.#node !== 0) this.#up()
    this.#up()
    return left
  }

  /** Goes up while the node is a right child. */
  skipComplete(): void {
    while (this.#node % 2 === 1) this.#up()
  }

  #up(): void {
    this.#node = Math.floor(this.#node / 2)
    this.#last = Math.floor(this.#last / 2)
  }
}

function isIndex(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
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
