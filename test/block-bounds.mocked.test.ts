// Tests, with small bounds, that every block that the writer makes is accepted wherever blocks are read.
import { EventEmitter } from 'node:events'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it, onTestFinished, vi } from 'vitest'
import { canonicalJson } from '../src/base/canonical-json.ts'
import type { Thread, ThreadPort } from '../src/base/worker/worker.ts'
import {
  ENTRIES_BYTES_MAX,
  frontierAt,
  PROVEN_BLOCK_BYTES_MAX,
  provenBlockJson,
} from '../src/chain/index.ts'
import type { Outbound } from '../src/http/outbound.ts'
import { exportLines } from '../src/ledger/export/export.ts'
import { importExport } from '../src/ledger/export/import.ts'
import { type NodeKey, openNodeKey } from '../src/ledger/log/node-key.ts'
import { signHead, toLogKey } from '../src/ledger/log/signed-head.ts'
import { PeerClient } from '../src/ledger/peers/peer-client.ts'
import { nextPush, PUSH_BYTES_MAX } from '../src/ledger/peers/push.ts'
import { systemPlatform } from '../src/ledger/platform.ts'
import { decodeBlock } from '../src/ledger/write/decoded-block.ts'
import type { RequestConditions } from '../src/ledger/write/request-conditions.ts'
import type { Operation, UnitOfWork } from '../src/ledger/write/unit-of-work.ts'
import { LedgerWriter } from '../src/ledger/write/writer.ts'
import { serveWriter } from '../src/ledger/write/writer-thread.ts'
import { openStoreReader, type StoreReader } from '../src/storage/index.ts'
import { temporaryFolder } from './support/ledger-node.ts'
import { IS_THOROUGH } from './support/rounds.ts'

const ITEM_BYTES = 2_560
vi.mock(import('../src/chain/entry.ts'), async (original) => ({
  ...(await original()),
  ENTRIES_BYTES_MAX: 16_384,
}))
vi.mock(import('../src/ledger/write/item.ts'), async (original) => ({
  ...(await original()),
  ITEM_BYTES_MAX: 2_560,
}))

const LARGE_ITEMS = 8
const MIXES_PER_CHAIN = 250
const NONE = { precondition: null, idempotency: null }

/** Runs the writer thread in this thread, because the bounds of another thread are not replaced. */
function startThread(_: URL, { workerData }: { workerData?: unknown }): Thread {
  const outer = Object.assign(new EventEmitter(), {
    postMessage: (message: unknown) => setImmediate(() => inner.emit('message', message)),
    terminate: async () => 0,
  })
  const inner = Object.assign(new EventEmitter(), {
    postMessage: (message: unknown) => setImmediate(() => outer.emit('message', message)),
    close: () => setImmediate(() => outer.emit('exit', 0)),
  })
  // The writer uses only these members of a thread and of its port.
  void serveWriter(workerData as never, inner as unknown as ThreadPort, systemPlatform)
  return outer as unknown as Thread
}

/** Returns an item whose canonical text has up to `bytes` bytes. */
function itemText(id: string, letter: string, bytes: number): string {
  const frame = Buffer.byteLength(canonicalJson({ id, text: '' }))
  const each = Buffer.byteLength(canonicalJson(letter)) - 2
  return canonicalJson({ id, text: letter.repeat(Math.max(0, Math.floor((bytes - frame) / each))) })
}

const letter = fc.constantFrom('x', 'é', '林', '"', '\u0001')
const bytes = fc.oneof(fc.nat({ max: 200 }), fc.nat({ max: ITEM_BYTES }), fc.constant(ITEM_BYTES))
const large = fc.nat({ max: LARGE_ITEMS - 1 }).map((n) => `large-${n}`)
const changed: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({ id: large, letter, bytes }).map(({ id, letter, bytes }) => {
    return { kind: 'update_item' as const, db: 'a', id, text: itemText(id, letter, bytes) }
  }),
  // An estimate of 0 is what a patch gets that arrives together with the creation of its item.
  fc
    .record({ id: large, n: fc.nat({ max: 9 }), currentBytes: fc.constantFrom(0, ITEM_BYTES) })
    .map(({ n, ...rest }) => {
      return { kind: 'patch_item' as const, db: 'a', ...rest, text: `{"n":${n}}` }
    }),
  fc.record({ letter, bytes }).map(({ letter, bytes }) => {
    const id = crypto.randomUUID()
    const text = itemText(id, letter, bytes)
    return { kind: 'create_item' as const, db: 'a', id, text, assigned: true }
  }),
)
const erased = large.map((of): Operation => ({ kind: 'erase_item', db: 'a', of, positions: null }))
const unit: fc.Arbitrary<UnitOfWork> = fc.oneof(
  { weight: 6, arbitrary: changed.map((operation) => [operation]) },
  { weight: 2, arbitrary: fc.array(changed, { minLength: 1, maxLength: 12 }) },
  { weight: 1, arbitrary: erased.map((operation) => [operation]) },
)
const mix = fc.array(fc.record({ unit, isOfNetwork: fc.boolean() }), {
  minLength: 1,
  maxLength: 30,
})

