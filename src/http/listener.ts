import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { isUnhurried } from './arriving-body.ts'
import { BodyRoom } from './body-room.ts'
import { answerBareRequests, answerBrokenRequest } from './broken-request.ts'
import type { HttpApp, HttpComponent, Refusal } from './component.ts'
import { Connections } from './connections.ts'
import { CountedResponse } from './counted-response.ts'
import { crossOriginRefusal } from './cross-origin-guard.ts'
import { DeclaredRoutes, unroutedRefusal } from './declared-routes.ts'
import { countUnrouted } from './metrics.ts'
import { invalidText, refusalOf, sendRefusal } from './refusal.ts'
import { ReplyRoom } from './reply-room.ts'
import { encodingRefusal, formHeadersOf, hostsRefusal } from './request-form.ts'
import { serializerCompiler } from './serializer.ts'
import { answerUpgrades } from './upgrades.ts'
import { validatorCompiler } from './validator.ts'
import { readBody } from './whole-body.ts'

/** Maximum number of open connections, unless the component sets its own. */
const SOCKETS_MAX = 1_000
/** A header block must be complete within this time. */
const HEADERS_TIMEOUT_MS = 10_000
/** How often overdue requests are looked for; with Node's 30 s a slow body lived twice as long. */
const CONNECTIONS_CHECK_MS = 5_000
/** Idle keep-alive connections are closed after this time. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000
/** How long `close` waits for requests in flight. */
const DRAIN_MS = 8_000
/** Database names (128 bytes) and item ids (256 bytes) when percent-encoded, with room. */
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
  interface FastifyRequest {
    /** Logs an error that comes after the reply has begun. */
    reportFailure(error: unknown): void
  }
}

/** A component that listens. */
export interface Listener {
  readonly name: string
  /** `http://<host>:<port>`, with a loopback address where every address is bound. */
  readonly url: string
  /** Stops listening, lets requests in flight finish for a bounded time, then lets go of all. */
  close(): Promise<void>
}

/**
 * Builds the app around `component`, without listening: for tests through `inject`.
 *
 * Every listener has the same time limits, socket limit, error handling in the component's own
 * shape (also for requests that no route or parser ever sees), and logs that hold the path without
 * its query, because a query may hold a token.
 */
