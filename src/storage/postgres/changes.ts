import type { AttachmentEffect, Effect } from '../port/effect.ts'
import { inapplicable } from '../port/errors.ts'
import type { DeletedDatabase } from '../port/store.ts'
import { type Index, type IndexEntry, indexEntries } from '../sql/indexes.ts'
import { integer, type Row, text } from '../sql/rows.ts'
import type { Parameter, Queries, Statement } from './connection.ts'
import { addEntries, removeEntries } from './indexes.ts'

// A block's effects become a few statements. `Changes` applies the effects to the rows in memory, and then writes the
// differences with one statement per table and kind of change.

/** Effects that change rows of items, attachments or databases. */
export type RowEffect = Exclude<Effect, { kind: 'erase_item' } | { kind: 'erased_attachment' }>

/** The state of an item while a block is applied. `text` is null until an effect changes the item. */
interface ItemState {
  readonly created: number
  readonly revision: number
  readonly text: string | null
}

interface ItemChange {
  readonly database: number
  readonly id: string
  readonly stored: ItemState | null
  now: ItemState | null
}

interface AttachmentChange {
  readonly database: number
  readonly id: string
  readonly name: string
  /** Position of the row that has not ended, or null. */
  open: number | null
}

const SQL = {
  databases: 'SELECT name, created FROM databases WHERE name = ANY($1::text[])',
  items: `SELECT i.db, i.id, i.created, i.revision FROM unnest($1::int8[], $2::text[]) AS k (db, id)
    JOIN items AS i ON i.db = k.db AND i.id = k.id`,
  attachments: `SELECT a.db, a.id, a.name, a.position
    FROM unnest($1::int8[], $2::text[], $3::text[]) AS k (db, id, name)
    JOIN attachments AS a ON a.db = k.db AND a.id = k.id AND a.name = k.name
      AND a.ended IS NULL`,
  addDatabases: `INSERT INTO databases (created, name)
    SELECT * FROM unnest($1::int8[], $2::text[])`,
  removeDatabases: 'DELETE FROM databases WHERE created = ANY($1::int8[])',
  addDropped: `WITH added AS (INSERT INTO deleted_databases (created, name, deleted)
      SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[]) RETURNING created)
    INSERT INTO dropped (db) SELECT created FROM added`,
  // The items are sent as the lines of one text, because canonical texts contain no line feed, and one text is cheaper
  // to send than an array.
  addItems: `INSERT INTO items (created, db, id, revision, item)
    SELECT * FROM unnest($1::int8[], $2::int8[], $3::text[], $4::int8[], string_to_array($5, E'\\n'))`,
  updateItems: `UPDATE items AS i SET revision = u.revision, item = u.item
    FROM unnest($1::int8[], $2::int8[], string_to_array($3, E'\\n')) AS u (created, revision, item)
    WHERE i.created = u.created`,
  removeItems: 'DELETE FROM items WHERE created = ANY($1::int8[])',
  addSuperseded: `INSERT INTO superseded (db, id, position)
    SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[])`,
  addDeleted: `INSERT INTO deleted_items (db, id, deleted, created)
    SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[], $4::int8[])`,
  endAttachments: `UPDATE attachments AS a SET ended = u.ended
    FROM unnest($1::int8[], $2::int8[]) AS u (position, ended)
    WHERE a.position = u.position`,
  addAttachments: `INSERT INTO attachments (position, db, id, name, content_type, length, sha256, ended)
    SELECT * FROM unnest($1::int8[], $2::int8[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::text[],
      $8::int8[])`,
} as const

/** Rows before the effects, as far as they have been read. */
export interface Known {
  /** Creation positions by name; null for a name without a database. */
  readonly databases: ReadonlyMap<string, number | null>
  /** Items that were read in the same transaction, by `itemKey`. */
  readonly items: ReadonlyMap<string, Omit<ItemState, 'text'> | null>
  readonly indexes: readonly Index[]
}

export function itemKey(database: number, id: string): string {
  return `${database} ${id}`
}

/** The changes of rows by some effects of a block. */
export class Changes {
  /** Creation positions, by name, of databases that the effects created; null for databases that they deleted. */
  readonly databases = new Map<string, number | null>()
  readonly #known: Known
  readonly #items = new Map<string, ItemChange>()
  readonly #attachments = new Map<string, AttachmentChange>()
  readonly #superseded: { database: number; id: string; position: number }[] = []
  readonly #deleted: { database: number; id: string; position: number; created: number }[] = []
  readonly #ended: { position: number; ended: number }[] = []
  readonly #added: { database: number; effect: AttachmentEffect }[] = []
  readonly #dropped: DeletedDatabase[] = []

  private constructor(known: Known) {
    this.#known = known
  }

  /**
   * Applies `effects`. With `careful`, looks up the items that must not exist yet. Without `careful`, the server
   * rejects the statements if such an item exists. Errors: EFFECT_IMPOSSIBLE.
   */
  static async of(
    effects: readonly RowEffect[],
    { queries, known, careful }: { queries: Queries; known: Known; careful: boolean },
  ): Promise<Changes> {
    const changes = new Changes(known)
    await changes.#load(queries, effects, careful)
    for (const effect of effects) changes.#apply(effect)
    return changes
  }

