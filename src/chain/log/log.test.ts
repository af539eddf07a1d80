import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { equalBytes } from '../hashes.ts'
import {
  EMPTY_FRONTIER,
  frontierAt,
  frontierRoot,
  grown,
  leafHash,
  nodePlace,
  type ReadNodes,
} from '../merkle-tree.ts'
import {
  type Hashes,
  proveConsistency,
  proveInclusion,
  verifyConsistency,
  verifyInclusion,
} from './proofs.ts'

const SIZE_MAX = 300
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

// The definitions in RFC 6962 section 2.1, verbatim and independent of the implementation.
const sha = (...parts: Uint8Array[]) => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}
const split = (n: number) => 2 ** (Math.ceil(Math.log2(n)) - 1)
function mth(d: readonly Uint8Array[]): Buffer {
  const [first] = d
  if (first === undefined) return sha()
  if (d.length === 1) return sha(Buffer.of(0), first)
  const k = split(d.length)
  return sha(Buffer.of(1), mth(d.slice(0, k)), mth(d.slice(k)))
}
function path(m: number, d: readonly Uint8Array[]): Buffer[] {
  if (d.length === 1) return []
  const k = split(d.length)
  return m < k
    ? [...path(m, d.slice(0, k)), mth(d.slice(k))]
    : [...path(m - k, d.slice(k)), mth(d.slice(0, k))]
}
function subproof(m: number, d: readonly Uint8Array[], whole: boolean): Buffer[] {
  if (m === d.length) return whole ? [] : [mth(d)]
  const k = split(d.length)
  return m <= k
    ? [...subproof(m, d.slice(0, k), whole), mth(d.slice(k))]
    : [...subproof(m - k, d.slice(k), false), mth(d.slice(0, k))]
}

/** Returns a log that grows leaf by leaf and keeps the same hashes as a store. */
function logOf(leaves: readonly Uint8Array[]) {
  let frontier = EMPTY_FRONTIER
  const rows: Buffer[] = []
  const roots = [frontierRoot(frontier)]
  for (const leaf of leaves) {
    const step = grown(frontier, leafHash(leaf))
    frontier = step.frontier
    rows.push(Buffer.concat(step.nodes))
    roots.push(frontierRoot(frontier))
  }
  const read: ReadNodes = async (nodes) =>
    nodes.map((node) => {
      const { leaf, at } = nodePlace(node)
      return rows[leaf]?.subarray(at, at + 32) ?? Buffer.alloc(0)
    })
  return { rows, roots, read }
}

const leaves = Array.from({ length: SIZE_MAX }, (_, at) => Buffer.from(`leaf ${at}`))
const log = logOf(leaves)
const treeOf = (size: number) => ({ size, root: log.roots[size] ?? Buffer.alloc(0) })
const leafOf = (index: number) => ({
  index,
  leaf: leafHash(leaves[index] ?? Buffer.alloc(0)),
})

it(`computes the roots of the recursive definition for trees of 0 to ${SIZE_MAX} leaves`, async () => {
  for (let size = 0; size <= SIZE_MAX; size += 1) {
    expect(hex(treeOf(size).root)).toBe(hex(mth(leaves.slice(0, size))))
    const again = await frontierAt(size, log.read)
    expect(hex(frontierRoot(again))).toBe(hex(treeOf(size).root))
  }
})

it('computes the published roots of the example trees of Certificate Transparency', () => {
  const inputs = [
    ...['', '00', '10', '2021', '3031', '40414243'],
    ...['5051525354555657', '606162636465666768696a6b6c6d6e6f'],
  ]
  const published = [
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
    '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
    'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
    '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
  ]
  const { roots } = logOf(inputs.map((input) => Buffer.from(input, 'hex')))
  expect(roots.map(hex)).toEqual(published)
})

it('creates and verifies the inclusion proofs that RFC 6962 defines', async () => {
  for (const size of [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100, 127, 128, 129, 255, 256, 257, 300]) {
    for (let index = 0; index < size; index += 1) {
      const proof = await proveInclusion(index, size, log.read)
      if (size <= 33 || index % 16 === 3) {
        expect(proof.map(hex)).toEqual(path(index, leaves.slice(0, size)).map(hex))
      }
      expect(verifyInclusion(leafOf(index), treeOf(size), proof)).toBe(true)
    }
  }
})

it(`verifies all inclusion and consistency proofs in trees of 0 to ${SIZE_MAX} leaves`, async () => {
  let proofs = 0
  for (let size = 1; size <= SIZE_MAX; size += 1) {
    for (let index = 0; index < size; index += 1) {
      const inclusion = await proveInclusion(index, size, log.read)
      if (!verifyInclusion(leafOf(index), treeOf(size), inclusion)) break
      const consistency = await proveConsistency(index, size, log.read)
      if (!verifyConsistency(treeOf(index), treeOf(size), consistency)) break
      proofs += 2
    }
  }
  expect(proofs).toBe(SIZE_MAX * (SIZE_MAX + 1))
})

