import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest, onRequestHookHandler, RouteOptions } from 'fastify'
import { type HttpApp, HttpRefusal } from '../http/index.ts'
import { type Caller, Callers, may, NOBODY } from './caller.ts'
import { TokenError } from './errors.ts'
import {
  type DatabaseLevel,
  isNodeScope,
  LEVELS,
  type Need,
  type NodeScope,
  scopeOf,
} from './scope.ts'
import type { TokenService } from './service.ts'

/**
 * What a route asks of its caller, where tokens are required: nothing, any valid token, or a scope;
 * `{db}` stands for the path parameter `db`.
 */
export type RouteScope = 'public' | 'token' | NodeScope | `db:{db}:${DatabaseLevel}`

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every route behind a gate declares it; see `registerGate`. */
    scope?: RouteScope
    /** A reply that goes on and on: it is broken off when the token ends. */
    lasting?: boolean
    /** Also open, without a token, to who signs the request; see `Gate.signed`. */
    signed?: boolean
  }
  interface FastifyRequest {
    /** Whoever makes the request; null where no tokens are required. */
    caller: Caller | null
  }
}

/** Where a gate stands. */
export interface Gate {
  /** Null: no tokens are required, and no request is looked at. */
  readonly tokens: TokenService | null
  /** Routes at and below this path are of somebody else's making, and public. */
  readonly publicPath: string
  /**
   * Lets those who sign a request without a token (RFC 9421) through to the routes that say `signed`,
   * and to no others; rejects for whoever may not. Absent: nobody.
   */
  readonly signed?: (request: IncomingMessage) => Promise<void>
}

/** Names of the schemes in the OpenAPI document; the query parameter stands at each operation. */
export const API_TOKEN_SCHEMES = {
  apiToken: { type: 'apiKey', in: 'header', name: 'x-access-token' },
  apiTokenAsBearer: { type: 'http', scheme: 'bearer' },
} as const

/** How often the token of a reply that lasts is looked at again; it costs a few microseconds. */
const RECHECK_MS = 10_000
const CHALLENGE = 'Bearer realm="daicho"'

/**
 * Sets up the gate of `app`: each route mounted later must say in its `config.scope` what it asks of
 * its caller, or the start fails, also where no tokens are required; the OpenAPI document shows it as
 * `x-scope`. With tokens, a request comes through when its token is valid (else 401) and holds that
 * scope (else 403), before its body is read; `request.caller` says whose it is. What only the body
 * tells is asked by `demand`.
 *
 * Call it before anything is mounted: what is mounted earlier is open to all.
 * Source: specification, “Authentication”, L 2 and 3; docs/decisions/0062-scopes.md.
 */
export function registerGate(app: HttpApp, { tokens, publicPath, signed }: Gate): void {
  const callers = tokens === null ? null : new Callers(tokens)
  app.decorateRequest('caller', null)
  app.addHook('onRoute', (route) => {
    if (route.url === publicPath || route.url.startsWith(`${publicPath}/`)) return
    const asked = askedBy(route)
    const { scope, lasting = false, signed: isSigned = false } = route.config ?? {}
    const security =
      tokens === null || asked === 'public'
        ? {}
        : { security: Object.keys(API_TOKEN_SCHEMES).map((name) => ({ [name]: [] })) }
    const schema = { ...route.schema, ...security, 'x-scope': scope }
    route.schema = schema
    if (callers === null) return
    // A hook of the route's own knows what it asks; asking the request for its route costs more.
    const hook = asked === 'public' ? openHook : hookOf(asked, callers, lasting)
    const first = isSigned && signed !== undefined ? signedHook(signed, hook) : hook
    route.onRequest = [first, ...[route.onRequest ?? []].flat()]
  })
}

/** Before a route that asks for nothing: whoever calls may do nothing that is asked for later. */
const openHook: onRequestHookHandler = (request, _reply, done) => {
  request.caller = NOBODY
  done()
}

/** Before a route that is open to who signs, too: a token that is given decides, as everywhere. */
function signedHook(
  signed: NonNullable<Gate['signed']>,
  hook: onRequestHookHandler,
): onRequestHookHandler {
  return function (request, reply, done) {
    const isSigned = request.headers['signature-input'] !== undefined
    if (!isSigned || tokenOf(request) !== undefined) return hook.call(this, request, reply, done)
    request.caller = NOBODY
    signed(request.raw).then(() => done(), done)
  }
}

