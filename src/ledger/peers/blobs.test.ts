// Tests that blobs that a mirror has lost are transferred again.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import {
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { PEERS } from '../../../test/support/peers.ts'
import { systemClock } from '../../base/clock.ts'
import { systemOutbound } from '../../http/outbound.ts'
import { openBlobStore, openStoreReader } from '../../storage/index.ts'
import { openNodeKey } from '../log/node-key.ts'
import { BlobSync, ChainBlobs, fetchingBlobs, pushingBlobs } from './blobs.ts'
import { mirrorFolder } from './mirror.ts'
import { PeerClient } from './peer-client.ts'
import { NodeSigner } from './signed-request.ts'

const BYTES = Buffer.from('what was attached')
const SHA256 = createHash('sha256').update(BYTES).digest('hex')
const MINUTE_MS = 60_000

/** Starts a node with one attachment, and opens a reader of its store. */
async function origin() {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder, clock: systemClock })
  await node.send('POST', '/api/files')
  await node.send('POST', '/api/files', { id: 'a' })
  const type = { 'content-type': 'a/b' }
  expect((await node.send('PUT', '/api/files/a/attachments/x', BYTES, type)).status).toBe(200)
  const store = await openStoreReader(folder, { frozen: false })
  onTestFinished(async () => {
    await store.close()
    await node.close()
  })
  return { folder, node, store }
}

function contentPath(folder: string): string {
  return join(folder, 'attachments', SHA256.slice(0, 2), SHA256.slice(2))
}

const LOSSES: [string, (folder: string) => void][] = [
  ['the file of a blob', (folder) => rmSync(contentPath(folder))],
  [
    'half of the file of a blob',
    (folder) => writeFileSync(contentPath(folder), BYTES.subarray(0, 7)),
  ],
  ['the folder of all blobs', (folder) => rmSync(join(folder, 'attachments'), { recursive: true })],
]

it.each(LOSSES)(
  'a mirror that has lost %s fetches the blob again within a minute',
  async (_, lose) => {
    const { store } = await origin()
    const folder = temporaryFolder()
    const files = await openBlobStore(folder, store, false)
    const blobs = new ChainBlobs(store.attachments, files, BYTES.length)
    const clock = new HandClock()
    const requestedPaths: string[] = []
    const source = {
      blob: async (sha256: string, from: number, length: number) => {
        requestedPaths.push(sha256)
        return BYTES.subarray(from, from + length)
      },
    }
    const sync = new BlobSync(clock)
    const run = () => sync.run(fetchingBlobs(source, blobs))
    await run()
    for (let round = 1; round <= 3; round += 1) {
      expect(requestedPaths).toEqual(new Array(round).fill(SHA256))
      lose(folder)
      clock.time += MINUTE_MS - 1
      await run()
      expect(requestedPaths.length).toBe(round)
      clock.time += 1
      await run()
      expect([requestedPaths.length, sync.missing]).toEqual([round + 1, 0])
      expect(readFileSync(contentPath(folder))).toEqual(BYTES)
    }
  },
)

it('counts a missing blob only once over repeated checks, and fetches it when the source has it again', async () => {
  const { store } = await origin()
  const folder = temporaryFolder()
  const files = await openBlobStore(folder, store, false)
  const blobs = new ChainBlobs(store.attachments, files, BYTES.length)
  const clock = new HandClock()
  let has = true
  const source = { blob: async () => (has ? BYTES : null) }
  const sync = new BlobSync(clock)
  const run = () => sync.run(fetchingBlobs(source, blobs))
  await run()
  has = false
  rmSync(contentPath(folder))
  for (let minute = 0; minute < 3; minute += 1) {
    clock.time += MINUTE_MS
    await run()
    expect(sync.missing).toBe(1)
  }
  has = true
  clock.time += MINUTE_MS
  await run()
  expect([sync.missing, existsSync(contentPath(folder))]).toEqual([0, true])
})

