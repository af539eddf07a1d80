import { AttachmentsClient } from './attachments.ts'
import { ClientError } from './error.ts'
import { jsonOf, pathOf, type RequestOptions, type Transport } from './transport.ts'

/** An item as it is read: with its id. */
export type Stored<Item> = Item & { readonly id: string }

/** Where a change was recorded. */
export interface Written {
  readonly id: string
  /** `<height>.<index>` of the entry. */
  readonly position: string
  /** For `ifMatch`. */
  readonly etag: string
}

/** An item with what a later change can be tied to. */
export interface Read<Item> {
  readonly item: Stored<Item>
  readonly position: string
  readonly etag: string
}

/** Under which condition a change is made; else the error's code is `PRECONDITION_FAILED`. */
export interface ChangeOptions extends RequestOptions {
  /** Only while the item still is as when it had this `etag`. */
  readonly ifMatch?: string | undefined
}

/** A filter as the node reads it: docs/reference/queries.md. */
export interface QueryFilter {
  readonly where?: Readonly<Record<string, unknown>> | undefined
  /** `name ASC`, `price DESC`. */
  readonly order?: string | readonly string[] | undefined
  /** Members that items are to come with. */
  readonly fields?: readonly string[] | Readonly<Record<string, boolean>> | undefined
}

/** Which items, in which order. */
export interface QueryOptions extends RequestOptions {
  readonly filter?: QueryFilter | undefined
  /** At most so many in all. */
  readonly limit?: number | undefined
  /** Only what was created after the item with this id. */
  readonly after?: string | undefined
  /** Items for each request, 1..10,000; 500 unless said otherwise. */
  readonly pageSize?: number | undefined
}

/** A revision of an item. */
export interface Revision<Item> {
  readonly position: string
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly method: string
  /** Absent where the item was deleted. */
  readonly item?: Stored<Item>
}

const PAGE = 500
const PAGE_MAX = 10_000
const DATABASE = '/api/{db}'
const ITEM = '/api/{db}/{id}'

interface Page<Item> {
  readonly items: readonly string[]
  readonly docs: readonly Item[]
}

/** One database. All its methods fail with ClientError. */
export class DatabaseClient<Item extends object> {
  readonly name: string
  readonly #transport: Transport

  constructor(transport: Transport, name: string) {
    this.name = name
    this.#transport = transport
  }

