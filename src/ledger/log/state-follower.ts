import {
  type Block,
  decodeEntry,
  type Entry,
  formatDatabaseState,
  formatItemState,
  mapKey,
  packPosition,
  parseDatabaseState,
  parseItemState,
  rawEntry,
  toHex,
} from '../../chain/index.ts'
import {
  changeMap,
  readValue,
  type StateFile,
  StoreError,
  storedJson,
  type ValueChange,
} from '../../storage/index.ts'

/** The map of the databases. The map of the items of a database is its creation position plus one. */
export const DATABASES_MAP = 0

export function itemsMap(database: number): number {
  return database + 1
}

/** Changes of one item that are not stored yet, in the order of the chain. */
class ItemChange {
  /** Whether the stored state of the item no longer counts, because the item was created or deleted. */
  #isNew = false
  /** Packed position of the newest revision; null if the item was deleted, undefined if it is unchanged. */
  #position: number | null | undefined
  /** Newest change of the attachments before any other change; counts only if the item is stored. */
  #firstAttached: number | null = null
  /** Newest change of the attachments after that. */
  #attached: number | null = null

  create(position: number): void {
    this.delete()
    this.#position = position
  }

  update(position: number): void {
    this.#position = position
  }

  delete(): void {
    this.#isNew = true
    this.#position = null
    this.#firstAttached = null
    this.#attached = null
  }

