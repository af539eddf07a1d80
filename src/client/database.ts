import type { Aggregated, AggregateOptions, CountOptions } from './aggregation.ts'
import { AttachmentsClient } from './attachments.ts'
import { ClientError, unverifiable, VerificationError } from './error.ts'
import { formatFilter, type QueryFilter, type QueryWhere } from './filter.ts'
import type { MemberName, Patch, Read, Revision, Selected, Stored } from './item.ts'
import {
  describeValue,
  jsonText,
  requireArray,
  requireCount,
  requireHeightOrTime,
  requireObject,
  requireText,
  valueInvalid,
} from './json-body.ts'
import { jsonWithLists, jsonWithNumbers, malformed, readJson, requireNextPage } from './reply.ts'
import {
  type Call,
  formatPath,
  type PastOptions,
  type RequestOptions,
  requireName,
  requireOptions,
  type Transport,
  type WriteOptions,
} from './transport.ts'
import type { VerifiedReads } from './verification.ts'

/** The result of a change. */
export interface ChangeResult {
  readonly id: string
  /** `<height>.<index>` of the entry. */
  readonly position: string
  /** The value for `ifMatch`. */
  readonly etag: string
}

/** Options of a change. */
export interface ChangeOptions extends WriteOptions {
  /**
   * Fails with `PRECONDITION_FAILED` unless the item still has this `etag`. The client refuses undefined, because the
   * change would have no condition.
   */
  readonly ifMatch?: string
}

/** Selects items and their order. */
export interface QueryOptions<Item, Field extends MemberName<Item> = never> extends PastOptions {
  readonly filter?: QueryFilter<Item, Field> | undefined
  /** Maximum number of items in total. */
  readonly limit?: number | undefined
  /** Only items that were created after the item with this id. */
  readonly after?: string | undefined
  /** Items per request, 1..10,000; 500 by default. */
  readonly pageSize?: number | undefined
}

/** Options with which a list is not the list of all items now. */
const SELECTING = ['filter', 'limit', 'after', 'at'] as const
const SELECTION = [...SELECTING, 'pageSize', 'signal']

/** What `erase` has erased or counted so far. */
export interface ErasedItems {
  /** Number of items of which something was erased. */
  readonly items: number
  /** Number of erased entries. */
  readonly revisions: number
}

/** Selects the items whose former revisions are erased: `ids`, or `where`, or `deleted`, or `where` and `deleted`. */
export interface EraseOptions<Item> extends RequestOptions {
  /** At most 1,000 ids. */
  readonly ids?: readonly string[]
  /** Tested on the current items, and on deleted items as they were last. */
  readonly where?: QueryWhere<Item>
  /** Selects only deleted items, and those of deleted databases of this name. */
  readonly deleted?: true
  /** Counts, and erases nothing. */
  readonly dryRun?: boolean
  /** Recorded with the erasures. */
  readonly reason?: string
  readonly progress?: (erased: ErasedItems) => void
}

type ErasedPage = ErasedItems & { readonly cursor: string | null }

const PAGE = 500
const PAGE_MAX = 10_000
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
  readonly cursor?: string | null
}

/** A database of a node. Errors of all methods: ClientError. */
export class DatabaseClient<Item extends object> {
  readonly name: string
  readonly #transport: Transport
  /** Null if the client does not verify replies. */
  readonly #verification: VerifiedReads | null
  readonly #writer: Pick<Transport, 'write'>

  constructor(transport: Transport, verification: VerifiedReads | null, name: string) {
    this.name = requireName(name, 'db')
    this.#transport = transport
    this.#verification = verification
    this.#writer = verification ?? transport
  }