export async function buildApp(
  component: HttpComponent,
  options: Pick<ListenOptions, 'logger' | 'publicHosts'>,
): Promise<HttpApp> {
  const refuse = (error: unknown) => refusalOf(component, error)
  const logger = options.logger.child({ component: component.name })
  // Loaded with the first listener: programs that listen to nobody start in half the time.
  const { fastify } = await import('fastify')
  // Fastify's own logging stays off: it makes a logger per request, and its lines hold the query.
  const app: HttpApp = fastify({
    bodyLimit: component.limits.bodyBytesMax,
    requestTimeout: component.limits.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // The drain below does what `true` does, and tells keep-alive clients to leave.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // Fastify loads its own when it begins with none; those that are set below are asked.
    schemaController: {
      compilersFactory: { buildValidator: () => unasked, buildSerializer: () => unasked },
    },
    routerOptions: { maxParamLength: PATH_PART_LENGTH_MAX },
    http: {
      ServerResponse: CountedResponse,
      // Requests without a body are not made into streams that nobody reads: a sixth of what a GET costs.
      optimizeEmptyRequests: true,
      // A missing Host is refused by the hook below, in the component's own shape.
      requireHostHeader: false,
      // Behind an unanswered request `Upgrade` is ignored: Node would drop the replies that are owed.
      shouldUpgradeCallback: ({ socket }) =>
        component.upgrade !== undefined && !connections.isOwed(socket),
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, component.limits.requestTimeoutMs),
      connectionsCheckingInterval: Math.min(
        CONNECTIONS_CHECK_MS,
        component.limits.requestTimeoutMs,
      ),
    },
    frameworkErrors: (error, request, reply) => {
      sendRefusal(component, request, reply, refuse(error))
    },
    clientErrorHandler: (error, socket) => {
      // Told once for each request; a body that a route reads at its own pace is watched there, and while a
      // reply is owed the connection may not be read.
      const isExcused = isUnhurried(socket) || connections.isWaiting(socket)
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isExcused) return
      answerBrokenRequest(component, connections.replies(), error, socket)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  // Who takes bodies says how. Nobody else's are looked at, also where nothing is served; they are read to
  // their end all the same, because a connection that is closed on bytes unread takes the replies with it.
  app.removeAllContentTypeParsers()
  // Nothing here takes QUERY; Fastify would refuse one without a Content-Type before its path is looked at.
  app.addHttpMethod('QUERY', { hasBody: false, overrideExisting: true })
  app.addContentTypeParser('*', async (request: FastifyRequest) => void (await readBody(request)))
  app.setValidatorCompiler(validatorCompiler())
  app.setSchemaErrorFormatter((errors, part) => new Error(invalidText(errors, part)))
  app.setSerializerCompiler(serializerCompiler())
  const replies = new ReplyRoom(component.limits.repliesMax)
  const connections = new Connections(
    app.server,
    component.limits.socketsMax ?? SOCKETS_MAX,
    replies,
  )
  const room = new BodyRoom(component.limits.bodiesBytesMax)
  answerBareRequests(component, app.server)
  answerUpgrades(component, app.server, options.publicHosts)
  let closing = false
  /** Failures that the log has: one may refuse thousands of requests. */
  const told = new WeakSet<Error>()
  app.addHook('preClose', async () => {
    closing = true
  })
  app.addHook('onRequest', (_request, reply, done) => {
    if (reply.raw instanceof CountedResponse) reply.raw.room = replies
    if (closing) reply.header('connection', 'close')
    connections.add(reply.raw, done)
  })
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    const headers = formHeadersOf(raw)
    const refusal =
      hostsRefusal(headers, raw.httpVersion) ??
      (component.sameOriginOnly
        ? crossOriginRefusal(raw.url ?? '', headers, options.publicHosts)
        : null) ??
      encodingRefusal(headers) ??
      (room.isCounted(headers) && request.routeOptions.config.streamsBody !== true
        ? room.take(headers, request.routeOptions.bodyLimit, reply.raw)
        : null)
    if (refusal === null) done()
    else sendRefusal(component, request, reply, refusal)
  })
  app.addHook('onSend', (request, { raw }, payload, done) => {
    const refusal = replies.refusal(payload)
    if (refusal !== null) return done(refusal)
    const { socket } = raw.req
    const length = replies.given(socket, payload)
    if (length > 0) raw.once('finish', () => replies.taken(socket, length))
    // After its first bytes nothing but the end of the connection tells the client.
    if (payload instanceof Readable) payload.once('error', (error) => report(request, error))
    done(null, payload)
  })
  if (options.logger.level === 'debug' || options.logger.level === 'trace') {
    app.addHook('onResponse', async (request, reply) => {
      const ms = Math.round(reply.elapsedTime * 1000) / 1000
      logger.debug({ ...requestForLog(request), status: reply.statusCode, ms }, 'answered')
    })
  }
  /** Logs a refusal with a status of 500 or above, once; returns the refusal. */
  const report = (request: FastifyRequest, error: unknown): Refusal => {
    const refusal = refuse(error)
    // Fastify destroys the stream of a list when the client leaves, and reports that as an error.
    const hasLeft = request.raw.socket.destroyed && codeOf(error) === 'ERR_STREAM_PREMATURE_CLOSE'
    if (refusal.status < 500 || hasLeft) return refusal
    const failure = error instanceof Error ? error : new Error(String(error))
    const isAlarm = !closing && component.alarms?.has(refusal.code) === true
    if (!told.has(rootOf(failure))) {
      told.add(rootOf(failure))
      logFailure(logger, request, failure, refusal, isAlarm)
    }
    return refusal
  }
  app.decorateRequest('reportFailure', function (error) {
    report(this, error)
  })
  app.setErrorHandler((error, request, reply) => {
    // Fastify closes the connection after every body that it could not parse. `sendRefusal` does so where the
    // body was not read to its end; otherwise pipelined requests behind it are answered.
    const isClosedByFastify = reply.getHeader('connection') === 'close' && !closing
    if (isClosedByFastify && reply.raw.shouldKeepAlive) reply.removeHeader('connection')
    return sendRefusal(component, request, reply, report(request, error))
  })
  app.setNotFoundHandler((request, reply) => {
    countUnrouted(app.server, reply.raw)
    return sendRefusal(component, request, reply, unroutedRefusal(request))
  })
  const declared = new DeclaredRoutes(app.server)
  app.addHook('onRoute', (route) => declared.add(route))
  await component.register(app)
  if (component.close !== undefined) app.addHook('onClose', () => component.close?.())
  await app.ready()
  return app
}

/** Stands where a listener has its own compilers of schemas before it has any route. */
function unasked(): never {
  throw new Error('a schema was compiled before there was a compiler')
}

/** Starts `component`. Errors: EADDRINUSE and other errors of the bind rise as they are. */
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
 * Closes `app`: no new connections, `Connection: close` on what is answered from now on, a bounded
 * wait for what is in flight, then every socket goes. Keep-alive clients made a plain close() hang.
 */
async function drain(app: HttpApp): Promise<void> {
  const server: Server = app.server
  for (const response of Connections.of(server)?.replies() ?? []) {
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

/** The failure behind `error`: what is refused because of an earlier one names that as its cause. */
function rootOf(error: Error): Error {
  return error.cause instanceof CodedError ? error.cause : error
}

/** One line; with the stack where the failure was not foreseen. */
function logFailure(
  logger: FastifyBaseLogger,
  request: FastifyRequest,
  error: Error,
  { status, code, message }: Refusal,
  isAlarm: boolean,
): void {
  const asked = requestForLog(request)
  if (status === 503 && !isAlarm) {
    logger.warn({ ...asked, reason: message }, code)
  } else if (error instanceof CodedError) {
    logger.error({ ...asked, reason: message }, code)
  } else {
    logger.error({ err: error, ...asked }, code)
  }
}

/** What logs hold of a request: no query, no headers, no body. */
function requestForLog(request: {
  method: string
  url: string
  routeOptions?: { url?: string | undefined }
}): object {
  const query = request.url.indexOf('?')
  const path = query === -1 ? request.url : request.url.slice(0, query)
  return { method: request.method, route: request.routeOptions?.url, path: path.slice(0, 512) }
}
