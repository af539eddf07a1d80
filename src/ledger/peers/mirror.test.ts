// Tests mirrors of real nodes, whose replies the tests manipulate.
import { cpSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { filesWith } from '../../../test/support/erased.ts'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'
import type { Json } from '../../base/json.ts'
import {
  evidenceText,
  nodeVerifySignature,
  parseStateNote,
  verifyEvidence,
} from '../../chain/index.ts'
import { lockFolder, openStoreReader } from '../../storage/index.ts'
import { openNodeKey } from '../log/node-key.ts'
import { toLogKey } from '../log/signed-head.ts'
import { stateSigner } from '../log/state-keeper.ts'
import { BlockPage } from './block-page.ts'
import { compare, Mirror, pull } from './mirror.ts'
import { type ChainSource, PeerClient } from './peer-client.ts'
import { parseNodeKey } from './peer-list.ts'

/** Waits until the node has signed its whole chain, because a node does not sign each block at once. */
async function signed({ service }: LedgerNode): Promise<void> {
  const { blocks } = await service.read.chainSize()
  await service.log.consistency(0, blocks)
}

/** Manipulated replies of a source. */
type Spoil = Partial<ChainSource>

function sourceOf({ url, service }: LedgerNode, serverId = service.serverId): PeerClient {
  return new PeerClient({ url, serverId, allowPrivate: true })
}

function spoiled(source: ChainSource, spoil: Spoil): ChainSource {
  return {
    checkpoint: () => source.checkpoint(),
    blocks: (from, limit) => source.blocks(from, limit),
    consistency: (from, to, signal) => source.consistency(from, to, signal),
    tile: (tile) => source.tile(tile),
    ...spoil,
  }
}

async function mirrorOf({ service }: LedgerNode, folder = temporaryFolder()): Promise<Mirror> {
  const { serverId } = service
  const { key } = parseNodeKey(service.log.verifierKey)
  return Mirror.open({ folder, serverId, key, durable: false })
}

async function nodeWith(blocks: number, folder: string | null = null): Promise<LedgerNode> {
  const node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
  await node.send('POST', '/api/fruit')
  for (let n = 1; n < blocks; n += 1) await node.send('POST', '/api/fruit', { id: `${n}`, n })
  await signed(node)
  return node
}

/** Returns the first blocks of a node's chain as JSON, for manipulation. */
async function valuesOf({ service, send }: LedgerNode, blocks: number): Promise<Json> {
  const path = `/api/ledgers?serverid=${service.serverId}&limit=${blocks}&proof=1`
  return (await send('GET', path)).json.ledgers
}

const pageWith = (blocks: string) =>
  Buffer.from(`{"status":true,"ledgers":${blocks},"limit":8,"offset":0}`)
const copy = (value: Json) => JSON.parse(JSON.stringify(value))

it('writes no file if a synchronization finds nothing new', async () => {
  const node = await nodeWith(3)
  const folder = temporaryFolder()
  const mirror = await mirrorOf(node, folder)
  const written = () => ['checkpoint', 'seen'].map((name) => statSync(join(folder, name)).ino)
  await pull(mirror, sourceOf(node))
  const before = written()
  await pull(mirror, sourceOf(node))
  expect(written()).toEqual(before)
  await node.send('POST', '/api/fruit', { id: 'new' })
  await signed(node)
  await pull(mirror, sourceOf(node))
  expect(mirror.size).toBe(4)
  expect(readFileSync(join(folder, 'checkpoint'), 'utf8')).toBe(await sourceOf(node).checkpoint())
  await mirror.close()
})

it('stores a signed head that could not be written before, with the next synchronization', async () => {
  const node = await nodeWith(3)
  const folder = temporaryFolder()
  const mirror = await mirrorOf(node, folder)
  onTestFinished(() => mirror.close())
  const seen = join(folder, 'seen')
  // A folder in place of the file makes its replacement fail.
  mkdirSync(seen)
  await expect(pull(mirror, sourceOf(node))).rejects.toThrow()
  rmSync(seen, { recursive: true })
  await pull(mirror, sourceOf(node))
  expect(readFileSync(seen, 'utf8')).toBe(await sourceOf(node).checkpoint())
})

it('rejects a block that was changed or belongs to another chain, and does not store it', async () => {
  const node = await nodeWith(8)
  const other = await nodeWith(8)
  const source = sourceOf(node)
  const honest = await valuesOf(node, 8)
  const foreign = copy(await valuesOf(other, 8))
  const fake = 'ab'.repeat(32)
  const changes: [string, (blocks: ReturnType<typeof copy>) => unknown][] = [
    ['entry', ([, , , { body }]) => Object.assign(body[0].item, { n: 99 })],
    ['timestamp', ([, , , { timestamps }]) => timestamps.splice(0, 1, timestamps[0] + 1)],
    ['blind', ([, , , { proof }]) => proof.blinds.splice(0, 1, fake)],
    ['commitment', ([, , , { proof }]) => proof.commitments.splice(0, 1, fake)],
    ['root', ([, , , { proof }]) => Object.assign(proof, { root: fake })],
    ['link', (blocks) => Object.assign(blocks[3], { prev_id: blocks[1].id })],
    ['nonce', (blocks) => Object.assign(blocks[3], { nonce: 1 })],
    ['one left out', (blocks) => blocks.splice(3, 1)],
    ['one twice', (blocks) => blocks.splice(3, 0, blocks[3])],
    ['order', (blocks) => blocks.reverse()],
    ['method', ([, , , { body }]) => Object.assign(body[0], { method: 'drop_everything' })],
    ['server id', ([, , , { body }]) => Object.assign(body[0], { serverid: 7 })],
    ['a name with a line break', ([{ body }]) => Object.assign(body[0], { db: 'a\nb' })],
    ['no object', (blocks) => blocks.splice(3, 1, null)],
    ['deep', (blocks) => blocks.splice(3, 1, JSON.parse('['.repeat(900) + ']'.repeat(900)))],
    ['another chain', (blocks) => blocks.splice(0, 8, ...foreign)],
  ]
  // Pages with these changes do not have the form that a node writes.
  const malformed = new Set(['one left out', 'one twice', 'order', 'no object', 'deep'])
  for (const [what, change] of changes) {
    const mirror = await mirrorOf(node)
    const parsed = copy(honest)
    change(parsed)
    const { serverId } = node.service
    const blocks = async () =>
      new BlockPage(pageWith(JSON.stringify(parsed)), { from: 0, limit: 8, serverId })
    await expect(pull(mirror, spoiled(source, { blocks })), what).rejects.toMatchObject({
      code: malformed.has(what) ? 'REPLY_MALFORMED' : 'BLOCK_REFUSED',
    })
    expect([what, mirror.size, mirror.evidence]).toEqual([what, 0, null])
    // The mirror still accepts the chain of an honest source.
    await pull(mirror, source)
    expect(mirror.size).toBe(8)
    await mirror.close()
  }
})

it('rejects a chain whose signed head is signed by another key, forged or malformed', async () => {
  const node = await nodeWith(3)
  const other = await nodeWith(12)
  const source = sourceOf(node)
  const mirror = await mirrorOf(node)
  for (const [spoil, code] of [
    [{ checkpoint: () => sourceOf(other).checkpoint() }, 'NOTE_UNSIGNED'],
    [
      { checkpoint: async () => (await source.checkpoint()).replace('\n3\n', '\n2\n') },
      'NOTE_FORGED',
    ],
    [{ checkpoint: async () => 'x'.repeat(65_000) }, 'NOTE_MALFORMED'],
  ] as const) {
    await expect(pull(mirror, spoiled(source, spoil))).rejects.toMatchObject({ code })
  }
  expect(mirror.size).toBe(0)
  await mirror.close()
})

it('rejects a page of blocks without a valid proof that the signed log contains the blocks', async () => {
  const node = await nodeWith(40)
  const source = sourceOf(node)
  const mirror = await mirrorOf(node)
  for (const consistency of [async () => [], async () => [Buffer.alloc(32)]]) {
    await expect(pull(mirror, spoiled(source, { consistency }))).rejects.toMatchObject({
      code: 'LOG_UNPROVEN',
    })
  }
  expect(mirror.size).toBe(0)
  await pull(mirror, source)
  expect(mirror.size).toBe(40)
  await mirror.close()
})

it('a mirror continues where it stopped, even after it was reopened, and passes verification', async () => {
  const node = await nodeWith(40)
  const source = sourceOf(node)
  const folder = temporaryFolder()
  const mirror = await mirrorOf(node, folder)
  let pages = 0
  const blocks: ChainSource['blocks'] = (from, limit) => {
    pages += 1
    if (pages === 2) throw new Error('cut')
    return source.blocks(from, limit)
  }
  await expect(pull(mirror, spoiled(source, { blocks }))).rejects.toThrow('cut')
  const { size } = mirror
  expect(size).toBeGreaterThan(0)
  expect(size).toBeLessThan(40)
  // A node with the key of the chain must not use the folder meanwhile.
  expect(() => lockFolder(folder)).toThrow(expect.objectContaining({ code: 'FOLDER_IN_USE' }))
  await mirror.close()

  const again = await mirrorOf(node, folder)
  const requestedSizes: number[] = []
  await pull(
    again,
    spoiled(source, {
      blocks(from, limit) {
        requestedSizes.push(from)
        return source.blocks(from, limit)
      },
    }),
  )
  expect([requestedSizes[0], again.size]).toEqual([size, 40])
  await again.close()
  expect(await verifyFolder(folder)).toMatchObject({ blocks: 40, items: 39, finding: null })
})

it('a mirror applies an erasure, and still passes verification', async () => {
  const node = await nodeWith(3)
  const folder = temporaryFolder()
  const mirror = await mirrorOf(node, folder)
  await pull(mirror, sourceOf(node))
  await node.send('POST', '/api/fruit/1', { n: 'changed' })
  expect((await node.send('POST', '/api/fruit/1/erase', {})).json.status).toBe(true)
  await signed(node)
  await pull(mirror, sourceOf(node))
  const late = temporaryFolder()
  const second = await mirrorOf(node, late)
  await pull(second, sourceOf(node))
  await Promise.all([mirror.close(), second.close()])
  for (const kept of [folder, late]) {
    expect(await verifyFolder(kept)).toMatchObject({ blocks: 5, erased: 1, finding: null })
  }
})

it('a mirror that reads the end of an attachment only after its erasure follows, and passes verification', async () => {
  const node = await nodeWith(3)
  const folder = temporaryFolder()
  const mirror = await mirrorOf(node, folder)
  const path = '/api/fruit/1/attachments/n'
  const type = { 'content-type': 'a/b' }
  await node.send('PUT', path, 'one', type)
  await signed(node)
  await pull(mirror, sourceOf(node))
  await node.send('PUT', path, 'two', type)
  await node.send('DELETE', path)
  expect((await node.send('POST', '/api/fruit/1/erase', {})).json.status).toBe(true)
  await signed(node)
  await pull(mirror, sourceOf(node))
  await mirror.close()
  expect(await verifyFolder(folder)).toMatchObject({ blocks: 7, erased: 3, finding: null })
})

it('a mirror adds blocks while an open reader delays the overwriting of erased bytes, and overwrites the bytes later', async () => {
  const node = await nodeWith(3)
  const folder = temporaryFolder()
  const mirror = await mirrorOf(node, folder)
  await node.send('POST', '/api/fruit/1', { n: 'SECRET' })
  await signed(node)
  await pull(mirror, sourceOf(node))
  const reader = await openStoreReader(folder, { frozen: true })
  await reader.head(node.service.serverId)
  await node.send('POST', '/api/fruit/1', { n: 'changed' })
  await node.send('POST', '/api/fruit/1/erase')
  await signed(node)
  await pull(mirror, sourceOf(node))
  expect(mirror.size).toBe(6)
  expect(filesWith(folder, 'SECRET')).not.toEqual([])
  await reader.close()
  // There are no new blocks, but the pull overwrites the erased bytes.
  await pull(mirror, sourceOf(node))
  expect(filesWith(folder, 'SECRET')).toEqual([])
  await mirror.close()
})

/** Starts two nodes with one key and the same two blocks. Then adds three blocks to the first node. */
async function twins(): Promise<[LedgerNode, LedgerNode]> {
  const folder = temporaryFolder()
  const twinFolder = temporaryFolder()
  const before = await startLedgerNode({ folder })
  await before.send('POST', '/api/fruit')
  await before.send('POST', '/api/fruit', { id: 'shared' })
  await before.close()
  cpSync(folder, twinFolder, { recursive: true })
  rmSync(join(twinFolder, 'signed-head'), { force: true })

  const node = await startLedgerNode({ folder })
  const twin = await startLedgerNode({ folder: twinFolder })
  onTestFinished(async () => void (await Promise.all([node.close(), twin.close()])))
  for (let n = 0; n < 3; n += 1) await node.send('POST', '/api/fruit', { n })
  await signed(node)
  return [node, twin]
}

/** Verifies the evidence of a mirror as a third party does. */
function verified({ service }: LedgerNode, mirror: Mirror) {
  if (mirror.evidence === null) throw new Error('there is no evidence')
  const { key } = parseNodeKey(service.log.verifierKey)
  return verifyEvidence(nodeVerifySignature, key, evidenceText(mirror.evidence))
}

it('detects two histories under one key, keeps evidence, and adds no more blocks', async () => {
  const [node, twin] = await twins()
  for (const twinBlocks of [1, 3, 9]) {
    const mirror = await mirrorOf(node)
    await pull(mirror, sourceOf(node))
    const { blocks } = await twin.service.read.chainSize()
    for (let n = blocks; n < 2 + twinBlocks; n += 1) await twin.send('POST', `/api/twin${n}`)
    await signed(twin)
    await expect(pull(mirror, sourceOf(twin))).rejects.toMatchObject({ code: 'MIRROR_FROZEN' })
    const notes = mirror.evidence?.notes ?? []
    expect(notes).toEqual([await sourceOf(node).checkpoint(), await sourceOf(twin).checkpoint()])
    const { fork } = await verified(node, mirror)
    expect(fork?.height).toBe(2)
    // A frozen mirror accepts no more blocks, not even from the first node.
    await expect(pull(mirror, sourceOf(node))).rejects.toMatchObject({ code: 'MIRROR_FROZEN' })
    expect(mirror.size).toBe(5)
    await mirror.close()
  }
})

it('detects two histories even if the mirror has only a signed head, and no blocks, of the first history', async () => {
  const [node, twin] = await twins()
  const mirror = await mirrorOf(node)
  const blocks = () => Promise.reject(new Error('the connection broke'))
  await expect(pull(mirror, spoiled(sourceOf(node), { blocks }))).rejects.toThrow('broke')
  expect([mirror.size, mirror.seenSize]).toEqual([0, 5])

  // The twin's log is still shorter than the head that the mirror has seen, so nothing proves yet whether the two
  // histories agree.
  await twin.send('POST', '/api/twin')
  await signed(twin)
  await expect(pull(mirror, sourceOf(twin))).rejects.toMatchObject({ code: 'REPLY_REFUSED' })
  expect([mirror.size, mirror.evidence]).toEqual([0, null])

  for (let n = 3; n < 9; n += 1) await twin.send('POST', `/api/twin${n}`)
  await signed(twin)
  await expect(pull(mirror, sourceOf(twin))).rejects.toMatchObject({ code: 'MIRROR_FROZEN' })
  const notes = [await sourceOf(node).checkpoint(), await sourceOf(twin).checkpoint()]
  expect([mirror.size, mirror.evidence?.notes]).toEqual([0, notes])
  // The mirror has no blocks of the first history, so the roots prove the contradiction, and `fork` is null.
  const { what, fork } = await verified(node, mirror)
  expect([what, fork]).toEqual([
    'the signed log of 9 blocks does not begin with the signed log of 5 blocks',
    null,
  ])
  await mirror.close()
})

it('stores no evidence if a source contradicts a signed head without signing a second head', async () => {
  const node = await nodeWith(8)
  const mirror = await mirrorOf(node)
  const source = sourceOf(node)
  await pull(mirror, source)
  await node.send('POST', '/api/later')
  await signed(node)
  const lies = {
    consistency: async () => [Buffer.alloc(32)],
    tile: async ({ width }: { width: number }) => Buffer.alloc(width * 32),
  }
  await expect(pull(mirror, spoiled(source, lies))).rejects.toMatchObject({ code: 'LOG_UNPROVEN' })
  expect([mirror.size, mirror.evidence]).toEqual([8, null])
  await pull(mirror, source)
  expect(mirror.size).toBe(9)
  await mirror.close()
})

it('a mirror freezes if the head of another mirror contradicts the mirror’s own head, but not if the other head is only older or newer', async () => {
  const [node, twin] = await twins()
  for (let n = 0; n < 9; n += 1) await twin.send('POST', `/api/twin${n}`)
  await signed(twin)
  const mirror = await mirrorOf(node)
  await pull(mirror, sourceOf(node))
  // An older head of the same history is no contradiction.
  const old = await sourceOf(node).checkpoint()
  await node.send('POST', '/api/later')
  await signed(node)
  await compare(mirror, spoiled(sourceOf(node), { checkpoint: async () => old }))
  // A newer head of the same history is no contradiction.
  await compare(mirror, sourceOf(node))
  expect([mirror.size, mirror.seenSize, mirror.evidence]).toEqual([5, 5, null])
  await expect(compare(mirror, sourceOf(twin))).rejects.toMatchObject({ code: 'MIRROR_FROZEN' })
  expect(await verified(node, mirror)).toMatchObject({
    checkpoints: [{ size: 5 }, { size: 11 }],
    fork: { height: 2 },
  })
  expect([mirror.size, mirror.seenSize]).toEqual([5, 5])
  await mirror.close()
})

it('stores no evidence if another mirror returns forged or malformed data', async () => {
  const node = await nodeWith(8)
  const other = await nodeWith(12)
  const mirror = await mirrorOf(node)
  const source = sourceOf(node)
  await pull(mirror, source)
  await node.send('POST', '/api/later')
  await signed(node)
  const note = await source.checkpoint()
  const nonsense: Spoil = {
    consistency: async () => [Buffer.alloc(32)],
    tile: async ({ width }) => Buffer.alloc(width * 32),
  }
  const foreign: Spoil = {
    consistency: (from, to) => sourceOf(other).consistency(from, to),
    tile: (tile) => sourceOf(other).tile(tile),
  }
  for (const [spoil, code] of [
    [{ checkpoint: () => sourceOf(other).checkpoint() }, 'NOTE_UNSIGNED'],
    [{ checkpoint: async () => note.replace('\n9\n', '\n7\n') }, 'NOTE_FORGED'],
    [{ checkpoint: async () => 'nonsense' }, 'NOTE_MALFORMED'],
    [nonsense, 'LOG_UNPROVEN'],
    [foreign, 'LOG_UNPROVEN'],
  ] as const) {
    await expect(compare(mirror, spoiled(source, spoil))).rejects.toMatchObject({ code })
    expect([mirror.size, mirror.evidence]).toEqual([8, null])
  }
  await pull(mirror, source)
  expect(mirror.size).toBe(9)
  await mirror.close()
})

it('a mirror without all blocks of its head rejects a contradicting head, and freezes with a proof when it has them', async () => {
  const [node, twin] = await twins()
  for (let n = 0; n < 30; n += 1) await node.send('POST', '/api/fruit', { n })
  await signed(node)
  const mirror = await mirrorOf(node)
  let pages = 0
  const blocks: ChainSource['blocks'] = (from, limit) => {
    pages += 1
    return pages === 1 ? sourceOf(node).blocks(from, limit) : Promise.reject(new Error('cut'))
  }
  await expect(pull(mirror, spoiled(sourceOf(node), { blocks }))).rejects.toThrow('cut')
  expect([mirror.size, mirror.seenSize]).toEqual([8, 35])
  await twin.send('POST', '/api/twin')
  await signed(twin)
  await expect(compare(mirror, sourceOf(twin))).rejects.toMatchObject({ code: 'LOG_UNPROVEN' })
  expect(mirror.evidence).toBeNull()
  await pull(mirror, sourceOf(node))
  await expect(compare(mirror, sourceOf(twin))).rejects.toMatchObject({ code: 'MIRROR_FROZEN' })
  expect(mirror.evidence?.notes).toEqual([
    await sourceOf(node).checkpoint(),
    await sourceOf(twin).checkpoint(),
  ])
  expect((await verified(node, mirror)).fork).not.toBeNull()
  await mirror.close()
})

async function served(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it('rejects replies that are endless, incomplete, redirected or malformed', async () => {
  const chunk = Buffer.alloc(1_048_576, 0x20)
  const endless: RequestListener = (_request, response) => {
    const more = () => {
      while (response.write(chunk));
    }
    response.on('drain', more)
    more()
  }
  const cases: [RequestListener, string][] = [
    [endless, 'BODY_TOO_LARGE'],
    [(_, response) => void response.writeHead(200).write('{"status"'), 'TIMEOUT'],
    [() => {}, 'TIMEOUT'],
    [
      (_, response) => void response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
      'REDIRECTED',
    ],
    [(request) => void request.socket.destroy(), 'UNREACHABLE'],
    [(_, response) => void response.end('<html>'), 'REPLY_MALFORMED'],
    [(_, response) => void response.end('{"status":true,"ledgers":[]}'), 'REPLY_MALFORMED'],
    [(_, response) => void response.writeHead(500).end('x'), 'REPLY_REFUSED'],
  ]
  for (const [listener, code] of cases) {
    const url = await served(listener)
    const timeoutMs = code === 'TIMEOUT' ? 500 : 60_000
    const source = new PeerClient({ url, serverId: 7, allowPrivate: true, timeoutMs })
    await expect(source.blocks(0, 64), code).rejects.toMatchObject({ code })
  }
  const hidden = new PeerClient({ url: 'http://127.0.0.1:1', serverId: 7, allowPrivate: false })
  await expect(hidden.checkpoint()).rejects.toMatchObject({
    code: 'ADDRESS_REFUSED',
    message: '127.0.0.1 has the private address 127.0.0.1; set PEERS_ALLOW_PRIVATE=1 to allow it',
  })
})

it('finds a wrong signed state after one of blocks that do not exist', async () => {
  const folder = temporaryFolder()
  const node = await nodeWith(3, folder)
  const mirror = await mirrorOf(node)
  await pull(mirror, sourceOf(node))
  const key = toLogKey(openNodeKey(folder, false))
  const sign = stateSigner(key)
  const root = new Uint8Array(32).fill(1)
  await mirror.compareState(sign({ size: 1e15, root, log: root }))
  const { log } = parseStateNote(key.verifier, await sourceOf(node).state())
  await expect(mirror.compareState(sign({ size: 3, root, log }))).rejects.toMatchObject({
    code: 'STATE_WRONG',
  })
  await mirror.close()
})