/** Before a route that asks for something. */
function hookOf(
  asked: Exclude<Asked, 'public'>,
  callers: Callers,
  lasting: boolean,
): onRequestHookHandler {
  const admit = (
    request: FastifyRequest,
    reply: FastifyReply,
    caller: Caller,
  ): Error | undefined => {
    request.caller = caller
    const need = needOf(asked, request)
    if (need !== null && !may(caller, need)) return lacking(need)
    if (lasting) breakOffInTime(callers, request, reply)
    return undefined
  }
  return (request, reply, done) => {
    const token = tokenOf(request)
    const known = typeof token === 'string' ? callers.known(token) : undefined
    if (known !== undefined) done(admit(request, reply, known))
    else {
      admitted(callers, token, reply)
        .then((caller) => admit(request, reply, caller))
        .then(done, done)
    }
  }
}

/**
 * Refuses `caller` unless they may do what `need` says. Where no tokens are required everybody may.
 * Errors: HttpRefusal (403).
 */
export function demand(caller: Caller | null, need: Need): void {
  if (!may(caller, need)) throw lacking(need)
}

function lacking(need: Need): HttpRefusal {
  return new HttpRefusal(403, 'SCOPE_MISSING', `the token lacks the scope ${scopeOf(need)}`)
}

type Asked = 'public' | 'token' | NodeScope | { readonly level: DatabaseLevel }

/** Errors: any, for a route that declares nothing or what is not known; the start ends with it. */
function askedBy({ method, url, config }: RouteOptions): Asked {
  const scope = config?.scope
  if (scope === undefined) {
    throw new Error(`${method} ${url} declares no scope: say in its config what it asks of callers`)
  }
  if (scope === 'public' || scope === 'token' || isNodeScope(scope)) return scope
  const level = LEVELS.find((known) => scope === `db:{db}:${known}`)
  if (level !== undefined && /\/:db(?:\/|$)/.test(url)) return { level }
  throw new Error(`${method} ${url} cannot ask for the scope ${scope}`)
}

function needOf(asked: Exclude<Asked, 'public'>, request: FastifyRequest): Need | null {
  if (typeof asked === 'string') return asked === 'token' ? null : asked
  // The route has this parameter, and the router gives texts.
  const { db } = request.params as { db: string }
  return { db, level: asked.level }
}

/** Whose request this is. Errors: HttpRefusal (401), KeptError. */
async function admitted(callers: Callers, token: unknown, reply: FastifyReply): Promise<Caller> {
  try {
    if (typeof token === 'string') return await callers.of(token)
  } catch (error) {
    if (!(error instanceof TokenError) || error.code !== 'TOKEN_INVALID') throw error
  }
  reply.header('www-authenticate', CHALLENGE)
  throw token === undefined
    ? new HttpRefusal(401, 'TOKEN_NEEDED', 'a token is needed: send Authorization: Bearer <token>')
    : new HttpRefusal(401, 'TOKEN_INVALID', 'the token is not valid here, or no longer')
}

/** Looks again and again whether the token still is valid, as long as the reply lasts. */
function breakOffInTime(callers: Callers, request: FastifyRequest, reply: FastifyReply): void {
  const token = String(tokenOf(request))
  const { socket } = request
  const again = setInterval(() => {
    // Whatever went wrong: who cannot be told to be allowed is not.
    callers.of(token).catch(() => socket.destroy())
  }, RECHECK_MS)
  again.unref()
  reply.raw.once('close', () => clearInterval(again))
}

/**
 * The first token given; undefined when none is. What stands there decides even if it is no token:
 * looking further would let two readers of one request disagree about whose it is.
 */
function tokenOf({ query, headers }: FastifyRequest): unknown {
  // The router makes an object of texts, and of lists of texts where a name comes twice.
  const inQuery = (query as Record<string, unknown>).token
  const bearer = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]
  const given = [inQuery, headers['x-access-token'], bearer]
  return given.find((token) => token !== undefined && token !== '')
}
