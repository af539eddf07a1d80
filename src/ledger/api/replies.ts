import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { canonicalJson, canonicalString } from '../../base/canonical-json.ts'
import { statusOfStrictJson } from '../../base/strict-json.ts'
import {
  type Attachment,
  attachmentText,
  type Block,
  blockJson,
  positionText,
  provenBlockJson,
} from '../../chain/index.ts'
import { statusOfFilter } from '../../filter/index.ts'
import { type HttpApp, HttpRefusal, ReplyStream } from '../../http/index.ts'
import type { FoundItem, StoredRevision } from '../../storage/index.ts'
import { LedgerError, statusOfLedger } from '../errors.ts'
import type { LedgerService } from '../node/service.ts'
import { statusOfPeers } from '../peers/errors.ts'
import type { ItemDifference } from '../read/differences.ts'
import type { FoundEntries, FoundEntry } from '../read/entry-search.ts'
import type { AsOf, ListRange } from '../read/pages.ts'
import type { ListedId } from '../read/reads.ts'

/** The HTTP status of each error code of a request. */
export const statusOfLedgerApi = {
  ...statusOfStrictJson,
  ...statusOfFilter,
  ...statusOfPeers,
  ...{ SEARCH_TOO_LARGE: 422, SEARCH_INTERRUPTED: 503 },
  ...statusOfLedger,
  ...{ TOKEN_ID_MALFORMED: 400, REVOCATIONS_FULL: 507, TOKEN_GRANT_EXCEEDS: 403 },
  ...{ SCOPE_UNKNOWN: 422, SCOPES_TOO_LONG: 422, TOKEN_GRANT_INVALID: 422 },
  ISSUER_UNAVAILABLE: 503,
} as const

const JSON_TYPE = 'application/json; charset=utf-8'
/** Value of the header `Vary` of replies that may be cached: they depend on the token if the node requires tokens. */
export const VARY_BY_TOKEN = 'authorization, x-access-token'

/** Members that follow the list in a reply: `limit`, `offset` and, if requested, `count` and `cursor`. */
export interface ListEnd extends ListRange {
  /**
   * The value of `count` in the reply. `listed` means the number of elements in the list. If absent, the reply has no
   * `count`.
   */
  readonly count?: number | 'listed'
  readonly cursor?: boolean
  /** The height of the state that was read, if it is not the current state. */
  readonly at?: number | undefined
}

/** Streams `{"status":true,<texts><end>}`. The texts are read at the speed of the client. */
function replyStream(pages: AsyncIterable<string[]>, end: () => string): ReplyStream {
  async function* parts(): AsyncGenerator<string[]> {
    // Sent together with the first text, so that an error before the first text can still get an error status.
    let opening = '{"status":true,'
    for await (const texts of pages) {
      texts.unshift(opening)
      opening = ''
      yield texts
    }
    yield [`${end()}}`]
  }
  return new ReplyStream(parts())
}

/** Streams the texts, then `limit`, `offset` and `ending`. */
function listStream(
  texts: AsyncIterable<string[]>,
  { limit, offset }: ListRange,
  ending: () => string = () => '',
): ReplyStream {
  return replyStream(texts, () => `,"limit":${limit},"offset":${offset}${ending()}`)
}

/**
 * Yields the texts of `"<name>":[…]` for each page, and empties the page, so that no sent row stays in memory. `textOf`
 * returns a row as one text, or in parts, because joining a part of 10 MB would copy it.
 */
async function* listText<Row>(
  name: string,
  pages: AsyncIterable<Row[]>,
  textOf: (row: Row) => string | readonly string[],
): AsyncGenerator<string[]> {
  let opening = `"${name}":[`
  // A function, because a suspended generator keeps its temporary values in memory.
  const take = (page: Row[]) =>
    page.splice(0).flatMap((row) => {
      const texts = [opening, textOf(row)].flat()
      opening = ','
      return texts
    })
  for await (const page of pages) yield take(page)
  yield [opening === ',' ? ']' : `${opening}]`]
}

