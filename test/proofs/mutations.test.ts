// Verifies randomly damaged proofs, checkpoints, evidence, exports and blocks. Each verifier must refuse the document
// with a one-line message, unless the content is unchanged.
import { generateKeyPairSync, sign } from 'node:crypto'
import { beforeAll, expect, it } from 'vitest'
import { CodedError } from '../../src/base/coded-error.ts'
import {
  type ChainState,
  ChainVerifier,
  cosignatureLine,
  evidenceText,
  findContradiction,
  nodeVerifySignature,
  openCheckpoint,
  parseVerifierKey,
  provenBlockJson,
  quorumPolicy,
  rawBlock,
  rawPublicKey,
  unverifiedText,
  verifyEvidence,
  verifyProofFile,
  witnessKeyText,
} from '../../src/chain/index.ts'
import { openCosigned } from '../../src/chain/log/cosignatures.ts'
import { exportLines, readExport } from '../../src/ledger/core.ts'
import { decodeNextBlock } from '../../src/ledger/write/decoded-block.ts'
import { openStoreReader } from '../../src/storage/index.ts'
import { recordEveryMethod } from '../support/every-method.ts'
import { Dice } from '../support/ledger-load.ts'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { mutated } from '../support/mutations.ts'
import { TestLog } from '../support/test-log.ts'

/** Number of damaged copies of each kind of document, and the seed. For a longer run: MUTATIONS=100000 SEED=2. */
const MUTATIONS = Number(process.env.MUTATIONS ?? 500)
const SEED = Number(process.env.SEED ?? 1)
const TIMEOUT_MS = 60_000 + MUTATIONS * 20
const MESSAGE_LENGTH_MAX = 500
const KINDS = [
  'proof',
  'proof of an erasure',
  'checkpoint',
  'cosigned checkpoint',
  'evidence',
] as const

/** A document, and a function that verifies such a document and returns the proven content. */
interface Kind {
  readonly bytes: Buffer
  readonly read: (bytes: Buffer) => unknown
}
const kinds = new Map<string, Kind>()
/** The reply with the whole chain. */
let chain = ''
let serverId = 0

/** Returns the parts of a block that its proof covers. For an erased entry, this is only its commitment. */
function covered(text: string): unknown {
  const { body, timestamps, proof, ...rest } = JSON.parse(text)
  const isShown = (_: unknown, at: number) => proof.blinds[at] !== null
  return { ...rest, body: body.filter(isShown), timestamps: timestamps.filter(isShown), proof }
}

beforeAll(async () => {
  const removals: (() => void)[] = []
  const folder = temporaryFolder((remove) => removals.push(remove))
  const node = await startLedgerNode({ folder })
  chain = await recordEveryMethod(node)
  ;({ serverId } = node.service)
  const text = async (path: string) => (await node.send('GET', path)).text
  const key = parseVerifierKey(node.service.log.verifierKey)
  for (const [name, path] of [
    ['proof', '/api/fruit/plum/proof'],
    ['proof of an erasure', '/api/fruit/plum/proof?position=9.0'],
  ] as const) {
    kinds.set(name, {
      bytes: Buffer.from(await text(path)),
      read: (bytes) => verifyProofFile(nodeVerifySignature, key, bytes.toString()),
    })
  }
  const note = await text(`/api/ledgers/${serverId}/checkpoint`)
  await node.close()
  kinds.set('checkpoint', {
    bytes: Buffer.from(note),
    read: (bytes) => openCheckpoint(nodeVerifySignature, key, bytes.toString()),
  })
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const witness = { name: 'w.example', publicKey: rawPublicKey(publicKey) }
  const signed = { text: unverifiedText(note), timestamp: 1_800_000_000 }
  const line = cosignatureLine(witness, signed, (message) => sign(null, message, privateKey))
  const rules = { key, policy: quorumPolicy([witnessKeyText(witness)]) }
  kinds.set('cosigned checkpoint', {
    bytes: Buffer.from(note + line),
    read: (bytes) => openCosigned(nodeVerifySignature, rules, bytes.toString()),
  })

  const one = new TestLog(20, 'one')
  const other = new TestLog(20, 'other', one.key)
  const found = await findContradiction(one.signed(9), other.signed(17))
  if (found === null) throw new Error('there is no evidence')
  const evidence = evidenceText({ ...found, notes: [one.note(9), other.note(17)] })
  kinds.set('evidence', {
    bytes: Buffer.from(evidence),
    read: (bytes) => verifyEvidence(nodeVerifySignature, one.key.verifier, bytes.toString()),
  })

  const store = await openStoreReader(folder, { frozen: true })
  const lines: Buffer[] = []
  for await (const part of exportLines(store, folder, () => {})) lines.push(Buffer.from(part))
  await store.close()
  for (const remove of removals) remove()
  kinds.set('export', {
    bytes: Buffer.concat(lines),
    async read(bytes) {
      const read: unknown[] = []
      const chunks = (async function* () {
        yield bytes
      })()
      const end = await readExport(chunks, {
        header: async () => {},
        blocks: async (blocks) =>
          void read.push(...blocks.map(({ block }) => covered(provenBlockJson(block)))),
      })
      return [end, read]
    },
  })
})

