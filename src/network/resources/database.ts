import { canonicalJson, canonicalString } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { OrderTerm, Where } from '../../filter/index.ts'
import { type LedgerReader, storedJson } from '../../ledger/core.ts'
import type { OwnChange } from '../../ledger/index.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import { REGISTRY_TYPES } from '../model/system.ts'

/** Bytes of an item's id in the ledger. */
const ITEM_ID_BYTES_MAX = 256

/** Characters that an item's id cannot have. */
const NOT_IN_IDS = /[%/\u0000-\u001f\u007f-\u009f]/g

/**
 * The id of a resource's item in the ledger: `<qualified type>#<id>`. Percent signs, slashes and
 * control characters of the id are percent-encoded, so two resources never share an item.
 */
export function itemIdOf({ type, id }: Target): string {
  return `${type}#${id.replace(NOT_IN_IDS, encodeURIComponent)}`
}

/** The resource that an item's id names, or null when it names none. */
export function targetOfItem(itemId: string): Target | null {
  const hash = itemId.indexOf('#')
  if (hash === -1) return null
  return { type: itemId.slice(0, hash), id: idIn(itemId.slice(hash + 1)) }
}

/** The id of a resource, from the part behind the `#` of its item's id. */
function idIn(text: string): string {
  return text.replace(/(?:%[0-9A-F]{2})+/g, decodeURIComponent)
}

/** Whether the ledger can keep a resource of this id. */
export function canBeItem(target: Target): boolean {
  return target.id.isWellFormed() && Buffer.byteLength(itemIdOf(target)) <= ITEM_ID_BYTES_MAX
}

/** The item of a resource. */
export function itemOf(target: Target, resource: JsonObject): JsonObject {
  return { id: itemIdOf(target), resource }
}

/** The text of the resource in the text of its item, which is canonical. */
function resourceTextIn(itemId: string, itemText: string): string {
  const head = `{"id":${canonicalString(itemId)},"resource":`
  if (itemText.startsWith(head)) return itemText.slice(head.length, -1)
  // The item of the network itself has its archive in front of its resource.
  return canonicalJson(objectIn(itemText).resource ?? null)
}

/** The object that a stored text holds. */
export function objectIn(text: string): JsonObject {
  const value: Json = storedJson(text)
  return isJsonObject(value) ? value : {}
}

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
  /** Maximum number of resources; null for no limit. */
  readonly limit: number | null
  readonly offset: number
}

/** All resources of `type`. */
export function allOf(type: TypeDeclaration): Selection {
  return { type, where: null, order: [], limit: null, offset: 0 }
}

/** A change of one resource. */
export type ResourceChange =
  | {
      readonly kind: 'create' | 'update'
      readonly target: Target
      readonly resource: JsonObject
      /** For a creation: see `OwnChange`. */
      readonly assigned?: boolean
    }
  | { readonly kind: 'delete'; readonly target: Target }

/** A block, as far as changes are read from it. */
interface RawBlock {
  readonly height: number
  readonly entries: readonly string[]
}

/** The changes of a network in one block. */
export interface RecordedChanges {
  readonly height: number
  readonly changes: readonly ResourceChange[]
  /** The item that records the network itself, with its archive, when the block has it. */
  readonly deployed: JsonObject | null
  /** Whether the block removes the network. */
  readonly removed: boolean
}

/** Reads resources. */
export interface ResourceReader {
  /** One resource, or null. */
  read(target: Target): Promise<StoredResource | null>
  /** The resources that `selection` asks for, page by page. */
  select(selection: Selection): AsyncIterable<StoredResource[]>
  /** Counts the resources that `selection` asks for, without `limit` and `offset`. */
  count(selection: Selection): Promise<number>
}

/** The number of rows in `pages`. */
export async function lengthOf(pages: AsyncIterable<readonly unknown[]>): Promise<number> {
  let length = 0
  for await (const page of pages) length += page.length
  return length
}

/** The durable resources of one network: a database of the ledger, and the registries of its model. */
export class ResourceDatabase implements ResourceReader {
  readonly name: string
  readonly #ledger: LedgerReader
  readonly #registries: ResourceReader

  /** `registries` are the resources of the registry types, which follow from the model. */
  constructor(name: string, ledger: LedgerReader, registries: ResourceReader) {
    this.name = name
    this.#ledger = ledger
    this.#registries = registries
  }

  /** One resource, or null. */
  async read(target: Target): Promise<StoredResource | null> {
    if (REGISTRY_TYPES.has(target.type)) return this.#registries.read(target)
    const itemId = itemIdOf(target)
    const item = await this.#ledger.readItem(this.name, itemId)
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
    for await (const page of await this.#ledger.findItems(this.name, sorted, true)) {
      yield page.map(({ id, text, revision }) => ({
        id: idIn(id.slice(from.length)),
        text: resourceTextIn(id, text ?? ''),
        revision,
      }))
    }
  }

  /** Counts the resources that `selection` asks for, without `limit` and `offset`. */
  async count(selection: Selection): Promise<number> {
    const { type, where } = selection
    if (REGISTRY_TYPES.has(type.qualifiedName)) return this.#registries.count(selection)
    if (where === null) {
      const { from, to } = idsOf(type)
      return this.#ledger.countIds(this.name, from, to)
    }
    const filter = { ...this.#filter(type, where), limit: null, offset: 0, order: BY_ID }
    return lengthOf(await this.#ledger.findItems(this.name, filter, false))
  }

  /** All items of the database, page by page: resources, and the item of the network itself. */
  items(): AsyncIterable<{ id: string; text: string }[]> {
    return this.#ledger.listItems(this.name)
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
    // The ledger ends a page early when its blocks are large; the rest is for the next read.
    for await (const page of this.#ledger.blocks(height)) {
      const blocks = page.flatMap((block) => this.#changesIn(block))
      return { blocks, next: height + page.length }
    }
    return { blocks: [], next: height }
  }

  #changesIn({ height, entries }: RawBlock): RecordedChanges[] {
    // In many ledgers most entries are of other databases.
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
}

/** The ledger's entry of a change. */
export function entryOf(db: string, change: ResourceChange): OwnChange {
  const { kind, target } = change
  if (kind === 'delete') return { method: 'delete_item', db, id: itemIdOf(target) }
  const item = itemOf(target, change.resource)
  return { method: `${kind}_item`, db, item, assigned: change.assigned ?? false }
}

/** The changes of resources in an entry; none for one that creates the database. */
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

/** The range of the ids of a type's items: they begin with its name and `#`, which precedes `$`. */
function idsOf({ qualifiedName }: TypeDeclaration): { from: string; to: string } {
  return { from: `${qualifiedName}#`, to: `${qualifiedName}$` }
}

/** `where` as a predicate of the item instead of its resource. */
function inResource(where: Where): Where {
  if (where.kind === 'condition') return { ...where, path: ['resource', ...where.path] }
  return { kind: where.kind, of: where.of.map(inResource) }
}
