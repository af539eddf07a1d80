import { packPosition, unpackHeight } from '../../ledger/core.ts'
import type { Model, Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import {
  countRows,
  type ResourceChange,
  type ResourceDatabase,
  type ResourceReader,
  type Selection,
  type StoredResource,
} from '../resources/database.ts'
import { createRegistries, limited, NO_RESOURCES, Overlay } from '../resources/overlay.ts'

const HISTORIAN_RECORD = systemType('HistorianRecord')

/** The resources of a network during its replay. Keeps resources in memory, but no transactions of earlier blocks. */
export class ReplayedState {
  readonly #earlier: EarlierRecords
  readonly #resources: Overlay
  /** Reads all resources, with the transactions of the current block and their historian records. */
  readonly reader: Overlay

  /** `newest` reads the newest state of the network. */
  constructor(newest: NewestState) {
    this.#earlier = new EarlierRecords(newest)
    this.#resources = new Overlay(this.#earlier)
    this.reader = new Overlay(this.#resources)
  }

  /** Must be called before the changes of a block. */
  begin(height: number): void {
    this.#earlier.height = height
    this.reader.drop(0)
  }

  /** Must be set before changes of the network that the model describes. */
  set model(model: Model) {
    this.#earlier.model = model
  }

  apply(changes: readonly ResourceChange[]): void {
    for (const change of changes) {
      const isRecord = this.#earlier.isRecord(change.target.type)
      const overlay = isRecord ? this.reader : this.#resources
      overlay.apply(change)
    }
  }
}

type NewestState = Pick<ResourceDatabase, 'read' | 'select' | 'revisions'>

/**
 * Reads the registries, and the transactions and historian records in the blocks before `height`. They are read from the
 * newest state, because only an upgrade changes them: it adds members to transactions.
 */
class EarlierRecords implements ResourceReader {
  readonly #newest: NewestState
  height = 0
  #model: Model | null = null
  #registries = NO_RESOURCES

  constructor(newest: NewestState) {
    this.#newest = newest
  }

  set model(model: Model) {
    this.#model = model
    this.#registries = createRegistries(model)
  }

  /** Whether `type` is the type of a transaction or of historian records. */
  isRecord(type: string): boolean {
    return type === HISTORIAN_RECORD || this.#model?.type(type)?.kind === 'transaction'
  }

  async read(target: Target): Promise<StoredResource | null> {
    if (!this.isRecord(target.type)) return this.#registries.read(target)
    const stored = await this.#newest.read(target)
    return stored === null ? null : this.#earlier(target.type, stored)
  }

  async exists(target: Target): Promise<boolean> {
    return (await this.read(target)) !== null
  }

  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { type, order } = selection
    if (!this.isRecord(type.qualifiedName)) yield* this.#registries.select(selection)
    else if (order.length === 0) yield* limited(this.#pages(selection), selection)
    else {
      // The store would refuse to sort all of them, although at that time there were fewer.
      const found = new Overlay(NO_RESOURCES)
      for await (const page of this.#pages({ ...selection, order: [] })) {
        for (const { id, text } of page) {
          const target = { type: type.qualifiedName, id }
          found.apply({ kind: 'create', target, resource: {}, text, assigned: true })
        }
      }
      yield* found.select(selection)
    }
  }

  count(selection: Selection): Promise<number> {
    return countRows(this.select({ ...selection, order: [], limit: null, offset: 0 }))
  }

  async *#pages(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { qualifiedName } = selection.type
    for await (const page of this.#newest.select({ ...selection, limit: null, offset: 0 })) {
      const earlier: StoredResource[] = []
      for (const stored of page.splice(0)) {
        const record = await this.#earlier(qualifiedName, stored)
        if (record !== null) earlier.push(record)
      }
      yield earlier
    }
  }

  /** Returns `stored`, a record of `type`, as it was before the block at `height`, or null if it did not exist. */
  async #earlier(type: string, stored: StoredResource): Promise<StoredResource | null> {
    if (unpackHeight(stored.revision) < this.height) return stored
    if (unpackHeight(stored.created) >= this.height) return null
    const range = { newestFirst: true, after: packPosition(this.height, 0), limit: 1 }
    const [former] = await this.#newest.revisions({ type, id: stored.id }, range)
    const { text = null, position = -1 } = former ?? {}
    return text === null ? null : { ...stored, text, revision: position }
  }
}
