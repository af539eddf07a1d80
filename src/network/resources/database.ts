import { isJsonObject, type JsonObject } from '../../base/json.ts'
import type { Filter, OrderTerm, Where } from '../../filter/index.ts'
import { LedgerError } from '../../ledger/core.ts'
import type {
  Change,
  Found,
  LedgerService,
  OwnChange,
  OwnDatabase,
  UnitOfWork,
  Written,
} from '../../ledger/index.ts'
import type { TypeDeclaration } from '../model/model.ts'
import type { Target } from '../model/relationship.ts'
import { REGISTRY_TYPES } from '../model/system.ts'
import { idIn, itemIdOf, itemOf, objectIn, resourceTextIn, targetOfItem } from './item.ts'

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
  | {
      readonly kind: 'create' | 'update'
      readonly target: Target
      readonly resource: JsonObject
      /** Of a creation: see `OwnChange`. */
      readonly assigned?: boolean
    }
  | { readonly kind: 'delete'; readonly target: Target }

/** Blocks read at a time. */
const BLOCKS_READ_MAX = 64

/** A block, as far as changes are read from it. */
interface RawBlock {
  readonly height: number
  readonly entries: readonly string[]
}

/** What one block changed. */
export interface RecordedChanges {
  readonly height: number
  readonly changes: readonly ResourceChange[]
  /** The item that records the network itself, with its archive, when the block has it. */
  readonly deployed: JsonObject | null
  /** Whether the block removes the network. */
  readonly removed: boolean
}

/** Where resources are read from. */
export interface ResourceReader {
  /** One resource, or null. */
  read(target: Target): Promise<StoredResource | null>
  /** The resources that `selection` asks for, page by page. */
  select(selection: Selection): AsyncIterable<StoredResource[]>
  /** How many there are, `limit` and `offset` aside. */
  count(selection: Selection): Promise<number>
}

/** The resources of one network: a database of the ledger, and the registries that its model implies. */
export class ResourceDatabase implements ResourceReader {
  readonly name: string
  readonly #ledger: LedgerService
  readonly #own: OwnDatabase
  #registries: ResourceReader

  /** `registries` are the resources of the registry types. */
  constructor(name: string, ledger: LedgerService, registries: ResourceReader) {
    this.name = name
    this.#ledger = ledger
    this.#own = ledger.ownDatabase(name)
    this.#registries = registries
  }

  /** Replaces the registries, which follow from the model. */
  setRegistries(registries: ResourceReader): void {
    this.#registries = registries
  }

  /** The item of that id as it is kept, or null; also while there is no database yet. */
  async item(id: string): Promise<{ text: string; revision: number } | null> {
    return this.#whereThereIs(() => this.#ledger.readItem(this.name, id), null)
  }

  /** One resource, or null. */
  async read(target: Target): Promise<StoredResource | null> {
    if (REGISTRY_TYPES.has(target.type)) return this.#registries.read(target)
    const itemId = itemIdOf(target)
    const item = await this.item(itemId)
    if (item === null) return null
    const { text, revision } = item
    return { id: target.id, text: resourceTextIn(itemId, text), revision }
  }

  /** The resources that `selection` asks for, page by page. */
  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { type, where, order, limit, offset } = selection
    if (REGISTRY_TYPES.has(type.qualifiedName)) {
      yield* this.#registries.select(selection)
      return
    }
    const { from } = idsOf(type)
    const inItem = order.map(({ path, descending }) => ({
      path: ['resource', ...path],
      descending,
    }))
    const filter = { ...this.#filter(type, where), limit, offset }
    const sorted = { ...filter, order: inItem.length === 0 ? BY_ID : inItem }
    for await (const page of await this.#find(sorted, true)) {
      yield page.map(({ id, text, revision }) => ({
        id: idIn(id.slice(from.length)),
        text: resourceTextIn(id, text ?? ''),
        revision,
      }))
    }
  }

