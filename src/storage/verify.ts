import { canonicalJson } from '../base/canonical-json.ts'
import type { Json } from '../base/json.ts'
import {
  type Block,
  type Entry,
  entryOf,
  type Head,
  headOf,
  packPosition,
  positionText,
  verifyBlock,
} from '../chain/index.ts'
import { type Effect, effectOf } from './effect.ts'
import { StoreError } from './errors.ts'
import type { StoreReader } from './store.ts'

/** The first difference found; `height` and `index` say where in the chain, when it has a place. */
export interface Finding {
  readonly height: number | null
  readonly index: number | null
  readonly what: string
}

/** What a verification looked at, and what it found. */
export interface Verification {
  readonly serverId: number
  readonly blocks: number
  readonly entries: number
  readonly databases: number
  readonly items: number
  /** The id of the last block, or null while the chain is empty. */
  readonly headId: string | null
  /** The first difference, or null when everything holds. */
  readonly finding: Finding | null
}

/** Called now and then while a verification runs; `ofBlocks` is the size of the chain. */
export type Progress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

const BLOCKS_PER_PAGE = 64

/**
 * Recomputes the whole chain of the store's node (every commitment, root, id and link) and compares
 * the databases with what the chain makes of them. Stops at the first difference.
 *
 * Errors: none for damage, which is a finding; errors of the engine other than STORE_DAMAGED rise.
 */
export async function verifyStore(store: StoreReader, progress?: Progress): Promise<Verification> {
  const replay = new Replay(store)
  let head: Head | null = null
  let entries = 0
  const result = (finding: Finding | null) => ({
    serverId: store.serverId,
    blocks: head === null ? 0 : head.height + 1,
    entries,
    databases: replay.databases.size,
    items: replay.items,
    headId: head?.id ?? null,
    finding,
  })
  try {
    const last = await store.head(store.serverId)
    const ofBlocks = last === null ? 0 : last.height + 1
    for (;;) {
      const page = await store.blocks(
        store.serverId,
        head === null ? 0 : head.height + 1,
        BLOCKS_PER_PAGE,
      )
      for (const block of page) {
        const finding =
          foreign(block, store) ?? verifyBlock(block, head) ?? (await replay.block(block))
        if (finding !== null) return result(finding)
        head = headOf(block)
        entries += block.entries.length
      }
      if (page.length === 0) break
      progress?.({ blocks: head === null ? 0 : head.height + 1, ofBlocks, entries })
    }
    return result(await replay.end())
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'STORE_DAMAGED') throw error
    return result({ height: head === null ? 0 : head.height + 1, index: null, what: error.message })
  }
}

function foreign(block: Block, store: StoreReader): Finding | null {
  if (block.serverId === store.serverId) return null
  return { height: block.height, index: null, what: `it belongs to server id ${block.serverId}` }
}

/**
 * Compares a chain, entry by entry, with the databases that are there, in constant memory.
 *
 * Nothing is rebuilt: every row says where it was created and where its content was set. So the
 * databases are what the chain makes of them exactly when
 * - no row contradicts an entry that comes after what the row says of itself,
 * - every row is met at the entry that created it and, with equal text, at the one that set it,
 * - there are as many rows as creations less deletions.
 * A missing row fails the last; an invented, stale or changed one fails the others. Rows left of a
 * deleted database are not looked at: nobody can read them, and they are on their way out.
 */
class Replay {
  /** Live databases by name: creation position, and how many items the chain gives each. */
  readonly databases = new Map<string, { created: number; items: number; met: number }>()
  readonly #store: StoreReader
  /** Creation positions of the databases that the chain deleted. */
  readonly #deleted = new Set<number>()
  /** Creation positions of the databases that the store holds now. */
  #stored: ReadonlySet<number> | null = null

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** How many items the chain gives all live databases. */
  get items(): number {
    let items = 0
    for (const database of this.databases.values()) items += database.items
    return items
  }