async function openChain() {
  const folder = temporaryFolder()
  const key = openNodeKey(folder, true)
  const start = { location: folder, serverId: key.serverId, durable: false }
  const writer = await LedgerWriter.start(start, { now: () => 1 }, { startThread })
  const ids = Array.from({ length: LARGE_ITEMS }, (_, n) => `large-${n}`)
  await writer.record([{ kind: 'create_db', db: 'a' }])
  for (const id of ids) {
    const text = itemText(id, 'x', ITEM_BYTES - 8)
    await writer.record([{ kind: 'create_item', db: 'a', id, text, assigned: false }])
  }
  const store = await openStoreReader(folder, { frozen: false })
  onTestFinished(() => store.close())
  return { folder, key, writer, store, height: 0 }
}

/** Reads the block at `height` as a peer does that accepts no longer reply than it must. */
async function readAsPeer(store: StoreReader, height: number, page: string): Promise<string> {
  const outbound: Outbound = {
    async get(_url, _headers, { bodyBytesMax }) {
      const body = Buffer.from(page)
      expect(body.length).toBeLessThanOrEqual(bodyBytesMax)
      return { status: 200, header: () => null, body }
    },
    post: () => Promise.reject(new Error('a peer only reads here')),
  }
  const { serverId } = store
  const peer = new PeerClient({ url: 'https://a.example', serverId, allowPrivate: false, outbound })
  const [block] = (await peer.blocks(height, 1)).blocks()
  if (block === undefined) throw new Error('the page is empty')
  const decoded = decodeBlock(block, serverId, height)
  return 'what' in decoded ? decoded.what : provenBlockJson(decoded.block)
}

async function checkBlock(store: StoreReader, key: NodeKey, height: number): Promise<void> {
  const { serverId } = store
  const [block] = await store.blocks(serverId, height, 1)
  if (block === undefined) throw new Error(`there is no block ${height}`)
  const entryBytes = Buffer.byteLength(block.entries.join(''))
  expect(entryBytes).toBeLessThanOrEqual(ENTRIES_BYTES_MAX)
  const text = provenBlockJson(block)
  expect(Buffer.byteLength(text)).toBeLessThan(entryBytes + 160 * block.entries.length + 1_024)
  const page = `{"status":true,"ledgers":[${text}],"limit":1,"offset":${height}}`
  expect(await readAsPeer(store, height, page)).toBe(text)
  const read = (nodes: Parameters<StoreReader['treeNodes']>[1]) => store.treeNodes(serverId, nodes)
  const note = signHead(toLogKey(key), await frontierAt(height + 1, read))
  const { body, end } = await nextPush(store, note, { size: height, seen: height })
  expect(end).toBe(height + 1)
  expect(body.length).toBeLessThanOrEqual(PUSH_BYTES_MAX)
}

/** Exports the chain, and imports it into another folder. */
async function copyByExport({ folder, store }: { folder: string; store: StoreReader }) {
  const copy = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(copy, 'node.key'))
  async function* chunks() {
    for await (const lines of exportLines(store, folder, () => {})) {
      for (const line of lines.split('\n')) {
        expect(Buffer.byteLength(line)).toBeLessThanOrEqual(PROVEN_BLOCK_BYTES_MAX)
      }
      yield Buffer.from(lines)
    }
  }
  return importExport({ folder: copy, chunks: chunks(), progress: () => {} })
}

it('makes only blocks that peers, pushes, exports and imports accept, whatever large changes arrive together', async () => {
  const mixes = IS_THOROUGH ? 10_000 : MIXES_PER_CHAIN
  const codes = new Set<string>()
  for (let done = 0; done < mixes; done += MIXES_PER_CHAIN) {
    const opened = await openChain()
    const { writer, store, key } = opened
    const property = fc.asyncProperty(mix, async (units) => {
      const recorded = units.map(({ unit, isOfNetwork }) => {
        const conditions: RequestConditions = isOfNetwork ? { ...NONE, network: 'all' } : NONE
        return writer.record(unit, conditions).then(
          () => 'recorded',
          (error) => String(error.code),
        )
      })
      for (const code of await Promise.all(recorded)) codes.add(code)
      store.refresh()
      const head = await store.head(store.serverId)
      for (; opened.height <= (head?.height ?? -1); opened.height += 1) {
        await checkBlock(store, key, opened.height)
      }
    })
    await fc.assert(property, { numRuns: MIXES_PER_CHAIN, endOnFailure: true })
    await writer.close()
    expect(await copyByExport(opened)).toMatchObject({ blocks: opened.height })
  }
  expect([...codes].sort()).toEqual([
    ...['ITEM_TOO_LARGE', 'NOTHING_TO_ERASE', 'UNIT_TOO_LARGE', 'WRITER_BUSY', 'recorded'],
  ])
})
