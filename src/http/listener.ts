import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { type FastifyBaseLogger, type FastifyRequest, fastify } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { BodyBudget } from './body-budget.ts'
import { readBody } from './body-readers.ts'
import type { HttpApp, HttpComponent, Refusal } from './component.ts'
import { Connections } from './connections.ts'
import { answerPreflight, CrossOriginAccess, varyByOrigin } from './cross-origin-access.ts'
import { crossOriginRefusal } from './cross-origin-guard.ts'
import { invalidText, refusalOf } from './refusal.ts'
import {
  brokenRequestRefuser,
  handleUpgrades,
  refuseExpectAndConnect,
  sendRefusal,
} from './refusal-replies.ts'
import { countedPayload, ReplyBudget } from './reply-budget.ts'
import {
  charsetRefusal,
  encodingRefusal,
  hostsRefusal,
  requestHeadersOf,
} from './request-headers.ts'
import { serializerCompiler, validatorCompiler } from './schema-compilers.ts'
import { emptyPartRefusal, RouteTable, unroutedRefusal } from './unknown-routes.ts'

/** Maximum number of open connections, unless the component sets its own. */
const SOCKETS_MAX = 1_000
/**
 * Maximum number of connections that the system completes before the node accepts them. Node's default of 511 is
 * exceeded if a thousand clients reconnect at once; the system then drops or resets connections.
 */
const BACKLOG = 4_096
/** Maximum milliseconds until the headers of a request are complete. */
const HEADERS_TIMEOUT_MS = 10_000
/** Interval of the check for overdue requests. Node's default of 30 s would make timeouts up to 30 s late. */
const CONNECTIONS_CHECK_MS = 5_000
/** Milliseconds after which an idle keep-alive connection is closed. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000
/** Maximum milliseconds that `close` waits for pending requests. */
const DRAIN_MS = 8_000
/** Maximum characters of a path segment: enough for percent-encoded database names and item ids (256 bytes). */
const PATH_PART_LENGTH_MAX = 1_024

export interface ListenOptions {
  /** The address to bind, e.g. `127.0.0.1`. */
  readonly host: string
  /** 0 selects any free port. */
  readonly port: number
  readonly logger: FastifyBaseLogger
  /** Accepted values of `Host` besides local names, in lower case, without ports. */
  readonly publicHosts: ReadonlySet<string>
  /** Origins whose pages may call the listener (`cross-origin-access.ts`); default: none. */
  readonly allowedOrigins?: ReadonlySet<string>
  /** The budget that all listeners of the process share; default: one for this listener. */
  readonly replyBudget?: ReplyBudget
}

declare module 'fastify' {
  interface FastifyInstance {
    connections: Connections
    replyBudget: ReplyBudget
  }
  interface FastifyRequest {
    /** Time when the headers arrived, by `performance.now()`. */
    arrivedMs: number
    /** Logs an error that occurs after the reply has begun. */
    reportFailure(error: unknown): void
  }
}

/** A running listener. */
export interface Listener {
  readonly name: string
  /** `http://<host>:<port>`; `<host>` is 127.0.0.1 if all addresses are bound. */
  readonly url: string
  /** Stops listening, waits up to DRAIN_MS for pending requests, then closes all connections. */
  close(): Promise<void>
}

/**
 * Codes of errors that are normal after the client has disconnected, because Fastify destroys the stream of the reply
 * or a component ends a search early.
 */
const DISCONNECTED = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'SEARCH_INTERRUPTED'])

/**
 * Builds the app of `component` without listening. Tests call `inject` of the app.
 *
 * Adds to the component's routes: timeouts, a limit of connections, memory budgets, and error replies in the
 * component's error format, even for requests that fail before routing. Logs contain paths without queries, because a
 * query may contain a token.
 */
