// The browser verifier accepts the frozen examples, as the Node verifier does, and rejects damaged chains.
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, it, vi } from 'vitest'
import { canonicalJson } from '../../src/base/canonical-json.ts'
import type { Json, JsonObject } from '../../src/base/json.ts'
import {
  blockLeaf,
  checkpointText,
  type Head,
  logOrigin,
  provenBlockJson,
  rawPublicKey,
  sealBlock,
  signedNote,
  toHead,
  toServerId,
  verifierKeyText,
} from '../../src/chain/index.ts'
import { ChainVerifier, EMPTY_FRONTIER, frontierRoot, grown } from '../../src/chain/portable.ts'
import { mergeKnown } from '../../src/dashboard/browser/verification/known-chain.ts'
import { verifySignature } from '../../src/dashboard/browser/verification/signature.ts'
import {
  type NodeChain,
  UnreadableReply,
  verifyChain,
  verifyListedBlock,
} from '../../src/dashboard/browser/verification/verify-chain.ts'

const vectors = new URL('../vectors/', import.meta.url)
const read = (name: string) => JSON.parse(readFileSync(new URL(name, vectors), 'utf8'))
const cases: JsonObject[] = read('chain-v1-cases.json')
const expected = read('chain-v1.json')

it.each(cases.map(({ name, ...rest }) => [String(name), rest] as const))(
  'the browser verifies the examples of format version 1: %s',
  (name, { serverid, previous, entries, timestamps, blinds }) => {
    const { height, prev_id, nonce, root, id, commitments } = expected[name]
    const block: Json = {
      prev_id,
      body: entries ?? [],
      timestamps: timestamps ?? [],
      nonce,
      id,
      proof: { height, root, blinds: blinds ?? [], commitments },
    }
    const head =
      previous === null
        ? null
        : { height: Number(height) - 1, id: expected[String(previous)].id, timestamp: 0 }
    const chain = new ChainVerifier({ head, frontier: EMPTY_FRONTIER })
    const verified = verifyListedBlock(block, Number(serverid), chain)
    expect(verified).toEqual({ entries: commitments.length, erased: 0 })
    expect(chain.state.head).toMatchObject({ height, id })
    expect(frontierRoot(chain.state.frontier)).toEqual(
      createHash('sha256').update(Buffer.of(0)).update(expected[name].header).digest(),
    )
  },
)

/**
 * Returns a chain of four blocks as a node serves it, with a log that is signed with a new key. `signedRoot` replaces
 * the root in the checkpoint.
 */
function chain(signedRoot?: Uint8Array): { source: NodeChain; blocks: JsonObject[] } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const serverId = toServerId(publicKey)
  const blocks: JsonObject[] = []
  let head: Head | null = null
  let log = EMPTY_FRONTIER
  for (let height = 0; height < 4; height += 1) {
    const entries = [0, 1].map((index) =>
      canonicalJson({
        serverid: serverId,
        method: 'create_item',
        db: 'fruit',
        item: { id: `${height}.${index}`, ü: [1e-7, '🍎', null] },
      }),
    )
    const timestamps = [height * 10, height * 10 + 1]
    const blinds = new Uint8Array(64).fill(height + 1)
    const block = sealBlock(head, { serverId, entries, timestamps, blinds })
    head = toHead(block)
    log = grown(log, blockLeaf(block)).frontier
    blocks.push(JSON.parse(provenBlockJson(block)))
  }
  const key = { name: logOrigin(serverId), publicKey: rawPublicKey(publicKey) }
  const text = checkpointText({ origin: key.name, size: 4, root: signedRoot ?? frontierRoot(log) })
  const source = {
    serverId,
    verifierKey: `${verifierKeyText(key)}\n`,
    checkpoint: signedNote(key, text, (bytes) => sign(null, bytes, privateKey)),
    remembered: null,
    blocks: async (from: number, limit: number) => blocks.slice(from, from + limit),
  }
  return { source, blocks }
}

const verify = (source: NodeChain) => verifyChain(verifySignature, source, () => {})

