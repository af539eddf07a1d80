// Helpers for tests of stores: entries, and a store that is removed after its test. Not part of the
// program.
import { hash, randomBytes } from 'node:crypto'
import { afterEach } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Json } from '../../base/json.ts'
import {
  type Attachment,
  type Block,
  type Entry,
  HASH_BYTES,
  type Head,
  packPosition,
  sealBlock,
} from '../../chain/index.ts'
import { type Effect, toEffect } from '../port/effect.ts'
import type { NewIdempotencyRecord, Store, StoreReader } from '../port/store.ts'

/** The server id of the node that owns the store. */
export const CONTRACT_SERVER_ID = 4_126

export interface StoreUnderTest {
  /** Opens the store. Each call opens the same store with all appended blocks. */
  open(): Promise<Store>
  /** Opens a reader of the open store. */
  read(): Promise<StoreReader>
  remove(): void | Promise<void>
}

/** Seals `entries` after the head of the store and appends them with their effects. */
export async function appendEntries(
  store: Store,
  entries: readonly Entry[],
  timestamp = 1,
  answers: readonly NewIdempotencyRecord[] = [],
): Promise<Block> {
  const head = await store.head(store.serverId)
  return appendAfter(head, store, entries, timestamp, answers)
}

/** As `appendEntries`, without reading the head. */
export async function appendAfter(
  head: Head | null,
  store: Store,
  entries: readonly Entry[],
  timestamp = 1,
  answers: readonly NewIdempotencyRecord[] = [],
): Promise<Block> {
  const block = sealBlock(head, {
    serverId: store.serverId,
    entries: entries.map((entry) => canonicalJson(entry)),
    timestamps: entries.map(() => Math.max(timestamp, head?.timestamp ?? 0)),
    blinds: randomBytes(entries.length * HASH_BYTES),
  })
  await store.append(block, effectsOf(block.height, entries), answers)
  return block
}

function effectsOf(height: number, entries: readonly Entry[]): Effect[] {
  return entries.map((entry, index) => toEffect(entry, packPosition(height, index)))
}

export function textAttachment(name: string, content: string): Attachment {
  const sha256 = hash('sha256', content, 'hex')
  return { content_type: 'text/plain', length: Buffer.byteLength(content), name, sha256 }
}

const serverid = CONTRACT_SERVER_ID
export const entry = {
  createDb: (db: string): Entry => ({ serverid, method: 'create_db', db }),
  deleteDb: (db: string): Entry => ({ serverid, method: 'delete_db', db }),
  create: (db: string, id: string, n: Json = 0): Entry => ({
    serverid,
    method: 'create_item',
    db,
    item: { id, n },
  }),
  update: (db: string, id: string, n: number | string = 1): Entry => ({
    serverid,
    method: 'update_item',
    db,
    item: { id, n },
  }),
  erase: (db: string, id: string, positions: string[]): Entry => ({
    serverid,
    method: 'erase_item',
    db,
    id,
    positions,
  }),
  remove: (db: string, id: string): Entry => ({ serverid, method: 'delete_item', db, id }),
  attach: (db: string, id: string, name: string, content: string): Entry => ({
    serverid,
    method: 'create_attachment',
    db,
    id,
    attachment: textAttachment(name, content),
  }),
  detach: (db: string, id: string, name: string, content: string): Entry => ({
    serverid,
    method: 'delete_attachment',
    db,
    id,
    attachment: textAttachment(name, content),
  }),
}

/** The store of a test, which is removed after the test. */
export class StoreStage {
  #under: StoreUnderTest | null = null
  #store: Store | null = null
  readonly #make: () => StoreUnderTest

  /** Must be called outside of a test, while tests are collected. */
  constructor(make: () => StoreUnderTest) {
    this.#make = make
    afterEach(async () => {
      await this.store.close()
      await this.#under?.remove()
    })
  }

  get store(): Store {
    return opened(this.#store)
  }

  async open(): Promise<void> {
    this.#under = this.#make()
    this.#store = await this.#under.open()
  }

  async reopen(): Promise<void> {
    await this.store.close()
    this.#store = await opened(this.#under).open()
  }

  /** Opens a reader of the open store; the caller closes it. */
  read(): Promise<StoreReader> {
    return opened(this.#under).read()
  }

  /** Checks the expectations before and after the store is reopened. */
  async expectDurable(expectations: (now: Store) => Promise<void>): Promise<void> {
    await expectations(this.store)
    await this.reopen()
    await expectations(this.store)
  }
}

function opened<Value>(value: Value | null): Value {
  if (value === null) throw new Error('the store was not opened')
  return value
}
