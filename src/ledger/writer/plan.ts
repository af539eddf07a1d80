import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { entryText, packPosition, positionText } from '../../chain/index.ts'
import {
  type Effect,
  type NewIdempotencyRecord,
  StoreError,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { mergePatch } from '../merge-patch.ts'
import { holds, type Precondition, type RequestConditions } from '../request-conditions.ts'
import {
  ITEM_BYTES_MAX,
  type Operation,
  type Outcome,
  UNIT_BYTES_MAX,
  type UnitOfWork,
} from '../unit-of-work.ts'
import { attachmentBefore, attachmentMeant, checkAttachment } from './attachments.ts'
import { plannedErasure } from './erasure.ts'
import { KeptAnswers } from './idempotency.ts'

/**
 * The most text that one block's entries may come to; any unit of work fits, since it is bounded
 * itself. Patches are small when they are queued and as large as their items when they are planned:
 * without this bound, some tens of them on large items made a block too large to be stored.
 */
const BLOCK_CHARACTERS_MAX = 2 * UNIT_BYTES_MAX

/** What a batch of units of work comes to: the next block's entries, their effects, and answers. */
export interface Plan {
  /** Canonical texts. */
  readonly entries: string[]
  /** `effects[i]` is what `entries[i]` does. */
  readonly effects: Effect[]
  /** To be kept for requests that are sent again. */
  readonly answers: readonly NewIdempotencyRecord[]
  /** One per unit, in order. */
  readonly outcomes: Outcome[]
}

/** On what terms units of a batch are to be done. */
interface BatchTerms {
  /** The time by which answers are kept, milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Of the units that have any, by their place. */
  readonly terms: ReadonlyMap<number, RequestConditions> | undefined
}

/** A database as the batch sees it: the store, and over it what the batch has changed so far. */
interface View {
  exists: boolean
  /** Whether the store's items of this name belong to it; false once the batch made it anew. */
  readonly stored: boolean
  /** Texts of the items that the batch touched; null for those that are gone. */
  readonly items: Map<string, string | null>
}

/**
 * Decides `units` one after the other, each on what the ones before it left, against the databases
 * of `store`. A unit that cannot be done leaves nothing behind and does not disturb the others; one
 * that would make the block too large is told to come again (WRITER_BUSY).
 *
 * Units in `refused`, by their place, are not planned: their outcome is known.
 * Changes nothing: the caller seals `entries` at `height` and appends them with `effects`.
 */
export async function planBatch(
  store: StoreReader,
  units: readonly UnitOfWork[],
  height: number,
  { nowMs, terms }: BatchTerms = { nowMs: 0, terms: undefined },
  refused: ReadonlyMap<number, Outcome> = new Map(),
): Promise<Plan> {
  const answers = new KeptAnswers(store, height, nowMs)
  const planner = new Planner(store, height, answers)
  const outcomes: Outcome[] = []
  for (const [at, unit] of units.entries()) {
    outcomes.push(refused.get(at) ?? (await planner.unit(unit, terms?.get(at))))
  }
  return { entries: planner.entries, effects: planner.effects, answers: answers.added, outcomes }
}

class Planner {
  readonly entries: string[] = []
  readonly effects: Effect[] = []
  readonly #store: StoreReader
  readonly #height: number
  readonly #answers: KeptAnswers
  readonly #views = new Map<string, View>()
  /** What erasures of the batch take. */
  readonly #erased = new Set<number>()
  #characters = 0
  /** How to take back what the unit at hand has changed, last first. */
  #undo: (() => void)[] = []
  /** The contents that the unit at hand no longer names. */
  #freed: string[] = []

  constructor(store: StoreReader, height: number, answers: KeptAnswers) {
    this.#store = store
    this.#height = height
    this.#answers = answers
  }

  async unit(unit: UnitOfWork, terms?: RequestConditions): Promise<Outcome> {
    const index = this.entries.length
    const characters = this.#characters
    this.#undo = []
    this.#freed = []
    try {
      if (terms?.once) {
        const earlier = await this.#answers.find(terms.once)
        if (earlier !== null) return earlier
      }
      if (terms?.precondition) await this.#expect(terms.precondition, unit)
      for (const operation of unit) {
        // The usual operation asks the store for nothing: waiting would cost more than planning it.
        if (!this.#createFresh(operation)) await this.#decide(operation)
      }
      if (terms?.once) this.#answers.add(terms.once, index, this.entries.length - index)
      return this.#freed.length === 0 ? { index } : { index, freed: this.#freed }
    } catch (error) {
      const { code, message } = refusalOf(error)
      for (const undo of this.#undo.reverse()) undo()
      this.entries.length = index
      this.effects.length = index
      this.#characters = characters
      return { code, message }
    }
  }

  /** Of what is not there nothing is expected: what changes it is refused as ever. */
  async #expect(precondition: Precondition, unit: UnitOfWork): Promise<void> {
    for (const operation of unit) {
      if (!('id' in operation)) continue
      const { kind, db, id } = operation
      const view = this.#views.get(db) ?? (await this.#open(db))
      if (!view.exists) continue
      if (kind === 'create_attachment' || kind === 'delete_attachment') {
        if ((await this.#find(view, db, id)) === null) continue
        const current = await attachmentBefore(this.#store, this.effects, operation)
        if (current === null && kind === 'delete_attachment') continue
        checkAttachment(precondition, current)
        continue
      }
      const revision = await this.#revision(view, db, id)
      if (revision === null && kind !== 'create_item') continue
      const at = revision === null ? null : positionText(revision)
      if (holds(precondition, at)) continue
      const is = at === null ? 'not there' : `at ${at}`
      throw new LedgerError('PRECONDITION_FAILED', `item ${id} of ${db} is ${is}`)
    }
  }

  /** Where the content of an item was last set, or null when it is not there. */
  async #revision(view: View, db: string, id: string): Promise<number | null> {
    const touched = view.items.get(id)
    if (touched === null) return null
    if (touched === undefined) {
      return view.stored ? ((await this.#store.item(db, id))?.revision ?? null) : null
    }
    const set = (effect: Effect) => 'text' in effect && effect.id === id && effect.db === db
    return this.effects.findLast(set)?.position ?? null
  }

  /**
   * Creates the item of a fresh id, which is nowhere yet, and which nobody can name before the answer.
   * False for any other operation, and while it is not known whether there is a database.
   */
  #createFresh(operation: Operation): boolean {
    if (operation.kind !== 'create_item' || !operation.assigned) return false
    const { kind, db, id, text } = operation
    if (this.#views.get(db)?.exists !== true) return false
    this.#add(entryText.item(kind, this.#store.serverId, db, text), { kind, db, id, text })
    return true
  }

  async #decide(operation: Operation): Promise<void> {
    const { kind, db } = operation
    const view = this.#views.get(db) ?? (await this.#open(db))
    if (kind === 'create_db') return this.#createDatabase(view, db)
    if (!view.exists) throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
    switch (kind) {
      case 'delete_db':
        this.#replaceView(db, { exists: false, stored: false, items: new Map() })
        this.#add(entryText.database(kind, this.#store.serverId, db), { kind, db })
        return
      case 'create_item':
        return this.#createItem(view, operation)
      case 'update_item':
        await this.#current(view, operation)
        return this.#setItem(view, db, operation.id, operation.text)
      case 'patch_item': {
        const current = await this.#current(view, operation)
        return this.#setItem(view, db, operation.id, patched(current, operation))
      }
      case 'delete_item': {
        await this.#current(view, operation)
        const { id } = operation
        this.#touch(view, id, null)
        this.#add(entryText.deleteItem(this.#store.serverId, db, id), { kind, db, id })
        return
      }
      case 'create_attachment':
      case 'delete_attachment': {
        await this.#current(view, operation)
        const attachment = await attachmentMeant(this.#store, this.effects, operation)
        const { id } = operation
        const { serverId } = this.#store
        this.#add(entryText.attachment(kind, serverId, db, id, attachment), {
          kind,
          db,
          id,
          attachment,
        })
        return
      }
      case 'erase_item': {
        const { of } = operation
        const { positions, freed } = await plannedErasure(this.#store, operation, this.#erased)
        for (const position of positions) this.#erased.add(position)
        this.#undo.push(() => {
          for (const position of positions) this.#erased.delete(position)
        })
        this.#freed.push(...freed)
        const entry = entryText.eraseItem(this.#store.serverId, db, of, positions)
        this.#add(entry, { kind, db, of, positions })
      }
    }
  }

  async #open(db: string): Promise<View> {
    const exists = (await this.#store.database(db)) !== null
    const view = { exists, stored: exists, items: new Map() }
    this.#views.set(db, view)
    return view
  }

  #createDatabase(view: View, db: string): void {
    if (view.exists) throw new LedgerError('DATABASE_EXISTS', `database ${db} exists already`)
    this.#replaceView(db, { exists: true, stored: false, items: new Map() })
    this.#add(entryText.database('create_db', this.#store.serverId, db), { kind: 'create_db', db })
  }

  async #createItem(
    view: View,
    { kind, db, id, text, assigned }: Extract<Operation, { kind: 'create_item' }>,
  ): Promise<void> {
    if (!assigned) {
      if ((await this.#find(view, db, id)) !== null) {
        throw new LedgerError('ITEM_EXISTS', `item ${id} of ${db} exists already`)
      }
      this.#touch(view, id, text)
    }
    this.#add(entryText.item(kind, this.#store.serverId, db, text), { kind, db, id, text })
  }

  #setItem(view: View, db: string, id: string, text: string): void {
    this.#touch(view, id, text)
    const kind = 'update_item'
    this.#add(entryText.item(kind, this.#store.serverId, db, text), { kind, db, id, text })
  }

  async #current(view: View, { db, id }: { db: string; id: string }): Promise<string> {
    const text = await this.#find(view, db, id)
    if (text === null) throw new LedgerError('ITEM_NOT_FOUND', `there is no item ${id} in ${db}`)
    return text
  }

  async #find(view: View, db: string, id: string): Promise<string | null> {
    const touched = view.items.get(id)
    if (touched !== undefined) return touched
    if (!view.stored) return null
    return (await this.#store.item(db, id))?.text ?? null
  }

  #touch(view: View, id: string, text: string | null): void {
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

  #add(entry: string, effect: Unplaced<Effect>): void {
    this.#characters += entry.length
    if (this.#characters > BLOCK_CHARACTERS_MAX) {
      throw new LedgerError('WRITER_BUSY', 'too much is being written at once; try again shortly')
    }
    const position = packPosition(this.#height, this.entries.length)
    this.entries.push(entry)
    this.effects.push({ ...effect, position })
  }
}

/** The refusal of one unit, which leaves the others as they are; any other error is thrown again. */
function refusalOf(error: unknown): LedgerError {
  if (error instanceof LedgerError) return error
  if (
    error instanceof StoreError &&
    (error.code === 'STORE_DAMAGED' || error.code === 'STORE_FAILED')
  ) {
    return new LedgerError(error.code, `nothing was written: ${error.message}`, { cause: error })
  }
  throw error
}

/** An effect that does not know its position yet. */
type Unplaced<E> = E extends Effect ? Omit<E, 'position'> : never

function patched(
  current: string,
  { db, id, text }: { db: string; id: string; text: string },
): string {
  const merged = canonicalJson(mergePatch(objectOf(current), objectOf(text)))
  if (Buffer.byteLength(merged) > ITEM_BYTES_MAX) {
    throw new LedgerError(
      'ITEM_TOO_LARGE',
      `item ${id} of ${db} would pass ${ITEM_BYTES_MAX} bytes`,
    )
  }
  return merged
}

function objectOf(text: string): JsonObject {
  const value: unknown = storedJson(text)
  return isJsonObject(value) ? value : {}
}
