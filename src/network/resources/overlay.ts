import { canonicalJson } from '../../base/canonical-json.ts'
import type { JsonObject } from '../../base/json.ts'
import {
  compareByOrder,
  matches,
  type OrderTerm,
  type SortValue,
  sortValuesOf,
} from '../../filter/index.ts'
import type { Target } from '../model/relationship.ts'
import type { ResourceChange, ResourceReader, Selection, StoredResource } from './database.ts'
import { itemIdOf, objectIn } from './item.ts'

/**
 * Resources as they will be once `changes` are recorded: what reads go to while a transaction is
 * processed, so that it sees what it wrote. Nothing of it reaches the resources below.
 */
export class Overlay implements ResourceReader {
  /** What was changed, in its order. */
  readonly changes: ResourceChange[] = []
  #below: ResourceReader
  /** By type and id; null for what was removed. */
  readonly #changed = new Map<string, Map<string, StoredResource | null>>()

  constructor(below: ResourceReader) {
    this.#below = below
  }

  /** Reads go to `below` from now on, which holds what was below until now. */
  standOn(below: ResourceReader): void {
    this.#below = below
  }

  /** Changes one resource here. */
  apply(change: ResourceChange): void {
    const { type, id } = change.target
    const ofType = this.#changed.get(type) ?? new Map<string, StoredResource | null>()
    this.#changed.set(type, ofType)
    this.changes.push(change)
    if (change.kind === 'delete') ofType.set(id, null)
    else ofType.set(id, new Unrecorded(id, change.resource))
  }

  async read(target: Target): Promise<StoredResource | null> {
    const changed = this.#changed.get(target.type)?.get(target.id)
    return changed === undefined ? this.#below.read(target) : changed
  }

  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const changed = this.#changed.get(selection.type.qualifiedName)
    if (changed === undefined) {
      yield* this.#below.select(selection)
      return
    }
    const { where, order, offset, limit } = selection
    const rows: Row[] = []
    for await (const page of this.#below.select({ ...selection, limit: null, offset: 0 })) {
      for (const stored of page) if (!changed.has(stored.id)) rows.push(rowOf(stored, order))
    }
    for (const stored of changed.values()) {
      if (stored === null) continue
      if (where === null || matches(where, objectIn(stored.text))) rows.push(rowOf(stored, order))
    }
    rows.sort((one, other) => compareRows(order, one, other))
    const found = rows.slice(offset, limit === null ? undefined : offset + limit)
    yield found.map(({ stored }) => stored)
  }

  async count(selection: Selection): Promise<number> {
    if (!this.#changed.has(selection.type.qualifiedName)) return this.#below.count(selection)
    let count = 0
    for await (const page of this.select({ ...selection, limit: null, offset: 0 })) {
      count += page.length
    }
    return count
  }
}

/** A resource that has no revision yet: no other is equal to its. */
class Unrecorded implements StoredResource {
  readonly id: string
  readonly revision = -1
  readonly #resource: JsonObject
  #text: string | null = null

  constructor(id: string, resource: JsonObject) {
    this.id = id
    this.#resource = resource
  }

  /** Made when somebody reads it: most are not read. */
  get text(): string {
    this.#text ??= canonicalJson(this.#resource)
    return this.#text
  }
}

interface Row {
  readonly stored: StoredResource
  readonly keys: readonly SortValue[]
  /** As the ledger orders them. */
  readonly itemId: string
}

function rowOf(stored: StoredResource, order: readonly OrderTerm[]): Row {
  const value: JsonObject = order.length === 0 ? {} : objectIn(stored.text)
  const itemId = itemIdOf({ type: '', id: stored.id })
  return { stored, keys: sortValuesOf(order, value), itemId }
}

function compareRows(order: readonly OrderTerm[], one: Row, other: Row): number {
  return compareByOrder(order, one.keys, other.keys) || (one.itemId < other.itemId ? -1 : 1)
}
