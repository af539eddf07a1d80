import { AttachmentsClient } from './attachments.ts'
import { ClientError, unverifiable, VerificationError } from './error.ts'
import type { Revision, Stored } from './revision.ts'
import { type Call, jsonOf, pathOf, type RequestOptions, type Transport } from './transport.ts'
import type { ProvenRevision, Verification } from './verification.ts'

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
  /** Null: the node is believed. */
  readonly #verification: Verification | null

  constructor(transport: Transport, verification: Verification | null, name: string) {
    this.name = name
    this.#transport = transport
    this.#verification = verification
  }

  /** Creates an item; it is given an id where it has none. */
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
   * last one. Where the client verifies: as the node has proven it.
   */
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
      const told = await this.#transport.read(call, async (reply) => {
        const { item } = await jsonOf<{ item: Stored<Item> }>(reply)
        const { position, etag } = writtenIn(reply, id)
        return { item, position, etag }
      })
      if (this.#verification === null || at === undefined) return told
      return readOf(await this.#verification.readAt(this.name, id, at, told.position, rest))
    } catch (error) {
      if (!(error instanceof ClientError)) throw error
      if (error.code === 'ITEM_NOT_FOUND') return null
      if (error.code !== 'REVISION_ERASED' || this.#verification === null) throw error
      throw new VerificationError('ITEM_ERASED', error.message, { cause: error })
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
    if (this.#verification === null) {
      for await (const { docs } of this.#pages(options, true)) yield* docs
      return
    }
    // The node chooses; what it has chosen is read whole, with its proof.
    if (options.filter?.fields !== undefined) throw unverifiable('fields of items')
    for await (const { items } of this.#pages({ ...options, isProven: true }, false)) {
      for (const id of items) {
        const read = await this.read(id, { signal: options.signal })
        if (read !== null) yield read.item
      }
    }
  }

  /** The ids alone. */
  async *ids(options: QueryOptions = {}): AsyncGenerator<string> {
    for await (const { items } of this.#pages(options, false)) yield* items
  }

  /** What became of the item, the oldest revision first; also of a deleted one. */
  async *history(id: string, options: RequestOptions = {}): AsyncGenerator<Revision<Item>> {
    const told = this.#history(id, options)
    if (this.#verification === null) yield* told
    else yield* this.#verification.history(this.name, id, told, options)
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

  /** What is attached to the item. */
  attachments(id: string): AttachmentsClient {
    return new AttachmentsClient(this.#transport, this.name, id)
  }

  async *#pages(
    options: QueryOptions & Pick<Call, 'isProven'>,
    docs: boolean,
  ): AsyncGenerator<Page<Stored<Item>>> {
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

/** No other members: a limit or an offset in there would not be that of a page. */
function filterText({ where, order, fields }: QueryFilter): string {
  return JSON.stringify({ where, order, fields })
}

/** Its type is the statement of the caller, as for any read. */
function readOf<Item>(read: ProvenRevision | null): Read<Item> | null {
  if (read === null) return null
  const { item, position } = read
  return { item: item as Stored<Item>, position, etag: `"${position}"` }
}

function writtenIn({ headers }: Response, id: string): Written {
  const [, position = ''] = headers.get('ledger-position')?.split('/') ?? []
  return { id, position, etag: headers.get('etag') ?? '' }
}
