import type { Aggregated, AggregateOptions, CountOptions } from './aggregation.ts'
import { AttachmentsClient } from './attachments.ts'
import { ClientError, unverifiable, VerificationError } from './error.ts'
import { filterText, type QueryFilter } from './filter.ts'
import type { MemberName, Patch, Revision, Selected, Stored } from './item.ts'
import { requireObject, valueInvalid } from './json-body.ts'
import { jsonOf, jsonWithLists } from './reply.ts'
import { type Call, pathOf, type RequestOptions, type Transport } from './transport.ts'
import type { ProvenRevision, Verification } from './verification.ts'

/** The result of a change. */
export interface Written {
  readonly id: string
  /** `<height>.<index>` of the entry. */
  readonly position: string
  /** The value for `ifMatch`. */
  readonly etag: string
}

/** The result of a read. */
export interface Read<Item> {
  readonly item: Stored<Item>
  readonly position: string
  /** The value for `ifMatch`. */
  readonly etag: string
}

/** Options of a change. */
export interface ChangeOptions extends RequestOptions {
  /** Fails with `PRECONDITION_FAILED` unless the item still has this `etag`. */
  readonly ifMatch?: string | undefined
}

/** Selects items and their order. */
export interface QueryOptions<Item, Field extends MemberName<Item> = never> extends RequestOptions {
  readonly filter?: QueryFilter<Item, Field> | undefined
  /** Maximum number of items in total. */
  readonly limit?: number | undefined
  /** Only items that were created after the item with this id. */
  readonly after?: string | undefined
  /** Items per request, 1..10,000; 500 by default. */
  readonly pageSize?: number | undefined
}

const PAGE = 500
const PAGE_MAX = 10_000
const DATABASE = '/api/{db}'
const ITEM = '/api/{db}/{id}'
const AGGREGATE = '/api/config/aggregate'

/** Options of a history. */
export interface HistoryOptions extends RequestOptions {
  /** Revisions per request; 500 by default. */
  readonly pageSize?: number | undefined
}

interface HistoryPage<Item> {
  readonly history: readonly Revision<Item>[]
  readonly cursor: string | null
}

interface Page<Doc> {
  readonly items: readonly string[]
  readonly docs: readonly Doc[]
}

/** A database of a node. Errors of all methods: ClientError. */
export class DatabaseClient<Item extends object> {
  readonly name: string
  readonly #transport: Transport
  /** Null if the client does not verify replies. */
  readonly #verification: Verification | null

  constructor(transport: Transport, verification: Verification | null, name: string) {
    this.name = name
    this.#transport = transport
    this.#verification = verification
  }

