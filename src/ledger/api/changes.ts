import type { ServerResponse } from 'node:http'
import { Type } from '../../base/shape.ts'
import { parsePosition, positionText } from '../../chain/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { type DatabaseFilter, databaseFilter } from '../changes/database-filter.ts'
import type { EntryPage, Slice } from '../changes/entry-page.ts'
import type { ChangeFeed, ChangesStart, Follower, Seat } from '../changes/feed.ts'
import { LedgerError } from '../errors.ts'
import type { LedgerService } from '../service.ts'
import { serverIdFrom } from './replies.ts'
import { failures, SERVERID_PATTERN } from './schemas.ts'

/** Databases that one follower may name. */
const DATABASES_MAX = 100

/** Whose changes. */
const ChangesParams = Type.Object({
  serverid: Type.String({
    shownPattern: SERVERID_PATTERN,
    description: 'Whose chain; the own id is at /api/serverid',
  }),
})

/** What of them, and from where on. */
const ChangesQuery = Type.Object({
  token: Type.Optional(Type.String({ description: 'Only where tokens are required' })),
  db: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: DATABASES_MAX,
      description: 'Only entries of this database; may be given several times',
    }),
  ),
  since: Type.Optional(
    Type.String({
      description:
        'After the entry at this position, `<height>.<index>`; `start` for all entries; `now`, the ' +
        'default, for those to come. The header Last-Event-ID goes before it',
    }),
  ),
})

/** A position to go on after, as browsers send it when they connect again. */
const ChangesHeaders = Type.Object({
  'last-event-id': Type.Optional(Type.String({ description: 'As `since`' })),
})

/** Events, one for each entry. */
const ChangesStream = Type.String({
  description:
    'Server-sent events: `id` is the position, `event` is `entry`, `data` is ' +
    '`{"position":…,"timestamp":…,"entry":{…}}`',
})

/** Mounts `GET /api/ledgers/{serverid}/changes` on `app`; its clients are let go when `app` closes. */
export function changesRoutes(app: HttpApp, ledger: LedgerService): void {
  app.addHook('preClose', async () => ledger.feed.close())
  app.get(
    '/api/ledgers/:serverid/changes',
    {
      schema: {
        tags: ['ledger'],
        summary: 'Follow the entries of a chain as they are recorded (server-sent events)',
        params: ChangesParams,
        querystring: ChangesQuery,
        headers: ChangesHeaders,
        response: {
          200: {
            description: 'Goes on until either side ends it',
            content: { 'text/event-stream': { schema: ChangesStream } },
          },
          ...failures,
        },
      },
      // Of all databases, whichever the filter names: a chain is one thing.
      config: { scope: 'ledger:read', lasting: true },
    },
    async (request, reply) => {
      const { method, params, query, headers } = request
      const feed = ledger.feedOf(serverIdFrom(params.serverid))
      const filter = databaseFilter(query.db ?? [])
      // A browser that connects again asks for the same address, and says how far it came.
      const after = startFrom(headers['last-event-id'] || query.since || 'now')
      if (method === 'HEAD') await sendHead(feed, reply.raw, after)
      else {
        const onFailure = (error: Error) => request.reportFailure(error)
        await sendChanges(feed, reply.raw, after, filter, onFailure)
      }
      return reply.hijack()
    },
  )
}

function startFrom(text: string): ChangesStart {
  if (text === 'start' || text === 'now') return text
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position is <height>.<index>, `start` or `now`')
}

/** What a browser waits before it connects again, milliseconds. */
const RETRY_MS = 2_000

/** Of every reply, also to HEAD. */
const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  // nginx would gather events before it passes them on.
  'x-accel-buffering': 'no',
  connection: 'close',
}

/** Answers HEAD. Errors: those of `join`. */
async function sendHead(
  feed: ChangeFeed,
  response: ServerResponse,
  after: ChangesStart,
): Promise<void> {
  await feed.check(after)
  response.writeHead(200, HEADERS).end()
}

/**
 * Sends the entries after `after` over `response` until either side ends; `onFailure` is called when the
 * chain cannot be read. Errors: those of `join`.
 */
async function sendChanges(
  feed: ChangeFeed,
  response: ServerResponse,
  after: ChangesStart,
  filter: DatabaseFilter | null,
  onFailure: (error: Error) => void,
): Promise<void> {
  const stream = new EventStream(response, filter, onFailure)
  stream.open(await feed.join(stream, after))
}

/**
 * A client that is sent server-sent events, one slice at a time: the next one when its connection
 * has taken the one before.
 */
class EventStream implements Follower {
  readonly #response: ServerResponse
  readonly #filter: DatabaseFilter | null
  readonly #onFailure: (error: Error) => void
  #held: Slice | null = null
  #seat: Seat | null = null

  constructor(
    response: ServerResponse,
    filter: DatabaseFilter | null,
    onFailure: (error: Error) => void,
  ) {
    this.#response = response
    this.#filter = filter
    this.#onFailure = onFailure
  }

  get busy(): boolean {
    return this.#held !== null
  }

  get held(): Slice | null {
    return this.#held
  }

  /** Before the first slice: turns of the feed come later than this. */
  open(seat: Seat): void {
    const response = this.#response
    this.#seat = seat
    response.on('close', () => seat.leave())
    response.on('error', () => response.destroy())
    if (response.destroyed) seat.leave()
    // The end of the connection is the end of the stream: frames of chunks would cost as much as
    // everything else that is done for a follower.
    response.useChunkedEncodingByDefault = false
    response.writeHead(200, HEADERS)
    response.write(`retry: ${RETRY_MS}\n${progress(seat.after)}`)
  }

  take(page: EntryPage, from: number): number {
    const slice = page.slice(from, this.#filter)
    if (slice.bytes.length > 0) {
      this.#held = slice
      // Not through the response, which puts writing off to the end of the turn: the feed measures
      // what it costs the others, and the kernel's part is most of it.
      this.#response.socket?.write(slice.bytes, this.#written)
    }
    return slice.next
  }

  beat(passed: number | null): void {
    this.#response.write(passed === null ? ':\n\n' : progress(passed))
  }

  end(error: Error | null): void {
    if (error !== null) this.#onFailure(error)
    // What its connection has not taken would keep it open; the client resumes where it was.
    if (this.#response.writableLength > 0) this.#response.destroy()
    else this.#response.end()
  }

  readonly #written = (): void => {
    this.#held = null
    this.#seat?.ready()
  }
}

/**
 * Where to resume, without an event: a client takes note of the id and sees nothing. Who filters, or
 * has not been sent anything yet, neither misses an entry nor has the chain searched again.
 */
function progress(passed: number | null): string {
  return `id: ${passed === null ? 'start' : positionText(passed)}\n:\n\n`
}
