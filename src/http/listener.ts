import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { type FastifyBaseLogger, type FastifyRequest, fastify } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { readBody } from './body-readers.ts'
import type { HttpApp, HttpComponent, Refusal } from './component.ts'
import { Connections } from './connections.ts'
import { crossOriginRefusal } from './cross-origin-guard.ts'
import { DeclaredRoutes, unroutedRefusal } from './declared-routes.ts'
import { BodyBudget, ReplyBudget } from './memory-budgets.ts'
import { invalidText, refusalOf } from './refusal.ts'
import {
  brokenRequestRefuser,
  handleUpgrades,
  refuseExpectAndConnect,
  sendRefusal,
} from './refusal-replies.ts'
import { encodingRefusal, hostsRefusal, requestHeadersOf } from './request-headers.ts'
import { serializerCompiler, validatorCompiler } from './schema-compilers.ts'

/** Maximum number of open connections, unless the component sets its own. */
const SOCKETS_MAX = 1_000
/** A header block must be complete within this time. */
const HEADERS_TIMEOUT_MS = 10_000
/** Interval of the check for overdue requests; with Node's 30 s a slow body lived twice as long. */
const CONNECTIONS_CHECK_MS = 5_000
/** Idle keep-alive connections are closed after this time. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000
/** How long `close` waits for pending requests. */
const DRAIN_MS = 8_000
/** Fits percent-encoded database names (128 bytes) and item ids (256 bytes). */
const PATH_PART_LENGTH_MAX = 1_024

/** Where and how to listen. */
export interface ListenOptions {
  /** The address to bind, e.g. `127.0.0.1`. */
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  readonly logger: FastifyBaseLogger
  /** Host names by which guarded components may be reached, lower case, without ports. */
  readonly publicHosts: ReadonlySet<string>
}

declare module 'fastify' {
  interface FastifyInstance {
    connections: Connections
    replyBudget: ReplyBudget
  }
  interface FastifyRequest {
    /** When the headers arrived, on the clock of `performance.now()`. */
    arrivedMs: number
    /** Logs an error that occurs after the reply has begun. */
    reportFailure(error: unknown): void
  }
}

/** A component that listens. */
export interface Listener {
  readonly name: string
  /** `http://<host>:<port>`, with a loopback address where every address is bound. */
  readonly url: string
  /** Stops listening, waits a bounded time for pending requests, then closes all connections. */
  close(): Promise<void>
}

/**
 * Builds the app around `component` without listening: for tests through `inject`.
 *
 * Every listener has the same time limits, connection limit, memory budgets, error handling in the
 * component's own shape (also for requests that no route or parser ever sees), and logs that contain the
 * path without its query, because a query may contain a token.
 */
