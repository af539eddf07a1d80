import {
  type Block,
  type DatabaseState,
  EMPTY_SUBTREE,
  formatDatabaseState,
  parseDatabaseState,
  sha256Hex,
} from '../../chain/index.ts'
import {
  changeMap,
  readValue,
  type StateFile,
  storedRoot,
  type ValueChange,
} from '../../storage/index.ts'
import {
  applyBlock,
  DATABASES_MAP,
  ItemChange,
  itemsMap,
  type StateChanges,
} from './state-changes.ts'

const NO_CHANGES: ReadonlyMap<string, ItemChange> = new Map()

/**
 * Follows a chain with the map of its current state. `push` collects the changes of blocks, `commit` stores them in one
 * transaction. After a crash, the file has the state of an earlier head, and the blocks after it are pushed again.
 */
export class StateFollower implements StateChanges {
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
  #items = new Map<number, Map<string, ItemChange>>()
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
    applyBlock(this, block, this.#serverId)
    this.#size += 1
    this.#block = block.id
  }

  createDatabase(db: string, position: number): void {
    this.#databases.set(db, { position, items: EMPTY_SUBTREE.hash })
    this.#changed.add(db)
    this.#changes += 1
  }

  deleteDatabase(db: string): void {
    const database = this.#database(db)
    if (database === null) return
    this.#databases.set(db, null)
    this.#changed.add(db)
    this.#deleted.add(database.position)
    this.#items.delete(database.position)
    this.#changes += 1
  }

  changeItem(db: string, id: string): ItemChange | null {
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
        changes.set(sha256Hex(db), { apply: () => value })
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
  #newState(
    { position, items: root }: DatabaseState,
    items: ReadonlyMap<string, ItemChange> = NO_CHANGES,
  ): string {
    const pages = this.#file.pages(itemsMap(position))
    return formatDatabaseState({ position, items: changeMap(pages, root, items) })
  }
}

/** Returns the stored state of a database, or null. Errors: STORE_DAMAGED. */
export function storedDatabase(file: StateFile, db: string) {
  const value = readValue(file.pages(DATABASES_MAP), db)
  return value === null ? null : parseDatabaseState(value)
}
