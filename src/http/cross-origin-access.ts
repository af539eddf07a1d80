import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Seconds for which a browser may cache the answer to a preflight request. */
const PREFLIGHT_AGE_S = 600
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
/** Request headers of all components that a script must be allowed to send. */
const REQUEST_HEADERS = [
  ...['authorization', 'x-access-token', 'x-api-key', 'content-type', 'accept'],
  ...['if-match', 'if-none-match', 'if-range', 'range', 'idempotency-key', 'last-event-id'],
  ...['content-digest', 'repr-digest', 'ledger-reason'],
].join(', ')
/** Reply headers of all components that a script may read only if they are exposed. */
const REPLY_HEADERS = [
  ...[
    'etag',
    'ledger-position',
    'ledger-height',
    'query-plan',
    'retry-after',
    'www-authenticate',
    'allow',
  ],
  ...['content-disposition', 'content-range', 'accept-ranges', 'repr-digest', 'content-length'],
  ...['x-total-count', 'x-rates-source', 'x-rates-as-of', 'x-rates-stale', 'x-rates-proxy'],
  ...['x-daicho-grid', 'x-daicho-colors'],
].join(', ')

/**
 * Lets pages of chosen origins call a listener and read its replies (CORS). Only exact origins are allowed.
 * Browsers send no cookies or remembered passwords with such requests, so a page must send a token itself.
 * Source: WHATWG Fetch, "CORS protocol".
 */
export class CrossOriginAccess {
  readonly #origins: ReadonlySet<string>

  /** `origins` are exact, as browsers send them: `https://app.example`. */
  constructor(origins: ReadonlySet<string>) {
    this.#origins = origins
  }

  /** Sets the headers that let a page of `origin` read this reply, even an error. */
  allow(reply: ServerResponse, origin: string | undefined): void {
    // A cache must not give the reply for one origin to a page of another origin.
    reply.setHeader('vary', 'origin')
    if (origin === undefined || !this.#origins.has(origin)) return
    reply.setHeader('access-control-allow-origin', origin)
    reply.setHeader('access-control-expose-headers', REPLY_HEADERS)
  }

  /** Returns whether `request` asks if a page of an allowed origin may send another request. */
  isPreflight(request: IncomingMessage, origin: string | undefined): boolean {
    return (
      request.method === 'OPTIONS' &&
      origin !== undefined &&
      this.#origins.has(origin) &&
      request.headers['access-control-request-method'] !== undefined
    )
  }
}

/** Answers a preflight request of an allowed origin. */
export function answerPreflight(reply: FastifyReply): void {
  reply
    .code(204)
    .header('access-control-allow-methods', METHODS)
    .header('access-control-allow-headers', REQUEST_HEADERS)
    .header('access-control-max-age', PREFLIGHT_AGE_S)
    .send()
}

/** Adds `origin` to a `Vary` header that a route has set. The route's header replaces the header set by `allow`. */
export function varyByOrigin(reply: FastifyReply): void {
  const own = reply.getHeader('vary')
  const isReplaced = own !== 'origin' && reply.raw.getHeader('vary') === 'origin'
  if (isReplaced) reply.header('vary', `${own}, origin`)
}
