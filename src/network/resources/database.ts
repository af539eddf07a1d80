import { canonicalJson, canonicalString } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { turn } from '../../base/turn.ts'
import {
  compareByOrder,
  type OrderTerm,
  type SortValue,
  toSortValues,
  type Where,
} from '../../filter/index.ts'
import {
  type FoundItem,
  findItemId,
  ITEM_ID_BYTES_MAX,
  type LedgerReader,
  packPosition,
  parseEntryHead,
  type RevisionRange,
  storedJson,
  unpackHeight,
} from '../../ledger/core.ts'
import type { OwnChange } from '../../ledger/index.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import { REGISTRY_TYPES, systemType } from '../model/system.ts'

/** Characters that must be percent-encoded in an item's id. */
const NOT_IN_IDS = /[%/\u0000-\u001f\u007f-\u009f]/g

/**
 * Returns the id of a resource's item in the ledger: `<qualified type>#<id>`. Percent signs, slashes and control
 * characters in the resource's id are percent-encoded, so that no two resources share an item.
 */
export function formatItemId({ type, id }: Target): string {
  return `${type}#${id.replace(NOT_IN_IDS, encodeURIComponent)}`
}

/** Returns the resource to which an item's id belongs, or null if the item is not a resource. */
export function parseItemId(itemId: string): Target | null {
  const hash = itemId.indexOf('#')
  if (hash === -1) return null
  return { type: itemId.slice(0, hash), id: decodeId(itemId.slice(hash + 1)) }
}

const HISTORIAN_RECORD = systemType('HistorianRecord')

/** Decodes the part of an item's id after the `#` to the resource's id. */
function decodeId(text: string): string {
  return text.replace(/(?:%[0-9A-F]{2})+/g, decodeURIComponent)
}

/** Whether the ledger can store a resource with this id. */
export function canBeItem(target: Target): boolean {
  return target.id.isWellFormed() && Buffer.byteLength(formatItemId(target)) <= ITEM_ID_BYTES_MAX
}

export function toResourceItem(target: Target, resource: JsonObject): JsonObject {
  return { id: formatItemId(target), resource }
}

/** Returns the canonical text of a resource's item before the text of the resource. */
function itemHead(itemId: string): string {
  return `{"id":${canonicalString(itemId)},"resource":`
}

/** Returns the text of the resource in the canonical text of its item. */
function sliceResource(itemId: string, itemText: string): string {
  const head = itemHead(itemId)
  if (itemText.startsWith(head)) return itemText.slice(head.length, -1)
  // Only the item of the network itself does not start with `head`, because its archive precedes the resource.
  return canonicalJson(parseStored(itemText).resource ?? null)
}

export function parseStored(text: string): JsonObject {
  const value: Json = storedJson(text)
  return isJsonObject(value) ? value : {}
}

export interface StoredResource {
  readonly id: string
  /** The resource as canonical JSON. */
  readonly text: string
  /** The packed position of the entry that created the resource, and of the one that changed it last. */
  readonly created: number
  readonly revision: number
}

/**
 * Selects and orders resources of a type. Resources that are equal in `order` are ordered by the ids of their items, by
 * code points; see `itemOrder`.
 */
export interface Selection {
  readonly type: TypeDeclaration
  readonly where: Where | null
  readonly order: readonly OrderTerm[]
  /** Maximum number of resources; null for no limit. */
  readonly limit: number | null
  readonly offset: number
}

export function selectAll(type: TypeDeclaration): Selection {
  return { type, where: null, order: [], limit: null, offset: 0 }
}

/**
 * Returns the order of the items of resources for `order`. The order is total, so that a transaction reads equal
 * resources in the same order from the store, before they are recorded, and when it is replayed.
 */
function itemOrder(order: readonly OrderTerm[]): readonly OrderTerm[] {
  const inItem = order.map(({ path, descending }) => ({ path: ['resource', ...path], descending }))
  return [...inItem, { path: ['id'], descending: false }]
}

/** Compares resources of one type in the order of a selection. */
export class ResourceOrder {
  readonly #type: string
  readonly #order: readonly OrderTerm[]
  readonly #terms: readonly OrderTerm[]

  constructor({ type, order }: Pick<Selection, 'type' | 'order'>) {
    this.#type = type.qualifiedName
    this.#order = order
    this.#terms = itemOrder(order)
  }