it('creates the consistency proofs that RFC 6962 defines', async () => {
  for (const size of [2, 3, 4, 6, 7, 8, 13, 64, 65, 200, 256, 300]) {
    for (let before = 1; before <= size; before += size > 64 ? 13 : 1) {
      const proof = await proveConsistency(before, size, log.read)
      expect(proof.map(hex)).toEqual(subproof(before, leaves.slice(0, size), true).map(hex))
    }
  }
})

/** Generates damaged variants of a proof, with flipped bytes, or with dropped, duplicated, swapped or added nodes. */
function* damaged(proof: Hashes): Generator<Hashes> {
  for (const [at, node] of proof.entries()) {
    for (let byte = 0; byte < 32; byte += 1) {
      const flipped = Uint8Array.from(node)
      flipped[byte] = (flipped[byte] ?? 0) ^ (1 << ((at + byte) % 8))
      yield proof.with(at, flipped)
    }
    yield proof.toSpliced(at, 1)
    yield proof.toSpliced(at, 0, node)
    yield proof.with(at, node.subarray(0, 31))
    yield proof.with(at, Buffer.concat([node, Buffer.of(0)]))
    for (let other = 0; other < at; other += 1) {
      yield proof.with(at, proof[other] ?? node).with(other, node)
    }
  }
  yield [...proof, Buffer.alloc(32)]
  yield [Buffer.alloc(32), ...proof]
}

it('rejects each of more than 100,000 damaged proofs', async () => {
  let tried = 0
  const accepted: string[] = []
  const expectRefused = (label: string, isAccepted: boolean) => {
    tried += 1
    if (isAccepted) accepted.push(label)
  }
  for (const size of [2, 3, 5, 8, 13, 27, 64, 100, 255, 256, 257, 300]) {
    for (let index = 0; index < size; index += Math.ceil(size / 16)) {
      const what = `${index} in ${size}`
      const proof = await proveInclusion(index, size, log.read)
      const included = (at: number, of: number, by = proof, leaf = leafOf(index).leaf) =>
        verifyInclusion({ index: at, leaf }, { ...treeOf(size), size: of }, by)
      expect(included(index, size)).toBe(true)
      for (const wrong of damaged(proof)) expectRefused(what, included(index, size, wrong))
      for (let other = -1; other <= size; other += 1) {
        if (other !== index) expectRefused(`${what} as ${other}`, included(other, size))
      }
      for (const other of [-1, Number.NaN, 0.5, 2 ** 53]) {
        expectRefused(what, included(index, other))
        expectRefused(what, included(other, size))
      }
      const otherLeaf = leafOf(index === 0 ? 1 : 0).leaf
      expectRefused(what, included(index, size, proof, otherLeaf))

      if (index === 0) continue
      const consistency = await proveConsistency(index, size, log.read)
      const continued = (before: number, of: number, by = consistency) =>
        verifyConsistency(
          { size: before, root: treeOf(index).root },
          { size: of, root: treeOf(size).root },
          by,
        )
      expect(continued(index, size)).toBe(true)
      for (const wrong of damaged(consistency)) expectRefused(what, continued(index, size, wrong))
      for (let other = -1; other <= size + 1; other += 1) {
        if (other !== index) expectRefused(`${what} from ${other}`, continued(other, size))
      }
      for (const flip of [0, 31]) {
        const root = Uint8Array.from(treeOf(index).root)
        root[flip] = (root[flip] ?? 0) ^ 1
        const before = { size: index, root }
        expectRefused(what, verifyConsistency(before, treeOf(size), consistency))
      }
    }
  }
  expect(accepted).toEqual([])
  expect(tried).toBeGreaterThan(100_000)
})

it('accepts two trees of equal size as consistent only if their roots are equal', () => {
  const other = { size: 5, root: treeOf(6).root }
  expect(verifyConsistency(treeOf(5), treeOf(5), [])).toBe(true)
  expect(verifyConsistency(other, treeOf(5), [])).toBe(false)
  expect(verifyConsistency(treeOf(6), treeOf(5), [])).toBe(false)
  expect(verifyConsistency(treeOf(0), treeOf(5), [])).toBe(true)
  expect(verifyConsistency({ size: 0, root: other.root }, treeOf(5), [])).toBe(false)
})

it('equalBytes compares the length and every byte', () => {
  expect(equalBytes(Buffer.of(1, 2), Uint8Array.of(1, 2))).toBe(true)
  expect(equalBytes(Buffer.of(1, 2), Buffer.of(1, 3))).toBe(false)
  expect(equalBytes(Buffer.of(1), Buffer.of(1, 0))).toBe(false)
})
