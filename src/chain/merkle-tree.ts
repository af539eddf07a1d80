import { HASH_BYTES, hashAt, hashWriter, sha256 } from './hashes.ts'

// The Merkle tree of RFC 6962 section 2.1: over the commitments of a block, and over the headers of a chain.

export function leafHash(data: Uint8Array): Uint8Array {
  const leaf = new Uint8Array(1 + data.length)
  leaf.set(data, 1)
  return sha256(leaf)
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  const node = new Uint8Array(1 + 2 * HASH_BYTES)
  node[0] = 0x01
  node.set(left, 1)
  node.set(right, 1 + HASH_BYTES)
  return sha256(node)
}

/** Returns the root of the tree over the concatenated `hashes`. There must be at least one hash. */
export function treeRoot(hashes: Uint8Array): Uint8Array {
  return rootThrough(hashes, () => {})
}

/**
 * Returns the inclusion path of leaf `index`: the hashes from the sibling of the leaf up to the root. Source: RFC 6962
 * section 2.1.1.
 */
export function commitmentPath(hashes: Uint8Array, index: number): Uint8Array[] {
  const path: Uint8Array[] = []
  let at = index
  rootThrough(hashes, (level) => {
    const sibling = hashAt(level, at % 2 === 0 ? at + 1 : at - 1)
    if (sibling.length > 0) path.push(Uint8Array.from(sibling))
    at = Math.floor(at / 2)
  })
  return path
}

/**
 * Computes the root from `hashes`, level by level in one buffer. Calls `onLevel` with the hashes of each level below
 * the root.
 */
function rootThrough(hashes: Uint8Array, onLevel: (level: Uint8Array) => void): Uint8Array {
  let level = new Uint8Array(hashes.length)
  const write = hashWriter(level)
  const leaf = new Uint8Array(1 + HASH_BYTES)
  const node = new Uint8Array(1 + 2 * HASH_BYTES)
  node[0] = 0x01
  for (let at = 0; at < level.length; at += HASH_BYTES) {
    leaf.set(hashes.subarray(at, at + HASH_BYTES), 1)
    write(leaf, at)
  }
  while (level.length > HASH_BYTES) {
    onLevel(level)
    let end = 0
    for (let at = 0; at < level.length; at += 2 * HASH_BYTES) {
      const pair = level.subarray(at, at + 2 * HASH_BYTES)
      if (pair.length > HASH_BYTES) {
        node.set(pair, 1)
        write(node, end)
        // An unpaired last hash moves up unchanged, which gives the tree of the recursive definition.
      } else level.set(pair, end)
      end += HASH_BYTES
    }
    level = level.subarray(0, end)
  }
  return level
}

/**
 * A complete node of the log, which never changes. It covers 2^level leaves, starting with leaf `index` · 2^level.
 * Level 0 contains the leaf hashes.
 */
export interface TreeNode {
  readonly level: number
  readonly index: number
}

/** Leaves from `from` (inclusive) to `to` (exclusive). */
export interface LeafRange {
  readonly from: number
  readonly to: number
}

/**
 * The state of a growing tree: its size, and the hashes of its largest complete subtrees from left to right, one for
 * each 1 in the binary form of the size.
 */
export interface Frontier {
  readonly size: number
  readonly peaks: readonly Uint8Array[]
}

export const EMPTY_FRONTIER: Frontier = { size: 0, peaks: [] }

/**
 * Adds a leaf to the tree of `frontier`. `nodes` are the hashes of the nodes that the leaf completes, from the leaf up.
 * A store keeps these hashes by the index of the leaf (`nodePlace`).
 */
export function grown(
  frontier: Frontier,
  leaf: Uint8Array,
): { readonly frontier: Frontier; readonly nodes: readonly Uint8Array[] } {
  const peaks = [...frontier.peaks]
  const nodes = [leaf]
  let hash = leaf
  for (let left = frontier.size; left % 2 === 1; left = (left - 1) / 2) {
    const sibling = peaks.pop()
    if (sibling === undefined) throw new RangeError('a frontier lacks a peak')
    hash = nodeHash(sibling, hash)
    nodes.push(hash)
  }
  peaks.push(hash)
  return { frontier: { size: frontier.size + 1, peaks }, nodes }
}

/**
 * Returns the leaf that completes `node`, and the byte offset of the hash of `node` among the hashes kept for that
 * leaf.
 */
export function nodePlace({ level, index }: TreeNode): {
  readonly leaf: number
  readonly at: number
} {
  return { leaf: (index + 1) * 2 ** level - 1, at: level * HASH_BYTES }
}

/**
 * Returns the complete nodes that cover `range`, from left to right; `folded` gives the hash of the range. `range.from`
 * must be a multiple of every power of two that is at most the length of the range. All ranges of proofs satisfy this.
 */
export function coveringNodes({ from, to }: LeafRange): TreeNode[] {
  const nodes: TreeNode[] = []
  let at = from
  while (at < to) {
    const level = Math.floor(Math.log2(to - at))
    // `Math.log2` of a large number can be rounded up to the next integer.
    const fitting = 2 ** level > to - at ? level - 1 : level
    nodes.push({ level: fitting, index: at / 2 ** fitting })
    at += 2 ** fitting
  }
  return nodes
}

/** Combines `peaks`, at least one complete subtree from left to right, into one hash. */
export function folded(peaks: readonly Uint8Array[]): Uint8Array {
  return peaks.reduceRight((right, left) => nodeHash(left, right))
}

/** Root hash of the tree of `frontier` (RFC 6962 section 2.1); SHA-256 of the empty string for an empty tree. */
export function frontierRoot({ peaks }: Frontier): Uint8Array {
  return peaks.length === 0 ? sha256(new Uint8Array(0)) : folded(peaks)
}

/** Reads the hashes of complete nodes, in the order of `nodes`. */
export type ReadNodes = (nodes: readonly TreeNode[]) => Promise<readonly Uint8Array[]>

/** The nodes whose hashes are the peaks of the tree of `size` leaves. */
export function frontierNodes(size: number): TreeNode[] {
  return coveringNodes({ from: 0, to: size })
}

export async function frontierAt(size: number, read: ReadNodes): Promise<Frontier> {
  return { size, peaks: await read(frontierNodes(size)) }
}