  /** Databases that the effects deleted. */
  get dropped(): readonly number[] {
    return this.#dropped.map(({ created }) => created)
  }

  /** Reads the rows that the effects need. Effects that only create items need no rows. */
  async #load(queries: Queries, effects: readonly RowEffect[], careful: boolean): Promise<void> {
    const items = new Map<string, { database: number; id: string }>()
    const names = new Map<string, { database: number; id: string; name: string }>()
    for (const effect of effects) {
      const database = this.#known.databases.get(effect.db)
      if (!('id' in effect) || typeof database !== 'number') continue
      const { id } = effect
      const key = itemKey(database, id)
      const read = this.#known.items.get(key)
      if (read !== undefined) this.#addStored(database, id, read)
      else if (careful || effect.kind !== 'create_item') items.set(key, { database, id })
      if ('attachment' in effect) {
        const { name } = effect.attachment
        names.set(`${key}\n${name}`, { database, id, name })
      }
    }
    const [found, open] = await Promise.all([
      this.#readRows(queries, SQL.items, [...items.values()], ['database', 'id']),
      this.#readRows(queries, SQL.attachments, [...names.values()], ['database', 'id', 'name']),
    ])
    for (const { database, id } of items.values()) this.#addStored(database, id, null)
    for (const [db, itemId, created, revision] of found) {
      this.#addStored(integer(db, 'db'), text(itemId, 'id'), {
        created: integer(created, 'created'),
        revision: integer(revision, 'revision'),
      })
    }
    for (const [db, itemId, name, position] of open) {
      this.#attachment(integer(db, 'db'), text(itemId, 'id'), text(name, 'name')).open = integer(
        position,
        'position',
      )
    }
  }

  async #readRows<Key extends string>(
    queries: Queries,
    sql: string,
    keys: readonly Readonly<Record<Key, string | number>>[],
    members: readonly Key[],
  ): Promise<Row[]> {
    if (keys.length === 0) return []
    return queries.rows(sql, [...members.map((name) => column(keys, (key) => key[name]))])
  }

  #addStored(database: number, id: string, stored: Omit<ItemState, 'text'> | null): void {
    const state = stored === null ? null : { ...stored, text: null }
    this.#items.set(itemKey(database, id), { database, id, stored: state, now: state })
  }

  #database(name: string): number | null {
    return this.databases.get(name) ?? (this.databases.has(name) ? null : this.#stored(name))
  }

  #stored(name: string): number | null {
    return this.#known.databases.get(name) ?? null
  }

  #item(database: number, id: string): ItemChange {
    const key = itemKey(database, id)
    let item = this.#items.get(key)
    if (item === undefined) {
      item = { database, id, stored: null, now: null }
      this.#items.set(key, item)
    }
    return item
  }

  #attachment(database: number, id: string, name: string): AttachmentChange {
    const key = `${itemKey(database, id)}\n${name}`
    let attachment = this.#attachments.get(key)
    if (attachment === undefined) {
      attachment = { database, id, name, open: null }
      this.#attachments.set(key, attachment)
    }
    return attachment
  }

  #apply(effect: RowEffect): void {
    const { kind, position, db } = effect
    const database = this.#database(db)
    if ((database === null) !== (kind === 'create_db')) throw inapplicable(effect)
    if (!('id' in effect) || database === null) {
      this.databases.set(db, kind === 'create_db' ? position : null)
      if (database !== null) this.#dropped.push({ name: db, created: database, deleted: position })
      return
    }
    const { id } = effect
    const item = this.#item(database, id)
    if ((item.now === null) !== (kind === 'create_item')) throw inapplicable(effect)
    switch (kind) {
      case 'create_item':
        item.now = { created: position, revision: position, text: effect.text }
        return
      case 'update_item':
      case 'delete_item': {
        const { created, revision } = item.now ?? { created: -1, revision: -1 }
        this.#superseded.push({ database, id, position: revision })
        if (kind === 'delete_item') {
          this.#superseded.push({ database, id, position })
          this.#deleted.push({ database, id, position, created })
        }
        item.now =
          kind === 'delete_item' ? null : { created, revision: position, text: effect.text }
        return
      }
      case 'create_attachment':
      case 'delete_attachment': {
        const attachment = this.#attachment(database, id, effect.attachment.name)
        const isCreation = kind === 'create_attachment'
        if (!isCreation && attachment.open === null) throw inapplicable(effect)
        if (attachment.open !== null)
          this.#ended.push({ position: attachment.open, ended: position })
        if (isCreation) this.#added.push({ database, effect })
        attachment.open = isCreation ? position : null
      }
    }
  }

  /** Returns the statements that write the changes, in the order in which they must run. */
  statements(): Statement[] {
    const statements: Statement[] = []
    const write = (sql: string, count: number, ...columns: Parameter[]) => {
      if (count > 0) statements.push({ text: sql, values: [...columns] })
    }
    const created = [...this.databases].flatMap(([name, position]) =>
      position === null ? [] : [{ name, position }],
    )
    // If the block creates and deletes a database, only its row in `dropped` remains.
    write(
      SQL.removeDatabases,
      this.#dropped.length,
      column(this.#dropped, ({ created }) => created),
    )
    write(
      SQL.addDropped,
      this.#dropped.length,
      column(this.#dropped, ({ created }) => created),
      column(this.#dropped, ({ name }) => name),
      column(this.#dropped, ({ deleted }) => deleted),
    )
    write(
      SQL.addDatabases,
      created.length,
      column(created, ({ position }) => position),
      column(created, ({ name }) => name),
    )
    this.#writeItems(write)
    const history = this.#superseded
    write(
      SQL.addSuperseded,
      history.length,
      column(history, ({ database }) => database),
      column(history, ({ id }) => id),
      column(history, ({ position }) => position),
    )
    const gone = this.#deleted
    write(
      SQL.addDeleted,
      gone.length,
      column(gone, ({ database }) => database),
      column(gone, ({ id }) => id),
      column(gone, ({ position }) => position),
      column(gone, ({ created }) => created),
    )
    this.#writeAttachments(write)
    statements.push(...this.#indexStatements())
    return statements
  }

  #writeItems(write: Write): void {
    const removed: number[] = []
    const updated: ItemState[] = []
    const added: { database: number; id: string; now: ItemState }[] = []
    for (const { database, id, stored, now } of this.#items.values()) {
      const isSame = stored !== null && now !== null && stored.created === now.created
      if (stored !== null && !isSame) removed.push(stored.created)
      if (isSame && now.revision !== stored.revision) updated.push(now)
      if (now !== null && !isSame) added.push({ database, id, now })
    }
    // Removes deleted items first, because a recreated item has the same id.
    write(
      SQL.removeItems,
      removed.length,
      column(removed, (position) => position),
    )
    write(
      SQL.updateItems,
      updated.length,
      column(updated, ({ created }) => created),
      column(updated, ({ revision }) => revision),
      updated.map(({ text }) => text).join('\n'),
    )
    write(
      SQL.addItems,
      added.length,
      column(added, ({ now }) => now.created),
      column(added, ({ database }) => database),
      column(added, ({ id }) => id),
      column(added, ({ now }) => now.revision),
      added.map(({ now }) => now.text).join('\n'),
    )
  }

  #writeAttachments(write: Write): void {
    const added = this.#added
    // Ends stored rows first, so that a name never has two open rows. The rows of this block are not stored yet.
    const ended = this.#ended
    write(
      SQL.endAttachments,
      ended.length,
      column(ended, ({ position }) => position),
      column(ended, ({ ended }) => ended),
    )
    const endOf = new Map(ended.map(({ position, ended }) => [position, ended]))
    write(
      SQL.addAttachments,
      added.length,
      column(added, ({ effect }) => effect.position),
      column(added, ({ database }) => database),
      column(added, ({ effect }) => effect.id),
      column(added, ({ effect }) => effect.attachment.name),
      column(added, ({ effect }) => effect.attachment.content_type),
      column(added, ({ effect }) => effect.attachment.length),
      column(added, ({ effect }) => effect.attachment.sha256),
      column(added, ({ effect }) => endOf.get(effect.position) ?? null),
    )
  }

  #indexStatements(): Statement[] {
    const gone: number[] = []
    const added: IndexEntry[] = []
    const { dropped } = this
    const indexed = Map.groupBy(this.#known.indexes, ({ database }) => database)
    for (const { database, stored, now } of this.#items.values()) {
      const indexes = indexed.get(database)
      if (indexes === undefined || dropped.includes(database)) continue
      if (stored !== null && stored.revision !== now?.revision) gone.push(stored.created)
      if (now === null || now.text === null) continue
      added.push(...indexEntries(indexes, now.created, now.text))
    }
    return [
      ...(gone.length === 0 ? [] : [removeEntries(gone)]),
      ...(added.length === 0 ? [] : [addEntries(added)]),
    ]
  }
}

type Write = (sql: string, count: number, ...columns: Parameter[]) => void

/** Returns the values of one column as the value of an array parameter. */
function column<Entry>(
  entries: readonly Entry[],
  convert: (entry: Entry) => string | number | null,
): Parameter {
  const values = entries.map(convert)
  // Only a list of texts is left to the driver, which quotes and escapes them; numbers need neither.
  if (values.some((value) => typeof value === 'string')) return values.map(String)
  return `{${values.map((value) => value ?? 'NULL').join(',')}}`
}

/** Returns the creation position of each database in `names`, or null if there is no such database. */
export async function readDatabases(
  queries: Queries,
  names: readonly string[],
): Promise<Map<string, number | null>> {
  const found = new Map<string, number | null>(names.map((name) => [name, null]))
  for (const [name, created] of await queries.rows(SQL.databases, [names])) {
    found.set(text(name, 'name'), integer(created, 'created'))
  }
  return found
}
