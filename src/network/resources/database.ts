import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import {
  compareByOrder,
  matches,
  type OrderTerm,
  sortValuesOf,
  type Where,
} from '../../filter/index.ts'
import {
  type Change,
  type DatabaseOwner,
  LedgerError,
  type LedgerService,
  type Written,
} from '../../ledger/index.ts'
import type { TypeDeclaration } from '../model/model.ts'
import type { Target } from '../model/relationship.ts'
import { itemIdOf, itemOf, resourceTextIn, targetOfItem } from './item.ts'

/** A resource as the ledger keeps it. */
export interface StoredResource {
  readonly id: string
  /** Canonical JSON. */
  readonly text: string
  /** The packed position of the entry that set it. */
  readonly revision: number
}

/** Which resources of a type, and in which order; by identifier where `order` leaves it open. */
export interface Selection {
  readonly type: TypeDeclaration
  readonly where: Where | null
  readonly order: readonly OrderTerm[]
  /** Null for all. */
  readonly limit: number | null
  readonly offset: number
}

/** A change of one resource. */
export type ResourceChange =
  | { readonly kind: 'create' | 'update'; readonly target: Target; readonly resource: JsonObject }
  | { readonly kind: 'delete'; readonly target: Target }

/** The resources of one network: a database of the ledger, and nothing beside it. */
export class ResourceDatabase {
  readonly name: string
  readonly #ledger: LedgerService
  readonly #owner: DatabaseOwner

  constructor(name: string, ledger: LedgerService) {
    this.name = name
    this.#ledger = ledger
    this.#owner = ledger.ownDatabase(name)
  }

  /** The item of that id as it is kept, or null; also while there is no database yet. */
  async item(id: string): Promise<{ text: string; revision: number } | null> {
    return this.#whereThereIs(() => this.#ledger.readItem(this.name, id), null)
  }

  /** One resource, or null. */
  async read(target: Target): Promise<StoredResource | null> {
    const itemId = itemIdOf(target)
    const item = await this.item(itemId)
    if (item === null) return null
    const { text, revision } = item
    return { id: target.id, text: resourceTextIn(itemId, text), revision }
  }

  /** The resources that `selection` asks for, page by page. */
  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { offset, limit } = selection
    const found = await this.#found(selection)
    yield found.slice(offset, limit === null ? undefined : offset + limit)
  }

  /** How many there are, `limit` and `offset` aside. */
  async count(selection: Selection): Promise<number> {
    return (await this.#found(selection)).length
  }

  /** All items of the database, page by page: resources and whatever else is kept there. */
  async *items(): AsyncGenerator<{ id: string; text: string }[]> {
    const all = { limit: 0, offset: 0, after: null }
    const pages = await this.#whereThereIs(() => this.#ledger.listItems(this.name, all), null)
    if (pages !== null) yield* pages
  }

  /** Records all of `changes`, with `before` in front of them, in one block. */
  record(changes: readonly ResourceChange[], before: readonly Change[] = []): Promise<Written> {
    return this.#owner.recordChanges([...before, ...changes.map((change) => this.#entry(change))])
  }

  #entry(change: ResourceChange): Change {
    const db = this.name
    const { kind, target } = change
    if (kind === 'delete') return { method: 'delete_item', db, id: itemIdOf(target) }
    return { method: `${kind}_item`, db, item: itemOf(target, change.resource) }
  }

  async #found({ type, where, order }: Selection): Promise<StoredResource[]> {
    const found: { stored: StoredResource; value: JsonObject }[] = []
    for await (const page of this.items()) {
      for (const item of page) {
        const target = targetOfItem(item.id)
        if (target?.type !== type.qualifiedName) continue
        const text = resourceTextIn(item.id, item.text)
        const value: Json = JSON.parse(text)
        if (!isJsonObject(value) || (where !== null && !matches(where, value))) continue
        found.push({ stored: { id: target.id, text, revision: 0 }, value })
      }
    }
    return found
      .map(({ stored, value }) => ({ stored, keys: sortValuesOf(order, value) }))
      .sort(
        (one, other) =>
          compareByOrder(order, one.keys, other.keys) ||
          (itemIdOf({ type: '', id: one.stored.id }) < itemIdOf({ type: '', id: other.stored.id })
            ? -1
            : 1),
      )
      .map(({ stored }) => stored)
  }

  async #whereThereIs<Result>(read: () => Promise<Result>, otherwise: Result): Promise<Result> {
    try {
      return await read()
    } catch (error) {
      if (error instanceof LedgerError && error.code === 'DATABASE_NOT_FOUND') return otherwise
      throw error
    }
  }
}
