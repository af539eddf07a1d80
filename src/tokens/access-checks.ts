import type { IncomingMessage } from 'node:http'
import type {
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  onSendHookHandler,
  RouteOptions,
} from 'fastify'
import { type Author, decodeAuthor } from '../base/author.ts'
import { type HttpApp, HttpRefusal } from '../http/index.ts'
import { TokenError } from './errors.ts'
import {
  API_AUDIENCE,
  type DatabaseLevel,
  formatScope,
  isNodeScope,
  LEVELS,
  may,
  type Need,
  NO_GRANT,
  type NodeScope,
  parseGrant,
  type TokenOwner,
} from './scopes.ts'
import type { TokenService } from './service.ts'
import type { VerifiedToken } from './verified-token.ts'

/**
 * The access that a route requires if tokens are required: `public` for none, `token` for any valid token, or a
 * scope. `{db}` stands for the path parameter `db`.
 */
export type RouteScope =
  | 'public'
  | 'token'
  | NodeScope
  | `db:{db}:${DatabaseLevel}`
  | typeof CHAIN_SCOPE

/** `db:<name>:read` for each query parameter `db`; without such a parameter, `ledger:read`, which is always enough. */
const CHAIN_SCOPE = 'ledger:{db}'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Required for each route that is mounted after `registerAccessChecks`. */
    scope?: RouteScope
    /**
     * Whether the reply is a stream. A stream is aborted when its token expires or is revoked, like a body that a route
     * with `streamsBody` reads.
     */
    lasting?: boolean
    /** Whether signed requests need no token; see `AccessCheckOptions.signed`. */
    signed?: boolean
  }
  interface FastifyRequest {
    /** The owner of the token; null if tokens are disabled. */
    caller: TokenOwner | null
  }
}

export interface AccessCheckOptions {
  /** Null if tokens are disabled. */
  readonly tokens: TokenService | null
  /**
   * Verifies the signature (RFC 9421) of a request without a token, for routes with `signed`. Throws to reject the
   * request. If undefined, all signed requests need a token.
   */
  readonly signed?: (request: IncomingMessage) => Promise<void>
}

/** The security scheme in the OpenAPI document. The query parameter `token` is documented at each operation. */
export const API_TOKEN_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer' },
} as const

/** Interval at which the token of a stream is checked. A check takes a few microseconds. */
const RECHECK_MS = 10_000
const CHALLENGE = 'Bearer realm="daicho"'
/** The caller of a request without a token, who has no access. */
const ANONYMOUS: TokenOwner = {
  ...{ author: { sub: '' }, expiresAt: 0, isSession: false, grant: NO_GRANT },
}

/**
 * Adds access checks to all routes that are mounted later; earlier routes are not checked. Each checked route must
 * declare `config.scope`, even if tokens are disabled; otherwise the node does not start. The OpenAPI document shows
 * the scope as `x-scope`.
 *
 * If tokens are required, a request must have a valid token (otherwise 401) with the scope of the route (otherwise
 * 403). The check runs before the body is read, and sets `request.caller`. Handlers check rules that depend on the body
 * with `requireScope`.
 *
 * Source: specification, “Authentication”, L 2 and 3; docs/decisions/0014-tokens-and-scopes.md.
 */
export function registerAccessChecks(app: HttpApp, { tokens, signed }: AccessCheckOptions): void {
  const callers = tokens === null ? null : new Callers(tokens)
  app.decorateRequest('caller', null)
  app.addHook('onRoute', (route) => {
    const required = parseRequirement(route)
    const { scope, streamsBody = false, signed: isSigned = false } = route.config ?? {}
    const lasting = route.config?.lasting ?? streamsBody
    const security =
      tokens === null || required === 'public'
        ? {}
        : { security: Object.keys(API_TOKEN_SCHEMES).map((name) => ({ [name]: [] })) }
    const shown = scope === CHAIN_SCOPE ? 'ledger:read' : scope
    const schema = { ...route.schema, ...security, 'x-scope': shown }
    route.schema = schema
    if (callers === null) return
    // Each route gets its own hook, because looking up the requirement for each request would cost more.
    const hook = required === 'public' ? publicHook : tokenHook(required, callers, lasting)
    const acceptsSigned = isSigned && signed !== undefined
    const first = acceptsSigned ? signedHook(signed, hook) : hook
    route.onRequest = [first, ...[route.onRequest ?? []].flat()]
    if (acceptsSigned) route.onSend = [...[route.onSend ?? []].flat(), keepSignedFromCaches]
  })
}

