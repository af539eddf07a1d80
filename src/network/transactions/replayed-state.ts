import { unpackHeight } from '../../ledger/core.ts'
import type { Model, Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import {
  countRows,
  type ResourceChange,
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
  constructor(newest: ResourceReader) {
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

/**
 * Reads the registries, and the transactions and historian records in the blocks before `height`. Both never change,
 * so they are read from the newest state.
 */
class EarlierRecords implements ResourceReader {
  readonly #newest: ResourceReader
  height = 0
  #model: Model | null = null
  #registries = NO_RESOURCES

  constructor(newest: ResourceReader) {
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
    return stored !== null && this.#isEarlier(stored) ? stored : null
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
    for await (const page of this.#newest.select({ ...selection, limit: null, offset: 0 })) {
      yield page.splice(0).filter((stored) => this.#isEarlier(stored))
    }
  }

  #isEarlier({ revision }: StoredResource): boolean {
    return unpackHeight(revision) < this.height
  }
}
