import type { FileHandle } from 'node:fs/promises'
import type { Clock } from '../../base/clock.ts'
import { attachmentText } from '../../chain/index.ts'
import {
  BlobStore,
  openStoreReader,
  type StoredDatabase,
  type StoredItem,
  type StoreReader,
} from '../../storage/index.ts'
import { systemPlatform } from '../platform.ts'
import type { Operation, UnitOfWork } from '../unit-of-work.ts'
import { LedgerWriter } from '../writer/writer.ts'
import { ChainContents } from './chain-contents.ts'
import { PeerError } from './errors.ts'
import type { PullProgress } from './pull.ts'

/** Of one unit of work, and so of one block. */
const OPERATIONS_MAX = 1_024
const UNIT_CHARACTERS = 4 * 1024 * 1024
const ITEMS_PER_PAGE = 256
const ATTACHMENTS_PER_PAGE = 500
const BLOCK_BYTES = 256 * 1024

/** Where the databases are built. */
export interface RebuildPlace {
  /** Of the store: a folder without one. */
  readonly side: string
  /** Of the contents of attachments: the data folder that the store will be in. */
  readonly folder: string
  /** Whose chain it becomes. */
  readonly serverId: number
}

/**
 * Records the databases that the mirror in `from` gives, as they are now, in a new chain: each
 * database with its items in the order of their creation, and what is attached to them. Histories stay
 * in the mirror. An attachment whose bytes are not in the mirror is left out, and counted.
 *
 * The store is not on the disk when it resolves; contents are, and whole ones are not copied again.
 * Errors: StoreError, LedgerError.
 */
export async function rebuildDatabases(
  from: string,
  { side, folder, serverId }: RebuildPlace,
  how: { clock: Clock; difficulty: number; progress: PullProgress },
): Promise<{ absent: number }> {
  const { clock, difficulty, progress } = how
  const store = openStoreReader(from, { frozen: true })
  const writer = await LedgerWriter.start(
    { folder: side, serverId, durable: false, difficulty },
    clock,
    systemPlatform,
  )
  const rows = openStoreReader(side, { frozen: false })
  writer.onCommit = () => rows.refresh()
  const source = new ChainContents(
    store.attachments,
    new BlobStore(from, store.attachments, true),
    0,
  )
  const contents = new BlobStore(folder, rows.attachments, true)
  const rebuild = new Rebuild(store, source, contents)
  let blocks = 0
  let entries = 0
  try {
    await contents.resume()
    for await (const unit of rebuild.units()) {
      await writer.record(unit)
      blocks += 1
      entries += unit.length
      progress({ blocks, ofBlocks: blocks, entries })
    }
    await contents.close()
    return { absent: rebuild.absent }
  } finally {
    await rows.close()
    await store.close()
    await writer.close()
  }
}

class Rebuild {
  /** Attachments that were left out. */
  absent = 0
  readonly #store: StoreReader
  readonly #source: ChainContents
  readonly #contents: BlobStore

  constructor(store: StoreReader, source: ChainContents, contents: BlobStore) {
    this.#store = store
    this.#source = source
    this.#contents = contents
  }

  /** What is to be recorded, in bounded pieces. */
  async *units(): AsyncGenerator<UnitOfWork> {
    let unit: Operation[] = []
    let characters = 0
    for await (const operation of this.#operations()) {
      unit.push(operation)
      characters += 'text' in operation ? operation.text.length : 0
      if (unit.length < OPERATIONS_MAX && characters < UNIT_CHARACTERS) continue
      yield unit
      unit = []
      characters = 0
    }
    if (unit.length > 0) yield unit
  }

  async *#operations(): AsyncGenerator<Operation> {
    // Most chains have none, and then nobody needs to look at each item.
    const attached = (await this.#store.attachments.countBlobs()).blobs > 0
    for (const database of await this.#store.databases()) {
      const { name: db } = database
      yield { kind: 'create_db', db }
      for await (const { id, text } of this.#items(database)) {
        yield { kind: 'create_item', db, id, text, assigned: false }
        if (attached) yield* this.#attachments(db, id)
      }
    }
  }

  async *#items({ created }: StoredDatabase): AsyncGenerator<StoredItem> {
    for (let after = -1; ; ) {
      const page = await this.#store.listItems(created, { after, limit: ITEMS_PER_PAGE })
      const last = page.at(-1)
      if (last === undefined) return
      yield* page
      after = last.created
    }
  }

  async *#attachments(db: string, id: string): AsyncGenerator<Operation> {
    for (let after = ''; ; ) {
      const page = await this.#store.attachments.list(db, id, {
        after,
        limit: ATTACHMENTS_PER_PAGE,
      })
      const last = page.at(-1)
      if (last === undefined) return
      for (const { content_type, length, name, sha256 } of page) {
        if (await this.#bring(sha256, length)) {
          const text = attachmentText({ content_type, length, name, sha256 })
          yield { kind: 'create_attachment', db, id, text }
        } else this.absent += 1
      }
      after = last.name
    }
  }

  /** Whether the content is in the data folder now, whole and on the disk. */
  async #bring(sha256: string, length: number): Promise<boolean> {
    if ((await this.#contents.arrived({ sha256, length })).isWhole) return true
    const opened = await this.#source.open(sha256).catch((error: unknown) => {
      if (error instanceof PeerError) return null
      throw error
    })
    if (opened === null) return false
    const { file } = opened
    try {
      await this.#contents.take(
        blocksOf(file),
        async (content) => {
          if (content.sha256 !== sha256) throw new PeerError('CONTENT_ABSENT', 'it was changed')
        },
        { isRecorded: () => true, mayBeRecorded: () => false },
      )
      return true
    } catch (error) {
      if (error instanceof PeerError) return false
      throw error
    } finally {
      await file.close()
    }
  }
}

async function* blocksOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  for (;;) {
    const { bytesRead } = await file.read(block, 0, block.length, null)
    if (bytesRead === 0) return
    yield block.subarray(0, bytesRead)
  }
}