/** Throws unless `caller` has the access `need`; never throws if tokens are disabled. Errors: HttpRefusal (403). */
export function requireScope(caller: TokenOwner | null, need: Need): void {
  if (caller !== null && !may(caller, need)) throw scopeMissing(need, caller)
}

/** Source: RFC 6750 section 3. */
function scopeMissing(need: Need, { author }: TokenOwner): HttpRefusal {
  const scope = formatScope(need)
  return new HttpRefusal(403, 'SCOPE_MISSING', `the token lacks the scope ${scope}`, {
    challenge: `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`,
    denial: { reason: 'SCOPE_MISSING', subject: author.sub },
  })
}

type Requirement =
  | 'public'
  | 'token'
  | NodeScope
  | typeof CHAIN_SCOPE
  | { readonly level: DatabaseLevel }

/** Returns the requirement of a route. Throws if its scope is missing or invalid, so that the node does not start. */
function parseRequirement({ method, url, config }: RouteOptions): Requirement {
  const scope = config?.scope
  if (scope === undefined) {
    throw new Error(`${method} ${url} declares no scope; set one in its config`)
  }
  if (scope === 'public' || scope === 'token' || scope === CHAIN_SCOPE) return scope
  if (isNodeScope(scope)) return scope
  const level = LEVELS.find((known) => scope === `db:{db}:${known}`)
  if (level !== undefined && /\/:db(?:\/|$)/.test(url)) return { level }
  throw new Error(`${method} ${url} declares an invalid scope: ${scope}`)
}

const publicHook: onRequestHookHandler = (request, _reply, done) => {
  request.caller = ANONYMOUS
  done()
}

/** Verifies signed requests without a token, and calls `hook` for all others. */
function signedHook(
  verify: NonNullable<AccessCheckOptions['signed']>,
  hook: onRequestHookHandler,
): onRequestHookHandler {
  return function (request, reply, done) {
    const isSigned = request.headers['signature-input'] !== undefined
    if (!isSigned || findToken(request) !== undefined) return hook.call(this, request, reply, done)
    request.caller = ANONYMOUS
    verify(request.raw).then(() => done(), done)
  }
}

/**
 * Forbids shared caches to store the reply: they know only credentials in `Authorization`, and would give the reply to
 * anyone. Source: RFC 9111, sections 3 and 3.5.
 */
function keepFromCaches({ headers }: FastifyRequest, reply: FastifyReply): void {
  if (headers.authorization === undefined) reply.header('cache-control', 'private')
}

/** The same for signed requests, even if the handler allows caches: `Vary` does not name the headers of a signature. */
const keepSignedFromCaches: onSendHookHandler = ({ headers }, reply, payload, done) => {
  const caching = String(reply.getHeader('cache-control') ?? '')
  if (headers['signature-input'] !== undefined && !/private|no-store/.test(caching)) {
    reply.header('cache-control', caching === '' ? 'private' : `private, ${caching}`)
  }
  done(null, payload)
}

function tokenHook(
  required: Exclude<Requirement, 'public'>,
  callers: Callers,
  lasting: boolean,
): onRequestHookHandler {
  return (request, reply, done) => {
    const checkScope = (caller: TokenOwner): HttpRefusal | undefined => {
      request.caller = caller
      const missing = toNeeds(required, request).find((need) => !may(caller, need))
      if (missing !== undefined && !mayReadChain(required, caller))
        return scopeMissing(missing, caller)
      keepFromCaches(request, reply)
      if (lasting) abortWithToken(callers, request, reply)
      return undefined
    }
    const token = findToken(request)
    const known = typeof token === 'string' ? callers.known(token) : undefined
    if (known !== undefined) done(checkScope(known))
    else requireCaller(callers, token).then(checkScope).then(done, done)
  }
}

/** Returns the access that a request to a route requires. */
function toNeeds(
  required: Exclude<Requirement, 'public'>,
  { params, query }: FastifyRequest,
): readonly Need[] {
  if (required === 'token') return []
  if (required === CHAIN_SCOPE) {
    const databases = [(query as Record<string, unknown>).db ?? []].flat()
    if (databases.length === 0) return ['ledger:read']
    return databases.map((db) => ({ db: String(db), level: 'read' as const }))
  }
  if (typeof required === 'string') return [required]
  // `parseRequirement` has checked that the route has this parameter.
  const { db } = params as { db: string }
  return [{ db, level: required.level }]
}

