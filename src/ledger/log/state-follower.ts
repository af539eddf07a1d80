import {
  type Block,
  type DatabaseState,
  decodeEntry,
  EMPTY_SUBTREE,
  type Entry,
  formatDatabaseState,
  formatItemState,
  packPosition,
  parseDatabaseState,
  parseItemState,
  rawEntry,
  sha256Hex,
} from '../../chain/index.ts'
import {
  changeMap,
  readValue,
  type StateFile,
  StoreError,
  storedJson,
  storedRoot,
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

type ItemChanges = Map<string, ItemChange>

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
  /** Root of the stored map of the databases. */
  #root: Uint8Array
  /** Databases by name, null for none: those that were looked up or changed. Their items are the stored ones. */
  #databases = new Map<string, DatabaseState | null>()
  /** Names of the databases that were created or deleted since the last commit. */
  #changed = new Set<string>()
  /** Deleted databases, by creation position. */
  #deleted = new Set<number>()
  /** The changed items of each database, by key. */
  #items = new Map<number, ItemChanges>()
  #changes = 0

  /** Errors: STORE_DAMAGED. */
  constructor(file: StateFile, serverId: number) {
    this.#file = file
    this.#serverId = serverId
    const { size, block } = file.head()
    this.#size = size
    this.#block = block
    this.#root = storedRoot(file.pages(DATABASES_MAP))
  }

  /** Root of the state of the last commit. */
  get root(): Uint8Array {
    return this.#root
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
        this.#databases.set(db, { position, items: EMPTY_SUBTREE.hash })
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
    this.#deleted.add(database.position)
    this.#items.delete(database.position)
    this.#changes += 1
  }

  /** Returns the change of an item; null if there is no such database. */
  #item(db: string, id: string): ItemChange | null {
    const database = this.#database(db)
    if (database === null) return null
    const items = this.#items.get(database.position) ?? new Map<string, ItemChange>()
    this.#items.set(database.position, items)
    const hex = sha256Hex(id)
    const known = items.get(hex)
    if (known !== undefined) return known
    const change = new ItemChange()
    items.set(hex, change)
    this.#changes += 1
    return change
  }

  #database(db: string): DatabaseState | null {
    const known = this.#databases.get(db)
    if (known !== undefined) return known
    const database = storedDatabase(this.#file, db)
    this.#databases.set(db, database)
    return database
  }

  /** Stores the changes, with the note that `sign` returns for the root of the databases. Errors: STORE_DAMAGED. */
  commit(sign: (root: Uint8Array) => string | null): void {
    this.#root = this.#file.transaction(() => {
      const changes = new Map<string, ValueChange>()
      for (const [db, database] of this.#databases) {
        const items = database === null ? undefined : this.#items.get(database.position)
        if (items === undefined && !this.#changed.has(db)) continue
        const value = database === null ? null : this.#newState(database, items)
        changes.set(sha256Hex(db), () => value)
      }
      const root = changeMap(this.#file.pages(DATABASES_MAP), this.#root, changes)
      for (const database of this.#deleted) this.#file.markRemoved(itemsMap(database))
      this.#file.removeSome()
      this.#file.setHead({ size: this.#size, block: this.#block, note: sign(root) })
      return root
    })
    this.#databases = new Map()
    this.#changed = new Set()
    this.#deleted = new Set()
    this.#items = new Map()
    this.#changes = 0
  }

  /** Stores the changes of the items of a database, and returns its new value. */
  #newState({ position, items: root }: DatabaseState, items: ItemChanges | undefined): string {
    const changes = [...(items ?? [])].map(([hex, { apply }]) => [hex, apply] as const)
    const pages = this.#file.pages(itemsMap(position))
    return formatDatabaseState({ position, items: changeMap(pages, root, new Map(changes)) })
  }
}

/** Returns the stored state of a database, or null. Errors: STORE_DAMAGED. */
export function storedDatabase(file: StateFile, db: string) {
  const value = readValue(file.pages(DATABASES_MAP), db)
  return value === null ? null : parseDatabaseState(value)
}
