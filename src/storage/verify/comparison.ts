import { type Json, parseJson } from '../../base/json.ts'
import {
  type Block,
  type Entry,
  entryOf,
  isErased,
  packPosition,
  positionText,
} from '../../chain/index.ts'
import { type AttachmentEffect, type Effect, effectOf, entryTextOf } from '../effect.ts'
import { StoreError } from '../errors.ts'
import type { PlacedItem, StoredItem, StoreReader } from '../store.ts'
import { AttachmentComparison } from './attachment-comparison.ts'
import { ErasureComparison } from './erasure-comparison.ts'
import { AnswerComparison } from './idempotency-comparison.ts'
import type { PlainBlock } from './plain-block.ts'
import { RowCursor } from './row-cursor.ts'

/** The first difference found; `height` and `index` say where in the chain, when it has a place. */
export interface Finding {
  readonly height: number | null
  readonly index: number | null
  readonly what: string
  /** Set when the store could not be read: whether the chain holds is not known. */
  readonly isUnread?: true
}

type ItemEffect = Exclude<Extract<Effect, { id: string }>, AttachmentEffect>
type DatabaseEffect = Extract<Effect, { kind: 'create_db' | 'delete_db' }>

/** A live database: its creation position, and what the chain gives it. */
interface Counted {
  readonly created: number
  items: number
  /** Rows met with the text of their last change. */
  whole: number
  /** Entries that created, changed or deleted an item. */
  revisions: number
}

/**
 * Compares a chain, entry by entry, with the databases that are there, in constant memory.
 *
 * Nothing is rebuilt: every row says where it was created and where its content was set, so the
 * databases are what the chain makes of them exactly when
 * - every row is met, walking both in the order of creation, at the entry that created it,
 * - no later entry changes or deletes it, but for the one that it says set its content, with the
 *   same text,
 * - there are as many rows as creations less deletions.
 * An invented row fails the first, a stale or changed one the second, a missing one the last.
 * So also with histories: every entry that is not where a row's content was set must be noted as a
 * revision that is no longer current, and there are no more notes than such entries. Rows left of a
 * deleted database are passed over: nobody can read them, they are on their way out.
 */
export class Comparison {
  /** By name. */
  readonly databases = new Map<string, Counted>()
  readonly #store: StoreReader
  readonly #attachments: AttachmentComparison
  readonly #answers: AnswerComparison
  readonly #erasures: ErasureComparison
  /** Creation positions of the databases that the chain deleted. */
  readonly #deleted = new Set<number>()
  /** Creation positions of the databases that the store holds now. */
  #stored: ReadonlySet<number> | null = null
  /** The rows that the chain has not come to. */
  readonly #rows: RowCursor

  constructor(store: StoreReader) {
    this.#store = store
    this.#rows = new RowCursor(store)
    this.#attachments = new AttachmentComparison(store.attachments)
    this.#answers = new AnswerComparison(store)
    this.#erasures = new ErasureComparison(store)
  }

  /** How many items the chain gives all live databases. */
  get items(): number {
    let items = 0
    for (const database of this.databases.values()) items += database.items
    return items
  }

  /** How many of the entries gone through are erased. */
  get erased(): number {
    return this.#erasures.erased
  }

  /** The first entry of the next block that the databases contradict, or null. */
  async block(block: Block): Promise<Finding | null> {
    for (const [index, text] of block.entries.entries()) {
      const found = (what: string): Finding => ({ height: block.height, index, what })
      const entry = parsed(text)
      if (entry === null) return found('it is not an entry')
      if (entry.serverid !== block.serverId) return found('the entry names another server id')
      const effect = canonicalEffect(entry, packPosition(block.height, index), text)
      if (effect === null) return found('it is not in canonical form')
      if (effect.kind === 'erased_attachment' && !isErased(block, index)) {
        return found('it names no attachment')
      }
      // The usual entry has left the next row as it is, which is read already: no promise for it.
      const next = this.#rows.read
      const isNext =
        effect.kind === 'create_item' &&
        next?.created === effect.position &&
        next.revision === effect.position
      const what = isNext ? this.#created(effect, next) : await this.#other(effect)
      if (what !== null) return found(what)
    }
    const what = await this.#answers.block(block)
    if (what !== null) return { height: block.height, index: null, what }
    const erasure = await this.#erasures.block(block)
    return erasure === null ? null : { height: block.height, ...erasure }
  }

