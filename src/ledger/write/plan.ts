import assert from 'node:assert/strict'
import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import {
  type Attachment,
  type Authorship,
  decodeAttachment,
  decodeEntry,
  ENTRIES_BYTES_MAX,
  entryText,
  packPosition,
  positionText,
} from '../../chain/index.ts'
import {
  type Effect,
  type NewIdempotencyRecord,
  StoreError,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError, ownedByNetwork } from '../errors.ts'
import { planErasure, RecentBlocks } from './erasure.ts'
import { IdempotencyRecords } from './idempotency.ts'
import { ITEM_BYTES_MAX, mergePatch } from './item.ts'
import { networkItemId } from './names.ts'
import { holds, type Precondition, type RequestConditions } from './request-conditions.ts'
import {
  type Erased,
  type Operation,
  type UnitOfWork,
  type UnitOutcome,
  unitTooLarge,
} from './unit-of-work.ts'

/**
 * Length of the texts that were read and written, from which on a block gets no further unit. It bounds the time to
 * plan a block: a patch is small in the queue, but its entry contains the whole item, and a refused patch of a large
 * item takes as long as one that is recorded.
 */
const PLANNED_LENGTH = ENTRIES_BYTES_MAX / 16
/** Number of blocks that are read at once to find changes by other processes. */
const BLOCKS_PER_PAGE = 64

export interface Plan {
  readonly entries: string[]
  /** `effects[i]` is the effect of `entries[i]`. */
  readonly effects: Effect[]
  readonly records: readonly NewIdempotencyRecord[]
  /** One outcome per planned unit, in order. */
  readonly outcomes: UnitOutcome[]
}

interface BatchContext {
  /** Current time for the expiry of idempotency records, milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Conditions by index of the unit. */
  readonly conditions: ReadonlyMap<number, RequestConditions> | undefined
}

/** The state of a database after the changes that were planned so far. */
interface View {
  readonly exists: boolean
  /**
   * Whether the items in the store belong to this database; false if the batch has deleted or recreated the database.
   */
  readonly stored: boolean
  /** Whether the store records a network in this database. */
  readonly isNetwork: boolean
  /** Texts of the items changed by the batch; null for items that do not exist. */
  readonly items: Map<string, string | null>
  /** Some of the items that the store has. */
  readonly present: Set<string>
}

/**
 * Plans `units` in order, each on the state after the previous units, until the block is full. The other units belong
 * into the next block. A rejected unit has no effect on other units. Units whose index is in `refused` are not planned,
 * because their outcome is already known.
 *
 * Writes nothing. The caller seals `entries` at `height` and appends them with `effects`.
 */
export async function planBatch(
  store: StoreReader,
  units: readonly UnitOfWork[],
  height: number,
  { nowMs, conditions }: BatchContext = { nowMs: 0, conditions: undefined },
  refused: ReadonlyMap<number, UnitOutcome> = new Map(),
): Promise<Plan> {
  const records = new IdempotencyRecords(store, height, nowMs)
  const planner = new Planner(store, height, records)
  await planner.readExistence(units.flat())
  const outcomes: UnitOutcome[] = []
  for (const [at, unit] of units.entries()) {
    if (planner.isFull) break
    const outcome = refused.get(at) ?? (await planner.unit(unit, conditions?.get(at)))
    if (outcome === null) break
    outcomes.push(outcome)
  }
  return { entries: planner.entries, effects: planner.effects, records: records.added, outcomes }
}

class Planner {
  readonly entries: string[] = []
  readonly effects: Effect[] = []
  readonly #store: StoreReader
  readonly #height: number
  readonly #records: IdempotencyRecords
  readonly #views = new Map<string, View>()
  /** Packed positions of the entries that the batch erases. */
  readonly #erased = new Set<number>()
  #bytes = 0
  #readLength = 0
  /** Reverts the changes of the current unit, last change first. */
  #undo: (() => void)[] = []
  /** Erasures of the current unit. */
  #erasing: Partial<Erased> = {}
  readonly #recent: RecentBlocks
  /** The databases of networks that the current unit may change. */
  #network: RequestConditions['network']

  constructor(store: StoreReader, height: number, records: IdempotencyRecords) {
    this.#store = store
    this.#height = height
    this.#records = records
    this.#recent = new RecentBlocks(store)
  }

  get isFull(): boolean {
    return this.#bytes + this.#readLength + this.#recent.length >= PLANNED_LENGTH
  }

