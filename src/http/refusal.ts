import type { IncomingMessage } from 'node:http'
import { finished, Readable } from 'node:stream'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import type { HttpComponent, Refusal, RefusalReply } from './component.ts'
import { pieceLimit } from './socket-holds.ts'

/** Thrown by guards and handlers of any wing that know their HTTP status themselves. */
export class HttpRefusal extends CodedError<string> implements Refusal {
  override readonly name = 'HttpRefusal'
  /** HTTP status, 400..599. */
  readonly status: number

  readonly allow?: readonly string[]

  constructor(
    status: number,
    code: string,
    message: string,
    options: ErrorOptions & { readonly allow?: readonly string[] } = {},
  ) {
    super(code, message, options)
    this.status = status
    if (options.allow !== undefined) this.allow = options.allow
  }
}

/** Codes for what Fastify refuses by itself; its own texts may quote the request, ours do not. */
const OF_FASTIFY: Readonly<Record<string, Refusal>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    status: 413,
    code: 'BODY_TOO_LARGE',
    message: 'the request body is longer than this address takes',
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    status: 415,
    code: 'CONTENT_TYPE_UNKNOWN',
    message: 'the Content-Type of the body is not one that this address takes',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    status: 400,
    code: 'CONTENT_LENGTH_WRONG',
    message: 'the body is not as long as Content-Length says',
  },
  FST_ERR_BAD_URL: { status: 400, code: 'URL_MALFORMED', message: 'the path is not a valid URL' },
  FST_ERR_MAX_PARAM_LENGTH: {
    status: 414,
    code: 'URL_TOO_LONG',
    message: 'a part of the path is longer than this address takes',
  },
}

/**
 * What is wrong with `part` of a request, which is not as its schema says: `limit must be integer`. Parameters
 * and headers have their names alone; a place in a body is `body` and a JSON pointer. What Fastify calls
 * `querystring` is the query.
 */
export function invalidText(
  errors: readonly { readonly instancePath: string; readonly message?: string }[],
  part: string,
): string {
  const whole = part === 'querystring' ? 'query' : part
  const placeOf = (pointer: string) =>
    part === 'body' || pointer === '' ? whole + pointer : pointer.slice(1)
  return errors.map(({ instancePath, message }) => `${placeOf(instancePath)} ${message}`).join(', ')
}

/** What `error` means for the client of `component`; anything unforeseen becomes a bare 500. */
export function refusalOf(component: HttpComponent, error: unknown): Refusal {
  if (error instanceof HttpRefusal) return error
  if (error instanceof CodedError) {
    const status = component.statusOf[String(error.code)]
    if (status !== undefined) {
      return { status, code: String(error.code), message: error.message }
    }
  }
  const fastifyError = error as Partial<FastifyError>
  const known = OF_FASTIFY[fastifyError.code ?? '']
  if (known !== undefined) return known
  if (Array.isArray(fastifyError.validation)) {
    return { status: 400, code: 'REQUEST_INVALID', message: String(fastifyError.message) }
  }
  const status = fastifyError.statusCode ?? 500
  if (status >= 400 && status < 500) {
    return { status, code: 'REQUEST_REFUSED', message: 'the request cannot be answered' }
  }
  return { status: 500, code: 'INTERNAL', message: 'something went wrong on our side' }
}

/** How long a refused body may go on arriving before the connection is closed under it. */
const LINGER_MS = 5_000

/** Whether part of the request's body has not been read. */
function leavesBody({ complete, readableEnded, headers }: IncomingMessage): boolean {
  const announced = headers['transfer-encoding'] ?? headers['content-length'] ?? '0'
  return !complete && !readableEnded && announced !== '0'
}

/**
 * `body` at once, and its end when the rest of the request has arrived and was thrown away, or was
 * too long in coming. Closing with bytes unread resets the connection, and clients that send a whole
 * body before they look would find that instead of the refusal.
 */
function replyOverBody(body: string, request: IncomingMessage): Readable {
  async function* parts(): AsyncGenerator<string> {
    yield body
    await new Promise<void>((resolve) => {
      const tired = setTimeout(resolve, LINGER_MS)
      finished(request, () => {
        clearTimeout(tired)
        resolve()
      })
      request.on('data', pieceLimit(request)).resume()
    })
  }
  return Readable.from(parts(), { objectMode: false })
}

/** Sends `refusal` in the shape of `component`. */
export function sendRefusal(
  component: HttpComponent,
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: Refusal,
): FastifyReply {
  const { contentType, body } = component.refusalReply(refusal)
  const isUnread = leavesBody(request.raw)
  // A body that was not read to its end would be taken for the next request.
  if (isUnread) reply.header('connection', 'close')
  if (refusal.allow !== undefined) reply.header('allow', refusal.allow.join(', '))
  return reply
    .code(refusal.status)
    .header('content-type', contentType)
    .header('content-length', Buffer.byteLength(body))
    .header('cache-control', 'no-store')
    .send(isUnread ? replyOverBody(body, request.raw) : body)
}

/** The shape of a refusal that every component but T and B has: specification, “Errors”, rows L and R. */
export function statusFalseReply({ code, message }: Refusal): RefusalReply {
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({ status: false, code, message }),
  }
}