/** Expects an error that clients may receive, with a one-line message. */
function expectRefusal(error: unknown): void {
  if (!(error instanceof CodedError)) throw error
  expectLine(error.message)
}

function expectLine(message: string): void {
  expect(message).toMatch(/^[^\u0000-\u001f\u007f\u2028\u2029]+$/)
  expect(message.length).toBeLessThan(MESSAGE_LENGTH_MAX)
}

it.each([...KINDS, 'export'])(
  'refuses a damaged %s with a one-line message, unless its content is unchanged',
  async (name) => {
    const { bytes, read } = kinds.get(name) ?? { bytes: Buffer.alloc(0), read: () => null }
    const content = await read(bytes)
    const dice = new Dice(SEED)
    let refused = 0
    for (let n = 0; n < MUTATIONS; n += 1) {
      const changed = mutated(bytes, dice)
      try {
        // The change is accepted only if the content is the same, for example with different white space.
        expect([n, changed.toString(), await read(changed)]).toEqual([
          n,
          changed.toString(),
          content,
        ])
      } catch (error) {
        expectRefusal(error)
        refused += 1
      }
    }
    console.log(`${name}: ${refused} of ${MUTATIONS} mutations refused`)
    expect(refused).toBeGreaterThan(MUTATIONS * 0.9)
  },
  TIMEOUT_MS,
)

function decoded(text: string, state: ChainState) {
  const block = rawBlock(text, serverId)
  return block === null
    ? { what: 'it is not a block' }
    : decodeNextBlock(block, serverId, new ChainVerifier(state))
}

it(
  'refuses a damaged block with a one-line message, unless its content is unchanged',
  () => {
    const dice = new Dice(SEED)
    let refused = 0
    const verified = new ChainVerifier()
    const blocks: string[] = JSON.parse(chain).ledgers.map((block: object) => JSON.stringify(block))
    for (const text of blocks) {
      const right = decoded(text, verified.state)
      if ('what' in right) throw new Error(right.what)
      for (let n = 0; n < MUTATIONS / blocks.length; n += 1) {
        const changed = mutated(Buffer.from(text), dice)
        const found = decoded(changed.toString(), verified.state)
        if ('what' in found) {
          expectLine(found.what)
          refused += 1
        } else {
          expect(covered(provenBlockJson(found.block))).toEqual(covered(text))
        }
      }
      expect(verified.push(right.block)).toBeNull()
    }
    console.log(`blocks: ${refused} of ${MUTATIONS} mutations refused`)
    expect(refused).toBeGreaterThan(MUTATIONS * 0.8)
  },
  TIMEOUT_MS,
)