it('moves the other blobs if transfers fail, and ends with the error only after eight failures in a row', async () => {
  const clock = new HandClock()
  const sync = new BlobSync(clock)
  const blobs = Array.from({ length: 40 }, (_, n) => ({ sha256: `${n}`, length: 1, bytes: 0 }))
  const transfer = (fails: (n: number) => boolean) => {
    const moved: number[] = []
    const absent = async (after: number, limit: number) => {
      const page = blobs.slice(after + 1, after + 1 + limit)
      return { blobs: page, upTo: after + page.length, more: after + 1 + limit < blobs.length }
    }
    const move = async ({ sha256 }: { sha256: string }) => {
      if (fails(Number(sha256))) throw new Error('broken')
      moved.push(Number(sha256))
      return true
    }
    return { absent, move, moved }
  }
  const some = transfer((n) => n % 8 !== 0)
  await sync.run(some)
  expect([some.moved, sync.missing]).toEqual([[0, 8, 16, 24, 32], 35])
  clock.time += MINUTE_MS
  const first = transfer((n) => n < 10)
  await expect(sync.run(first)).rejects.toThrow('broken')
  // The next run continues after the page of the failed transfers.
  await sync.run(first)
  expect(first.moved).toEqual(blobs.map((_, n) => n).slice(16))
  clock.time += MINUTE_MS
  await sync.run(transfer(() => false))
  expect(sync.missing).toBe(0)
})

it('reports progress as soon as a blob has moved, so that an earlier error is no longer shown', async () => {
  const { store } = await origin()
  const files = await openBlobStore(temporaryFolder(), store, false)
  const blobs = new ChainBlobs(store.attachments, files, BYTES.length)
  let progress = 0
  const onProgress = () => {
    progress += 1
  }
  const run = { isStopped: () => false, onProgress }
  await new BlobSync(new HandClock()).run(fetchingBlobs({ blob: async () => null }, blobs), run)
  expect(progress).toBe(0)
  await new BlobSync(new HandClock()).run(fetchingBlobs({ blob: async () => BYTES }, blobs), run)
  expect(progress).toBe(1)
})

it('ends a check if the receiver repeats a page for ever', async () => {
  const sync = new BlobSync(new HandClock())
  const asked: number[] = []
  const absent = async (after: number) => {
    asked.push(after)
    return { blobs: [], upTo: 7, more: true }
  }
  await sync.run({ absent, move: async () => true })
  expect(asked).toEqual([-1, 7])
})

it.each(LOSSES)('a node pushes the blob again to a mirror that has lost %s', async (_, lose) => {
  const { folder, node, store } = await origin()
  const { serverId } = node.service
  const keeperFolder = temporaryFolder()
  const mirrorNode: LedgerNode = await startLedgerNode({
    folder: keeperFolder,
    clock: systemClock,
    peers: PEERS,
  })
  onTestFinished(() => mirrorNode.close())
  const send = async (at: LedgerNode, peer: object) => {
    expect((await at.send('POST', '/api/config/peers', peer)).status).toBe(200)
  }
  await send(mirrorNode, { vkey: node.service.log.verifierKey, url: node.url })
  const mirror = mirrorFolder(keeperFolder, serverId)
  await expect.poll(() => existsSync(contentPath(mirror))).toBe(true)
  // From now on, the mirror has no URL from which it could fetch blobs, so the node must push them.
  await mirrorNode.send('DELETE', `/api/config/peers/${serverId}`)
  await send(mirrorNode, { vkey: node.service.log.verifierKey })
  const clock = new HandClock()
  const client = new PeerClient({
    url: mirrorNode.url,
    serverId,
    allowPrivate: true,
    // A node refuses requests signed in the second of its start.
    signer: new NodeSigner(openNodeKey(folder, false), { now: () => systemClock.now() + 1_000 }),
    outbound: systemOutbound,
  })
  const files = await openBlobStore(folder, store, false)
  const blobs = new ChainBlobs(store.attachments, files, 99)
  const sync = new BlobSync(clock)
  const run = () => sync.run(pushingBlobs(client, store, blobs))
  await run()
  lose(mirror)
  clock.time += MINUTE_MS - 1
  await run()
  expect(readIf(contentPath(mirror))).not.toEqual(BYTES)
  clock.time += 1
  await run()
  expect(readIf(contentPath(mirror))).toEqual(BYTES)
})

function readIf(path: string): Buffer | null {
  return existsSync(path) ? readFileSync(path) : null
}

