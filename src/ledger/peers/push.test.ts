// Tests that a node accepts a push only once, only unchanged, and only if the key of the chain has signed the push.
import { generateKeyPairSync, hash, randomBytes } from 'node:crypto'
import { cpSync } from 'node:fs'
import { expect, it, onTestFinished } from 'vitest'
import {
  HandClock,
  type LedgerNode,
  type LedgerNodeOptions,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import {
  logOrigin,
  nodeVerifySignature,
  parseVerifierKey,
  verifyEvidence,
} from '../../chain/index.ts'
import { openStoreReader } from '../../storage/index.ts'
import { findNodeKey } from '../log/node-key.ts'
import { nextPush } from './push.ts'
import { type Signer, signatureHeaders } from './signed-request.ts'

/**
 * Starts a node with six blocks, and a target that accepts the pushes of the node. `twinFolder` is a copy of the node's
 * folder after its first block.
 */
async function pair(options: Partial<LedgerNodeOptions> = {}) {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  const clock = new HandClock()
  const target = await startLedgerNode({ clock, ...options })
  onTestFinished(async () => void (await Promise.all([node.close(), target.close()])))
  await node.send('POST', '/api/fruit')
  const twinFolder = temporaryFolder()
  cpSync(folder, twinFolder, { recursive: true })
  for (let n = 1; n < 6; n += 1) await node.send('POST', '/api/fruit', { n })
  await node.service.log.consistency(0, 6)
  const key = findNodeKey(folder)
  if (key === null) throw new Error('there is no key')
  const { serverId } = key
  const store = await openStoreReader(folder, { frozen: false })
  onTestFinished(() => store.close())
  const signer = (change: Partial<Signer> = {}): Signer => ({
    keyId: logOrigin(serverId),
    privateKey: key.privateKey,
    nowMs: clock.now(),
    nonce: randomBytes(16).toString('base64url'),
    ...change,
  })
  const push = async (to = { size: 0, seen: 0 }) =>
    (await nextPush(store, await node.service.log.checkpoint(), to)).body
  const vkey = node.service.log.verifierKey
  await target.send('POST', '/api/config/peers', { vkey })
  const note = await node.service.log.checkpoint()
  const verifier = parseVerifierKey(vkey)
  return { node, target, clock, signer, push, serverId, twinFolder, note, verifier }
}

function signedFor({ url }: LedgerNode, path: string, body: Buffer, signer: Signer) {
  const authority = new URL(url).host
  return signatureHeaders({ method: 'POST', authority, path, query: '?' }, body, signer)
}

it('stores a push, ignores a repeated push, and rejects a push after a gap; the reply has the current size of the mirror', async () => {
  const { target, signer, push, serverId } = await pair()
  const path = `/api/ledgers/${serverId}`
  const body = await push()
  for (const _ of [1, 2]) {
    const headers = signedFor(target, path, body, signer())
    const reply = await target.send('POST', path, body, headers)
    expect([reply.status, reply.json]).toEqual([200, { status: true, size: 6, seen: 6 }])
  }
  const other = await pair()
  const late = Buffer.from(
    JSON.stringify({ ...JSON.parse((await other.push()).toString()), from: 3 }),
  )
  const otherPath = `/api/ledgers/${other.serverId}`
  const headers = signedFor(other.target, otherPath, late, other.signer())
  const gap = await other.target.send('POST', otherPath, late, headers)
  expect([gap.status, gap.json]).toMatchObject([409, { status: false, code: 'PUSH_GAP', size: 0 }])
})

it('accepts a push only once, only if it is recent, and only if the key of the chain signed it for this node', async () => {
  const { target, clock, signer, push, serverId } = await pair()
  const path = `/api/ledgers/${serverId}`
  const body = await push()
  const stranger = generateKeyPairSync('ed25519').privateKey
  const good = signer()
  const refusals: [string, Record<string, string>, Buffer, string][] = [
    ['no signature', {}, body, path],
    ['another key', signedFor(target, path, body, signer({ privateKey: stranger })), body, path],
    ['no peer', signedFor(target, path, body, signer({ keyId: 'daicho/7' })), body, path],
    ['another chain', signedFor(target, '/api/ledgers/7', body, signer()), body, '/api/ledgers/7'],
    ['another path', signedFor(target, '/api/ledgers/7', body, signer()), body, path],
    ['another body', signedFor(target, path, body, signer()), Buffer.from('{}'), path],
    [
      'another digest',
      {
        ...signedFor(target, path, body, signer()),
        'content-digest':
          signedFor(target, path, Buffer.from('{}'), signer())['content-digest'] ?? '',
      },
      Buffer.from('{}'),
      path,
    ],
    [
      'another node',
      signatureHeaders(
        { method: 'POST', authority: 'b.example', path, query: '?' },
        body,
        signer(),
      ),
      body,
      path,
    ],
    ['old', signedFor(target, path, body, signer({ nowMs: clock.now() - 90_000 })), body, path],
    ['to come', signedFor(target, path, body, signer({ nowMs: clock.now() + 90_000 })), body, path],
  ]
  for (const [what, headers, sent, at] of refusals) {
    const reply = await target.send('POST', at, sent, headers)
    expect([what, reply.status, reply.json?.code]).toEqual([what, 401, 'SIGNATURE_REFUSED'])
  }
  const headers = signedFor(target, path, body, good)
  expect((await target.send('POST', path, body, headers)).status).toBe(200)
  const replayed = await target.send('POST', path, body, headers)
  expect([replayed.status, replayed.json.message]).toEqual([
    401,
    'the nonce of the request was used before',
  ])
})

it('rejects a signed push with invalid content, reports the reason, and stores nothing', async () => {
  const { target, signer, push, serverId } = await pair()
  const path = `/api/ledgers/${serverId}`
  const honest = JSON.parse((await push()).toString())
  const changed = structuredClone(honest)
  changed.blocks[2].body[0].item.n = 99
  const cases: [unknown, number, string][] = [
    [changed, 422, 'BLOCK_REFUSED'],
    [{ ...honest, blocks: honest.blocks.slice(0, 3), proofs: {} }, 422, 'LOG_UNPROVEN'],
    [{ ...honest, checkpoint: 'x' }, 422, 'NOTE_MALFORMED'],
    [{ ...honest, from: -1 }, 400, 'PUSH_INVALID'],
    [[], 400, 'PUSH_INVALID'],
    ['nonsense', 400, 'PUSH_INVALID'],
  ]
  for (const [value, status, code] of cases) {
    const body = Buffer.from(JSON.stringify(value))
    const reply = await target.send('POST', path, body, signedFor(target, path, body, signer()))
    expect([reply.status, reply.json.code, reply.json.size]).toEqual([status, code, 0])
  }
})

/** Starts a second node with the same key from an earlier copy of its folder, and adds blocks up to `blocks`. */
async function twinOf(folder: string, blocks: number) {
  const twin = await startLedgerNode({ folder })
  onTestFinished(() => twin.close())
  const { blocks: common } = await twin.service.read.chainSize()
  for (let n = common; n < blocks; n += 1) await twin.send('POST', '/api/fruit', { twin: n })
  await twin.service.log.consistency(0, blocks)
  const note = await twin.service.log.checkpoint()
  const store = await openStoreReader(folder, { frozen: false })
  onTestFinished(() => store.close())
  const push = async (to: { size: number; seen: number } | null) =>
    (await nextPush(store, note, to)).body
  return { note, push }
}

it.each([
  ['a shorter history, with a push without blocks', 5, null],
  ['a history of the same length, with a push without blocks', 6, null],
  ['a longer history', 9, { size: 6, seen: 6 }],
  ['a longer history, pushed from its first block', 9, { size: 0, seen: 6 }],
])('stores evidence of a second history that arrives only in a push: %s', async (_, blocks, to) => {
  const { target, signer, push, serverId, twinFolder, note, verifier } = await pair()
  const path = `/api/ledgers/${serverId}`
  const post = async (body: Buffer) =>
    target.send('POST', path, body, signedFor(target, path, body, signer()))
  const evidence = async () =>
    (await target.send('GET', '/api/config/peers')).json.peers[0].evidence
  expect((await post(await push())).status).toBe(200)
  const twin = await twinOf(twinFolder, blocks)
  const body = await twin.push(to)
  if (to !== null) {
    // A root that its proof does not confirm is not evidence.
    const lie = JSON.parse(body.toString())
    lie.roots[6] = randomBytes(32).toString('base64')
    const refused = await post(Buffer.from(JSON.stringify(lie)))
    expect([refused.status, refused.json.code]).toEqual([422, 'LOG_UNPROVEN'])
    expect(await evidence()).toBeNull()
  }
  const reply = await post(body)
  expect([reply.status, reply.json.code]).toEqual([409, 'MIRROR_FROZEN'])
  const stored = await evidence()
  expect(stored.notes).toEqual([note, twin.note])
  // Evidence from a push contains no blocks (`fork` is null). Its roots and proofs show the contradiction.
  const verified = await verifyEvidence(nodeVerifySignature, verifier, JSON.stringify(stored))
  expect(verified).toMatchObject({ checkpoints: [{ size: 6 }, { size: blocks }], fork: null })
  expect((await target.send('GET', `${path}/checkpoint`)).text).toBe(note)
})

it('stores a part of a blob only if an entry refers to the blob, the part fits, and the key of the chain signed it', async () => {
  const { node, target, signer, push, serverId } = await pair({ attachmentBytesMax: 8 })
  const contents = ['right', 'too long']
  const shaOf = (text: string) => hash('sha256', text, 'hex')
  await node.send('POST', '/api/fruit', { id: 'a' })
  for (const text of [...contents, 'much too long']) {
    await node.send('PUT', `/api/fruit/a/attachments/${text.length}`, text)
  }
  await node.service.log.consistency(0, 10)
  const chain = `/api/ledgers/${serverId}`
  const blocks = await push()
  await target.send('POST', chain, blocks, signedFor(target, chain, blocks, signer()))
  const send = async (text: string, part: string, offset: number, change: Partial<Signer> = {}) => {
    const path = `${chain}/attachments/${shaOf(text)}`
    const request = { method: 'POST', authority: new URL(target.url).host, path }
    const query = `?offset=${offset}`
    const headers = signatureHeaders({ ...request, query }, Buffer.from(part), signer(change))
    const type = { 'content-type': 'application/octet-stream' }
    const reply = await target.send('POST', path + query, part, { ...headers, ...type })
    return [reply.status, reply.json.code ?? reply.json.size]
  }
  const { privateKey } = generateKeyPairSync('ed25519')
  expect(await send('right', 'right', 0, { privateKey })).toEqual([401, 'SIGNATURE_REFUSED'])
  expect(await send('right', 'right', 0, { keyId: 'daicho/7' })).toEqual([401, 'SIGNATURE_REFUSED'])
  expect(await send('nobody names it', 'x', 0)).toEqual([404, 'CONTENT_UNKNOWN'])
  expect(await send('much too long', 'much', 0)).toEqual([413, 'CONTENT_TOO_LARGE'])
  expect(await send('right', 'ri', 0)).toEqual([200, 2])
  // A part after a gap is not stored, and the reply contains the offset of the next part.
  expect(await send('right', 'ght', 3)).toEqual([200, 2])
  expect(await send('right', 'GHT', 2)).toEqual([422, 'CONTENT_DIFFERS'])
  expect(await send('right', 'right', 0)).toEqual([200, 5])
  expect(await send('too long', 'too long', 0)).toEqual([200, 8])
  for (const text of contents) {
    const path = `${chain}/attachments/${shaOf(text)}`
    expect((await target.send('GET', path)).text).toBe(text)
  }
})
