import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, it } from 'vitest'
import { joined } from '../hashes.ts'
import {
  EMPTY_FRONTIER,
  frontierAt,
  frontierRoot,
  grown,
  leafHash,
  nodePlace,
  type ReadNodes,
} from '../merkle-tree.ts'
import { nodeVerifySignature, rawPublicKey } from '../node-keys.ts'
import { checkpointText, signedNote } from './checkpoint.ts'
import {
  EVIDENCE_BEGINNING,
  type Evidence,
  evidenceText,
  findContradiction,
  isEvidence,
  readableLog,
  type SignedLog,
  verifyEvidence,
} from './evidence.ts'
import { nodesFromTiles, nodesOfTile, tilePath } from './tiles.ts'

const NAME = 'daicho/7'
const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const key = { name: NAME, publicKey: rawPublicKey(publicKey) }

interface TestLog {
  readonly headers: readonly string[]
  readonly nodes: ReadNodes
}

/** The nodes of a log with these headers. */
function logOf(headers: readonly string[]): TestLog {
  const rows: Uint8Array[] = []
  let frontier = EMPTY_FRONTIER
  for (const header of headers) {
    const step = grown(frontier, leafHash(Buffer.from(header)))
    frontier = step.frontier
    rows.push(joined(...step.nodes))
  }
  const nodes: ReadNodes = async (places) =>
    places.map((place) => {
      const { leaf, at } = nodePlace(place)
      const hash = rows[leaf]?.subarray(at, at + 32)
      if (hash?.length !== 32) throw new Error('there is no such node')
      return hash
    })
  return { headers, nodes }
}

/** The log of the first `size` headers, signed. */
async function signed({ headers, nodes }: TestLog, size: number) {
  const root = frontierRoot(await frontierAt(size, nodes))
  const checkpoint = { origin: NAME, size, root }
  const header = async (height: number) => headers[height] ?? ''
  const note = signedNote(key, checkpointText(checkpoint), (text) => sign(null, text, privateKey))
  return { note, log: readableLog(checkpoint, { nodes, header }) }
}

type Signed = Awaited<ReturnType<typeof signed>>

async function evidenceOf(one: Signed, other: Signed): Promise<Evidence | null> {
  const found = await findContradiction(one.log, other.log)
  return found && { ...found, notes: [one.note, other.note] }
}

const verified = (file: string) => verifyEvidence(nodeVerifySignature, key, file)

const texts = (name: string, count: number, common: number) =>
  Array.from({ length: count }, (_, height) => `${height < common ? 'common' : name} ${height}`)

it('proves that one key signed two different blocks, for logs of any size with any common prefix', async () => {
  const SIZE = 20
  for (let common = 0; common < SIZE; common += 1) {
    const [one, other] = [logOf(texts('one', SIZE, common)), logOf(texts('other', SIZE, common))]
    for (const [size, otherSize] of [
      [common + 1, SIZE],
      [SIZE, common + 1],
      [SIZE, SIZE],
    ] as const) {
      const evidence = await evidenceOf(await signed(one, size), await signed(other, otherSize))
      if (evidence === null) throw new Error('there is no evidence')
      expect(await verified(evidenceText(evidence))).toMatchObject({
        checkpoints: [{ size }, { size: otherSize }],
        fork: { height: common, headers: [`one ${common}`, `other ${common}`] },
      })
    }
    // A log does not contradict its own prefix.
    expect(await evidenceOf(await signed(one, common), await signed(other, SIZE))).toBeNull()
    expect(await evidenceOf(await signed(one, SIZE), await signed(one, common + 1))).toBeNull()
  }
})

it('creates evidence from the hashes of the larger log alone', async () => {
  const [one, other] = [logOf(texts('one', 9, 2)), logOf(texts('other', 9, 2))]
  const smaller = await signed(one, 5)
  const unread: SignedLog = {
    checkpoint: smaller.log.checkpoint,
    prefix: () => Promise.reject(new Error('it does not answer')),
    blocks: null,
  }
  const larger = await signed(other, 9)
  for (const [at, of] of [
    [{ ...smaller, log: unread }, larger],
    [larger, { ...smaller, log: unread }],
  ] as const) {
    const evidence = await evidenceOf(at, of)
    expect(evidence?.proof).toMatchObject({ root: expect.any(String) })
    expect(await verified(evidenceText(evidence as Evidence))).toMatchObject({ fork: null })
  }
  // Without the hashes of the larger log, there is no proof.
  const gone = { ...larger, log: { ...unread, checkpoint: larger.log.checkpoint } }
  expect(await evidenceOf(smaller, gone)).toBeNull()
  // Two heads of equal size contradict each other by their roots alone.
  const same = { ...smaller, log: unread }
  const evidence = await evidenceOf(same, await signed(other, 5))
  expect(evidence?.proof).toBeNull()
  expect(await verified(evidenceText(evidence as Evidence))).toMatchObject({ fork: null })
})