/** Returns `pages`, and a function that returns the text with `count` and `cursor` after the last page. */
function counted<Row extends ListedId>(pages: AsyncIterable<Row[]>, end: ListEnd) {
  const { count, cursor, offset, limit, at } = end
  let rows = 0
  let last: number | null = null
  async function* counting(): AsyncGenerator<Row[]> {
    for await (const page of pages) {
      rows += page.length
      last = page.at(-1)?.created ?? last
      yield page
    }
  }
  const ending = () => {
    // Items of the list may have been deleted before the count. So `count` is at least the number of items that
    // precede the end of the list.
    const shown = rows === 0 ? 0 : offset + rows
    const counted = count === 'listed' ? rows : Math.max(count ?? 0, shown)
    const next = last === null || rows !== limit ? null : `"${positionText(last)}"`
    const members = [
      count === undefined ? '' : `,"count":${counted}`,
      cursor ? `,"cursor":${next}` : '',
      at === undefined ? '' : `,"at":${at}`,
    ]
    return members.join('')
  }
  return { pages: counting(), ending }
}

/** Builds the reply of `GET /api/{db}`. */
export function idListReply(rows: AsyncIterable<ListedId[]>, end: ListEnd): Readable {
  const { pages, ending } = counted(rows, end)
  return listStream(
    listText('items', pages, ({ id }) => canonicalString(id)),
    end,
    ending,
  )
}

/** Builds the reply of `GET /api/{db}?docs=true`: the items, then their ids. */
export function itemListReply(
  items: AsyncIterable<(ListedId & Pick<FoundItem, 'text'>)[]>,
  end: ListEnd,
): Readable {
  const { pages, ending } = counted(items, end)
  async function* texts(): AsyncGenerator<string[]> {
    let ids = ''
    yield* listText('docs', pages, ({ id, text }) => {
      ids += `${ids === '' ? '' : ','}${canonicalString(id)}`
      return text ?? '{}'
    })
    yield [`,"items":[${ids}]`]
  }
  return listStream(texts(), end, ending)
}

/** Builds the reply of `GET /api/{db}/{id}/attachments`. */
export function attachmentListReply(
  pages: AsyncIterable<Attachment[]>,
  range: Pick<ListEnd, 'limit' | 'offset' | 'at'>,
): Readable {
  const ending = () => (range.at === undefined ? '' : `,"at":${range.at}`)
  return listStream(listText('attachments', pages, attachmentText), range, ending)
}

/** Builds the reply of `GET /api/{db}/{id}/history` from pages with up to `limit` + 1 revisions. */
export function historyReply(pages: AsyncIterable<StoredRevision[]>, limit: number): Readable {
  let left = limit === 0 ? Number.POSITIVE_INFINITY : limit
  let cursor = 'null'
  let last: number | null = null
  async function* limited(): AsyncGenerator<StoredRevision[]> {
    for await (const page of pages) {
      const hasMore = page.splice(left).length > 0
      left -= page.length
      last = page.at(-1)?.position ?? last
      if (hasMore && last !== null) cursor = `"${positionText(last)}"`
      yield page
    }
  }
  const texts = listText('history', limited(), revisionJson)
  return replyStream(texts, () => `,"limit":${limit},"cursor":${cursor}`)
}

function revisionJson({ position, timestamp, kind, text, ...made }: StoredRevision): string[] {
  const erased = kind === 'delete_item' ? '' : ',"erased":true'
  const item = text === null ? [erased] : [',"item":', text]
  const { by, reason } = made
  const author = by === undefined ? '' : `,"by":${canonicalJson({ ...by })}`
  const why = reason === undefined ? '' : `,"reason":${canonicalString(reason)}`
  const head = `{"position":"${positionText(position)}","timestamp":${timestamp},"method":"${kind}"`
  return [head, ...item, `${author}${why}}`]
}

