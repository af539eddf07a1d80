import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, finished, Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { pieceLimit } from './body-readers.ts'
import type { HttpComponent, Refusal } from './component.ts'
import { STATUS_CODES } from './node-http.ts'
import { createRefusal, type HttpRefusal, toRefusal } from './refusal.ts'
import { type RequestHeaders, readRequestHeaders } from './request-headers.ts'

/** Maximum milliseconds to read and discard the rest of a refused body before its connection is closed. */
const BODY_LINGER_MS = 5_000
/** Maximum milliseconds for the client of a refused connection to read the reply and close. */
const SOCKET_LINGER_MS = 2_000
/** Seconds in the header `Retry-After` of refusals whose code is in `retried`. */
const RETRY_AFTER_S = 1
/** Header of a refused upgrade, which tells the client the supported version. Source: RFC 6455, section 4.2.2. */
const WEBSOCKET_VERSION = 'Sec-WebSocket-Version: 13\r\n'

const EXPECTATION = createRefusal('EXPECTATION_UNKNOWN')
const NO_TUNNEL = createRefusal(
  'TARGET_NOT_PATH',
  'CONNECT is not supported, because this server is not a proxy',
)

/** Sends `refusal` in the error format of `component`. */
export function sendRefusal(
  component: HttpComponent,
  { raw }: FastifyRequest,
  reply: FastifyReply,
  refusal: Refusal,
): FastifyReply {
  const { contentType, body } = component.refusalReply(refusal)
  const announced = raw.headers['transfer-encoding'] ?? raw.headers['content-length'] ?? '0'
  const isUnread = !raw.complete && !raw.readableEnded && announced !== '0'
  // On an open connection, the unread rest of the body would be parsed as the next request.
  if (isUnread) reply.header('connection', 'close')
  if (component.retried?.has(refusal.code)) reply.header('retry-after', RETRY_AFTER_S)
  if (refusal.allow !== undefined) reply.header('allow', refusal.allow.join(', '))
  if (refusal.challenge !== undefined) reply.header('www-authenticate', refusal.challenge)
  return reply
    .code(refusal.status)
    .header('content-type', contentType)
    .header('content-length', Buffer.byteLength(body))
    .header('cache-control', 'no-store')
    .send(isUnread ? replyOverBody(body, raw) : body)
}

/**
 * Yields `body` at once, then discards the remaining request for up to BODY_LINGER_MS, and ends. Closing a connection
 * with unread bytes resets the connection, and a client that sends its whole body before it reads would see a reset
 * instead of the refusal.
 */
function replyOverBody(body: string, request: IncomingMessage): Readable {
  async function* parts(): AsyncGenerator<string> {
    yield body
    await new Promise<void>((resolve) => {
      const overdue = setTimeout(resolve, BODY_LINGER_MS)
      finished(request, () => {
        clearTimeout(overdue)
        resolve()
      })
      request.on('data', pieceLimit(request)).resume()
    })
  }
  return Readable.from(parts(), { objectMode: false })
}

/** Writes a refusal to a connection without a reply object, and closes the connection. `lines` are header lines. */
function refuseSocket(
  component: HttpComponent,
  socket: Duplex,
  refusal: Refusal,
  lines = '',
): void {
  const { contentType, body } = component.refusalReply(refusal)
  const { status } = refusal
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${contentType}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n${lines}\r\n${body}`,
  )
  // Closing at once could reset the connection before the client has read the reply.
  const linger = setTimeout(() => socket.destroy(), SOCKET_LINGER_MS)
  linger.unref()
  socket.once('close', () => clearTimeout(linger))
}

/**
 * Returns a function that refuses bytes that are not a complete HTTP request (invalid, too slow or too long) and
 * closes the connection. `pendingReplies` lists the incomplete replies.
 *
 * Earlier requests on the connection are answered first, because otherwise the client would mistake the refusal for
 * one of their replies, or for a part of a reply.
 */
export function brokenRequestRefuser(
  component: HttpComponent,
  pendingReplies: () => Iterable<ServerResponse>,
): (error: NodeJS.ErrnoException, socket: Socket) => void {
  /** Refused connections, whose further bytes are ignored. */
  const refused = new WeakSet<Socket>()
  return (error, socket) => {
    if (refused.has(socket)) return
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    refused.add(socket)
    const pending = [...pendingReplies()].filter(({ req }) => req.socket === socket)
    const complete = pending.filter(({ req }) => req.complete)
    let left = complete.length
    const refuse = () => {
      if (!socket.writable) return
      // If a refusal of the incomplete body has already begun, a second refusal must not follow.
      if (pending.some(({ req, headersSent }) => !req.complete && headersSent)) socket.end()
      else refuseSocket(component, socket, toBrokenRequestRefusal(error))
    }
    for (const response of complete) {
      response.once('close', () => {
        left -= 1
        if (left === 0) refuse()
      })
    }
    if (left === 0) refuse()
  }
}

function toBrokenRequestRefusal({ code }: NodeJS.ErrnoException): HttpRefusal {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return createRefusal('REQUEST_TIMEOUT')
  return createRefusal(code === 'HPE_HEADER_OVERFLOW' ? 'HEADERS_TOO_LARGE' : 'REQUEST_MALFORMED')
}

/** Refuses `Expect` and CONNECT. By default, Node sends no body for `Expect` and no reply at all for CONNECT. */
export function refuseExpectAndConnect(component: HttpComponent, server: Server): void {
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const { contentType, body } = component.refusalReply(EXPECTATION)
    response
      .writeHead(EXPECTATION.status, { 'content-type': contentType, connection: 'close' })
      .end(body)
  })
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => socket.destroy())
    refuseSocket(component, socket, NO_TUNNEL)
  })
}

/** Returns the refusal of a request by its hosts and origin, or null. */
export type RequestGuard = (
  headers: RequestHeaders,
  request: Pick<IncomingMessage, 'url' | 'httpVersion'>,
  openToAllSites: boolean,
) => Refusal | null

/**
 * Passes upgrade requests to `component`, if it accepts them. Node emits upgrade requests outside Fastify, so no hook
 * runs for them, and this function calls the guard. `report` gets the errors of the component.
 */
export function handleUpgrades(
  component: HttpComponent,
  server: Server,
  guard: RequestGuard,
  report: (request: IncomingMessage, error: unknown) => void,
): void {
  const { upgrade } = component
  if (upgrade === undefined) return
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const refusal = guard(readRequestHeaders(request), request, false)
    if (refusal !== null) {
      refuseSocket(component, socket, refusal, WEBSOCKET_VERSION)
      return
    }
    upgrade.call(component, request, socket, head).catch((error: unknown) => {
      report(request, error)
      if (!socket.writable) socket.destroy()
      else refuseSocket(component, socket, toRefusal(component, error), WEBSOCKET_VERSION)
    })
  })
}