  /** Reads which of the items in `operations` exist: all items of a database at once. */
  async readExistence(operations: readonly Operation[]): Promise<void> {
    const named = operations.filter(needsExistence)
    if (named.length < 2) return
    for (const [db, items] of Map.groupBy(named, (operation) => operation.db)) {
      try {
        const view = await this.#readView(db)
        if (!view.exists) continue
        const ids = items.map(({ id }) => id)
        for (const id of await this.#store.existingIds(db, ids)) view.present.add(id)
        for (const id of ids) if (!view.present.has(id)) view.items.set(id, null)
      } catch (error) {
        // The units that need a damaged part of the store meet the damage themselves.
        requireLedgerError(error)
      }
    }
  }

  /** Returns null if the block has no room for `unit`. */
  async unit(
    unit: UnitOfWork,
    { precondition, idempotency, network }: Partial<RequestConditions> = {},
  ): Promise<UnitOutcome | null> {
    const index = this.entries.length
    const bytes = this.#bytes
    this.#undo = []
    this.#erasing = {}
    this.#network = network
    try {
      const earlier = idempotency ? await this.#records.find(idempotency) : null
      if (earlier !== null) return earlier
      if (network && network !== 'all' && network.since !== null) {
        await this.#requireUnchanged(network.db, network.since)
      }
      if (precondition) await this.#check(precondition, unit)
      for (const operation of unit) await this.#plan(operation)
      if (idempotency) this.#records.add(idempotency, index, this.entries.length - index)
      return { index, ...this.#erasing }
    } catch (error) {
      for (const undo of this.#undo.reverse()) undo()
      this.entries.length = index
      this.effects.length = index
      this.#bytes = bytes
      if (error instanceof BlockFull && index > 0) return null
      const { code, message } = requireLedgerError(
        error instanceof BlockFull ? unitTooLarge() : error,
      )
      return { code, message }
    }
  }

  /** Rejects a unit if a block from height `since` on has an entry of `db`. Errors: DATABASE_CHANGED. */
  async #requireUnchanged(db: string, since: number): Promise<void> {
    for (let height = since; height < this.#height; ) {
      const blocks = await this.#store.blocks(this.#store.serverId, height, BLOCKS_PER_PAGE)
      if (blocks.some(({ entries }) => entries.some((text) => isOfDatabase(text, db)))) {
        const message = `another process has changed database ${db}; try again`
        throw new LedgerError('DATABASE_CHANGED', message)
      }
      height += Math.max(1, blocks.length)
    }
  }

  /**
   * Checks `precondition` for each item that `unit` changes. Ignores a missing item, because its change is rejected
   * anyway.
   */
  async #check(precondition: Precondition, unit: UnitOfWork): Promise<void> {
    for (const operation of unit) {
      if (!('id' in operation)) continue
      const { kind, db, id } = operation
      const view = await this.#view(db)
      if (!view.exists) continue
      if (kind === 'create_attachment' || kind === 'delete_attachment') {
        if (!(await this.#exists(view, db, id))) continue
        const current = await this.#currentAttachment(operation)
        if (current !== null || kind !== 'delete_attachment')
          requireAttachmentCondition(precondition, current)
        continue
      }
      const revision = await this.#revision(view, db, id)
      if (revision === null && kind !== 'create_item') continue
      const at = revision === null ? null : positionText(revision)
      if (holds(precondition, at)) continue
      const state = at === null ? 'it does not exist' : `its revision is ${at}`
      throw new LedgerError(
        'PRECONDITION_FAILED',
        `item ${id} of ${db} fails the precondition: ${state}`,
      )
    }
  }

  /** Returns the packed position of an item's last change, or null if the item does not exist. */
  async #revision(view: View, db: string, id: string): Promise<number | null> {
    const changed = view.items.get(id)
    if (changed === null) return null
    if (changed === undefined) {
      return view.stored ? ((await this.#store.item(db, id))?.revision ?? null) : null
    }
    const sets = (effect: Effect) => 'text' in effect && effect.id === id && effect.db === db
    return this.effects.findLast(sets)?.position ?? null
  }

  async #plan(operation: Operation): Promise<void> {
    const { kind, db } = operation
    const view = await this.#view(db)
    if (kind === 'create_db') {
      if (view.exists) throw new LedgerError('DATABASE_EXISTS', `database ${db} exists already`)
    } else if (!view.exists && kind !== 'erase_item') {
      throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
    }
    switch (kind) {
      case 'create_db':
      case 'delete_db': {
        const exists = kind === 'create_db'
        const { serverId } = this.#store
        this.#replaceView(db, newView({ exists, stored: false, isNetwork: false }))
        this.#add(entryText.database(kind, serverId, db, operation), { kind, db })
        return
      }
      case 'create_item':
        return this.#planCreation(view, operation)
      case 'update_item':
      case 'patch_item': {
        if (kind === 'update_item') await this.#requireItem(view, operation)
        const text =
          kind === 'update_item'
            ? operation.text
            : applyPatch(await this.#current(view, operation), operation)
        this.#setItem(view, operation.id, text)
        this.#addItem('update_item', { ...operation, text })
        return
      }
      case 'delete_item': {
        const { id } = operation
        await this.#requireItem(view, operation)
        this.#setItem(view, id, null)
        const entry = entryText.deleteItem(this.#store.serverId, db, id, operation)
        this.#add(entry, { kind, db, id })
        return
      }
      case 'create_attachment':
      case 'delete_attachment': {
        const { id } = operation
        await this.#requireItem(view, operation)
        const attachment = await this.#requireAttachment(operation)
        const { serverId } = this.#store
        const entry = entryText.attachment(kind, serverId, operation, attachment, operation)
        this.#add(entry, { kind, db, id, attachment })
        return
      }
      case 'erase_item':
        return this.#planErasure(operation)
    }
  }

  async #planCreation(view: View, operation: Extract<Operation, { kind: 'create_item' }>) {
    const { db, id, text, assigned } = operation
    // Otherwise any client with the rights to write could give the database to a network that does not exist.
    if (id === networkItemId(db) && !this.#isFromNetwork(db)) throw ownedByNetwork(db, id)
    if (!assigned && (await this.#exists(view, db, id))) {
      throw new LedgerError('ITEM_EXISTS', `item ${id} of ${db} exists already`)
    }
    if (!assigned) this.#setItem(view, id, text)
    this.#addItem('create_item', operation)
  }

  async #planErasure(operation: Extract<Operation, { kind: 'erase_item' }>): Promise<void> {
    const { kind, db, of } = operation
    const { positions, freed, last } = await planErasure(
      this.#store,
      operation,
      this.#erased,
      this.#recent,
    )
    for (const position of positions) this.#erased.add(position)
    this.#undo.push(() => {
      for (const position of positions) this.#erased.delete(position)
    })
    this.#erasing = { erased: positions.length, freed, last }
    const entry = entryText.eraseItem(this.#store.serverId, db, of, positions, operation)
    this.#add(entry, { kind, db, of, positions })
  }

  /** Returns the state of a database that the current unit may change. Errors: OWNED_BY_NETWORK. */
  async #view(db: string): Promise<View> {
    const view = this.#views.get(db) ?? (await this.#readView(db))
    if (this.#isForbidden(db, view)) throw ownedByNetwork(db)
    return view
  }

  async #readView(db: string): Promise<View> {
    // Reads the item first, because a store that read it ahead then also knows the database.
    const isNetwork = (await this.#store.item(db, networkItemId(db))) !== null
    const exists = isNetwork || (await this.#store.database(db)) !== null
    const view = newView({ exists, stored: exists, isNetwork })
    this.#views.set(db, view)
    return view
  }

  /** Returns whether the database belongs to a network that did not send the current unit. */
  #isForbidden(db: string, view: View): boolean {
    if (this.#isFromNetwork(db)) return false
    const changed = view.items.get(networkItemId(db))
    return changed === undefined ? view.isNetwork : changed !== null
  }

  /** Returns whether the current unit comes from the network of the database, or from a restore. */
  #isFromNetwork(db: string): boolean {
    return this.#network === 'all' || this.#network?.db === db
  }

  async #current(view: View, { db, id }: ItemName): Promise<string> {
    const text = await this.#find(view, db, id)
    if (text === null) throw itemNotFound(db, id)
    return text
  }

  async #requireItem(view: View, { db, id }: ItemName): Promise<void> {
    if (!(await this.#exists(view, db, id))) throw itemNotFound(db, id)
  }

  async #exists(view: View, db: string, id: string): Promise<boolean> {
    if (view.items.get(id) === undefined && view.present.has(id)) return true
    return (await this.#find(view, db, id)) !== null
  }

  async #find(view: View, db: string, id: string): Promise<string | null> {
    const changed = view.items.get(id)
    const text =
      changed === undefined && view.stored
        ? ((await this.#store.item(db, id))?.text ?? null)
        : (changed ?? null)
    this.#readLength += text?.length ?? 0
    return text
  }

  /** Returns the attachment that `operation` creates or deletes. Errors: ATTACHMENT_NOT_FOUND. */
  async #requireAttachment(operation: AttachmentOperation): Promise<Attachment> {
    if (operation.kind === 'create_attachment') return parseAttachment(operation.text)
    const current = await this.#currentAttachment(operation)
    if (current !== null) {
      const { content_type, length, name, sha256 } = current
      return { content_type, length, name, sha256 }
    }
    const { db, id, name } = operation
    throw new LedgerError(
      'ATTACHMENT_NOT_FOUND',
      `there is no attachment ${name} of ${id} in ${db}`,
    )
  }

  /**
   * Returns the current attachment with the name in `operation`, including the changes of the batch, or
   * null.
   */
  async #currentAttachment(operation: AttachmentOperation): Promise<Attachment | null> {
    const { db, id } = operation
    const { name } = 'name' in operation ? operation : parseAttachment(operation.text)
    // Searches the changes of the batch backwards. They are few, and usually none has an attachment.
    for (const effect of this.effects.toReversed()) {
      if (effect.db !== db) continue
      // The batch has created or deleted the database (here) or the item (below), so there are no earlier attachments.
      if (effect.kind === 'create_db' || effect.kind === 'delete_db') return null
      // Ignores other items, and changes that have no effect on current attachments, such as erasures.
      if (!('id' in effect) || effect.id !== id || effect.kind === 'update_item') continue
      if (!('attachment' in effect)) return null
      if (effect.attachment.name !== name) continue
      return effect.kind === 'create_attachment' ? effect.attachment : null
    }
    return this.#store.attachments.current(db, id, name)
  }

  #setItem(view: View, id: string, text: string | null): void {
    const before = view.items.get(id)
    view.items.set(id, text)
    this.#undo.push(() => {
      if (before === undefined) view.items.delete(id)
      else view.items.set(id, before)
    })
  }