  attach(position: number): void {
    if (this.#position === undefined) this.#firstAttached = position
    else if (this.#position !== null) this.#attached = position
  }

  /** The change of the item's value in its map. */
  readonly apply: ValueChange = (value) => {
    const stored = this.#isNew || value === null ? null : parseItemState(value)
    const position = this.#position === undefined ? (stored?.position ?? null) : this.#position
    // An attachment of an item that does not exist has no effect.
    if (position === null) return null
    const before = stored === null ? null : (this.#firstAttached ?? stored.attachments)
    return formatItemState({ position, attachments: this.#attached ?? before })
  }
}

/**
 * Follows a chain with the map of its current state. `push` collects the changes of blocks, `commit` stores them in one
 * transaction. After a crash, the file has the state of an earlier head, and the blocks after it are pushed again. Every
 * chain has a state: an entry about a database or an item that does not exist changes nothing, except that an update
 * creates its item.
 */
export class StateFollower {
  readonly #file: StateFile
  readonly #serverId: number
  #size: number
  #block: string | null
  /** Creation positions of databases by name, null for none: those that were looked up or changed. */
  #databases = new Map<string, number | null>()
  /** Names of the databases that were created or deleted since the last commit. */
  #changed = new Set<string>()
  /** Deleted databases, by creation position. */
  #deleted = new Set<number>()
  /** The changed items of each database, by key. */
  #items = new Map<number, Map<string, ItemChange>>()
  #changes = 0

  constructor(file: StateFile, serverId: number) {
    this.#file = file
    this.#serverId = serverId
    const { size, block } = file.head()
    this.#size = size
    this.#block = block
  }

  /** Number of blocks that were pushed. */
  get size(): number {
    return this.#size
  }

  /** Id of the last block; null if there is none. */
  get block(): string | null {
    return this.#block
  }

  /** Number of changes that are not committed. */
  get changes(): number {
    return this.#changes
  }

  /** Adds the next block, which must have been verified. Errors: STORE_DAMAGED. */
  push(block: Block): void {
    if (block.height !== this.#size) {
      throw new RangeError(
        `the state of ${this.#size} blocks does not continue with block ${block.height}`,
      )
    }
    for (const [index, text] of block.entries.entries()) {
      this.#add(text, packPosition(block.height, index))
    }
    this.#size += 1
    this.#block = block.id
  }

  #add(text: string, position: number): void {
    const raw = rawEntry(text, this.#serverId)
    if (raw !== null) {
      const change = this.#item(raw.db, raw.id)
      if (raw.method === 'create_item') change?.create(position)
      else change?.update(position)
      return
    }
    const entry = decodeEntry(storedJson(text))
    if (entry === null)
      throw new StoreError('STORE_DAMAGED', 'a block contains something other than an entry')
    this.#addEntry(entry, position)
  }

  #addEntry(entry: Entry, position: number): void {
    const { db, method } = entry
    switch (method) {
      case 'create_db':
        this.#databases.set(db, position)
        this.#changed.add(db)
        this.#changes += 1
        return
      case 'delete_db':
        this.#deleteDatabase(db)
        return
      case 'create_item':
        this.#item(db, entry.item.id)?.create(position)
        return
      case 'update_item':
        this.#item(db, entry.item.id)?.update(position)
        return
      case 'delete_item':
        this.#item(db, entry.id)?.delete()
        return
      case 'create_attachment':
      case 'delete_attachment':
        this.#item(db, entry.id)?.attach(position)
        return
      case 'erase_item':
    }
  }

  #deleteDatabase(db: string): void {
    const database = this.#database(db)
    if (database === null) return
    this.#databases.set(db, null)
    this.#changed.add(db)
    this.#deleted.add(database)
    this.#items.delete(database)
    this.#changes += 1
  }

  /** Returns the change of an item; null if there is no such database. */
  #item(db: string, id: string): ItemChange | null {
    const database = this.#database(db)
    if (database === null) return null
    const items = this.#items.get(database) ?? new Map<string, ItemChange>()
    this.#items.set(database, items)
    const hex = toHex(mapKey(id))
    const known = items.get(hex)
    if (known !== undefined) return known
    const change = new ItemChange()
    items.set(hex, change)
    this.#changes += 1
    return change
  }

  /** Returns the creation position of a database, or null. */
  #database(db: string): number | null {
    const known = this.#databases.get(db)
    if (known !== undefined) return known
    const position = storedDatabase(this.#file, db)?.position ?? null
    this.#databases.set(db, position)
    return position
  }

  /** Stores the changes, with the note that `sign` returns for the root of the databases. Errors: STORE_DAMAGED. */
  commit(sign: (root: Uint8Array) => string | null): void {
    this.#file.transaction(() => {
      const pages = this.#file.pages(DATABASES_MAP)
      const names = new Set(this.#changed)
      const roots = new Map<number, Uint8Array>()
      for (const [database, items] of this.#items) {
        const changes = new Map([...items].map(([hex, { apply }]) => [hex, apply]))
        roots.set(database, changeMap(this.#file.pages(itemsMap(database)), changes))
      }
      for (const [db, database] of this.#databases) {
        if (database !== null && roots.has(database)) names.add(db)
      }
      const root = changeMap(pages, this.#databaseChanges(names, roots))
      for (const database of this.#deleted) this.#file.markRemoved(itemsMap(database))
      this.#file.removeSome()
      this.#file.setHead({ size: this.#size, block: this.#block, note: sign(root) })
    })
    this.#databases = new Map()
    this.#changed = new Set()
    this.#deleted = new Set()
    this.#items = new Map()
    this.#changes = 0
  }

  #databaseChanges(
    names: ReadonlySet<string>,
    roots: ReadonlyMap<number, Uint8Array>,
  ): Map<string, ValueChange> {
    const changes = new Map<string, ValueChange>()
    for (const db of names) {
      const position = this.#databases.get(db) ?? null
      changes.set(toHex(mapKey(db)), (value) => {
        if (position === null) return null
        const stored = value === null ? null : parseDatabaseState(value)
        const before = stored?.position === position ? stored.items : NO_ITEMS
        return formatDatabaseState({ position, items: roots.get(position) ?? before })
      })
    }
    return changes
  }
}

const NO_ITEMS = new Uint8Array(32)

/** Returns the stored state of a database, or null. Errors: STORE_DAMAGED. */
export function storedDatabase(file: StateFile, db: string) {
  const value = readValue(file.pages(DATABASES_MAP), db)
  return value === null ? null : parseDatabaseState(value)
}
