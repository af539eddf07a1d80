import { describe, expect, it, onTestFinished } from 'vitest'
import { PostgresProxy, type Verdict } from '../../../test/postgres/proxy.ts'
import { queryOnce } from '../../../test/postgres/server.ts'
import { sharedPostgres } from '../../../test/postgres/shared.ts'
import type { BlobStore } from '../blobs/blob-store.ts'
import { bytesOf, chunksOf, RECORDED, sha256OfText } from '../contract/test-blobs.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openBlobStore, openStore } from '../open.ts'
import type { Store } from '../port/store.ts'

/** Number of stores whose connections are cut in parallel. Each store has its own database and mostly waits. */
const LANES = 6

const postgres = await sharedPostgres()

interface Lane {
  readonly url: string
  readonly proxy: PostgresProxy
  /** Store that bypasses the proxy. */
  readonly store: Store
  readonly blobs: BlobStore
}

async function openLane(): Promise<Lane> {
  const database = await postgres.newDatabase()
  const proxy = await PostgresProxy.start(database.url)
  const { url } = database
  const store = await openStore({ location: url, serverId: CONTRACT_SERVER_ID, durable: true })
  await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
  const blobs = await openBlobStore(proxy.url, store, true)
  onTestFinished(async () => {
    await blobs.close()
    await store.close()
    await proxy[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })
  return { url, proxy, store, blobs }
}

async function add({ blobs, store }: Lane, text: string): Promise<boolean> {
  const record = () => appendEntries(store, [entry.attach('fruit', 'a', text, text)])
  const adding = blobs.add(chunksOf(text.slice(0, 2), text.slice(2)), record, RECORDED)
  return adding.then(
    () => true,
    () => false,
  )
}

describe.skipIf(postgres.missing !== null)(`blobs whose connection fails${postgres.note}`, () => {
  it('blobs whose connection fails are stored if they were acknowledged, and removed unless an entry refers to them, whichever message is lost', async () => {
    const lanes = await Promise.all(Array.from({ length: LANES }, openLane))
    for (const lane of lanes) for (const text of ['warm', 'warmer']) await add(lane, text)
    let messages = 0
    for (const lane of lanes.slice(0, 1)) {
      lane.proxy.verdict = () => {
        messages += 1
        return 'pass'
      }
      expect(await add(lane, 'traced')).toBe(true)
    }
    const kinds: readonly Verdict[] = ['cut before', 'cut after']
    const cuts = Array.from({ length: messages }, (_, at) => kinds.map((kind) => ({ at, kind })))
    const queue = cuts.flat()
    const acknowledged = new Map<string, Lane>()
    const runLane = async (lane: Lane) => {
      for (let cut = queue.pop(); cut !== undefined; cut = queue.pop()) {
        const { at, kind } = cut
        const text = `blob ${at} ${kind}`
        let passed = 0
        lane.proxy.verdict = () => {
          passed += 1
          return passed === at + 1 ? kind : 'pass'
        }
        if (await add(lane, text)) acknowledged.set(text, lane)
        lane.proxy.verdict = () => 'pass'
      }
    }
    await Promise.all(lanes.map(runLane))
    for (const [text, { blobs }] of acknowledged) {
      const blob = { sha256: sha256OfText(text), length: text.length }
      expect((await bytesOf(blobs, blob))?.toString()).toBe(text)
    }
    for (const { url, blobs } of lanes) {
      await queryOnce(url, "UPDATE blob_uploads SET expires = now() - interval '1 second'")
      await blobs.recover()
      const named = await queryOnce(url, 'SELECT DISTINCT sha256 FROM attachments ORDER BY sha256')
      expect(await queryOnce(url, 'SELECT sha256 FROM blobs ORDER BY sha256')).toEqual(named)
      const chunks = await queryOnce(url, 'SELECT DISTINCT upload FROM blob_chunks ORDER BY upload')
      expect(chunks).toEqual(await queryOnce(url, 'SELECT upload FROM blobs ORDER BY upload'))
      expect(await queryOnce(url, 'SELECT * FROM blob_uploads')).toEqual([])
    }
    expect(messages).toBeGreaterThan(20)
    // Each statement and transaction is retried, so the caller notices no cut.
    expect(acknowledged.size).toBe(2 * messages)
  })
})
