import { Readable } from 'node:stream'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import {
  type FastifyBaseLogger,
  type FastifyRequest,
  fastify,
  type onRequestHookHandler,
  type RouteOptions,
} from 'fastify'
import { BodyBudget } from './body-budget.ts'
import { readBody } from './body-readers.ts'
import type { HttpApp, HttpComponent } from './component.ts'
import { compressReplies } from './compression.ts'
import { Connections } from './connections.ts'
import { answerPreflight, CrossOriginAccess, varyByOrigin } from './cross-origin-access.ts'
import { crossOriginRefusal } from './cross-origin-guard.ts'
import { type Denial, Denials } from './denials.ts'
import { FailureLog, toLogFields } from './failure-log.ts'
import { createRefusal, formatViolations, toRefusal } from './refusal.ts'
import {
  brokenRequestRefuser,
  handleUpgrades,
  type RequestGuard,
  refuseExpectAndConnect,
  sendRefusal,
} from './refusal-replies.ts'
import { countedPayload, ReplyBudget } from './reply-budget.ts'
import {
  charsetRefusal,
  encodingRefusal,
  hostsRefusal,
  readRequestHeaders,
} from './request-headers.ts'
import { serializerCompiler, validatorCompiler } from './schema-compilers.ts'
import { emptyPartRefusal, RouteTable, unroutedRefusal } from './unknown-routes.ts'

/** Maximum number of open connections, unless the component sets its own. */
const SOCKETS_MAX = 1_000
/** Maximum milliseconds until the headers of a request are complete. */
const HEADERS_TIMEOUT_MS = 10_000
/** Interval of the check for overdue requests. Node's default of 30 s would make timeouts up to 30 s late. */
const CONNECTIONS_CHECK_MS = 5_000
/** Milliseconds after which an idle keep-alive connection is closed. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000
/** Maximum characters of a path segment: enough for percent-encoded database names and item ids (256 bytes). */
const PATH_PART_LENGTH_MAX = 1_024

export interface HttpAppOptions {
  readonly logger: FastifyBaseLogger
  /** Accepted values of `Host` besides local names, in lower case, without ports. */
  readonly publicHosts: ReadonlySet<string>
  /** Origins whose pages may call the listener (`cross-origin-access.ts`); default: none. */
  readonly allowedOrigins?: ReadonlySet<string>
  /** The budget that all listeners of the process share; default: one for this listener. */
  readonly replyBudget?: ReplyBudget
  /** The denials that all listeners of the process share; default: those of this listener. */
  readonly denials?: Denials
}

declare module 'fastify' {
  interface FastifyInstance {
    connections: Connections
    replyBudget: ReplyBudget
    denials: Denials
  }
  interface FastifyRequest {
    /** Time when the headers arrived, by `performance.now()`. */
    arrivedMs: number
    /** Logs an error that occurs after the reply has begun. */
    reportFailure(error: unknown): void
    /** Logs and counts a denial whose reply is not an HttpRefusal with a `denial`. */
    reportDenial(denial: Denial): void
  }
}

/**
 * Builds the app of `component` without listening. Tests call `inject` of the app.
 *
 * Adds to the component's routes: timeouts, a limit of connections, memory budgets, and error replies in the
 * component's error format, even for requests that fail before routing. Logs contain paths without queries, because a
 * query may contain a token.
 */
export async function buildApp(
  component: HttpComponent,
  options: HttpAppOptions,
): Promise<HttpApp> {
  const logger = options.logger.child({ component: component.name })
  const denials = options.denials ?? new Denials()
  const failures = new FailureLog(component, logger, denials)
  const guard = createGuard(component, options)
  const app = createApp(component, options.replyBudget ?? new ReplyBudget())
  setParsers(app)
  refuseExpectAndConnect(component, app.server)
  app.decorate('denials', denials)
  handleUpgrades(component, app.server, guard, (request, error) =>
    failures.reportUpgrade(request, error),
  )
  orderRequests(app, failures)
  checkRequests(app, component, guard, options.allowedOrigins ?? new Set())
  countReplies(app, failures)
  compressReplies(app)
  if (logger.level === 'debug' || logger.level === 'trace') logReplies(app, logger)
  answerErrors(app, component, failures)
  app.addHook('onRoute', (route) => app.routeTable.add(route))
  app.addHook('onRoute', refuseIgnoredConditions)
  await component.register(app)
  if (component.close !== undefined) app.addHook('onClose', () => component.close?.())
  await app.ready()
  return app
}