export async function buildApp(
  component: HttpComponent,
  options: Omit<ListenOptions, 'host' | 'port'>,
): Promise<HttpApp> {
  const { limits } = component
  const refuse = (error: unknown) => refusalOf(component, error)
  const logger = options.logger.child({ component: component.name })
  const pacedSockets = new WeakSet<object>()
  const { allowedOrigins = new Set(), replyBudget = new ReplyBudget() } = options
  const access = allowedOrigins.size === 0 ? null : new CrossOriginAccess(allowedOrigins)
  const bodies = new BodyBudget(limits.bodiesBytesMax)
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
      // Off, because the hook `onRequest` below refuses a missing Host in the component's error format.
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
      sendRefusal(component, request, reply, refuse(error))
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
  const routeTable = new RouteTable()
  app.decorate('connections', connections)
  app.decorate('routeTable', routeTable)
  app.decorate('pacedSockets', pacedSockets)
  app.decorate('replyBudget', replyBudget)
  app.decorateRequest('arrivedMs', 0)
  app.decorateRequest('growBody', null)

  // Components that accept bodies add parsers. All other bodies are read and discarded, because closing a connection
  // with unread bytes resets the connection, and the client may lose the reply.
  app.removeAllContentTypeParsers()
  // No route accepts QUERY, so the reply must be 405, as for any other unsupported method. Fastify's own registration
  // of QUERY would reply 400 if Content-Type is missing.
  app.addHttpMethod('QUERY', { hasBody: false, overrideExisting: true })
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    await readBody(request).catch((error: unknown) => {
      // A path or method that does not exist is reported, not its body.
      if (!request.is404) throw error
    })
  })
  app.setValidatorCompiler(validatorCompiler())
  app.setSerializerCompiler(serializerCompiler)
  app.setSchemaErrorFormatter((errors, part) => new Error(invalidText(errors, part)))
  refuseExpectAndConnect(component, app.server)
  handleUpgrades(component, app.server, options)
  let closing = false
  /** Failures that were logged already, because one failure, e.g. of the disk, may cause thousands of refusals. */
  const logged = new WeakSet<Error>()
  app.addHook('preClose', async () => {
    closing = true
  })
  app.addHook('onRequest', (request, reply, done) => {
    request.arrivedMs = performance.now()
    if (closing) reply.header('connection', 'close')
    connections.add(reply.raw, done)
  })
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    const { bodyLimit, config } = request.routeOptions
    const { openToAllSites = false } = config
    const target = { url: raw.url ?? '', openToAllSites }
    const headers = requestHeadersOf(raw)
    access?.allow(reply.raw, headers.origin)
    // After an ignored `Upgrade`, Node drops the bytes that it has read after the request, so a later request could
    // begin within a body.
    if (headers.upgrade !== undefined) reply.raw.setHeader('connection', 'close')
    const refusal =
      hostsRefusal(headers, raw.httpVersion) ??
      (component.sameOriginOnly
        ? crossOriginRefusal(target, headers, options.publicHosts, allowedOrigins)
        : null) ??
      encodingRefusal(headers) ??
      (config.streamsBody === true ? null : charsetRefusal(headers)) ??
      emptyPartRefusal(request) ??
      (bodies.counts(headers) && config.streamsBody !== true
        ? bodies.reserve(request, headers, bodyLimit, reply.raw)
        : null)
    if (refusal === null && access?.isPreflight(raw, headers.origin)) answerPreflight(reply)
    else if (refusal === null) done()
    else sendRefusal(component, request, reply, refusal)
  })
  if (access !== null) {
    app.addHook('onSend', (_request, reply, payload, done) => {
      varyByOrigin(reply)
      done(null, payload)
    })
  }
  app.addHook('onSend', (request, reply, payload, done) => {
    let counted: unknown
    try {
      counted = countedPayload(replyBudget, payload, reply)
    } catch (error) {
      return done(error as Error)
    }
    // If the stream fails after its first bytes, the error can only be logged, because the reply has begun.
    if (counted instanceof Readable) counted.once('error', (error) => report(request, error))
    done(null, counted)
  })
  if (options.logger.level === 'debug' || options.logger.level === 'trace') {
    app.addHook('onResponse', async (request, reply) => {
      const ms = Math.round(reply.elapsedTime * 1000) / 1000
      logger.debug({ ...requestForLog(request), status: reply.statusCode, ms }, 'answered')
    })
  }
  /** Returns the refusal for `error`. If its status is 500 or above, logs the failure, but each failure only once. */
  const report = (request: FastifyRequest, error: unknown): Refusal => {
    const refusal = refuse(error)
    const isDisconnected = request.raw.socket.destroyed && DISCONNECTED.has(String(codeOf(error)))
    if (refusal.status < 500 || isDisconnected) return refusal
    const failure = error instanceof Error ? error : new Error(String(error))
    const isAlarm = !closing && component.alarms?.has(refusal.code) === true
    if (!logged.has(rootOf(failure))) {
      logged.add(rootOf(failure))
      logFailure(logger, request, failure, refusal, isAlarm)
    }
    return refusal
  }
  app.decorateRequest('reportFailure', function (error) {
    report(this, error)
  })
  app.setErrorHandler((error, request, reply) => {
    // Fastify sets `Connection: close` for every body that it could not parse. This removes the header, so that later
    // pipelined requests are answered. `sendRefusal` sets it again if the body was not read to its end.
    const isClosedByFastify = reply.getHeader('connection') === 'close' && !closing
    if (isClosedByFastify && reply.raw.shouldKeepAlive) reply.removeHeader('connection')
    return sendRefusal(component, request, reply, report(request, error))
  })
  app.setNotFoundHandler((request, reply) => {
    return sendRefusal(component, request, reply, unroutedRefusal(request))
  })
  app.addHook('onRoute', (route) => routeTable.add(route))
  await component.register(app)
  if (component.close !== undefined) app.addHook('onClose', () => component.close?.())
  await app.ready()
  return app
}