  /** Creates an item; it is given an id where it has none. */
  async create(
    item: Item & { readonly id?: string },
    options: RequestOptions = {},
  ): Promise<Written> {
    const call = { method: 'POST', path: this.#path(), body: item, ...options }
    return this.#transport.write(call, async (reply) => {
      const { id } = await jsonOf<{ id: string }>(reply)
      return writtenIn(reply, id)
    })
  }

  /** Creates all `items`, or none of them; resolves to their ids. */
  async createAll(
    items: readonly (Item & { readonly id?: string })[],
    options: RequestOptions = {},
  ): Promise<readonly string[]> {
    const call = { method: 'POST', path: this.#path(), body: items, ...options }
    return (await this.#transport.write(call, jsonOf<{ ids: readonly string[] }>)).ids
  }

  /**
   * The item, or null when there is none; with `at`, as it was when the block of this height was the
   * last one.
   */
  async read(
    id: string,
    options: RequestOptions & { readonly at?: number | undefined } = {},
  ): Promise<Read<Item> | null> {
    const { at, ...rest } = options
    const call = { method: 'GET', path: this.#path(id), query: { at }, ...rest }
    try {
      return await this.#transport.read(call, async (reply) => {
        const { item } = await jsonOf<{ item: Stored<Item> }>(reply)
        const { position, etag } = writtenIn(reply, id)
        return { item, position, etag }
      })
    } catch (error) {
      if (error instanceof ClientError && error.code === 'ITEM_NOT_FOUND') return null
      throw error
    }
  }

  /** Replaces the item by `item`; with `ifAbsent`, creates it, and only where there is none. */
  async replace(
    id: string,
    item: Item,
    options: ChangeOptions & { readonly ifAbsent?: boolean } = {},
  ): Promise<Written> {
    const { ifAbsent = false, ...rest } = options
    const headers: Record<string, string> = ifAbsent ? { 'if-none-match': '*' } : {}
    return this.#change('POST', id, item, rest, headers)
  }

  /** Changes members of the item; a member that is null goes. Source: RFC 7396. */
  async patch(
    id: string,
    members: Readonly<Record<string, unknown>>,
    options: ChangeOptions = {},
  ): Promise<Written> {
    return this.#change('PATCH', id, members, options)
  }

  /** Deletes the item. */
  async delete(id: string, options: ChangeOptions = {}): Promise<Written> {
    return this.#change('DELETE', id, undefined, options)
  }

  /**
   * The items in the order of their creation, or in that of the filter, read page by page. With an order
   * of the filter's own, what is changed during the loop may be met twice or not at all.
   */
  async *query(options: QueryOptions = {}): AsyncGenerator<Stored<Item>> {
    for await (const { docs } of this.#pages(options, true)) yield* docs
  }

  /** The ids alone. */
  async *ids(options: QueryOptions = {}): AsyncGenerator<string> {
    for await (const { items } of this.#pages(options, false)) yield* items
  }

  /** What became of the item, the oldest revision first; also of a deleted one. */
  async *history(id: string, options: RequestOptions = {}): AsyncGenerator<Revision<Item>> {
    let cursor: string | undefined
    do {
      const query = { limit: PAGE, cursor }
      const call = { method: 'GET', path: `${this.#path(id)}/history`, query, ...options }
      const page = await this.#transport.read(
        call,
        jsonOf<{ history: readonly Revision<Item>[]; cursor: string | null }>,
      )
      yield* page.history
      cursor = page.cursor ?? undefined
    } while (cursor !== undefined)
  }

  /** What is attached to the item. */
  attachments(id: string): AttachmentsClient {
    return new AttachmentsClient(this.#transport, this.name, id)
  }

  async *#pages(options: QueryOptions, docs: boolean): AsyncGenerator<Page<Stored<Item>>> {
    const { filter, limit = Number.POSITIVE_INFINITY, after, pageSize = PAGE, ...rest } = options
    const pageMax = Math.min(Math.max(pageSize, 1), PAGE_MAX)
    // An order of its own has no place after an item, only after a number of them.
    const isOrdered = (filter?.order?.length ?? 0) > 0
    let left = limit
    let offset = 0
    // The ids after which to go on: of the last page, since the last of them may be gone by then.
    let known = after === undefined ? [] : [after]
    while (left > 0) {
      const size = Math.min(left, pageMax)
      const page = await this.#page(known, {
        method: 'GET',
        path: this.#path(),
        query: {
          limit: size,
          docs,
          offset: isOrdered ? offset : undefined,
          filter: filter === undefined ? undefined : filterText(filter),
        },
        ...rest,
      })
      yield page
      left -= page.items.length
      offset += page.items.length
      if (!isOrdered) known = [...page.items]
      if (page.items.length < size) return
    }
  }

  /** The page after the last of `known` that is still there. */
  async #page(
    known: readonly string[],
    call: Parameters<Transport['read']>[0],
  ): Promise<Page<Stored<Item>>> {
    for (let at = known.length - 1; ; at -= 1) {
      try {
        const query = { ...call.query, after: known[at] }
        return await this.#transport.read({ ...call, query }, jsonOf<Page<Stored<Item>>>)
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
    return this.#transport.write(call, async (reply) => {
      await jsonOf(reply)
      return writtenIn(reply, id)
    })
  }

  #path(id?: string): string {
    const { name: db } = this
    return id === undefined ? pathOf(DATABASE, { db }) : pathOf(ITEM, { db, id })
  }
}

/** No other members: a limit or an offset in there would not be that of a page. */
function filterText({ where, order, fields }: QueryFilter): string {
  return JSON.stringify({ where, order, fields })
}

function writtenIn({ headers }: Response, id: string): Written {
  const [, position = ''] = headers.get('ledger-position')?.split('/') ?? []
  return { id, position, etag: headers.get('etag') ?? '' }
}