/** Creates a BlobSync whose checks find no missing blob or, with `isMissing`, one blob that cannot be moved. */
function scanning({ tookMs = 0, isMissing = false }) {
  const clock = new HandClock()
  const sync = new BlobSync(clock)
  const startMs = clock.time
  let scans = 0
  const blob = { sha256: SHA256, length: 1, bytes: 0 }
  const absent = async (after: number) => {
    if (after === -1) {
      // Only the scans after the first take `tookMs`.
      if (scans > 0) clock.time += tookMs
      scans += 1
    }
    return { blobs: after === -1 && isMissing ? [blob] : [], upTo: 5, more: false }
  }
  /** Runs the sync at the given time. Returns the number of scans of all entries so far. */
  const scansAt = async (ms: number) => {
    clock.time = startMs + ms
    await sync.run({ absent, move: async () => false })
    return scans
  }
  return { sync, clock, scansAt }
}

it('checks all blobs one minute after the first check, and then every minute', async () => {
  const { scansAt } = scanning({})
  const scans: number[] = []
  for (const ms of [0, 1, MINUTE_MS - 1, MINUTE_MS, 2 * MINUTE_MS - 1, 2 * MINUTE_MS]) {
    scans.push(await scansAt(ms))
  }
  expect(scans).toEqual([1, 1, 1, 2, 2, 3])
})

it('continues a check that failed midway, and does not start it again', async () => {
  const clock = new HandClock()
  const sync = new BlobSync(clock)
  const asked: number[] = []
  let fails = false
  const absent = async (after: number) => {
    asked.push(after)
    if (fails && after === 3) throw new Error('cut')
    return { blobs: [], upTo: after === -1 ? 3 : 5, more: after === -1 }
  }
  const run = () => sync.run({ absent, move: async () => true })
  await run()
  clock.time += MINUTE_MS
  fails = true
  await expect(run()).rejects.toThrow('cut')
  fails = false
  await run()
  clock.time += MINUTE_MS
  await run()
  expect(asked).toEqual([-1, 3, -1, 3, 3, -1, 3])
})

it.each([
  ['5 seconds', 5_000, MINUTE_MS],
  ['a minute', MINUTE_MS, 10 * MINUTE_MS + MINUTE_MS],
  ['a day', 1_440 * MINUTE_MS, (1_440 + 60) * MINUTE_MS],
])(
  'after a check that took %s, pauses for ten times that duration, at most an hour; checks start at least a minute apart',
  async (_, tookMs, nextMs) => {
    const { scansAt } = scanning({ tookMs })
    await scansAt(-MINUTE_MS)
    expect(await scansAt(0)).toBe(2)
    expect([await scansAt(nextMs - 1), await scansAt(nextMs)]).toEqual([2, 3])
  },
)

it('checks missing blobs again after half a second, doubles the delay up to 30 seconds, and checks at once if the clock is set back', async () => {
  const { sync, scansAt } = scanning({ isMissing: true })
  await scansAt(0)
  let dueMs = 0
  for (const [n, delayMs] of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].entries()) {
    dueMs += delayMs
    expect([await scansAt(dueMs - 1), await scansAt(dueMs)]).toEqual([n + 1, n + 2])
  }
  expect(sync.missing).toBe(1)
  // The clock is set back by a day.
  expect(await scansAt(dueMs - 1_440 * MINUTE_MS)).toBe(10)
})

it('opens a blob that two entries name, even if the first of these entries is erased during the call', async () => {
  const { folder, node, store } = await origin()
  const type = { 'content-type': 'a/b' }
  await node.send('PUT', '/api/files/a/attachments/between', Buffer.from('other'), type)
  await node.send('PUT', '/api/files/a/attachments/y', BYTES, type)
  await node.send('DELETE', '/api/files/a/attachments/x')
  store.refresh()
  const rows = new Proxy(store.attachments, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return async (...args: unknown[]) => {
        const result: unknown = await member.apply(target, args)
        await node.service.write.eraseRevisions('files', 'a', null).catch(() => {})
        store.refresh()
        return result
      }
    },
  })
  const files = await openBlobStore(folder, store, false)
  const { blob, attachment } = await new ChainBlobs(rows, files).open(SHA256)
  expect(attachment).toMatchObject({ sha256: SHA256, length: BYTES.length })
  await blob.close()
  await files.close()
})
