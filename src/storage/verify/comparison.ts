import { type Block, type Entry, isErased, packPosition, positionText } from '../../chain/index.ts'
import { type AttachmentEffect, type Effect, toEffect, toEntryText } from '../port/effect.ts'
import { parseEntry } from '../port/erasure.ts'
import { StoreError } from '../port/errors.ts'
import type { DeletedDatabase, ItemRow, StoredItem, StoreReader } from '../port/store.ts'
import type { Finding, PlainBlock } from './chain-walk.ts'
import {
  AttachmentComparison,
  ErasureComparison,
  IdempotencyComparison,
  RowCursor,
} from './record-comparisons.ts'

type ItemEffect = Exclude<Extract<Effect, { id: string }>, AttachmentEffect>
type DatabaseEffect = Extract<Effect, { kind: 'create_db' | 'delete_db' }>

/** An existing database, with the counts of its entries read so far. */
interface DatabaseState {
  readonly created: number
  items: number
  /** Number of rows whose text equals the text of their last change. */
  confirmed: number
  /** Number of entries that created, changed or deleted an item. */
  revisions: number
  /** Number of entries that deleted an item. */
  deletions: number
}

/**
 * Compares a chain, entry by entry, with the stored databases, in constant memory.
 *
 * Nothing is rebuilt. Every row has the positions of its creation and of its last change, so the databases are the
 * result of the chain exactly if
 * - in creation order, every row is found at the entry that created it (finds invented rows),
 * - no later entry changes or deletes a row, except the entry that the row records as its last change, with the same
 *   text (finds stale and modified rows),
 * - there are as many rows as creations minus deletions (finds missing rows).
 *
 * Histories are compared in the same way: every entry that is not the last change of a row must be recorded as a former
 * revision, and there must be no other records. Every deletion must be recorded with an earlier creation of its item,
 * every creation of an item that does not exist any more with a deletion, and there must be no other deletions. So each
 * creation has its own deletion, because the lives of one item do not overlap. Items of deleted databases are skipped, because maintenance moves them to
 * the histories. These histories are compared, because an erasure needs them.
 */
export class Comparison {
  readonly databases = new Map<string, DatabaseState>()
  readonly #store: StoreReader
  readonly #attachments: AttachmentComparison
  readonly #idempotency: IdempotencyComparison
  readonly #erasures: ErasureComparison
  /** The databases that the chain deleted, by creation position. */
  readonly #deleted = new Map<number, DatabaseState & Omit<DeletedDatabase, 'created'>>()
  /** Creation positions of the stored databases; null until they are read. */
  #stored: ReadonlySet<number> | null = null
  /** Rows after the last compared entry. */
  readonly #rows: RowCursor<ItemRow>