  /**
   * The same of a block whose rows were met by whoever found it to be plain; where it does not fit what
   * came before, all of it is compared. Errors: STORE_DAMAGED.
   */
  async plain(plain: PlainBlock): Promise<Finding | null> {
    const { height, creations } = plain
    const isOwn = creations.every(
      ({ db, database }) => this.databases.get(db)?.created === database,
    )
    const end = packPosition(height + 1, 0)
    const isLate = await this.#rows.isBefore(packPosition(height, 0))
    if (!isOwn || isLate || (await this.#answers.isBefore(end))) {
      const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
      if (block?.height === height) return this.block(block)
      throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
    }
    for (const { db, count } of creations) {
      const database = this.databases.get(db)
      if (database === undefined) continue
      database.items += count
      database.revisions += count
      database.whole += count
    }
    this.#rows.skipTo(end)
    return null
  }

  /** After the last block: rows that no entry created, databases, and numbers of items. */
  async end(): Promise<Finding | null> {
    const what =
      (await this.#rowsBefore(Number.POSITIVE_INFINITY)) ??
      (await this.#databasesDiffer()) ??
      (await this.#attachments.end()) ??
      (await this.#answers.end()) ??
      (await this.#erasures.end())
    return what === null ? null : { height: null, index: null, what }
  }

  #database({ kind, db, position }: DatabaseEffect): string | null {
    const database = this.databases.get(db)
    if (kind === 'create_db') {
      if (database !== undefined) return `database ${db} exists already`
      this.databases.set(db, { created: position, items: 0, whole: 0, revisions: 0 })
      return null
    }
    if (database === undefined) return `there is no database ${db} at this height`
    this.databases.delete(db)
    this.#deleted.add(database.created)
    return null
  }

  async #other(effect: Effect): Promise<string | null> {
    if (effect.kind === 'erase_item') return this.#erasures.entry(effect)
    // The row that an entry had is gone with its content: one that is still there is a stray one.
    if (effect.kind === 'erased_attachment') return null
    if (!('id' in effect)) return this.#database(effect)
    if ('attachment' in effect) {
      return this.#attachments.differs(effect, this.databases.get(effect.db)?.created)
    }
    const { kind, db, id, position } = effect
    if (kind === 'create_item') {
      const stray = await this.#rowsBefore(position)
      const row = await this.#rows.peek()
      const what = stray ?? this.#created(effect, row)
      return what ?? (await this.#notNoted(effect, row?.created === position ? row : null))
    }
    const database = this.databases.get(db)
    if (database === undefined) return `there is no database ${db} at this height`
    database.revisions += 1
    if (kind === 'delete_item') database.items -= 1
    // A database that is deleted further on has no rows to compare with.
    if (!(await this.#isStored(database.created))) return null
    const row = await this.#store.item(db, id)
    const what = row === null ? null : contradiction(effect, row, database)
    return what ?? (await this.#notNoted(effect, row))
  }

  /** Says so when the entry is not where `row` was set, and not noted as a former revision either. */
  async #notNoted(
    { db, id, position }: ItemEffect,
    row: StoredItem | null,
  ): Promise<string | null> {
    if (row?.revision === position) return null
    const created = this.databases.get(db)?.created ?? -1
    if (!(await this.#isStored(created))) return null
    if (await this.#store.isSuperseded(created, id, position)) return null
    return `neither item ${id} of ${db} nor its history has this revision`
  }

  /** A creation; `row` is the next one that the chain has not come to. */
  #created(effect: ItemEffect, row: PlacedItem | null): string | null {
    const { db, id, position } = effect
    const database = this.databases.get(db)
    if (database === undefined) return `there is no database ${db} at this height`
    database.items += 1
    database.revisions += 1
    if (row?.created !== position) return null // deleted again further on, or missing
    this.#rows.pass()
    if (row.id !== id || row.database !== database.created) {
      return `what is stored as created here is item ${row.id}, not item ${id} of ${db}`
    }
    return contradiction(effect, row, database)
  }

  /** Passes over the rows created before `position`; says which of them no entry created. */
  async #rowsBefore(position: number): Promise<string | null> {
    for (let row = await this.#rows.peek(); row !== null; row = await this.#rows.peek()) {
      if (row.created >= position) return null
      if (await this.#isStored(row.database)) {
        const at = positionText(row.created)
        return `item ${row.id} is stored as created at ${at}, where the chain creates no such item`
      }
      this.#rows.pass()
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
      return `database ${name} is stored as created at ${positionText(created)}; the chain does not say so`
    }
    for (const [name, { created, items, whole, revisions }] of this.databases) {
      if (!stored.some((database) => database.name === name)) {
        return `database ${name}, created at ${positionText(created)}, is missing`
      }
      const count = await this.#store.countItems(created)
      if (count !== items) return `database ${name} holds ${count} items; the chain gives ${items}`
      if (whole !== items)
        return `database ${name} holds items whose last change is not in the chain`
      if ((await this.#store.countSuperseded(created)) !== revisions - items) {
        return `the histories of database ${name} have revisions that are not in the chain`
      }
    }
    const alive = (await this.#store.droppedDatabases()).find(
      (created) => !this.#deleted.has(created),
    )
    if (alive === undefined) return null
    return `${positionText(alive)} is noted as a deleted database; the chain deletes none there`
  }
}

/** What `row` says of itself that `effect` contradicts, or null; counts rows met with their text. */
function contradiction(effect: ItemEffect, row: StoredItem, database: Counted): string | null {
  const { kind, position, id, db } = effect
  const stored = `item ${id} of ${db} is stored as of ${positionText(row.revision)}`
  // Created later again: the row says nothing about this entry.
  if (row.created > position) return null
  if (kind === 'delete_item') return `${stored}, but is deleted here`
  if (row.revision < position) return `${stored}, but is changed here`
  if (row.revision > position) return null
  if (row.text !== effect.text) return `item ${id} of ${db} is stored with another content`
  database.whole += 1
  return null
}

/** The effect of `entry` at `position`, or null when `text` is not its canonical form. */
function canonicalEffect(entry: Entry, position: number, text: string): Effect | null {
  try {
    const effect = effectOf(entry, position)
    return entryTextOf(effect, entry.serverid) === text ? effect : null
  } catch (error) {
    // A lone surrogate, or a number beyond all: they have no canonical form.
    if (error instanceof RangeError) return null
    throw error
  }
}

function parsed(text: string): Entry | null {
  try {
    const value: Json = parseJson(text)
    return entryOf(value)
  } catch {
    return null
  }
}
