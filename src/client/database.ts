import { AttachmentsClient } from './attachments.ts'
import { ClientError, unverifiable, VerificationError } from './error.ts'
import { type Call, jsonOf, pathOf, type RequestOptions, type Transport } from './transport.ts'
import type { ProvenRevision, Revision, Stored, Verification } from './verification.ts'

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

/** A filter: docs/reference/ledger/queries.md. */
export interface QueryFilter {
  readonly where?: Readonly<Record<string, unknown>> | undefined
  /** `name ASC`, `price DESC`. */
  readonly order?: string | readonly string[] | undefined
  /** Returns only these members of the items. */
  readonly fields?: readonly string[] | Readonly<Record<string, boolean>> | undefined
}

/** Selects items and their order. */
export interface QueryOptions extends RequestOptions {
  readonly filter?: QueryFilter | undefined
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

interface Page<Item> {
  readonly items: readonly string[]
  readonly docs: readonly Item[]
}

/** A database. All methods fail with ClientError. */
export class DatabaseClient<Item extends object> {
  readonly name: string
  readonly #transport: Transport
  /** Is null if the node is trusted. */
  readonly #verification: Verification | null

  constructor(transport: Transport, verification: Verification | null, name: string) {
    this.name = name
    this.#transport = transport
    this.#verification = verification
  }

  /** Creates an item; the node assigns an id if it has none. */
  async create(
    item: Item & { readonly id?: string },
    options: RequestOptions = {},
  ): Promise<Written> {
    const call = { method: 'POST', path: this.#path(), body: item, ...options }
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
    return (await this.#transport.write(call, jsonOf<{ ids: readonly string[] }>)).ids
  }

  /** Returns the item, or null if it does not exist. With `at`, returns its state after the block of this height. */
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

  /** Replaces the item; with `ifAbsent`, creates it, and fails if it exists. */
  async replace(
    id: string,
    item: Item,
    options: ChangeOptions & { readonly ifAbsent?: boolean } = {},
  ): Promise<Written> {
    const { ifAbsent = false, ...rest } = options
    const headers: Record<string, string> = ifAbsent ? { 'if-none-match': '*' } : {}
    return this.#change('POST', id, item, rest, headers)
  }

  /** Merges `members` into the item (RFC 7396): null removes a member. */
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
   * Yields the items in creation order, or in the order of `filter.order`, page by page. With `filter.order`, an
   * item that changes during the loop may be returned twice or not at all.
   */
  async *query(options: QueryOptions = {}): AsyncGenerator<Stored<Item>> {
    if (this.#verification === null) {
      for await (const { docs } of this.#pages(options, true)) yield* docs
      return
    }
    // The node selects the items; each one is then read with its proof.
    if (options.filter?.fields !== undefined) throw unverifiable('fields of items')
    for await (const { items } of this.#pages({ ...options, isProven: true }, false)) {
      for (const id of items) {
        const read = await this.read(id, { signal: options.signal })
        if (read !== null) yield read.item
      }
    }
  }

  /** Like `query`, but yields only the ids. */
  async *ids(options: QueryOptions = {}): AsyncGenerator<string> {
    for await (const { items } of this.#pages(options, false)) yield* items
  }

  /** Yields all revisions of the item, oldest first, even if it was deleted. */
  async *history(id: string, options: RequestOptions = {}): AsyncGenerator<Revision<Item>> {
    const listed = this.#history(id, options)
    if (this.#verification === null) yield* listed
    else yield* this.#verification.history(this.name, id, listed, options)
  }

  async *#history(id: string, options: RequestOptions): AsyncGenerator<Revision<Item>> {
    let cursor: string | undefined
    do {
      const query = { limit: PAGE, cursor }
      const path = `${this.#path(id)}/history`
      const call = { method: 'GET', path, query, isProven: true, ...options }
      const page = await this.#transport.read(
        call,
        jsonOf<{ history: readonly Revision<Item>[]; cursor: string | null }>,
      )
      yield* page.history
      cursor = page.cursor ?? undefined
    } while (cursor !== undefined)
  }

  attachments(id: string): AttachmentsClient {
    return new AttachmentsClient(this.#transport, this.name, id)
  }

  async *#pages(
    options: QueryOptions & Pick<Call, 'isProven'>,
    docs: boolean,
  ): AsyncGenerator<Page<Stored<Item>>> {
    const { filter, limit = Number.POSITIVE_INFINITY, after, pageSize = PAGE, ...rest } = options
    const pageMax = Math.min(Math.max(pageSize, 1), PAGE_MAX)
    // If the filter has an order, pages continue after a number of items instead of an item.
    const isOrdered = (filter?.order?.length ?? 0) > 0
    let left = limit
    let offset = 0
    // The ids of the last page. The next page continues after the last of them that still exists.
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

  /** The page after the last of `known` that still exists. */
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

/** Excludes `limit` and `offset`, which belong to the page. */
function filterText({ where, order, fields }: QueryFilter): string {
  return JSON.stringify({ where, order, fields })
}

/** The caller declares the type of the item, as for every read. */
function readOf<Item>(read: ProvenRevision | null): Read<Item> | null {
  if (read === null) return null
  const { item, position } = read
  return { item: item as Stored<Item>, position, etag: `"${position}"` }
}

function writtenIn({ headers }: Response, id: string): Written {
  const [, position = ''] = headers.get('ledger-position')?.split('/') ?? []
  return { id, position, etag: headers.get('etag') ?? '' }
}