it('rejects evidence in which any byte was changed', async () => {
  const [one, other] = [logOf(texts('one', 9, 2)), logOf(texts('other', 9, 2))]
  const [smaller, larger] = [await signed(one, 5), await signed(other, 9)]
  const honest = await signed(one, 9)
  const byHeight = (await evidenceOf(smaller, larger)) as Evidence & { proof: object }
  const byPrefix = {
    ...byHeight,
    proof: JSON.parse(
      evidenceText(
        (await evidenceOf(
          { ...smaller, log: { ...smaller.log, blocks: null } },
          larger,
        )) as Evidence,
      ),
    ).proof,
  }
  const [first, second] = byHeight.notes
  const changes: [object, string][] = [
    [{ ...byHeight, notes: [second, first] }, 'PROOF_WRONG'],
    [{ ...byHeight, notes: [first, first] }, 'PROOF_WRONG'],
    [{ ...byHeight, notes: [first, honest.note] }, 'PROOF_WRONG'],
    [{ ...byPrefix, notes: [first, honest.note] }, 'PROOF_WRONG'],
    [{ ...byHeight, notes: [first, second.replace('\n9\n', '\n8\n')] }, 'NOTE_FORGED'],
    [{ ...byHeight, notes: [first, second.replaceAll('/7', '/8')] }, 'NOTE_UNSIGNED'],
    [{ ...byHeight, notes: [first] }, 'PROOF_MALFORMED'],
    [{ ...byHeight, version: 2 }, 'PROOF_MALFORMED'],
    [{ ...byHeight, format: 'other' }, 'PROOF_MALFORMED'],
    [{ ...byHeight, proof: undefined }, 'PROOF_MALFORMED'],
    [{ ...byHeight, proof: null }, 'PROOF_WRONG'],
    [{ ...byHeight, proof: { ...byHeight.proof, height: 3 } }, 'PROOF_WRONG'],
    [{ ...byHeight, proof: { ...byHeight.proof, height: -1 } }, 'PROOF_MALFORMED'],
    [{ ...byHeight, proof: { ...byHeight.proof, headers: ['one 2', 'one 2'] } }, 'PROOF_WRONG'],
    [{ ...byHeight, proof: { ...byHeight.proof, paths: [[], []] } }, 'PROOF_WRONG'],
    [{ ...byHeight, proof: { ...byHeight.proof, paths: [['x'], ['x']] } }, 'PROOF_WRONG'],
    [{ ...byHeight, proof: { ...byHeight.proof, paths: 'none' } }, 'PROOF_MALFORMED'],
    [{ ...byHeight, proof: [] }, 'PROOF_MALFORMED'],
    [{ ...byPrefix, proof: { ...byPrefix.proof, root: 'x' } }, 'PROOF_WRONG'],
    [{ ...byPrefix, proof: { ...byPrefix.proof, path: [] } }, 'PROOF_WRONG'],
  ]
  for (const good of [byHeight, byPrefix]) await verified(evidenceText(good as Evidence))
  for (const [at, [change, code]] of changes.entries()) {
    const file = JSON.stringify({ ...EVIDENCE_BEGINNING, ...change })
    await expect(verified(file), `${at}`).rejects.toMatchObject({ code })
    expect([at, isEvidence(file)]).toEqual([at, true])
  }
  for (const file of ['', '[]', '{}', 'c2sp.org/tlog-proof@v1\n', ' '.repeat(1_048_577)]) {
    expect(isEvidence(file)).toBe(false)
    await expect(verified(file)).rejects.toMatchObject({ code: 'PROOF_MALFORMED' })
  }
})

it('reads the hashes of a log of any size from its tiles, and fetches each tile once', async () => {
  const { nodes } = logOf(texts('one', 700, 0))
  for (const size of [1, 2, 255, 256, 257, 511, 512, 700]) {
    const fetched: string[] = []
    const read = nodesFromTiles(size, async (tile) => {
      fetched.push(tilePath(tile))
      return joined(...(await nodes(nodesOfTile(Number(tile.level), tile))))
    })
    const places = Array.from({ length: 10 }, (_, level) =>
      Array.from({ length: Math.floor(size / 2 ** level) }, (_, index) => ({ level, index })),
    ).flat()
    const hex = (hashes: readonly Uint8Array[]) =>
      hashes.map((hash) => Buffer.from(hash).toString('hex'))
    expect(hex(await read(places))).toEqual(hex(await nodes(places)))
    expect(new Set(fetched).size).toBe(fetched.length)
  }
})