/** Starts a listener for `component`. Errors: as for `net.Server.listen`, e.g. EADDRINUSE. */
export async function startListener(
  component: HttpComponent,
  options: ListenOptions,
): Promise<Listener> {
  const app = await buildApp(component, options)
  try {
    await app.listen({ host: options.host, port: options.port, backlog: BACKLOG })
  } catch (error) {
    await app.close()
    throw error
  }
  const url = urlOf(app.server, options.host)
  options.logger.info({ component: component.name, url }, 'listening')
  return {
    name: component.name,
    url,
    close: () => drain(app),
  }
}

/**
 * Closes `app`: accepts no new connections, sends `Connection: close` with all further replies, waits for pending
 * requests up to DRAIN_MS, then closes all connections. `app.close()` alone would wait for keep-alive clients.
 */
async function drain(app: HttpApp): Promise<void> {
  const server: Server = app.server
  // `app.close` would first run the hooks of the component.
  server.close()
  for (const response of app.connections.pendingReplies()) {
    if (!response.headersSent) response.setHeader('connection', 'close')
  }
  const force = setTimeout(() => server.closeAllConnections(), DRAIN_MS)
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  try {
    await app.close()
  } finally {
    clearTimeout(force)
    clearInterval(idle)
  }
}

function urlOf(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** Returns the original failure. A refusal that was caused by an earlier failure has this failure as its cause. */
function rootOf(error: Error): Error {
  return error.cause instanceof CodedError ? error.cause : error
}

/** Logs one line, with the stack if the error is unexpected. */
function logFailure(
  logger: FastifyBaseLogger,
  request: FastifyRequest,
  error: Error,
  { status, code, message }: Refusal,
  isAlarm: boolean,
): void {
  const fields = requestForLog(request)
  if (status === 503 && !isAlarm) {
    logger.warn({ ...fields, reason: message }, code)
  } else if (error instanceof CodedError) {
    // The reply to an unexpected error has no details, so the log has the cause.
    const reason = code === 'INTERNAL' ? error.message : message
    logger.error({ ...fields, reason }, code)
  } else {
    logger.error({ err: error, ...fields }, code)
  }
}

/** Returns the fields of a request to log: no query, no headers, no body. */
function requestForLog(request: {
  method: string
  url: string
  routeOptions?: { url?: string | undefined }
}): object {
  const query = request.url.indexOf('?')
  const path = query === -1 ? request.url : request.url.slice(0, query)
  return { method: request.method, route: request.routeOptions?.url, path: path.slice(0, 512) }
}