  async block(block: Block): Promise<Finding | null> {
    for (const [index, text] of block.entries.entries()) {
      const found = (what: string): Finding => ({ height: block.height, index, what })
      const entry = parsed(text)
      if (entry === null) return found('it is not an entry in canonical form')
      if (entry.serverid !== block.serverId) return found('the entry names another server id')
      const what = await this.#effect(effectOf(entry, packPosition(block.height, index)))
      if (what !== null) return found(what)
    }
    return null
  }

  #databaseEffect({ kind, db, position }: Effect): string | null {
    const database = this.databases.get(db)
    if (kind === 'create_db') {
      if (database !== undefined) return `database ${db} exists already`
      this.databases.set(db, { created: position, items: 0, met: 0 })
      return null
    }
    if (database === undefined) return `there is no database ${db} at this height`
    this.databases.delete(db)
    this.#deleted.add(database.created)
    return null
  }

  async #effect(effect: Effect): Promise<string | null> {
    if (!('id' in effect)) return this.#databaseEffect(effect)
    const { db } = effect
    const database = this.databases.get(db)
    if (database === undefined) return `there is no database ${db} at this height`
    if (effect.kind === 'create_item') database.items += 1
    if (effect.kind === 'delete_item') database.items -= 1
    this.#stored ??= new Set((await this.#store.databases()).map(({ created }) => created))
    // A database that is deleted further on has no rows to compare with.
    if (!this.#stored.has(database.created)) return null
    const row = await this.#store.item(db, effect.id)
    return row === null ? null : compare(effect, row, database)
  }

  /** After the last block: the databases and their numbers of items. */
  async end(): Promise<Finding | null> {
    const found = (what: string): Finding => ({ height: null, index: null, what })
    const stored = await this.#store.databases()
    for (const { name, created } of stored) {
      if (this.databases.get(name)?.created !== created) {
        return found(
          `database ${name} is stored as created at ${positionText(created)}; the chain does not say so`,
        )
      }
    }
    for (const [name, { created, items, met }] of this.databases) {
      if (!stored.some((database) => database.name === name)) {
        return found(`database ${name}, created at ${positionText(created)}, is missing`)
      }
      const count = await this.#store.countItems(created)
      if (count !== items)
        return found(`database ${name} holds ${count} items; the chain gives ${items}`)
      if (met !== 2 * items)
        return found(`database ${name} holds items that the chain does not give`)
      const listed = await this.#countListed(created)
      if (listed !== items) return found(`database ${name} lists ${listed} items of ${items}`)
    }
    const dropped = await this.#store.droppedDatabases()
    const alive = dropped.find((created) => !this.#deleted.has(created))
    if (alive === undefined) return null
    return found(
      `${positionText(alive)} is noted as a deleted database; the chain deletes none there`,
    )
  }

  /** Walks the order of creation, which an engine may keep apart from the items themselves. */
  async #countListed(database: number): Promise<number> {
    let listed = 0
    let after = -1
    for (;;) {
      const page = await this.#store.listIds(database, { after, limit: 1_000 })
      for (const { created } of page) {
        if (created <= after) return -1
        after = created
      }
      listed += page.length
      if (page.length === 0) return listed
    }
  }
}

function compare(
  effect: Extract<Effect, { id: string }>,
  row: { created: number; revision: number; text: string },
  database: { met: number },
): string | null {
  const { kind, position, id, db } = effect
  const stored = `item ${id} of ${db} is stored as of ${positionText(row.revision)}`
  // Created later again: the row says nothing about this entry.
  if (row.created > position) return null
  if (kind === 'delete_item') return `${stored}, but is deleted here`
  if (kind === 'create_item' && row.created !== position) {
    return `${stored}, created at ${positionText(row.created)}, but is created here`
  }
  if (kind === 'create_item') database.met += 1
  if (row.revision < position) return `${stored}, but is changed here`
  if (row.revision > position) return null
  if (row.text !== effect.text) return `item ${id} of ${db} is stored with another content`
  database.met += 1
  return null
}

function parsed(text: string): Entry | null {
  try {
    const value: Json = JSON.parse(text)
    return canonicalJson(value) === text ? entryOf(value) : null
  } catch {
    return null
  }
}