it('verifies a valid chain, remembers it, and verifies it again', async () => {
  const { source } = chain()
  const { fault, remember, ...totals } = await verify(source)
  expect([fault, totals]).toEqual([null, { blocks: 4, size: 4, entries: 8, erased: 0 }])
  expect(remember).toMatchObject({ size: 4, verifierKey: source.verifierKey.trim() })
  expect((await verify({ ...source, remembered: remember })).fault).toBe(null)
})

it('reports the problem "log" if the key of the node has signed another chain', async () => {
  const { source } = chain(frontierRoot(EMPTY_FRONTIER))
  expect(await verify(source)).toMatchObject({ fault: { code: 'log' }, blocks: 4, remember: null })
})

const at = (value: Json | undefined, ...path: string[]): JsonObject =>
  path.reduce((object, name) => Object(object)[name], Object(value))

it.each<[string, string, number | null, (blocks: JsonObject[]) => void]>([
  [
    'commitment',
    'a changed item',
    1,
    (b) => Object.assign(at(b[2], 'body', '1', 'item'), { a: 1 }),
  ],
  ['commitment', 'a changed time', 1, (b) => Object.assign(at(b[2], 'timestamps'), { 1: 25 })],
  [
    'commitment',
    'a changed blind',
    0,
    (b) => Object.assign(at(b[2], 'proof', 'blinds'), { 0: '00'.repeat(32) }),
  ],
  [
    'commitment',
    'a changed commitment',
    0,
    (b) => Object.assign(at(b[2], 'proof', 'commitments'), { 0: '00'.repeat(32) }),
  ],
  ['time', 'decreasing times', 0, (b) => Object.assign(at(b[2], 'timestamps'), { 0: 0 })],
  [
    'root',
    'a changed root',
    null,
    (b) => Object.assign(at(b[2], 'proof'), { root: '00'.repeat(32) }),
  ],
  ['id', 'a changed nonce', null, (b) => Object.assign(at(b[2]), { nonce: 1 })],
  ['id', 'a changed id', null, (b) => Object.assign(at(b[2]), { id: '00'.repeat(64) })],
  ['link', 'a changed link', null, (b) => Object.assign(at(b[2]), { prev_id: '00'.repeat(64) })],
  ['link', 'a missing block', null, (b) => b.splice(2, 1)],
  ['counts', 'an extra time', null, (b) => Object.assign(at(b[2]), { timestamps: [20, 21, 22] })],
  [
    'serverid',
    'the server id of another node',
    0,
    (b) => Object.assign(at(b[2], 'body', '0'), { serverid: 1 }),
  ],
  ['shape', 'a missing proof', null, (b) => Reflect.deleteProperty(at(b[2]), 'proof')],
  ['shape', 'a block that is a list', null, (b) => Reflect.set(b, 2, [])],
  ['shape', 'a link that is a number', null, (b) => Object.assign(at(b[2]), { prev_id: 5 })],
  ['shape', 'entries that are not a list', null, (b) => Object.assign(at(b[2]), { body: {} })],
  ['shape', 'a negative nonce', null, (b) => Object.assign(at(b[2]), { nonce: -1 })],
  ['shape', 'a fractional time', null, (b) => Object.assign(at(b[2], 'timestamps'), { 0: 20.5 })],
  ['shape', 'a root that is a number', null, (b) => Object.assign(at(b[2], 'proof'), { root: 5 })],
  [
    'shape',
    'a short blind',
    null,
    (b) => Object.assign(at(b[2], 'proof', 'blinds'), { 0: '00'.repeat(31) }),
  ],
])('reports the problem "%s" of block 2 for %s', async (code, _, index, change) => {
  const { source, blocks } = chain()
  change(blocks)
  const { fault, remember } = await verify(source)
  expect(fault).toEqual({ code, height: 2, index })
  expect(remember).toBe(null)
})

it('accepts an erased entry without a blind, for which it uses the commitment from the block', async () => {
  const { source, blocks } = chain()
  Object.assign(at(blocks[1], 'proof', 'blinds'), { 0: null })
  Object.assign(at(blocks[1], 'body', '0'), { item: { id: '1.0' } })
  expect(await verify(source)).toMatchObject({ fault: null, erased: 1 })
})