export async function buildApp(
  component: HttpComponent,
  options: Pick<ListenOptions, 'logger' | 'publicHosts'>,
): Promise<HttpApp> {
  const { limits } = component
  const refuse = (error: unknown) => refusalOf(component, error)
  const logger = options.logger.child({ component: component.name })
  const pacedSockets = new WeakSet<object>()
  const replies = new ReplyBudget(limits.repliesMax)
  const bodies = new BodyBudget(limits.bodiesBytesMax)
  const refuseBroken = brokenRequestRefuser(component, () => connections.pendingReplies())
  // Fastify's own logging stays off: it makes a logger per request, and its lines contain the query.
  const app: HttpApp = fastify({
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // `drain` does what `true` does, and tells keep-alive clients to leave.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: PATH_PART_LENGTH_MAX },
    http: {
      // Requests without a body do not become streams that nobody reads: a sixth of the cost of a GET.
      optimizeEmptyRequests: true,
      // A missing Host is refused by the hook below, in the component's own shape.
      requireHostHeader: false,
      // Behind an unanswered request `Upgrade` is ignored: Node would drop the pending replies.
      shouldUpgradeCallback: ({ socket }) =>
        component.upgrade !== undefined && !connections.isBusy(socket),
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, limits.requestTimeoutMs),
      connectionsCheckingInterval: Math.min(CONNECTIONS_CHECK_MS, limits.requestTimeoutMs),
    },
    frameworkErrors: (error, request, reply) => {
      sendRefusal(component, request, reply, refuse(error))
    },
    clientErrorHandler: (error, socket) => {
      // A body that a route reads at its own pace has a time limit of its own, and while pipelined requests
      // wait the connection is not read.
      const isExcused = pacedSockets.has(socket) || connections.isWaiting(socket)
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isExcused) return
      refuseBroken(error, socket)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  const connections = new Connections(app.server, limits.socketsMax ?? SOCKETS_MAX, replies)
  const declaredRoutes = new DeclaredRoutes()
  app.decorate('connections', connections)
  app.decorate('declaredRoutes', declaredRoutes)
  app.decorate('pacedSockets', pacedSockets)
  app.decorate('replyBudget', replies)
  app.decorateRequest('arrivedMs', 0)
  app.decorateRequest('growBody', null)

  // Components that accept bodies add parsers. All other bodies are read to their end and discarded: a
  // connection that is closed with bytes unread loses its replies.
  app.removeAllContentTypeParsers()
  // Nothing accepts QUERY; Fastify would refuse one without a Content-Type before routing.
  app.addHttpMethod('QUERY', { hasBody: false, overrideExisting: true })
  app.addContentTypeParser('*', async (request: FastifyRequest) => void (await readBody(request)))
  app.setValidatorCompiler(validatorCompiler())
  app.setSerializerCompiler(serializerCompiler)
  app.setSchemaErrorFormatter((errors, part) => new Error(invalidText(errors, part)))
  refuseExpectAndConnect(component, app.server)
  handleUpgrades(component, app.server, options.publicHosts)
  let closing = false
  /** Failures that were logged: one may refuse thousands of requests. */
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
    const headers = requestHeadersOf(raw)
    const refusal =
      hostsRefusal(headers, raw.httpVersion) ??
      (component.sameOriginOnly
        ? crossOriginRefusal(raw.url ?? '', headers, options.publicHosts)
        : null) ??
      encodingRefusal(headers) ??
      (bodies.counts(headers) && request.routeOptions.config.streamsBody !== true
        ? bodies.reserve(request, headers, request.routeOptions.bodyLimit, reply.raw)
        : null)
    if (refusal === null) done()
    else sendRefusal(component, request, reply, refusal)
  })
  app.addHook('onSend', (request, { raw }, payload, done) => {
    const refusal = replies.refusal(payload)
    if (refusal !== null) return done(refusal)
    replies.track(raw, payload)
    // After its first bytes only the end of the connection tells the client.
    if (payload instanceof Readable) payload.once('error', (error) => report(request, error))
    done(null, payload)
  })
  if (options.logger.level === 'debug' || options.logger.level === 'trace') {
    app.addHook('onResponse', async (request, reply) => {
      const ms = Math.round(reply.elapsedTime * 1000) / 1000
      logger.debug({ ...requestForLog(request), status: reply.statusCode, ms }, 'answered')
    })
  }
  /** Returns the refusal for `error`; logs it once if its status is 500 or above. */
  const report = (request: FastifyRequest, error: unknown): Refusal => {
    const refusal = refuse(error)
    // Fastify destroys the stream of a list when the client leaves, and reports that as an error.
    const hasLeft = request.raw.socket.destroyed && codeOf(error) === 'ERR_STREAM_PREMATURE_CLOSE'
    if (refusal.status < 500 || hasLeft) return refusal
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
    // Fastify closes the connection after every body that it could not parse. `sendRefusal` does so only if the
    // body was not read to its end; otherwise the pipelined requests behind it are answered.
    const isClosedByFastify = reply.getHeader('connection') === 'close' && !closing
    if (isClosedByFastify && reply.raw.shouldKeepAlive) reply.removeHeader('connection')
    return sendRefusal(component, request, reply, report(request, error))
  })
  app.setNotFoundHandler((request, reply) => {
    return sendRefusal(component, request, reply, unroutedRefusal(request))
  })
  app.addHook('onRoute', (route) => declaredRoutes.add(route))
  await component.register(app)
  if (component.close !== undefined) app.addHook('onClose', () => component.close?.())
  await app.ready()
  return app
}

/** Starts `component`. Errors: EADDRINUSE and other errors of the bind, unchanged. */
export async function startListener(
  component: HttpComponent,
  options: ListenOptions,
): Promise<Listener> {
  const app = await buildApp(component, options)
  try {
    await app.listen({ host: options.host, port: options.port })
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
 * Closes `app`: no new connections, `Connection: close` on replies from now on, a bounded wait for pending
 * requests, then all connections are closed. Keep-alive clients made a plain close() hang.
 */
async function drain(app: HttpApp): Promise<void> {
  const server: Server = app.server
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

/** Returns the failure behind `error`: a refusal because of an earlier failure has that as its cause. */
function rootOf(error: Error): Error {
  return error.cause instanceof CodedError ? error.cause : error
}

/** Logs one line; with the stack if the failure was not foreseen. */
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
    logger.error({ ...fields, reason: message }, code)
  } else {
    logger.error({ err: error, ...fields }, code)
  }
}

/** Returns the fields of a request that are logged: no query, no headers, no body. */
function requestForLog(request: {
  method: string
  url: string
  routeOptions?: { url?: string | undefined }
}): object {
  const query = request.url.indexOf('?')
  const path = query === -1 ? request.url : request.url.slice(0, query)
  return { method: request.method, route: request.routeOptions?.url, path: path.slice(0, 512) }
}
