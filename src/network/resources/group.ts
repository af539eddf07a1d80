import type { JsonObject } from '../../base/json.ts'
import type { UnitOfWork, Written } from '../../ledger/index.ts'
import type { ResourceChange, ResourceReader } from './database.ts'
import { Overlay } from './overlay.ts'

/** Entries of a group, beyond which a transaction waits for the next; one larger goes alone. */
const ENTRIES_MAX = 1_000
/** Characters of them, likewise. */
const CHARACTERS_MAX = 4 * 1024 * 1024

/** Where a request's changes were recorded. */
export interface Recorded extends Written {
  /** The packed position of the first write, or of the transaction where there is none. */
  readonly revision: number
}

/** Transactions that are recorded together: in one block, all of them or none. */
export class Group {
  /** Resources as they are once this group, and all before it, are recorded. */
  readonly overlay: Overlay
  /** What its transactions emit, in their order. */
  readonly events: JsonObject[] = []
  readonly #unit: UnitOfWork[number][] = []
  readonly #written = Promise.withResolvers<Written>()
  #characters = 0
  #size = 0
  #isOpen = true

  /** `below` is what the group before it leaves. */
  constructor(below: ResourceReader) {
    this.overlay = new Overlay(below)
    // Whoever waits for it learns of a failure; at times nobody waits.
    this.#written.promise.catch(() => {})
  }

  /** How many transactions it has. */
  get size(): number {
    return this.#size
  }

  /** Whether it is not being written yet. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Resolves when it is on the disk. Errors: why it is not recorded. */
  get written(): Promise<Written> {
    return this.#written.promise
  }

  /** Whether `unit` may be added. */
  hasRoomFor(unit: UnitOfWork): boolean {
    if (!this.#isOpen || this.#unit.length + unit.length > ENTRIES_MAX) return false
    return this.#characters + charactersOf(unit) <= CHARACTERS_MAX
  }

  /** Adds a transaction that comes to `changes`, recorded by `unit`; gives its place in the group. */
  add(unit: UnitOfWork, changes: readonly ResourceChange[], events: readonly JsonObject[]): number {
    const place = this.#unit.length
    this.#size += 1
    this.#unit.push(...unit)
    this.#characters += charactersOf(unit)
    for (const change of changes) this.overlay.apply(change)
    this.events.push(...events)
    return place
  }

  /** Where the transaction at `place`, with its first write at `writePlace`, comes to be recorded. */
  async recorded(place: number, writePlace: number): Promise<Recorded> {
    const { position, ...block } = await this.#written.promise
    return { ...block, position: position + place, revision: position + writePlace }
  }

  /** Takes no more from now on; gives all that was added, as one unit of work. */
  close(): UnitOfWork {
    this.#isOpen = false
    return this.#unit
  }

  /** Tells everyone that it was recorded. */
  settle(written: Written): void {
    this.#written.resolve(written)
  }

  /** Tells everyone that nothing of it was, or will be. */
  fail(error: Error): void {
    this.#isOpen = false
    this.#written.reject(error)
  }
}

function charactersOf(unit: UnitOfWork): number {
  let characters = 0
  for (const operation of unit) if ('text' in operation) characters += operation.text.length
  return characters
}