  /** Creates an item. The node assigns an id if `item` has none. */
  async create(
    item: Item & { readonly id?: string },
    options: WriteOptions = {},
  ): Promise<ChangeResult> {
    const body = requireObject(item, 'body')
    const call = { method: 'POST', path: this.#path(), body, options }
    return this.#writer.write(call, async (reply) => {
      const { id } = await readJson<{ id: unknown }>(reply)
      return requireWritten(reply, id)
    })
  }

  /** Creates all `items` or none of them; resolves to their ids. */
  async createAll(
    items: readonly (Item & { readonly id?: string })[],
    options: WriteOptions = {},
  ): Promise<readonly string[]> {
    const body = requireArray(items, 'items')
    const call = { method: 'POST', path: this.#path(), body, options }
    return this.#writer.write(call, async (reply) => {
      const { ids } = await jsonWithLists<{ ids: readonly string[] }>('ids')(reply)
      if (ids.length === items.length) return ids
      throw malformed(reply)
    })
  }

  /**
   * Returns the item, or null if it does not exist. With `at`, returns the item of a past state; a client that verifies
   * accepts only a height.
   */
  async read(id: string, options: PastOptions = {}): Promise<Read<Item> | null> {
    const { at: given, ...rest } = options
    requireOptions(rest)
    const path = this.#itemPath(id)
    const at = requireHeightOrTime(given, 'at')
    if (this.#verification !== null && typeof at === 'string') {
      throw unverifiable('items as of a time')
    }
    if (this.#verification !== null && at === undefined) {
      return this.#verification.read(this.name, id, rest)
    }
    const call = { method: 'GET', path, query: { at }, isProven: true, options: rest }
    try {
      const read = await this.#transport.read(call, async (reply) => {
        const { item } = await readJson<{ item: Stored<Item> }>(reply)
        const { position, etag } = requireWritten(reply, id)
        return { item, position, etag }
      })
      if (this.#verification === null || typeof at !== 'number') return read
      return await this.#verification.readAt(this.name, id, at, read.position, rest)
    } catch (error) {
      if (!(error instanceof ClientError)) throw error
      if (error.code === 'ITEM_NOT_FOUND') {
        if (typeof at === 'number') {
          await this.#verification?.requireMissing(this.name, id, at, rest)
        }
        return null
      }
      if (error.code !== 'REVISION_ERASED' || this.#verification === null) throw error
      throw new VerificationError('ITEM_ERASED', error.message, { cause: error })
    }
  }

  /** Replaces the item. With `ifAbsent`, creates the item instead, and fails if the item exists. */
  async replace(
    id: string,
    item: Item,
    options: ChangeOptions & { readonly ifAbsent?: boolean } = {},
  ): Promise<ChangeResult> {
    const { ifAbsent = false, ...rest } = options
    if (typeof ifAbsent !== 'boolean') throw valueInvalid(`ifAbsent is ${describeValue(ifAbsent)}`)
    const headers: Record<string, string> = ifAbsent ? { 'if-none-match': '*' } : {}
    return this.#change('POST', id, requireObject(item, 'body'), rest, headers)
  }

  /** Merges `members` into the item (RFC 7396): null removes an optional member. */
  async patch(
    id: string,
    members: Patch<Item>,
    options: ChangeOptions = {},
  ): Promise<ChangeResult> {
    return this.#change('PATCH', id, requireObject(members, 'body'), options)
  }

  /** Deletes the item. */
  async delete(id: string, options: ChangeOptions = {}): Promise<ChangeResult> {
    return this.#change('DELETE', id, undefined, options)
  }

  /**
   * Yields the items in creation order, or in the order of `filter.order`, page by page. In creation order, each item
   * that exists and matches during the whole loop is yielded once. With `filter.order`, a page starts after a number of
   * items, so a change during the loop may repeat an item or leave an item out.
   */
  async *query<Field extends MemberName<Item> = never>(
    options: QueryOptions<Item, Field> = {},
  ): AsyncGenerator<Selected<Item, Field>> {
    if (this.#verification === null) {
      const pages = this.#pages<Selected<Item, Field>, Field>(options, { docs: true })
      for await (const { docs } of pages) yield* docs
      return
    }
    // Reads each selected item again with its proof. Refuses `fields`, because a proof is for a whole item.
    if (options.filter?.fields !== undefined) throw unverifiable('fields of items')
    for await (const id of this.#ids(options, true)) {
      const read = await this.read(id, { signal: options.signal, at: options.at })
      // Without `fields`, a selected item is a whole item.
      if (read !== null) yield read.item as Selected<Item, Field>
    }
  }

  /** Like `query`, but yields only the ids. */
  async *ids(options: QueryOptions<Item> = {}): AsyncGenerator<string> {
    yield* this.#ids(options, false)
  }

  /** With `current`, a list of all items is proven to be complete. */
  async *#ids<Field extends MemberName<Item> = never>(
    options: QueryOptions<Item, Field>,
    isProven: boolean,
  ): AsyncGenerator<string> {
    requireOptions(options, SELECTION)
    const { signal, ...selection } = options
    const isWhole = SELECTING.every((name) => selection[name] === undefined)
    if (this.#verification?.isCurrent !== true || !isWhole) {
      for await (const { items } of this.#pages(options, { isProven })) yield* items
      return
    }
    const ids = await this.#verification.readIds(this.name, { signal })
    if (ids === null) {
      throw new ClientError('DATABASE_NOT_FOUND', 404, `there is no database ${this.name}`)
    }
    yield* ids
  }

  /** Counts the items, or only the items that match `filter.where`. */
  async count({ filter, at, ...rest }: CountOptions<Item> = {}): Promise<number> {
    const query = {
      count: true,
      limit: 1,
      filter: formatFilter(filter),
      at: requireHeightOrTime(at, 'at'),
    }
    const call = { method: 'GET', path: this.#path(), query, options: rest }
    return (await this.#transport.read(call, jsonWithNumbers<{ count: number }>('count'))).count
  }

  /** Counts the items in groups, with sums, averages and extremes. */
  async aggregate(options: AggregateOptions<Item> = {}): Promise<Aggregated> {
    const { filter, group, sum, avg, min, max, at, ...rest } = options
    const query = {
      db: this.name,
      group: formatPaths(group, 'group'),
      sum: formatPaths(sum, 'sum'),
      avg: formatPaths(avg, 'avg'),
      min: formatPaths(min, 'min'),
      max: formatPaths(max, 'max'),
      filter: formatFilter(filter),
      at: requireHeightOrTime(at, 'at'),
    }
    const call = { method: 'GET', path: AGGREGATE, query, options: rest }
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
    const path = `${this.#itemPath(id)}/history`
    const convert = jsonWithLists<HistoryPage<Item>>('history')
    let limit = requireCount(pageSize, 'pageSize', 1)
    for (let cursor: string | undefined; ; ) {
      const call = { method: 'GET', path, query: { cursor }, isProven: true, options }
      const { page, size } = await this.#page(call, limit, convert)
      yield* page.history
      limit = size
      if (page.cursor === null) return
      cursor = requireNextPage(page.cursor, cursor)
    }
  }

  /**
   * Erases, or counts with `dryRun`, all former revisions of the selected items and their attachments. The current revision
   * of an item stays. If it rejects, a repeated call erases the rest.
   */
  async erase(options: EraseOptions<Item>): Promise<ErasedItems> {
    const { signal, progress, ...given } = requireObject(options, 'options')
    const selection = { db: this.name, ...given }
    // Without an undefined member, the request would erase more.
    jsonText(selection, 'options', 'refused')
    let [items, revisions] = [0, 0]
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const body = cursor === undefined ? selection : { ...selection, cursor }
      const call = { method: 'POST', path: '/api/config/erasures', body, options: { signal } }
      const convert = jsonWithNumbers<ErasedPage>('items', 'revisions')
      const page = await this.#writer.write(call, convert)
      items += page.items
      revisions += page.revisions
      if (page.cursor !== null) progress?.({ items, revisions })
      cursor = page.cursor === null ? null : requireNextPage(page.cursor, cursor)
    }
    return { items, revisions }
  }

  attachments(id: string): AttachmentsClient {
    return new AttachmentsClient(this.#transport, this.name, id)
  }

  async *#pages<Doc, Field extends MemberName<Item> = never>(
    options: QueryOptions<Item, Field>,
    { docs = false, isProven = false }: { readonly docs?: boolean; readonly isProven?: boolean },
  ): AsyncGenerator<Page<Doc>> {
    const { filter, after, pageSize = PAGE, at, ...others } = options
    const { limit = Number.POSITIVE_INFINITY, ...rest } = others
    if (limit !== Number.POSITIVE_INFINITY) requireCount(limit, 'limit')
    let pageMax = Math.min(requireCount(pageSize, 'pageSize', 1), PAGE_MAX)
    const convert = jsonWithLists<Page<Doc>>('items', ...(docs ? ['docs' as const] : []))
    // Pages in creation order continue after a position, which stays when the last item is deleted or created again.
    const isOrdered = (filter?.order?.length ?? 0) > 0
    let left = limit
    let offset = 0
    let cursor = 'start'
    while (left > 0) {
      const query = {
        docs,
        filter: formatFilter(filter),
        after: cursor === 'start' && after !== undefined ? requireName(after, 'after') : undefined,
        ...(isOrdered ? { offset } : { cursor }),
        at: requireHeightOrTime(at, 'at'),
      }
      const call = { method: 'GET', path: this.#path(), query, isProven, options: rest }
      const { page, size } = await this.#page(call, Math.min(left, pageMax), convert)
      pageMax = size
      yield page
      left -= page.items.length
      offset += page.items.length
      if (page.items.length < size) return
      if (!isOrdered) cursor = requireNextPage(page.cursor, cursor)
    }
  }

  /** Reads up to `limit` elements, or fewer if the reply is too large. Returns the page with the limit that it had. */
  async #page<Result>(
    call: Call,
    limit: number,
    convert: (reply: Response) => Promise<Result>,
  ): Promise<{ page: Result; size: number }> {
    for (let size = limit; ; size = Math.ceil(size / 8)) {
      try {
        const query = { limit: size, ...call.query }
        return { page: await this.#transport.read({ ...call, query }, convert), size }
      } catch (error) {
        const isTooLarge = error instanceof ClientError && error.code === 'REPLY_TOO_LARGE'
        if (!isTooLarge || size === 1) throw error
      }
    }
  }

  async #change(
    method: string,
    id: string,
    body: unknown,
    options: ChangeOptions,
    headers: Record<string, string> = {},
  ): Promise<ChangeResult> {
    const { ifMatch, ...rest } = options
    if (Object.hasOwn(options, 'ifMatch')) headers['if-match'] = requireText(ifMatch, 'ifMatch')
    const call = { method, path: this.#itemPath(id), body, headers, options: rest }
    return this.#writer.write(call, async (reply) => {
      await readJson(reply)
      return requireWritten(reply, id)
    })
  }

  #path(): string {
    return formatPath('/api/{db}', { db: this.name })
  }

  #itemPath(id: string): string {
    return formatPath('/api/{db}/{id}', { db: this.name, id })
  }
}

/** Returns member paths for a query. Errors: ClientError, VALUE_INVALID. */
function formatPaths(paths: readonly string[] | undefined, name: string): string | undefined {
  if (paths === undefined || requireArray(paths, name).length === 0) return undefined
  for (const path of paths) {
    if (requireText(path, name).includes(',')) throw valueInvalid(`${name} has a path with a comma`)
  }
  return paths.join()
}

/** Errors: REPLY_MALFORMED unless `reply` has a position. The entity tag of a revision is its position in quotes. */
function requireWritten(reply: Response, id: unknown): ChangeResult {
  const [, position] = /^\d+\/(\d+\.\d+)$/.exec(reply.headers.get('ledger-position') ?? '') ?? []
  if (position === undefined || typeof id !== 'string') throw malformed(reply)
  return { id, position, etag: `"${position}"` }
}
