import {
  addGauge,
  addLabeledGauge,
  type HttpApp,
  Registry,
  registerMetrics,
  StatusFalse,
} from '../../http/index.ts'
import { RateFeedError, rateFeedStatuses } from '../errors.ts'
import type { RateDetail, RateFeed } from '../service.ts'
import { HealthReply, HistoryParams, HistoryReply, RatesQuery, RatesReply } from './schemas.ts'

const failures = { '4xx': StatusFalse, '5xx': StatusFalse }

export function rateFeedRoutes(app: HttpApp, feed: RateFeed): void {
  currentRoute(app, feed)

  app.get(
    '/history',
    {
      schema: {
        tags: ['rates'],
        operationId: 'listRateHistory',
        summary: 'List the recorded rates of one pair, oldest first',
        description:
          'Available if rates are recorded in the ledger. Each row contains its position in the ledger, ' +
          'and the path in the ledger API that returns its block with a proof.',
        querystring: HistoryParams,
        response: { 200: HistoryReply, ...failures },
      },
    },
    async ({ query }) => {
      const { pair, from = null, to = null, limit, offset } = query
      const rows = await feed.history(pair, { from, to, limit, offset })
      const shown = rows.map(({ record, position, rate }) => {
        const { asOf, source, acceptedAt, id } = record
        return { asOf, rate, source, acceptedAt, id, position, proof: proofPath(position) }
      })
      return { status: true as const, pair, rows: shown, limit, offset }
    },
  )

  app.get(
    '/healthz',
    {
      schema: {
        tags: ['operations'],
        operationId: 'checkRates',
        summary: 'Check whether rates are served, and show the state of each source',
        response: { 200: HealthReply, 503: HealthReply, ...failures },
      },
    },
    async (_request, reply) => {
      const health = feed.health()
      reply.code(health.status ? 200 : 503).header('cache-control', 'no-store')
      return reply.send(health)
    },
  )
}

function currentRoute(app: HttpApp, feed: RateFeed): void {
  let sent: { detail: RateDetail; reply: CurrentReply } | null = null
  // The type is `unknown`, because with the type of the schemas, the handler could not send serialized JSON.
  const replies: Readonly<Record<string, unknown>> = { 200: RatesReply, ...failures }
  app.get(
    '/',
    {
      schema: {
        tags: ['rates'],
        operationId: 'readRates',
        summary: 'Read the current rates of the twenty pairs',
        description:
          'Headers describe the origin of the rates: `X-Rates-Source`, `X-Rates-As-Of`, ' +
          '`X-Rates-Stale` and, if a pair is computed from a substitute, `X-Rates-Proxy`.',
        querystring: RatesQuery,
        response: replies,
      },
    },
    async ({ query }, reply) => {
      try {
        if (query.detail === '1') {
          const detail = await feed.detail()
          return reply.header('cache-control', 'no-store').send({ status: true, ...detail })
        }
        const current = feed.current()
        const detail = current instanceof Promise ? await current : current
        if (sent?.detail !== detail) sent = { detail, reply: currentReply(detail) }
        const { headers, rawHeaders, body } = sent.reply
        // Uses Fastify's reply while the listener closes, because only this reply sends the header `Connection: close`.
        if (reply.hasHeader('connection')) return reply.headers(headers).send(body)
        // Writes prepared headers and body without Fastify's reply, which is faster (decision 0012).
        reply.hijack()
        reply.raw.writeHead(200, rawHeaders).end(body)
        return reply
      } catch (error) {
        if (error instanceof RateFeedError && rateFeedStatuses[error.code] === 503) {
          reply.header('retry-after', String(feed.retryAfterSeconds()))
        }
        throw error
      }
    },
  )
}

export interface CurrentReply {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** `headers` and `content-length` as alternating names and values, the fastest format for Node. */
  readonly rawHeaders: string[]
}

export function currentReply({ result, meta }: RateDetail): CurrentReply {
  const body = JSON.stringify({ status: true, result })
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-rates-source': meta.source,
    'x-rates-as-of': meta.asOf,
    'x-rates-stale': String(meta.stale),
    ...(meta.proxies.length > 0 ? { 'x-rates-proxy': meta.proxies.join(', ') } : {}),
  }
  const length = String(Buffer.byteLength(body))
  return {
    body,
    headers,
    rawHeaders: [...Object.entries(headers).flat(), 'content-length', length],
  }
}

/** Returns the path in the ledger API that returns the block at `position` with its proof. */
function proofPath(position: string): string {
  const [, serverId = '', height = ''] = /^(\d+)\/(\d+)\./.exec(position) ?? []
  return `/api/ledgers?serverid=${serverId}&offset=${height}&limit=1&proof=1`
}

export function rateFeedMetrics(app: HttpApp, feed: RateFeed, now: () => number): void {
  const registry = new Registry()
  registerMetrics(app, registry, true)
  addGauge(
    registry,
    'daicho_rates_stale',
    '1 if the served rates are stale, or if there are no rates; otherwise 0',
    () => (feed.health().health === 'ok' ? 0 : 1),
  )
  addGauge(
    registry,
    'daicho_rates_age_seconds',
    'Time since the date of the served rates',
    () => feed.health().vector?.ageSeconds ?? Number.NaN,
  )
  addLabeledGauge(
    registry,
    'daicho_rates_source_failures',
    'Number of failures of each source since its last success',
    ['source'],
    () => feed.health().sources.map(({ name, failures }) => [{ source: name }, failures]),
  )
  addLabeledGauge(
    registry,
    'daicho_rates_source_answer_age_seconds',
    'Time since the last successful request to each source; absent before the first success',
    ['source'],
    () =>
      feed.health().sources.flatMap(({ name, lastSuccessAt }) => {
        if (lastSuccessAt === null) return []
        return [[{ source: name }, (now() - Date.parse(lastSuccessAt)) / 1_000] as const]
      }),
  )
}