/** Whether the route only reads a chain, and `caller` may read all of it. */
function mayReadChain(required: Exclude<Requirement, 'public'>, caller: TokenOwner): boolean {
  return required === CHAIN_SCOPE && may(caller, 'ledger:read')
}

/** Verifies `token` and returns its owner. Errors: HttpRefusal (401), ISSUER_UNAVAILABLE, SharedFileError. */
async function requireCaller(callers: Callers, token: unknown): Promise<TokenOwner> {
  if (token === undefined) {
    const message = 'a token is needed: send Authorization: Bearer <token>'
    throw new HttpRefusal(401, 'TOKEN_NEEDED', message, { challenge: CHALLENGE })
  }
  let subject: string | undefined
  try {
    if (typeof token === 'string') return await callers.of(token)
  } catch (error) {
    if (!(error instanceof TokenError) || error.code !== 'TOKEN_INVALID') throw error
    subject = error.subject
  }
  const message = 'the token is not valid here, has expired or was revoked'
  throw new HttpRefusal(401, 'TOKEN_INVALID', message, {
    challenge: `${CHALLENGE}, error="invalid_token"`,
    denial: { reason: 'TOKEN_INVALID', ...(subject === undefined ? {} : { subject }) },
  })
}

/** Aborts a streamed reply or body when its token is no longer valid. */
function abortWithToken(callers: Callers, request: FastifyRequest, reply: FastifyReply): void {
  // The client may have disconnected while its token was verified. Then no event `close` follows.
  if (reply.raw.destroyed) return
  const token = String(findToken(request))
  const { socket } = request
  const recheck = setInterval(() => {
    // Ends the reply on any error, even if the error leaves open whether the token is valid.
    callers.of(token).catch(() => socket.destroy())
  }, RECHECK_MS)
  recheck.unref()
  reply.raw.once('close', () => clearInterval(recheck))
}

/**
 * Returns the first token in the request, valid or not, or undefined if there is none. An invalid token is not skipped,
 * because a proxy that checks only the first token would then assume another caller than this node.
 */
function findToken({ query, headers }: FastifyRequest): unknown {
  // `inQuery` is a string, or an array of strings if the parameter is repeated.
  const inQuery = (query as Record<string, unknown>).token
  const bearer = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]
  const tokens = [bearer, headers['x-access-token'], inQuery]
  return tokens.find((token) => token !== undefined && token !== '')
}

/** Verifies API tokens and returns their callers. */
class Callers {
  readonly #tokens: TokenService
  readonly #thisIteration = new Map<string, TokenOwner>()

  constructor(tokens: TokenService) {
    this.#tokens = tokens
  }

  /**
   * Returns the caller if `token` was verified in this event-loop iteration. So concurrent requests share one
   * verification, which takes a third of the time of a small read.
   */
  known(token: string): TokenOwner | undefined {
    return this.#thisIteration.get(token)
  }

  /** Verifies `token` and returns its owner. Errors: TOKEN_INVALID, SharedFileError. */
  async of(token: string): Promise<TokenOwner> {
    const verified = await this.#tokens.verify(token, API_AUDIENCE)
    const { expiresAt, claims, issuer } = verified
    const caller = {
      ...{
        author: toAuthor(verified),
        expiresAt,
        isSession: issuer === undefined && claims.session === true,
      },
      grant: parseGrant(claims.scope),
    }
    if (this.#thisIteration.size === 0) setImmediate(() => this.#thisIteration.clear())
    this.#thisIteration.set(token, caller)
    return caller
  }
}

/**
 * Returns the author of the changes that the owner of a token makes. This is the only place where an author is taken
 * from a request. Errors: TOKEN_INVALID for a subject that no entry can contain.
 */
function toAuthor({ subject, issuer }: Pick<VerifiedToken, 'subject' | 'issuer'>): Author {
  const author = decodeAuthor(
    issuer === undefined ? { sub: subject } : { sub: subject, iss: issuer },
  )
  if (author !== null) return author
  throw new TokenError('TOKEN_INVALID', 'the subject of the token is empty or too long')
}