/** Returns the check of a request's hosts and origin. */
function createGuard(
  { sameOriginOnly }: HttpComponent,
  { publicHosts, allowedOrigins }: HttpAppOptions,
): RequestGuard {
  return (headers, { url, httpVersion }, openToAllSites) => {
    const refusal = hostsRefusal(headers, httpVersion)
    if (refusal !== null || !sameOriginOnly) return refusal
    const target = { url: url ?? '', openToAllSites }
    return crossOriginRefusal(target, headers, publicHosts, allowedOrigins)
  }
}

function createApp(component: HttpComponent, replyBudget: ReplyBudget): HttpApp {
  const { limits } = component
  const pacedSockets = new WeakSet<object>()
  const refuseBroken = brokenRequestRefuser(component, () => connections.pendingReplies())
  // Fastify's own logging is disabled, because it creates a logger per request and logs the query.
  const app: HttpApp = fastify({
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // `app.close` closes only idle connections. `drain` closes the others after their pending replies were sent.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: PATH_PART_LENGTH_MAX },
    http: {
      // Creates no stream for a request without a body, because a stream is a sixth of the cost of a GET.
      optimizeEmptyRequests: true,
      // Off, because the guard refuses a missing Host in the component's error format.
      requireHostHeader: false,
      // Ignores `Upgrade` to other protocols, e.g. h2c (RFC 9110, section 7.8), and while replies to earlier requests
      // are pending, because Node would drop the pending replies.
      shouldUpgradeCallback: ({ socket, headers }) =>
        component.upgrade !== undefined &&
        headers.upgrade?.toLowerCase() === 'websocket' &&
        !connections.isBusy(socket),
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, limits.requestTimeoutMs),
      connectionsCheckingInterval: Math.min(CONNECTIONS_CHECK_MS, limits.requestTimeoutMs),
    },
    frameworkErrors: (error, request, reply) => {
      sendRefusal(component, request, reply, toRefusal(component, error))
    },
    clientErrorHandler: (error, socket) => {
      // There is no timeout for a body that `arrivingBody` limits by its `Pace`, nor for a connection that is paused
      // because pipelined requests wait.
      const hasNoTimeout = pacedSockets.has(socket) || connections.isWaiting(socket)
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && hasNoTimeout) return
      refuseBroken(error, socket)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  const connections = new Connections(app.server, limits.socketsMax ?? SOCKETS_MAX)
  app.decorate('connections', connections)
  app.decorate('routeTable', new RouteTable())
  app.decorate('pacedSockets', pacedSockets)
  app.decorate('replyBudget', replyBudget)
  return app
}

/** Components that accept bodies add parsers of their own. */
function setParsers(app: HttpApp): void {
  // All other bodies are read and discarded, because closing a connection with unread bytes resets the connection, and
  // the client may lose the reply.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    await readBody(request).catch((error: unknown) => {
      // A path or method that does not exist is reported, not its body.
      if (!request.is404) throw error
    })
  })
  // No route accepts QUERY, so the reply must be 405, as for any other unsupported method. Fastify's own registration
  // of QUERY would reply 400 if Content-Type is missing.
  app.addHttpMethod('QUERY', { hasBody: false, overrideExisting: true })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.setSchemaErrorFormatter((errors, part) => new Error(formatViolations(errors, part)))
}

/** Starts each request after the earlier replies on its connection. While closing, replies close their connection. */
function orderRequests(app: HttpApp, failures: FailureLog): void {
  app.decorateRequest('arrivedMs', 0)
  app.addHook('preClose', async () => {
    failures.isClosing = true
  })
  app.addHook('onRequest', (request, reply, done) => {
    request.arrivedMs = performance.now()
    if (failures.isClosing) reply.header('connection', 'close')
    app.connections.add(reply.raw, done)
  })
}