  constructor(store: StoreReader) {
    this.#store = store
    this.#rows = new RowCursor(
      (after, limit) => store.itemsByCreation(after, limit),
      ({ created }) => created,
    )
    this.#attachments = new AttachmentComparison(store.attachments)
    this.#idempotency = new IdempotencyComparison(store)
    this.#erasures = new ErasureComparison(store)
  }

  /** Number of items in all existing databases, according to the chain. */
  get items(): number {
    let items = 0
    for (const database of this.databases.values()) items += database.items
    return items
  }

  /** Number of erased entries so far. */
  get erased(): number {
    return this.#erasures.erased
  }

  /** Compares the next block; returns the first difference, or null. */
  async block(block: Block): Promise<Finding | null> {
    for (const [index, text] of block.entries.entries()) {
      const found = (what: string): Finding => ({ height: block.height, index, what })
      const entry = parseEntry(text)
      if (entry === null) return found('it is not an entry')
      if (entry.serverid !== block.serverId) return found('the entry has another server id')
      const effect = canonicalEffect(entry, packPosition(block.height, index), text)
      if (effect === null) return found('it is not in canonical form')
      if (effect.kind === 'erased_attachment' && !isErased(block, index)) {
        return found('it has no attachment metadata')
      }
      // The entry usually created the next row. That row is in memory, so no promise is needed.
      const next = this.#rows.buffered
      const isNext =
        effect.kind === 'create_item' &&
        next?.created === effect.position &&
        next.revision === effect.position
      const what = isNext ? this.#created(effect, next) : await this.#effect(effect)
      if (what !== null) return found(what)
    }
    const what = await this.#idempotency.block(block)
    if (what !== null) return { height: block.height, index: null, what }
    const erasure = await this.#erasures.block(block)
    return erasure === null ? null : { height: block.height, ...erasure }
  }

  /**
   * Counts the next block, which is plain, so its rows were compared before. Compares the block like any other block if
   * there is a stray row, an unexpected database or an idempotency record. Errors: STORE_DAMAGED.
   */
  async plainBlock({ height, creations }: PlainBlock): Promise<Finding | null> {
    const isExpected = creations.every(
      ({ db, database }) => this.databases.get(db)?.created === database,
    )
    const end = packPosition(height + 1, 0)
    const hasStray = await this.#rows.isBefore(packPosition(height, 0))
    if (!isExpected || hasStray || (await this.#idempotency.isBefore(end))) {
      const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
      if (block?.height === height) return this.block(block)
      throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
    }
    for (const { db, count } of creations) {
      const database = this.databases.get(db)
      if (database === undefined) continue
      database.items += count
      database.revisions += count
      database.confirmed += count
    }
    this.#rows.skipTo(end)
    return null
  }

  /** Call after the last block. Finds rows without an entry, and wrong databases and numbers. */
  async end(): Promise<Finding | null> {
    const what =
      (await this.#strayBefore(Number.POSITIVE_INFINITY)) ??
      (await this.#databasesDiffer()) ??
      (await this.#attachments.end()) ??
      (await this.#idempotency.end()) ??
      (await this.#erasures.end())
    return what === null ? null : { height: null, index: null, what }
  }

  #database({ kind, db, position }: DatabaseEffect): string | null {
    const database = this.databases.get(db)
    if (kind === 'create_db') {
      if (database !== undefined) return `database ${db} exists already`
      this.databases.set(db, {
        created: position,
        ...{ items: 0, confirmed: 0, revisions: 0, deletions: 0 },
      })
      return null
    }
    if (database === undefined) return noDatabase(db)
    this.databases.delete(db)
    this.#deleted.set(database.created, { ...database, name: db, deleted: position })
    return null
  }

  async #effect(effect: Effect): Promise<string | null> {
    if (effect.kind === 'erase_item') return this.#erasures.entry(effect)
    // The erasure removed the row. If the row is still there, it is reported as a stray row.
    if (effect.kind === 'erased_attachment') return null
    if (!('id' in effect)) return this.#database(effect)
    if ('attachment' in effect) {
      return this.#attachments.entry(effect, this.databases.get(effect.db)?.created)
    }
    const { kind, db, id, position } = effect
    if (kind === 'create_item') {
      const stray = await this.#strayBefore(position)
      const row = await this.#rows.peek()
      const what = stray ?? this.#created(effect, row)
      const own = row?.created === position ? row : null
      const unrecorded = what ?? (await this.#unrecorded(effect, own))
      return unrecorded !== null || own !== null ? unrecorded : this.#undeleted(effect)
    }
    const database = this.databases.get(db)
    if (database === undefined) return noDatabase(db)
    database.revisions += 1
    if (kind === 'delete_item') {
      database.items -= 1
      database.deletions += 1
      const deleted = await this.#store.itemDeletedBy(database.created, id, position)
      if (deleted === null || deleted.created >= position) {
        return `the deletion of item ${id} of ${db} is not recorded`
      }
    }
    // A database that is deleted later has only histories to compare with.
    const row = (await this.#isStored(database.created)) ? await this.#store.item(db, id) : null
    const what = row === null ? null : contradiction(effect, row, database)
    return what ?? (await this.#unrecorded(effect, row))
  }

  /** Finds an entry that is neither the last change of `row` nor recorded as a former revision. */
  async #unrecorded(
    { db, id, position }: ItemEffect,
    row: StoredItem | null,
  ): Promise<string | null> {
    if (row?.revision === position) return null
    const created = this.databases.get(db)?.created ?? -1
    if (await this.#store.hasRevision(created, id, position)) return null
    return `neither item ${id} of ${db} nor its history has this revision`
  }

  /** Finds a creation whose item does not exist, but is not recorded as deleted. */
  async #undeleted({ db, id, position }: ItemEffect): Promise<string | null> {
    const created = this.databases.get(db)?.created ?? -1
    const deleted = await this.#store.deletedItem(created, position)
    if (deleted?.id === id && deleted.deleted > position) return null
    return `item ${id} of ${db} is neither stored nor recorded as deleted`
  }

  /** Compares a creation with the next row. Returns the difference, or null. */
  #created(effect: ItemEffect, row: ItemRow | null): string | null {
    const { db, id, position } = effect
    const database = this.databases.get(db)
    if (database === undefined) return noDatabase(db)
    database.items += 1
    database.revisions += 1
    if (row?.created !== position) return null // deleted later, or missing
    this.#rows.advance()
    if (row.id !== id || row.database !== database.created) {
      return `item ${row.id} is stored as created here instead of item ${id} of ${db}`
    }
    return contradiction(effect, row, database)
  }

  /** Moves past the rows created before `position`; returns an error if no entry created one of them. */
  async #strayBefore(position: number): Promise<string | null> {
    for (let row = await this.#rows.peek(); row !== null; row = await this.#rows.peek()) {
      if (row.created >= position) return null
      if (await this.#isStored(row.database)) {
        const at = positionText(row.created)
        return `item ${row.id} is stored as created at ${at}, but the chain does not create it there`
      }
      this.#rows.advance()
    }
    return null
  }

  async #isStored(database: number): Promise<boolean> {
    this.#stored ??= new Set((await this.#store.databases()).map(({ created }) => created))
    return this.#stored.has(database)
  }

  async #databasesDiffer(): Promise<string | null> {
    const stored = await this.#store.databases()
    for (const { name, created } of stored) {
      if (this.databases.get(name)?.created === created) continue
      return `database ${name} is stored as created at ${positionText(created)}, but the chain does not create it there`
    }
    const names = new Set(stored.map(({ name }) => name))
    for (const [name, { created, items, confirmed, revisions, deletions }] of this.databases) {
      if (!names.has(name)) {
        return `database ${name}, created at ${positionText(created)}, is missing`
      }
      const count = await this.#store.countItems(created)
      if (count !== items)
        return `database ${name} holds ${count} items, but the chain gives ${items}`
      if (confirmed !== items)
        return `database ${name} holds items whose last change is not in the chain`
      if ((await this.#store.countSuperseded(created)) !== revisions - items) {
        return `the histories of database ${name} have revisions that are not in the chain`
      }
      if ((await this.#store.countDeleted(created, -1)).all !== deletions) {
        return `items are recorded as deleted from database ${name}, but the chain does not delete them`
      }
    }
    return this.#deletedDiffer()
  }

  async #deletedDiffer(): Promise<string | null> {
    const existing = (await this.#store.droppedDatabases()).find((at) => !this.#deleted.has(at))
    if (existing !== undefined) {
      return `${positionText(existing)} is listed as a deleted database, but the chain does not delete it`
    }
    const listed = await this.#store.deletedDatabases()
    for (const { name, created, deleted } of listed) {
      const known = this.#deleted.get(created)
      if (known?.name === name && known.deleted === deleted) continue
      return `database ${name}, created at ${positionText(created)}, is listed as deleted at ${positionText(deleted)}, but the chain does not delete it there`
    }
    const positions = new Set(listed.map(({ created }) => created))
    for (const [created, { name, revisions, items, deletions, deleted }] of this.#deleted) {
      const label = `database ${name}, created at ${positionText(created)} and deleted later`
      if (!positions.has(created)) return `${label}, is not listed as deleted`
      const left = await this.#store.countItems(created)
      const count = (await this.#store.countSuperseded(created)) + left
      if (count !== revisions) return `${label}, has revisions that are not in the chain`
      const { all, by } = await this.#store.countDeleted(created, deleted)
      if (all !== items + deletions - left || by !== items - left) {
        return `${label}, has deleted items that are not in the chain`
      }
    }
    return null
  }
}

function noDatabase(db: string): string {
  return `there is no database ${db} at this height`
}

/**
 * Returns the contradiction between `row` and `effect`, or null. Counts the row as confirmed if the texts are equal.
 */
function contradiction(
  effect: ItemEffect,
  row: StoredItem,
  database: DatabaseState,
): string | null {
  const { kind, position, id, db } = effect
  const stored = `item ${id} of ${db} is stored as of ${positionText(row.revision)}`
  // The item was recreated later, so the row does not depend on this entry.
  if (row.created > position) return null
  if (kind === 'delete_item') return `${stored}, but is deleted here`
  if (row.revision < position) return `${stored}, but is changed here`
  if (row.revision > position) return null
  if (row.text !== effect.text) return `item ${id} of ${db} is stored with another content`
  database.confirmed += 1
  return null
}

/** Returns the effect of an entry, or null if `text` is not its canonical form. */
function canonicalEffect(entry: Entry, position: number, text: string): Effect | null {
  try {
    const effect = toEffect(entry, position)
    return toEntryText(effect, entry) === text ? effect : null
  } catch (error) {
    // A lone surrogate or an out-of-range number has no canonical form.
    if (error instanceof RangeError) return null
    throw error
  }
}