  /** Creates an item. The node assigns an id if `item` has none. */
  async create(
    item: Item & { readonly id?: string },
    options: RequestOptions = {},
  ): Promise<Written> {
    const body = requireObject(item, 'body')
    const call = { method: 'POST', path: this.#path(), body, ...options }
    const written = await this.#transport.write(call, async (reply) => {
      const { id } = await jsonOf<{ id: string }>(reply)
      return writtenIn(reply, id)
    })
    await this.#verification?.written(this.name, written.id, written.position, false)
    return written
  }

  /** Creates all `items` or none of them; resolves to their ids. */
  async createAll(
    items: readonly (Item & { readonly id?: string })[],
    options: RequestOptions = {},
  ): Promise<readonly string[]> {
    const call = { method: 'POST', path: this.#path(), body: items, ...options }
    return (await this.#transport.write(call, jsonWithLists<{ ids: readonly string[] }>('ids'))).ids
  }

  /** Returns the item, or null if it does not exist. With `at`, returns the item as of the block of this height. */
  async read(
    id: string,
    options: RequestOptions & { readonly at?: number | undefined } = {},
  ): Promise<Read<Item> | null> {
    const { at, ...rest } = options
    const path = this.#path(id)
    if (this.#verification !== null && at === undefined) {
      return readOf(await this.#verification.read(this.name, id, rest))
    }
    const call = { method: 'GET', path, query: { at }, isProven: true, ...rest }
    try {
      const read = await this.#transport.read(call, async (reply) => {
        const { item } = await jsonOf<{ item: Stored<Item> }>(reply)
        const { position, etag } = writtenIn(reply, id)
        return { item, position, etag }
      })
      if (this.#verification === null || at === undefined) return read
      return readOf(await this.#verification.readAt(this.name, id, at, read.position, rest))
    } catch (error) {
      if (!(error instanceof ClientError)) throw error
      if (error.code === 'ITEM_NOT_FOUND') return null
      if (error.code !== 'REVISION_ERASED' || this.#verification === null) throw error
      throw new VerificationError('ITEM_ERASED', error.message, { cause: error })
    }
  }

  /** Replaces the item. With `ifAbsent`, creates the item instead, and fails if the item exists. */
  async replace(
    id: string,
    item: Item,
    options: ChangeOptions & { readonly ifAbsent?: boolean } = {},
  ): Promise<Written> {
    const { ifAbsent = false, ...rest } = options
    const headers: Record<string, string> = ifAbsent ? { 'if-none-match': '*' } : {}
    return this.#change('POST', id, requireObject(item, 'body'), rest, headers)
  }

  /** Merges `members` into the item (RFC 7396): null removes an optional member. */
  async patch(id: string, members: Patch<Item>, options: ChangeOptions = {}): Promise<Written> {
    return this.#change('PATCH', id, requireObject(members, 'body'), options)
  }

  /** Deletes the item. */
  async delete(id: string, options: ChangeOptions = {}): Promise<Written> {
    return this.#change('DELETE', id, undefined, options)
  }

  /**
   * Yields the items in creation order, or in the order of `filter.order`, page by page. With `filter.order`, an
   * item that changes during the loop may be returned twice or not at all.
   */
  async *query<Field extends MemberName<Item> = never>(
    options: QueryOptions<Item, Field> = {},
  ): AsyncGenerator<Selected<Item, Field>> {
    if (this.#verification === null) {
      for await (const { docs } of this.#pages<Selected<Item, Field>, Field>(options, true)) {
        yield* docs
      }
      return
    }
    // Reads each selected item again with its proof. Refuses `fields`, because a proof is for a whole item.
    if (options.filter?.fields !== undefined) throw unverifiable('fields of items')
    for await (const { items } of this.#pages({ ...options, isProven: true }, false)) {
      for (const id of items) {
        const read = await this.read(id, { signal: options.signal })
        // Without `fields`, a selected item is a whole item.
        if (read !== null) yield read.item as Selected<Item, Field>
      }
    }
  }

  /** Like `query`, but yields only the ids. */
  async *ids(options: QueryOptions<Item> = {}): AsyncGenerator<string> {
    for await (const { items } of this.#pages(options, false)) yield* items
  }

  /** Counts the items, or only the items that match `filter.where`. */
  async count({ filter, ...rest }: CountOptions<Item> = {}): Promise<number> {
    const query = { count: true, limit: 1, filter: filter && filterText(filter) }
    const call = { method: 'GET', path: this.#path(), query, ...rest }
    return (await this.#transport.read(call, jsonOf<{ count: number }>)).count
  }

  /** Counts the items in groups, with sums, averages and extremes. */
  async aggregate(options: AggregateOptions<Item> = {}): Promise<Aggregated> {
    const { filter, group, sum, avg, min, max, ...rest } = options
    const query = {
      db: this.name,
      group: group?.join(),
      sum: sum?.join(),
      avg: avg?.join(),
      min: min?.join(),
      max: max?.join(),
      filter: filter && filterText(filter),
    }
    const call = { method: 'GET', path: AGGREGATE, query, ...rest }
    const reply = await this.#transport.read(call, jsonWithLists<Aggregated>('groups'))
    const { groups, height, consistent } = reply
    return { groups, height, consistent }
  }

  /** Yields all revisions of the item, oldest first, even if it was deleted. */
  async *history(id: string, options: HistoryOptions = {}): AsyncGenerator<Revision<Item>> {
    const listed = this.#history(id, options)
    if (this.#verification === null) yield* listed
    else yield* this.#verification.history(this.name, id, listed, options)
  }

  async *#history(
    id: string,
    { pageSize = PAGE, ...options }: HistoryOptions,
  ): AsyncGenerator<Revision<Item>> {
    let cursor: string | undefined
    do {
      const query = { limit: pageSize, cursor }
      const path = `${this.#path(id)}/history`
      const call = { method: 'GET', path, query, isProven: true, ...options }
      const page = await this.#transport.read(call, jsonWithLists<HistoryPage<Item>>('history'))
      yield* page.history
      cursor = page.cursor ?? undefined
    } while (cursor !== undefined)
  }

  attachments(id: string): AttachmentsClient {
    return new AttachmentsClient(this.#transport, this.name, id)
  }

  async *#pages<Doc, Field extends MemberName<Item> = never>(
    options: QueryOptions<Item, Field> & Pick<Call, 'isProven'>,
    docs: boolean,
  ): AsyncGenerator<Page<Doc>> {
    const { filter, limit = Number.POSITIVE_INFINITY, after, pageSize = PAGE, ...rest } = options
    // `!(limit >= 0)` also refuses NaN, with which the list would end at once.
    if (!(limit >= 0)) throw valueInvalid(`limit must be 0 or more, but is ${limit}`)
    if (!(pageSize >= 1)) throw valueInvalid(`pageSize must be 1 or more, but is ${pageSize}`)
    const pageMax = Math.min(pageSize, PAGE_MAX)
    const convert = jsonWithLists<Page<Doc>>('items', ...(docs ? ['docs' as const] : []))
    // If the filter has an order, `offset` (a number of items) selects the next page; otherwise `after` (an id) does.
    const isOrdered = (filter?.order?.length ?? 0) > 0
    let left = limit
    let offset = 0
    // The ids of the last page. The next page continues after the last of these ids that still exists.
    let previousIds = after === undefined ? [] : [after]
    while (left > 0) {
      const size = Math.min(left, pageMax)
      const query = {
        limit: size,
        docs,
        offset: isOrdered ? offset : undefined,
        filter: filter && filterText(filter),
      }
      const call = { method: 'GET', path: this.#path(), query, ...rest }
      const page = await this.#page(previousIds, call, convert)
      yield page
      left -= page.items.length
      offset += page.items.length
      if (!isOrdered) previousIds = [...page.items]
      if (page.items.length < size) return
    }
  }

  /** Returns the page after the last of `previousIds` that still exists. */
  async #page<Doc>(
    previousIds: readonly string[],
    call: Call,
    convert: (reply: Response) => Promise<Page<Doc>>,
  ): Promise<Page<Doc>> {
    for (let at = previousIds.length - 1; ; at -= 1) {
      try {
        const query = { ...call.query, after: previousIds[at] }
        return await this.#transport.read({ ...call, query }, convert)
      } catch (error) {
        const isGone = error instanceof ClientError && error.code === 'ITEM_NOT_FOUND'
        if (!isGone || at <= 0) throw error
      }
    }
  }

  async #change(
    method: string,
    id: string,
    body: unknown,
    { ifMatch, ...rest }: ChangeOptions,
    headers: Record<string, string> = {},
  ): Promise<Written> {
    if (ifMatch !== undefined) headers['if-match'] = ifMatch
    const call = { method, path: this.#path(id), body, headers, ...rest }
    const written = await this.#transport.write(call, async (reply) => {
      await jsonOf(reply)
      return writtenIn(reply, id)
    })
    await this.#verification?.written(this.name, id, written.position, method === 'DELETE')
    return written
  }

  #path(id?: string): string {
    const { name: db } = this
    return id === undefined ? pathOf(DATABASE, { db }) : pathOf(ITEM, { db, id })
  }
}

/** Converts a proven revision. As for every read, the caller declares the type of the item. */
function readOf<Item>(read: ProvenRevision | null): Read<Item> | null {
  if (read === null) return null
  const { item, position } = read
  return { item: item as Stored<Item>, position, etag: `"${position}"` }
}

function writtenIn({ headers }: Response, id: string): Written {
  const [, position = ''] = headers.get('ledger-position')?.split('/') ?? []
  return { id, position, etag: headers.get('etag') ?? '' }
}