  #replaceView(db: string, view: View): void {
    const before = this.#views.get(db)
    this.#views.set(db, view)
    this.#undo.push(() => {
      if (before !== undefined) this.#views.set(db, before)
    })
  }

  #addItem(
    kind: 'create_item' | 'update_item',
    { db, id, text, ...made }: Authorship & { db: string; id: string; text: string },
  ): void {
    const entry = entryText.item(kind, this.#store.serverId, db, text, made)
    this.#add(entry, { kind, db, id, text })
  }

  #add(entry: string, effect: WithoutPosition<Effect>): void {
    this.#bytes += Buffer.byteLength(entry)
    if (this.#bytes > ENTRIES_BYTES_MAX) throw new BlockFull()
    const position = packPosition(this.#height, this.entries.length)
    this.entries.push(entry)
    this.effects.push({ ...effect, position })
  }
}

/** Thrown when the entries of a block would be longer than ENTRIES_BYTES_MAX. */
class BlockFull extends Error {}

type AttachmentOperation = Extract<
  Operation,
  { kind: 'create_attachment' } | { kind: 'delete_attachment' }
>

interface ItemName {
  readonly db: string
  readonly id: string
}

function itemNotFound(db: string, id: string): LedgerError {
  return new LedgerError('ITEM_NOT_FOUND', `there is no item ${id} in ${db}`)
}

function newView(state: Pick<View, 'exists' | 'stored' | 'isNetwork'>): View {
  return { ...state, items: new Map(), present: new Set() }
}

/** Returns whether planning needs to know whether the item exists, but not its text. */
function needsExistence(operation: Operation): operation is Operation & ItemName {
  if (!('id' in operation) || operation.kind === 'patch_item') return false
  return operation.kind !== 'create_item' || !operation.assigned
}

type WithoutPosition<E> = E extends Effect ? Omit<E, 'position'> : never

/**
 * Checks `precondition` against the current attachment. `current` is null if there is none.
 * Errors: PRECONDITION_FAILED.
 */
export function requireAttachmentCondition(
  precondition: Precondition,
  current: Attachment | null,
): void {
  if (holds(precondition, current?.sha256 ?? null)) return
  const state = current === null ? 'there is no attachment' : `it has the tag "${current.sha256}"`
  throw new LedgerError('PRECONDITION_FAILED', `the attachment fails the precondition: ${state}`)
}

function parseAttachment(text: string): Attachment {
  const attachment = decodeAttachment(storedJson(text))
  assert(attachment !== null)
  return attachment
}

function isOfDatabase(text: string, db: string): boolean {
  // Most entries belong to other databases and need not be parsed.
  return text.includes(db) && decodeEntry(storedJson(text))?.db === db
}

/** Returns an error that rejects only the current unit. Rethrows an error that concerns the whole batch. */
function requireLedgerError(error: unknown): LedgerError {
  if (error instanceof LedgerError) return error
  if (
    error instanceof StoreError &&
    (error.code === 'STORE_DAMAGED' || error.code === 'STORE_FAILED')
  ) {
    return new LedgerError(error.code, `nothing was written: ${error.message}`, { cause: error })
  }
  throw error
}

function applyPatch(
  current: string,
  { db, id, text }: { db: string; id: string; text: string },
): string {
  const merged = canonicalJson(mergePatch(parseObject(current), parseObject(text)))
  if (Buffer.byteLength(merged) > ITEM_BYTES_MAX) {
    throw new LedgerError(
      'ITEM_TOO_LARGE',
      `item ${id} of ${db} would exceed ${ITEM_BYTES_MAX} bytes`,
    )
  }
  return merged
}

function parseObject(text: string): JsonObject {
  const value = storedJson(text)
  return isJsonObject(value) ? value : {}
}
