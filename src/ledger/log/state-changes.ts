import {
  type Block,
  decodeEntry,
  type Entry,
  formatItemState,
  packPosition,
  parseItemState,
  rawEntry,
} from '../../chain/index.ts'
import { StoreError, storedJson, type ValueChange } from '../../storage/index.ts'

/** The map of the databases. The map of the items of a database is its creation position plus one. */
export const DATABASES_MAP = 0

export function itemsMap(database: number): number {
  return database + 1
}

/** Receives the changes of one item, in the order of the chain. Positions are packed. */
export interface ItemChanges {
  create(position: number): void
  update(position: number): void
  delete(): void
  attach(position: number): void
}

/** Receives the changes of a state, in the order of the chain. */
export interface StateChanges {
  createDatabase(db: string, position: number): void
  deleteDatabase(db: string): void
  /** Returns the receiver for an item; null if there is no such database. */
  changeItem(db: string, id: string): ItemChanges | null
}

/**
 * Passes the changes that a block makes to `changes`. Every chain has a state: an entry about a database or an item that
 * does not exist changes nothing, except that an update creates its item. Errors: STORE_DAMAGED.
 */
export function applyBlock(changes: StateChanges, block: Block, serverId: number): void {
  for (const [index, text] of block.entries.entries()) {
    const position = packPosition(block.height, index)
    const raw = rawEntry(text, serverId)
    if (raw !== null) {
      const item = changes.changeItem(raw.db, raw.id)
      if (raw.method === 'create_item') item?.create(position)
      else item?.update(position)
      continue
    }
    const entry = decodeEntry(storedJson(text))
    if (entry === null)
      throw new StoreError('STORE_DAMAGED', 'a block contains something other than an entry')
    applyEntry(changes, entry, position)
  }
}

function applyEntry(changes: StateChanges, entry: Entry, position: number): void {
  const { db, method } = entry
  switch (method) {
    case 'create_db':
      changes.createDatabase(db, position)
      return
    case 'delete_db':
      changes.deleteDatabase(db)
      return
    case 'create_item':
      changes.changeItem(db, entry.item.id)?.create(position)
      return
    case 'update_item':
      changes.changeItem(db, entry.item.id)?.update(position)
      return
    case 'delete_item':
      changes.changeItem(db, entry.id)?.delete()
      return
    case 'create_attachment':
    case 'delete_attachment':
      changes.changeItem(db, entry.id)?.attach(position)
      return
    case 'erase_item':
  }
}

/** Changes of one item that are not stored yet. */
export class ItemChange implements ItemChanges, ValueChange {
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

  /** Returns the item's value in its map after the changes. */
  apply(value: string | null): string | null {
    const stored = this.#isNew || value === null ? null : parseItemState(value)
    const position = this.#position === undefined ? (stored?.position ?? null) : this.#position
    // An attachment of an item that does not exist has no effect.
    if (position === null) return null
    const before = stored === null ? null : (this.#firstAttached ?? stored.attachments)
    return formatItemState({ position, attachments: this.#attached ?? before })
  }
}
