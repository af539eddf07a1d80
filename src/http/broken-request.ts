import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HttpComponent, Refusal } from './component.ts'
import { STATUS_CODES } from './node-http.ts'

/** How long a client that was refused may take to read that and leave. */
const LINGER_MS = 2_000

/** Connections that were refused; what else comes on them is not looked at. */
const refused = new WeakSet<Duplex>()

/**
 * Answers bytes that never became a request (bad syntax, too slow, too long) and closes.
 *
 * Requests before them on the connection get their own replies first: an answer out of turn would
 * be taken for theirs, or land in the middle of one.
 */
export function answerBrokenRequest(
  component: HttpComponent,
  inFlight: Iterable<ServerResponse>,
  error: NodeJS.ErrnoException,
  socket: Socket,
): void {
  if (refused.has(socket)) return
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  refused.add(socket)
  const owed = [...inFlight].filter((response) => response.req.socket === socket)
  let left = 0
  const answer = () => {
    if (!socket.writable) return
    // Its own reply has begun already: a body that broke off after it was refused.
    if (owed.some(({ req, headersSent }) => !req.complete && headersSent)) socket.end()
    else refuseSocket(component, socket, refusalOfBroken(error))
  }
  for (const response of owed) {
    if (!response.req.complete) continue
    left += 1
    response.once('close', () => {
      left -= 1
      if (left === 0) answer()
    })
  }
  if (left === 0) answer()
}

/** Answers what Node would refuse by itself, without a body or without a word. */
export function answerBareRequests(component: HttpComponent, server: Server): void {
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

const EXPECTATION: Refusal = {
  status: 417,
  code: 'EXPECTATION_UNKNOWN',
  message: 'of Expect only 100-continue is known',
}
const NO_TUNNEL: Refusal = {
  status: 400,
  code: 'TARGET_NOT_PATH',
  message: 'this is not a proxy',
}

/**
 * Answers a connection that has no reply object with `refusal`, and closes it; `lines` are more of its
 * head, each with its line end.
 */
export function refuseSocket(
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
  // Closing with bytes unread resets the connection, and the client may never see the reply.
  const linger = setTimeout(() => socket.destroy(), LINGER_MS)
  linger.unref()
  socket.once('close', () => clearTimeout(linger))
}

function refusalOfBroken(error: NodeJS.ErrnoException): Refusal {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return {
        status: 408,
        code: 'REQUEST_TIMEOUT',
        message: 'the request took too long to arrive',
      }
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, code: 'HEADERS_TOO_LARGE', message: 'the headers are too long' }
    default:
      return { status: 400, code: 'REQUEST_MALFORMED', message: 'this is not a valid HTTP request' }
  }
}
