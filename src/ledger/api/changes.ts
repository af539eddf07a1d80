import type { ServerResponse } from 'node:http'
import { Type } from '../../base/shape.ts'
import { parsePosition, positionText } from '../../chain/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { LedgerError } from '../errors.ts'
import type { ChangeFeed, ChangesStart, Subscriber, Subscription } from '../feed/feed.ts'
import type { LedgerService } from '../node/service.ts'
import { entryFilter } from '../read/entry-filter.ts'
import { parseChainPoint, searchEntries } from '../read/entry-search.ts'
import { requireDatabaseName } from '../write/names.ts'
import { requireReadableChain } from './ledgers.ts'
import { entryListReply, parseServerId, sendText } from './replies.ts'
import { ChainParams, entry, okReply, operation, TokenQuery } from './schemas.ts'

/** Maximum databases per subscription. */
const DATABASES_MAX = 100

const ChangesQuery = Type.Object({
  ...TokenQuery.properties,
  db: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: DATABASES_MAX,
      description: 'Only entries of this database; may be repeated',
    }),
  ),
  by: Type.Optional(
    Type.String({ minLength: 1, description: 'Only entries of this author (the subject)' }),
  ),
  iss: Type.Optional(
    Type.String({
      description:
        'Only entries of authors of this issuer; an empty text for the tokens of this node',
    }),
  ),
  from: Type.Optional(
    Type.String({
      description:
        'With `from` or `to`, the reply is a list of the entries so far, not a stream. Height of the first block, ' +
        'or a time such as 2026-03-01 or 2026-03-01T12:00:00Z',
    }),
  ),
  to: Type.Optional(
    Type.String({
      description: 'Height or time before which the list ends; default: the newest block',
    }),
  ),
  since: Type.Optional(
    Type.String({
      description:
        'Position after which to start, `<height>.<index>`; `start` for all entries, `now` (default) ' +
        'for new entries. The header Last-Event-ID has priority over `since`',
    }),
  ),
  lastEventId: Type.Optional(
    Type.String({ description: 'Same as the header, for clients that cannot set headers' }),
  ),
})

/** Header that browsers send when they reconnect. */
const ChangesHeaders = Type.Object({
  'last-event-id': Type.Optional(Type.String({ description: 'Same as `since`' })),
})

const ChangesStream = Type.String({
  description:
    'Server-sent events: `id` is the position, `event` is `entry`, `data` is ' +
    '`{"position":…,"timestamp":…,"entry":{…}}`',
})

const ChangesList = okReply({
  changes: Type.Array(
    Type.Object({
      position: Type.String({ description: '`<height>.<index>`' }),
      timestamp: Type.Integer({ description: 'Milliseconds since the Unix epoch' }),
      entry,
    }),
  ),
  next: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Height from which to search further, because this search ended at a bound; null at the end',
  }),
})

/** Mounts `GET /api/ledgers/{serverid}/changes` on `app`. Subscriptions end when `app` closes. */
export function changesRoutes(app: HttpApp, ledger: LedgerService): void {
  app.addHook('preClose', async () => ledger.feed.close())
  app.get(
    '/api/ledgers/:serverid/changes',
    operation('ledger', 'followChanges', {
      summary: 'Subscribe to the entries of a chain as they are recorded (server-sent events)',
      headers: ChangesHeaders,
      params: ChainParams,
      query: ChangesQuery,
      reply: {
        description: 'A stream until either side closes the connection; a list with `from` or `to`',
        content: {
          'text/event-stream': { schema: ChangesStream },
          'application/json': { schema: ChangesList },
        },
      },
      config: { scope: 'ledger:{db}', lasting: true },
    }),
    async (request, reply) => {
      const { method, params, query, headers, caller } = request
      const serverId = parseServerId(params.serverid)
      for (const name of query.db ?? []) requireDatabaseName(name)
      const filter = entryFilter(query)
      if (query.from !== undefined || query.to !== undefined) {
        const from = parseChainPoint(query.from ?? '0')
        const to = query.to === undefined ? null : parseChainPoint(query.to)
        const { reader } = requireReadableChain(ledger, serverId, caller, query.db)
        return sendText(reply, entryListReply(searchEntries(reader, { filter, from, to })))
      }
      const feed = requireFeed(ledger, serverId)
      // The header has priority, because a browser reconnects with its original query.
      const last = headers['last-event-id'] || query.lastEventId
      const after = parseChangesStart(last || query.since || 'now')
      if (method === 'HEAD') {
        await feed.check(after)
        reply.raw.writeHead(200, HEADERS).end()
      } else {
        const onFailure = (error: Error) => request.reportFailure(error)
        const stream = new EventStream(reply.raw, onFailure)
        stream.open(await feed.subscribe(stream, after, filter))
      }
      return reply.hijack()
    },
  )
}

function requireFeed({ feed, serverId }: LedgerService, asked: number): ChangeFeed {
  if (asked === serverId) return feed
  throw new LedgerError('SERVERID_UNKNOWN', `this node has no change feed of server id ${asked}`)
}

function parseChangesStart(text: string): ChangesStart {
  if (text === 'start' || text === 'now') return text
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position must be <height>.<index>, `start` or `now`')
}

/** Delay before a browser reconnects, milliseconds. */
const RETRY_MS = 2_000

/** Headers of the replies to GET and HEAD. */
const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  // Without this header, nginx would buffer the events.
  'x-accel-buffering': 'no',
  connection: 'close',
}

class EventStream implements Subscriber {
  readonly #response: ServerResponse
  readonly #onFailure: (error: Error) => void
  #subscription: Subscription | null = null

  /** `onFailure` is called if the chain cannot be read. */
  constructor(response: ServerResponse, onFailure: (error: Error) => void) {
    this.#response = response
    this.#onFailure = onFailure
  }

  /** Sends the headers of the reply. The feed sends the first chunk later. */
  open(subscription: Subscription): void {
    const response = this.#response
    this.#subscription = subscription
    response.on('close', () => subscription.leave())
    response.on('error', () => response.destroy())
    if (response.destroyed) subscription.leave()
    // The reply ends when the connection closes, because chunked encoding would double the cost per subscriber.
    response.useChunkedEncodingByDefault = false
    response.writeHead(200, HEADERS)
    response.write(`retry: ${RETRY_MS}\n${formatProgress(subscription.after)}`)
  }

  send(events: Buffer): void {
    // Writes to the socket directly, because the response would delay the write, and the time that the feed measures
    // for the round would not include it.
    this.#response.socket?.write(events, () => this.#subscription?.ready())
  }

  heartbeat(passed: number | null): void {
    this.#response.write(passed === null ? ':\n\n' : formatProgress(passed))
  }

  end(error: Error | null): void {
    if (error !== null) this.#onFailure(error)
    // Destroys the connection if there are unsent bytes, because otherwise the client could keep the connection open.
    // No event is lost, because the client resumes after the last event that it received.
    if (this.#response.writableLength > 0) this.#response.destroy()
    else this.#response.end()
  }
}

/**
 * Returns the text of an event id without an event. A client stores the id and later resumes after this position.
 * So a client that reconnects before its first event misses nothing, and the feed skips the earlier entries.
 */
function formatProgress(passed: number | null): string {
  return `id: ${passed === null ? 'start' : positionText(passed)}\n:\n\n`
}
