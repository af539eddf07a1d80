import type { FastifyReply } from 'fastify'
import type { HttpApp } from '../http/index.ts'
import { RateFeedError, statusOf } from './errors.ts'
import {
  Failure,
  HealthReply,
  HistoryParams,
  HistoryReply,
  RatesQuery,
  RatesReply,
} from './schemas.ts'
import type { RateFeedService } from './service.ts'

/** Mounts the feed's paths on `app`. */
export function rateFeedRoutes(app: HttpApp, feed: RateFeedService): void {
  currentRoute(app, feed)
  historyRoute(app, feed)
  healthRoute(app, feed)
}

/** Untyped, because the handler sends text that is JSON already. */
const currentReplies: Readonly<Record<string, unknown>> = {
  200: RatesReply,
  '4xx': Failure,
  '5xx': Failure,
}

function currentRoute(app: HttpApp, feed: RateFeedService): void {
  app.get(
    '/',
    {
      schema: {
        tags: ['rates'],
        summary: 'The current rates of the twenty pairs',
        description:
          'Headers tell where the rates come from: `X-Rates-Source`, `X-Rates-As-Of`, ' +
          '`X-Rates-Stale` and, where a stand-in is used, `X-Rates-Proxy`.',
        querystring: RatesQuery,
        response: currentReplies,
      },
    },
    async ({ query }, reply) => {
      try {
        if (query.detail === '1') {
          const detail = await feed.detail()
          return reply.header('cache-control', 'no-store').send({ status: true, ...detail })
        }
        const made = feed.answer()
        const { headers, rawHeaders, body } = made instanceof Promise ? await made : made
        // A listener that is closing has set a header that must go out with the others.
        if (reply.hasHeader('connection')) return reply.headers(headers).send(body)
        // Text and headers are made once a second, so nothing is left to do but send them: past
        // Fastify's reply, which would look at each again. docs/decisions/0033-reply-as-text.md.
        reply.hijack()
        reply.raw.writeHead(200, rawHeaders).end(body)
        return reply
      } catch (error) {
        throw withRetryAfter(error, feed, reply)
      }
    },
  )
}

/** `error`, with the header that tells when to come back, where coming back may help. */
function withRetryAfter(error: unknown, feed: RateFeedService, reply: FastifyReply): unknown {
  if (error instanceof RateFeedError && statusOf[error.code] === 503) {
    reply.header('retry-after', String(feed.retryAfterSeconds()))
  }
  return error
}

function historyRoute(app: HttpApp, feed: RateFeedService): void {
  app.get(
    '/history',
    {
      schema: {
        tags: ['rates'],
        summary: 'Recorded rates of one pair, oldest first',
        description:
          'Only where rates are recorded in the ledger. Each row tells its position there, and ' +
          'the path on the ledger of its block, with what verifies it.',
        querystring: HistoryParams,
        response: { 200: HistoryReply, '4xx': Failure, '5xx': Failure },
      },
    },
    async ({ query }) => {
      const { pair, from = null, to = null, limit, offset } = query
      const rows = await feed.history(pair, { from, to, limit, offset })
      return {
        status: true as const,
        pair,
        rows: rows.map(({ record, position, rate }) => ({
          asOf: record.asOf,
          rate,
          source: record.source,
          acceptedAt: record.acceptedAt,
          id: record.id,
          position,
          proof: proofPath(position),
        })),
        limit,
        offset,
      }
    },
  )
}

/** Where the ledger shows the block at `position`, with what verifies it. */
function proofPath(position: string): string {
  const [, serverId = '', height = ''] = /^(\d+)\/(\d+)\./.exec(position) ?? []
  return `/api/ledgers?serverid=${serverId}&offset=${height}&limit=1&proof=1`
}

function healthRoute(app: HttpApp, feed: RateFeedService): void {
  app.get(
    '/healthz',
    {
      schema: {
        tags: ['operations'],
        summary: 'Whether rates are served, and the record of each source',
        response: { 200: HealthReply, 503: HealthReply, '4xx': Failure, '5xx': Failure },
      },
    },
    async (_request, reply) => {
      const { serving, sources, ...health } = feed.health()
      return reply
        .code(serving ? 200 : 503)
        .header('cache-control', 'no-store')
        .send({
          status: serving,
          ...health,
          sources: sources.map((source) => ({
            ...source,
            lastSuccessAt: instantOf(source.lastSuccessAt),
            lastAttemptAt: instantOf(source.lastAttemptAt),
            backOffUntil: instantOf(source.backOffUntil),
          })),
        })
    },
  )
}

function instantOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