  /** Returns the values by which `compare` orders a resource. */
  sortValues({ id, text }: StoredResource): SortValue[] {
    const resource = this.#order.length === 0 ? {} : parseStored(text)
    return toSortValues(this.#terms, toResourceItem({ type: this.#type, id }, resource))
  }

  compare(one: readonly SortValue[], other: readonly SortValue[]): number {
    return compareByOrder(this.#terms, one, other)
  }
}

export type ResourceChange =
  | {
      readonly kind: 'create' | 'update'
      readonly target: Target
      readonly resource: JsonObject
      /** `resource` as canonical JSON. */
      readonly text: string
      /** Only for a creation; see `Operation`. */
      readonly assigned: boolean
    }
  | { readonly kind: 'delete'; readonly target: Target }

export interface ResourceRevision {
  /** Packed position of the entry. */
  readonly position: number
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly kind: ResourceChange['kind']
  /** The resource as canonical JSON; null if the entry deleted the resource or was erased. */
  readonly text: string | null
}

const REVISION_KINDS = {
  create_item: 'create',
  update_item: 'update',
  delete_item: 'delete',
} as const

/** The id of a transaction, and the packed position of the entry of its historian record. */
export interface RecordedTransaction {
  readonly id: string
  readonly position: number
}

export function toWrite(
  kind: 'create' | 'update',
  target: Target,
  resource: JsonObject,
  assigned = false,
): ResourceChange {
  return { kind, target, resource, text: canonicalJson(resource), assigned }
}

/** The parts of a block from which changes are read. */
interface RawBlock {
  readonly height: number
  readonly entries: readonly string[]
}

export interface NetworkBlock {
  readonly height: number
  readonly changes: readonly ResourceChange[]
  /** The item that records the network itself, with its archive; null if the block does not contain this item. */
  readonly deployed: JsonObject | null
  /** Whether the block removes the network. */
  readonly removed: boolean
}

export interface ResourceReader {
  /** Returns a resource, or null if it does not exist. */
  read(target: Target): Promise<StoredResource | null>
  /** Whether a resource exists. Does not read its content, which can have 10 MB. */
  exists(target: Target): Promise<boolean>
  /** Yields the selected resources, page by page. */
  select(selection: Selection): AsyncIterable<StoredResource[]>
  /** Counts the selected resources, ignoring `limit` and `offset`. */
  count(selection: Selection): Promise<number>
}

/** Characters of records after which other requests are served. */
const TURN_CHARACTERS = 65_536
/** Maximum resources that are checked against the access rules at a time. */
const BATCH_ROWS_MAX = 256
/** Characters of resources after which a batch ends. */
const BATCH_CHARACTERS = 1_048_576

/** Removes the first resources from `rows` and returns them: few if they are large. */
export function takeBatch(rows: StoredResource[]): StoredResource[] {
  let characters = 0
  const end = rows.findIndex(({ text }) => {
    characters += text.length
    return characters >= BATCH_CHARACTERS
  })
  return rows.splice(0, Math.min(end === -1 ? rows.length : end + 1, BATCH_ROWS_MAX))
}

/** Reads the first of `targets` from the index `from` on, few if they are large; null for a missing resource. */
export async function readBatch(
  reader: Pick<ResourceReader, 'read'>,
  targets: readonly Target[],
  from: number,
): Promise<(StoredResource | null)[]> {
  const batch: (StoredResource | null)[] = []
  let characters = 0
  for (const target of targets.slice(from, from + BATCH_ROWS_MAX)) {
    const stored = await reader.read(target)
    batch.push(stored)
    characters += stored?.text.length ?? 0
    if (characters >= BATCH_CHARACTERS) break
  }
  return batch
}

/** Reads all of `targets` like `readBatch`. */
export async function* readBatches(
  reader: Pick<ResourceReader, 'read'>,
  targets: readonly Target[],
): AsyncGenerator<(StoredResource | null)[]> {
  for (let from = 0; from < targets.length; ) {
    const batch = await readBatch(reader, targets, from)
    from += batch.length
    yield batch
  }
}

/** Returns the total number of rows in `pages`, which it empties, so that it holds none while it waits. */
export async function countRows(pages: AsyncIterable<unknown[]>): Promise<number> {
  let length = 0
  for await (const page of pages) {
    length += page.length
    page.length = 0
  }
  return length
}

/**
 * The durable resources of one network: the resources in its database, and the registries derived from its model.
 */
export class ResourceDatabase implements ResourceReader {
  readonly name: string
  readonly #ledger: LedgerReader
  readonly #registries: ResourceReader

  /** `registries` reads the resources of the registry types. */
  constructor(name: string, ledger: LedgerReader, registries: ResourceReader) {
    this.name = name
    this.#ledger = ledger
    this.#registries = registries
  }

  async read(target: Target): Promise<StoredResource | null> {
    if (REGISTRY_TYPES.has(target.type)) return this.#registries.read(target)
    const itemId = formatItemId(target)
    const item = await this.#ledger.readItem(this.name, itemId)
    if (item === null) return null
    const { text, created, revision } = item
    return { id: target.id, text: sliceResource(itemId, text), created, revision }
  }

  async exists(target: Target): Promise<boolean> {
    if (REGISTRY_TYPES.has(target.type)) return this.#registries.exists(target)
    return this.#ledger.hasItem(this.name, formatItemId(target))
  }

  /** Lists revisions of a resource, as `StoreReader.revisions` does. */
  async revisions(target: Target, range: RevisionRange): Promise<ResourceRevision[]> {
    const itemId = formatItemId(target)
    const page = await this.#ledger.revisions(this.name, itemId, range)
    return page.splice(0).map(({ position, timestamp, kind, text }) => ({
      ...{ position, timestamp, kind: REVISION_KINDS[kind] },
      text: text === null ? null : sliceResource(itemId, text),
    }))
  }

  /** Lists the transactions of the network in the block at `height`. */
  async transactions(height: number): Promise<RecordedTransaction[]> {
    for await (const [block] of this.#ledger.blocks(height, 1)) {
      return (block?.entries ?? []).flatMap((text, index) => {
        // Reads only the beginnings of the entries, because a block can have 10,000 entries and 64 MB.
        const itemId = parseEntryHead(text)?.db === this.name ? (findItemId(text) ?? '') : ''
        const { type, id } = parseItemId(itemId) ?? { type: '', id: '' }
        return type === HISTORIAN_RECORD ? [{ id, position: packPosition(height, index) }] : []
      })
    }
    return []
  }

  async *select(selection: Selection): AsyncGenerator<StoredResource[]> {
    const { type, where, order, limit, offset } = selection
    if (REGISTRY_TYPES.has(type.qualifiedName)) {
      yield* this.#registries.select(selection)
      return
    }
    const { from } = itemIdRange(type)
    const sorted = { ...this.#filter(type, where), limit, offset, order: itemOrder(order) }
    // Empties the page, so that its items are not in memory until the next page is read.
    const resources = (page: FoundItem[]) =>
      page.splice(0).map(({ id, text, created, revision }) => ({
        id: decodeId(id.slice(from.length)),
        text: sliceResource(id, text ?? ''),
        created,
        revision,
      }))
    for await (const page of await this.#ledger.findItems(this.name, sorted, true)) {
      yield resources(page)
    }
  }

  async count(selection: Selection): Promise<number> {
    const { type, where } = selection
    if (REGISTRY_TYPES.has(type.qualifiedName)) return this.#registries.count(selection)
    if (where === null) {
      const { from, to } = itemIdRange(type)
      return this.#ledger.countIds(this.name, from, to)
    }
    const filter = { ...this.#filter(type, where), limit: null, offset: 0, order: itemOrder([]) }
    return countRows(await this.#ledger.findItems(this.name, filter, false))
  }

  /** Yields all items of the database, page by page: resources, and the item of the network itself. */
  items(): AsyncIterable<{ id: string; text: string }[]> {
    return this.#ledger.listItems(this.name)
  }

  /** Yields the changes of the network's resources, block by block, starting at `height`. */
  async *changesFrom(height: number): AsyncGenerator<NetworkBlock> {
    let from = height
    for (;;) {
      const { blocks, next } = await this.readChanges(from)
      if (next === from) return
      yield* blocks
      from = next
    }
  }

  /**
   * Returns the changes of the network's resources in one page of blocks, starting at `height`. `next` is the height
   * after the last block read, or `height` if there is no such block.
   */
  async readChanges(height: number): Promise<{ blocks: NetworkBlock[]; next: number }> {
    const { page, next } = await this.#readPage(height)
    return { blocks: page.flatMap(toNetworkBlock), next }
  }

  /**
   * Calls `take` with each historian record with events that one page of blocks creates, starting at `height`. Parses few
   * records in one event-loop iteration. Returns the next height, as `readChanges` does.
   */
  async readRecords(
    height: number,
    take: (height: number, record: JsonObject) => void,
  ): Promise<number> {
    const { page, next } = await this.#readPage(height)
    let characters = 0
    for (const block of page) {
      for (const text of block.entries) {
        const isRecord = findItemId(text)?.startsWith(`${HISTORIAN_RECORD}#`) === true
        if (!isRecord || !text.includes('"eventsEmitted":[{')) continue
        characters += text.length
        if (characters > TURN_CHARACTERS) {
          await turn()
          characters = 0
        }
        const { method, item } = parseStored(text)
        const record = isJsonObject(item) ? item.resource : null
        if (method === 'create_item' && isJsonObject(record)) take(block.height, record)
      }
    }
    return next
  }

  /** Reads one page of blocks, with only the entries of this database. A page has fewer blocks if they are large. */
  async #readPage(height: number): Promise<{ page: RawBlock[]; next: number }> {
    const created = await this.#ledger.databaseCreated(this.name)
    if (created === null) return { page: [], next: height }
    const from = Math.max(height, unpackHeight(created))
    for await (const blocks of this.#ledger.blocks(from)) {
      // Checks the name before parsing, because in many ledgers most entries belong to other databases. Entries before the
      // creation belong to another database of this name.
      const page = blocks.map(({ height: at, entries }) => ({
        height: at,
        entries: entries.filter(
          (text, index) =>
            packPosition(at, index) > created &&
            text.includes(this.name) &&
            parseEntryHead(text)?.db === this.name,
        ),
      }))
      return { page, next: from + blocks.length }
    }
    return { page: [], next: height }
  }

  #filter(type: TypeDeclaration, where: Where | null) {
    const { from, to } = itemIdRange(type)
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

/** Returns the changes in the entries of a block, or none without entries. */
function toNetworkBlock({ height, entries }: RawBlock): NetworkBlock[] {
  if (entries.length === 0) return []
  const own = entries.map(parseStored)
  const items = own.map(({ item }) => item).filter(isJsonObject)
  const deployed = items.find(({ archive }) => typeof archive === 'string') ?? null
  const removed = items.some((item) => item.removed === true)
  return [{ height, changes: own.flatMap(toResourceChanges), deployed, removed }]
}

/** Returns the ledger entry for a change. */
export function toOwnChange(db: string, change: ResourceChange): OwnChange {
  const id = formatItemId(change.target)
  if (change.kind === 'delete') return { method: 'delete_item', db, id }
  const text = `${itemHead(id)}${change.text}}`
  if (change.kind === 'update') return { kind: 'update_item', db, id, text }
  return { kind: 'create_item', db, id, text, assigned: change.assigned }
}

/** Returns the resource change in an entry; none for other entries, for example the creation of the database. */
export function toResourceChanges(entry: JsonObject): ResourceChange[] {
  const item = isJsonObject(entry.item) ? entry.item : {}
  const target = parseItemId(String(item.id ?? entry.id))
  if (target === null) return []
  if (entry.method === 'delete_item') return [{ kind: 'delete', target }]
  if (entry.method !== 'create_item' && entry.method !== 'update_item') return []
  const kind = entry.method === 'create_item' ? 'create' : 'update'
  return isJsonObject(item.resource) ? [toWrite(kind, target, item.resource)] : []
}

/**
 * Returns the range of the item ids of a type. Each id starts with the type's name and `#`; `$` is the character
 * after `#`.
 */
function itemIdRange({ qualifiedName }: TypeDeclaration): { from: string; to: string } {
  return { from: `${qualifiedName}#`, to: `${qualifiedName}$` }
}

/** Converts a predicate on a resource to a predicate on its item. */
function inResource(where: Where): Where {
  if (where.kind === 'condition') return { ...where, path: ['resource', ...where.path] }
  return { kind: where.kind, of: where.of.map(inResource) }
}