it.each<[string, string, (source: NodeChain, other: NodeChain) => Partial<NodeChain>]>([
  ['key', 'the key of another node', (_, { verifierKey }) => ({ verifierKey })],
  ['key', 'a text that is not a key', () => ({ verifierKey: 'none' })],
  [
    'signature',
    'a changed checkpoint',
    ({ checkpoint }) => ({ checkpoint: String(checkpoint).replace('\n4\n', '\n3\n') }),
  ],
  ['checkpoint', 'an empty checkpoint', () => ({ checkpoint: '' })],
  [
    'checkpoint',
    'a checkpoint with an extra character',
    ({ checkpoint }) => ({ checkpoint: `${checkpoint}x` }),
  ],
  ['unsigned', 'a missing checkpoint', () => ({ checkpoint: null })],
  [
    'missing',
    'a missing block',
    ({ blocks }) => ({ blocks: async (f, l) => (await blocks(f, l)).slice(0, Math.max(0, 3 - f)) }),
  ],
  [
    'rolledBack',
    'a chain that is shorter than the remembered chain',
    (s) => ({ remembered: { size: 5, root: '', verifierKey: s.verifierKey.trim() } }),
  ],
  [
    'forked',
    'a chain that does not continue the remembered chain',
    (s) => ({ remembered: { size: 3, root: '', verifierKey: s.verifierKey.trim() } }),
  ],
  [
    'keyChanged',
    'a key that differs from the remembered key',
    (_, o) => ({ remembered: { size: 1, root: '', verifierKey: o.verifierKey.trim() } }),
  ],
])('reports the problem "%s" for %s', async (code, _, change) => {
  const [{ source }, { source: other }] = [chain(), chain()]
  expect((await verify({ ...source, ...change(source, other) })).fault?.code).toBe(code)
})

it.each([
  ['with the Ed25519 implementation of the browser', crypto],
  ['if the browser has no Ed25519 implementation, as on a page without TLS', {}],
])('accepts only valid signatures %s', async (_, verifier) => {
  vi.stubGlobal('crypto', verifier)
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const key = rawPublicKey(publicKey)
  const message = Uint8Array.of(1, 2, 3)
  const signature = Uint8Array.from(sign(null, message, privateKey))
  const other = Uint8Array.from(signature, (byte, at) => (at === 0 ? byte ^ 1 : byte))
  const verify = verifySignature
  expect(await verify(key, message, signature)).toBe(true)
  expect(await verify(key, message, other)).toBe(false)
  expect(await verify(key, Uint8Array.of(1, 2, 4), signature)).toBe(false)
  expect(await verify(key, message, signature.subarray(1))).toBe(false)
  expect(await verify(key.subarray(1), message, signature)).toBe(false)
  vi.unstubAllGlobals()
})

it('reports an unreadable block among readable blocks', async () => {
  const { source } = chain()
  const blocks = async (from: number, limit: number) => {
    if (from + limit > 2) throw new UnreadableReply()
    return source.blocks(from, limit)
  }
  expect((await verify({ ...source, blocks })).fault).toEqual({
    code: 'unreadable',
    height: 2,
    index: null,
  })
})

it('remembers the larger of two verified sizes, even if another tab has verified the smaller one last', () => {
  const chain = (size: number) => ({ verifierKey: 'k', size, root: `root ${size}` })
  const before = { ...chain(20), verifiedAt: 1 }
  expect(mergeKnown(before, { ...chain(15), verifiedAt: 2 })).toEqual({
    ...chain(20),
    verifiedAt: 2,
  })
  expect(mergeKnown(before, chain(30))).toEqual({ ...chain(30), verifiedAt: 1 })
  expect(mergeKnown(before, { ...chain(1), verifierKey: 'x' })).toMatchObject({
    ...chain(1),
    verifierKey: 'x',
  })
  expect(mergeKnown(null, chain(1))).toEqual(chain(1))
})
