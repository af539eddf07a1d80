// Helpers for tests of blobs: a store with its blobs. Not part of the program.
import { hash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, vi } from 'vitest'
import type { BlobStore } from '../blobs/blob-store.ts'
import { FileBlobStore } from '../blobs/file-blob-store.ts'
import { openStore, openStoreReader } from '../open.ts'
import type { Store, StoredBlob, StoreReader } from '../port/store.ts'
import { verifyBlobs } from '../verify/verify-blobs.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from './test-store.ts'

/** The outcome of `record` in `add`: if it resolves, the blob is recorded; if it rejects, the blob is not recorded. */
export const RECORDED = { isRecorded: () => true, mayBeRecorded: () => false }

/** Returns the name of the blob with this text. */
export const sha256OfText = (text: string): string => hash('sha256', text, 'hex')

/** Yields each text as one chunk of bytes. */
export async function* chunksOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text)
}

/** Returns the bytes of a blob, or null if it cannot be read. */
export async function bytesOf(blobs: BlobStore, blob: StoredBlob): Promise<Buffer | null> {
  const opened = await blobs.read(blob)
  if (opened === null) return null
  const bytes = Buffer.alloc(opened.length)
  expect(await opened.read(bytes, 0)).toBe(opened.length)
  await opened.close()
  return bytes
}

/** A store with the item `a` of `fruit`, and its blobs. */
export class BlobStage {
  readonly folder: string
  readonly store: Store
  readonly reader: StoreReader
  blobs: BlobStore

  private constructor(folder: string, store: Store, reader: StoreReader) {
    this.folder = folder
    this.store = store
    this.reader = reader
    this.blobs = this.again()
  }

  /** Opens a store with its blobs, and removes it after the test. */
  static async open(): Promise<BlobStage> {
    const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
    const store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: true })
    await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
    const stage = new BlobStage(folder, store, await openStoreReader(folder, { frozen: false }))
    onTestFinished(async () => {
      await stage.blobs.close()
      await stage.reader.close()
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    })
    return stage
  }

  /** Opens the blobs again, like the next process. */
  again(): BlobStore {
    return new FileBlobStore(this.folder, this.reader.attachments, true)
  }

  pathOf(text: string): string {
    return join(
      this.folder,
      'attachments',
      sha256OfText(text).slice(0, 2),
      sha256OfText(text).slice(2),
    )
  }

  /** Returns the sync operations of `work`, in order, and whether the blob `text` had its final name at each. */
  async recordSyncs(text: string, work: () => Promise<unknown>): Promise<string[]> {
    const probe = await open(this.folder)
    const kind: FileHandle = Object.getPrototypeOf(probe)
    await probe.close()
    const { sync } = kind
    const syncs: string[] = []
    const spy = vi.spyOn(kind, 'sync').mockImplementation(async function (this: FileHandle) {
      const stat = await this.stat()
      const target = stat.isDirectory() ? 'a folder' : `${stat.size} bytes`
      syncs.push(`${target}, ${existsSync(path) ? 'named' : 'not named'}`)
      await sync.call(this)
    })
    const path = this.pathOf(text)
    await work()
    spy.mockRestore()
    return syncs
  }

  incoming(): string[] {
    return readdirSync(join(this.folder, 'attachments', 'incoming'))
  }

  async recordAttachment(name: string, text: string): Promise<void> {
    await appendEntries(this.store, [entry.attach('fruit', 'a', name, text)])
    this.reader.refresh()
  }

  /** Stores `text` as a blob and records it as an attachment. */
  put(name: string, text: string): Promise<void> {
    return this.blobs.add(
      chunksOf(text.slice(0, 3), text.slice(3)),
      async ({ sha256, length }) => {
        expect([sha256, length]).toEqual([sha256OfText(text), Buffer.byteLength(text)])
        expect(readFileSync(this.pathOf(text), 'utf8')).toBe(text)
        await this.recordAttachment(name, text)
      },
      RECORDED,
    )
  }

  async finding(): Promise<string | null> {
    const frozen = await openStoreReader(this.folder, { frozen: true })
    try {
      return (await verifyBlobs(frozen, this.folder)).finding?.what ?? null
    } finally {
      await frozen.close()
    }
  }
}

/** Removes rows of attachments, as an erasure does. */
export function attachmentEraser(database: DatabaseSync): (position: number) => void {
  const erase = database.prepare('DELETE FROM attachments WHERE position = ?')
  return (position) => void erase.run(position)
}
