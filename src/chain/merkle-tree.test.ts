import { createHash, randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { commitmentPath, treeRoot } from './merkle-tree.ts'

const sha256 = (...parts: Uint8Array[]) =>
  createHash('sha256').update(Buffer.concat(parts)).digest()

/** The definition in RFC 6962 section 2.1. */
function definedRoot(leaves: Buffer[]): Buffer {
  const [only] = leaves
  if (only !== undefined && leaves.length === 1) return sha256(Buffer.of(0), only)
  let k = 1
  while (k * 2 < leaves.length) k *= 2
  return sha256(Buffer.of(1), definedRoot(leaves.slice(0, k)), definedRoot(leaves.slice(k)))
}

it('matches the tree hash of RFC 6962 for 1 to 300 leaves', () => {
  for (let count = 1; count <= 300; count += 1) {
    const leaves = Array.from({ length: count }, () => randomBytes(32))
    expect(Buffer.from(treeRoot(Buffer.concat(leaves)))).toEqual(definedRoot(leaves))
  }
})

/** PATH(m, D[n]) as defined in RFC 6962 section 2.1.1. */
function definedPath(index: number, leaves: Buffer[]): Buffer[] {
  if (leaves.length === 1) return []
  let k = 1
  while (k * 2 < leaves.length) k *= 2
  const left = leaves.slice(0, k)
  const right = leaves.slice(k)
  if (index < k) return [...definedPath(index, left), definedRoot(right)]
  return [...definedPath(index - k, right), definedRoot(left)]
}

it('returns the path of RFC 6962 for each leaf of trees with 1 to 20 leaves', () => {
  for (let count = 1; count <= 20; count += 1) {
    const leaves = Array.from({ length: count }, () => randomBytes(32))
    const paths = leaves.map((_, index) => commitmentPath(Buffer.concat(leaves), index))
    const expected = leaves.map((_, index) => definedPath(index, leaves))
    expect(paths.map((path) => path.map((hash) => Buffer.from(hash)))).toEqual(expected)
  }
})