  /** How many there are, `limit` and `offset` aside. */
  async count(selection: Selection): Promise<number> {
    const { type, where } = selection
    if (REGISTRY_TYPES.has(type.qualifiedName)) return this.#registries.count(selection)
    if (where === null) {
      const { from, to } = idsOf(type)
      return this.#ledger.queries.countIds(this.name, from, to)
    }
    let count = 0
    const filter = { ...this.#filter(type, where), limit: null, offset: 0, order: BY_ID }
    for await (const page of await this.#find(filter, false)) count += page.length
    return count
  }

  /** All items of the database, page by page: resources and whatever else is kept there. */
  async *items(): AsyncGenerator<{ id: string; text: string }[]> {
    const all = { limit: 0, offset: 0, after: null }
    const pages = await this.#whereThereIs(() => this.#ledger.listItems(this.name, all), null)
    if (pages !== null) yield* pages
  }

  /** The changes of these resources from the block at `height` on, block by block. */
  async *changesFrom(height: number): AsyncGenerator<RecordedChanges> {
    let from = height
    for (;;) {
      const { blocks, next } = await this.changesAt(from)
      if (next === from) return
      yield* blocks
      from = next
    }
  }

  /**
   * The changes of these resources in the blocks from `height` on, in one read of bounded size.
   * `next` is the height after the last block read; it equals `height` when there is none.
   */
  async changesAt(height: number): Promise<{ blocks: RecordedChanges[]; next: number }> {
    const range = { offset: height, limit: BLOCKS_READ_MAX }
    const pages = await this.#ledger.listBlocks(this.#ledger.serverId, range)
    // The ledger ends a page early when its blocks are large; the rest is for the next read.
    for await (const page of pages) {
      const blocks = page.flatMap((block) => this.#changesIn(block))
      return { blocks, next: height + page.length }
    }
    return { blocks: [], next: height }
  }

  #changesIn({ height, entries }: RawBlock): RecordedChanges[] {
    // Entries of other databases are the most by far in many a ledger.
    const own = entries
      .filter((text) => text.includes(this.name))
      .map(objectIn)
      .filter(({ db }) => db === this.name)
    if (own.length === 0) return []
    const items = own.map(({ item }) => item).filter(isJsonObject)
    const deployed = items.find(({ archive }) => typeof archive === 'string') ?? null
    const removed = items.some((item) => item.removed === true)
    return [{ height, changes: own.flatMap(resourceChangesIn), deployed, removed }]
  }

  /**
   * `changes`, with `before` in front of them, as a unit of work. Errors: UNIT_TOO_LARGE,
   * ITEM_TOO_LARGE, ITEM_ID_INVALID.
   */
  prepare(changes: readonly ResourceChange[], before: readonly Change[] = []): UnitOfWork {
    return this.#own.prepare([...before, ...changes.map((change) => this.#entry(change))])
  }

  /** Records what was prepared, in one block. */
  record(unit: UnitOfWork): Promise<Written> {
    return this.#own.record(unit)
  }

  #entry(change: ResourceChange): OwnChange {
    const db = this.name
    const { kind, target } = change
    if (kind === 'delete') return { method: 'delete_item', db, id: itemIdOf(target) }
    const item = itemOf(target, change.resource)
    return { method: `${kind}_item`, db, item, assigned: change.assigned ?? false }
  }

  /** What makes items resources of `type`, and resources those that are wanted. */
  #filter(type: TypeDeclaration, where: Where | null) {
    const { from, to } = idsOf(type)
    const ofType: Where = {
      kind: 'condition',
      path: ['id'],
      negated: false,
      test: {
        kind: 'range',
        from: { value: from, inclusive: true },
        to: { value: to, inclusive: false },
      },
    }
    const of = where === null ? [ofType] : [ofType, inResource(where)]
    return { where: { kind: 'all' as const, of }, fields: null, resolve: false }
  }

  async #find(filter: Filter, docs: boolean): Promise<Found['pages']> {
    const search = () => this.#ledger.findItems(this.name, { filter, after: null, docs })
    return this.#whereThereIs(async () => (await search()).pages, NOTHING)
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

/** The change of a resource that an entry records; none for one that makes the database. */
export function resourceChangesIn(entry: JsonObject): ResourceChange[] {
  const item = isJsonObject(entry.item) ? entry.item : {}
  const target = targetOfItem(String(item.id ?? entry.id))
  if (target === null) return []
  if (entry.method === 'delete_item') return [{ kind: 'delete', target }]
  if (entry.method !== 'create_item' && entry.method !== 'update_item') return []
  const kind = entry.method === 'create_item' ? 'create' : 'update'
  return isJsonObject(item.resource) ? [{ kind, target, resource: item.resource }] : []
}

const BY_ID: readonly OrderTerm[] = [{ path: ['id'], descending: false }]
const NOTHING: Found['pages'] = { async *[Symbol.asyncIterator]() {} }

/** Where the items of a type are among all: their ids begin with its name and `#`, before `$`. */
function idsOf({ qualifiedName }: TypeDeclaration): { from: string; to: string } {
  return { from: `${qualifiedName}#`, to: `${qualifiedName}$` }
}

/** The same predicate of the resource in an item. */
function inResource(where: Where): Where {
  if (where.kind === 'condition') return { ...where, path: ['resource', ...where.path] }
  return { kind: where.kind, of: where.of.map(inResource) }
}