/** Builds the reply of `GET /api/config/diff` with at most `limit` changes; with all for 0. */
export function differencesReply(
  pages: AsyncIterable<ItemDifference[]>,
  { from, to, limit }: { readonly from: AsOf; readonly to: AsOf; readonly limit: number },
): Readable {
  let left = limit === 0 ? Number.POSITIVE_INFINITY : limit
  let more = false
  async function* limited(): AsyncGenerator<ItemDifference[]> {
    for await (const page of pages) {
      more = page.splice(left).length > 0
      left -= page.length
      yield page
      if (more) return
    }
  }
  const texts = listText('changes', limited(), ({ db, id, change, before, after }) => {
    const item = `"db":${canonicalString(db)},"id":${canonicalString(id)}`
    const old = before === null ? [] : [',"before":', before]
    const now = after === null ? [] : [',"after":', after]
    return [`{${item},"change":"${change}"`, ...old, ...now, '}']
  })
  const end = () => (limit === 0 ? '' : `,"more":${more}`)
  return replyStream(texts, () => `,"from":${from.height},"to":${to.height}${end()}`)
}

/** Builds the reply of a search for entries. */
export function entryListReply(pages: AsyncIterable<FoundEntries>): Readable {
  let continued: number | null = null
  async function* found(): AsyncGenerator<FoundEntry[]> {
    for await (const { entries, next } of pages) {
      continued = next
      yield entries
    }
  }
  return replyStream(listText('changes', found(), entryJson), () => `,"next":${continued}`)
}

/** Returns an entry with its position and time, as in the change feed. */
function entryJson({ position, timestamp, text }: FoundEntry): string {
  return `{"position":"${positionText(position)}","timestamp":${timestamp},"entry":${text}}`
}

/** Builds the reply of `GET /api/ledgers`. */
export function blockListReply(
  pages: AsyncIterable<Block[]>,
  range: ListRange,
  proof: boolean,
): Readable {
  return listStream(listText('ledgers', pages, proof ? provenBlockJson : blockJson), range)
}

/** Refuses a reply about a long item before the item is read, unless there is room for it. Errors: HttpRefusal (503). */
export async function requireRoom(
  { replyBudget }: Pick<HttpApp, 'replyBudget'>,
  { store }: LedgerService,
  db: string,
  id: string,
): Promise<void> {
  if (replyBudget.isInUse) replyBudget.require((await store.itemBytes(db, id)) ?? 0)
}

/** Adds the header with the position of the last change. */
export function setLedgerPosition(
  reply: FastifyReply,
  { serverId }: LedgerService,
  position: number,
): FastifyReply {
  return reply.header('ledger-position', `${serverId}/${positionText(position)}`)
}

/** Adds the headers of a reply about an item whose last change is at `position`. */
export function setItemHeaders(
  reply: FastifyReply,
  ledger: LedgerService,
  { position }: { position: number },
): FastifyReply {
  reply.header('etag', `"${positionText(position)}"`)
  return setLedgerPosition(reply, ledger, position).type(JSON_TYPE)
}

/** Sends JSON text or a stream of it. */
export function sendText(reply: FastifyReply, text: string | Readable): FastifyReply {
  return reply.type(JSON_TYPE).send(text)
}

/** Returns the range of a list query. Rejects unsafe integers, because the schema's coercion accepts `1e400`. */
export function requireRange({
  limit = 0,
  offset = 0,
}: {
  limit?: number
  offset?: number
}): ListRange {
  if (Number.isSafeInteger(limit) && Number.isSafeInteger(offset)) return { limit, offset }
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'limit and offset must be integers')
}

/** Parses a server id. Errors: SERVERID_INVALID. */
export function parseServerId(text: string): number {
  if (/^[1-9]\d{0,15}$/.test(text) && Number(text) <= Number.MAX_SAFE_INTEGER) return Number(text)
  throw new LedgerError(
    'SERVERID_INVALID',
    'serverid must be an integer; GET /api/serverid returns the id of this node',
  )
}

/**
 * Returns the body of `request` and removes it there. A parsed body uses up to twenty times the memory of its text, so
 * it must not stay in memory while the request waits for the writer.
 */
export function takeBody<Body>(request: { body: Body }): Body {
  const { body } = request
  request.body = undefined as Body
  return body
}