/** Refuses requests by their headers, before routing, and answers preflight requests of `allowedOrigins`. */
function checkRequests(
  app: HttpApp,
  component: HttpComponent,
  guard: RequestGuard,
  allowedOrigins: ReadonlySet<string>,
): void {
  const access = allowedOrigins.size === 0 ? null : new CrossOriginAccess(allowedOrigins)
  const bodies = new BodyBudget(component.limits.bodiesBytesMax)
  app.decorateRequest('growBody', null)
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    const { bodyLimit, config } = request.routeOptions
    const headers = readRequestHeaders(raw)
    access?.allow(reply.raw, headers.origin)
    // After an ignored `Upgrade`, Node drops the bytes that it has read after the request, so a later request could
    // begin within a body.
    if (headers.upgrade !== undefined) reply.raw.setHeader('connection', 'close')
    const refusal =
      guard(headers, raw, config.openToAllSites === true) ??
      encodingRefusal(headers) ??
      (config.streamsBody === true ? null : charsetRefusal(headers)) ??
      emptyPartRefusal(request) ??
      (config.streamsBody === true ? null : bodies.reserve(request, headers, bodyLimit, reply.raw))
    if (refusal === null && access?.isPreflight(raw, headers.origin)) answerPreflight(reply)
    else if (refusal === null) done()
    else sendRefusal(component, request, reply, refusal)
  })
  if (access === null) return
  app.addHook('onSend', (_request, reply, payload, done) => {
    varyByOrigin(reply)
    done(null, payload)
  })
}

const CONDITION_IGNORED = createRefusal(
  'REQUEST_INVALID',
  'nothing was changed: this path does not support If-Match and If-None-Match',
)

/**
 * Makes a change refuse preconditions if its route documents its headers without them. Otherwise the change would be made
 * whether or not they hold. Source: RFC 9110, section 13.1.1.
 */
function refuseIgnoredConditions(route: RouteOptions): void {
  const { properties } = Object(route.config?.documentedHeaders)
  const isIgnored = properties !== undefined && properties['if-match'] === undefined
  if (!isIgnored || route.method === 'GET' || route.method === 'HEAD') return
  const check: onRequestHookHandler = ({ headers }, _reply, done) => {
    const isConditional = (headers['if-match'] ?? headers['if-none-match']) !== undefined
    done(isConditional ? CONDITION_IGNORED : undefined)
  }
  route.onRequest = [...[route.onRequest ?? []].flat(), check]
}

/** Counts the unsent bytes of long replies in the reply budget. */
function countReplies(app: HttpApp, failures: FailureLog): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    let counted: unknown
    try {
      counted = countedPayload(app.replyBudget, payload, reply)
    } catch (error) {
      return done(error as Error)
    }
    // If the stream fails after its first bytes, the error can only be logged, because the reply has begun.
    if (counted instanceof Readable) {
      counted.once('error', (error) => failures.report(request, error))
    }
    done(null, counted)
  })
}

function logReplies(app: HttpApp, logger: FastifyBaseLogger): void {
  app.addHook('onResponse', async (request, reply) => {
    const ms = Math.round(reply.elapsedTime * 1000) / 1000
    logger.debug({ ...toLogFields(request), status: reply.statusCode, ms }, 'answered')
  })
}

/** Answers errors and unknown paths in the component's error format. */
function answerErrors(app: HttpApp, component: HttpComponent, failures: FailureLog): void {
  app.decorateRequest('reportDenial', function (denial) {
    failures.deny(this, denial)
  })
  app.decorateRequest('reportFailure', function (error) {
    failures.report(this, error)
  })
  app.setErrorHandler((error, request, reply) => {
    // Fastify sets `Connection: close` for every body that it could not parse. This removes the header, so that later
    // pipelined requests are answered. `sendRefusal` sets it again if the body was not read to its end.
    const isClosedByFastify = reply.getHeader('connection') === 'close' && !failures.isClosing
    if (isClosedByFastify && reply.raw.shouldKeepAlive) reply.removeHeader('connection')
    return sendRefusal(component, request, reply, failures.report(request, error))
  })
  app.setNotFoundHandler((request, reply) => {
    return sendRefusal(component, request, reply, unroutedRefusal(request))
  })
}
