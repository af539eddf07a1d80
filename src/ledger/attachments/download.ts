import type { FileHandle } from 'node:fs/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Attachment } from '../../chain/index.ts'
import { HttpRefusal } from '../../http/index.ts'
import { preconditionOf } from '../terms/request-terms.ts'
import { type Asked, answerOf } from './answer.ts'
import { sendPieces } from './send-pieces.ts'

/** A reply of which the client takes nothing in so many time limits of a request is given up. */
const WINDOWS_UNTAKEN_MAX = 2
/** Where a browser would run what it fetches, or let it style or script a page. */
const RUNS = new Set([
  ...['audioworklet', 'embed', 'manifest', 'object', 'paintworklet', 'script', 'serviceworker'],
  ...['sharedworker', 'style', 'worker', 'xslt'],
])

const UNMATCHED = new HttpRefusal(412, 'PRECONDITION_FAILED', 'the attachment is another by now')
const NO_SUCH_RANGE = new HttpRefusal(
  416,
  'RANGE_UNSATISFIABLE',
  'the attachment has no byte in this range',
)

/** What a request for an attachment says in its headers. Errors: PRECONDITION_INVALID. */
export function askedIn(request: Pick<FastifyRequest, 'headers' | 'raw'>): Asked {
  const { 'if-range': ifRange, range } = request.headers
  const precondition = preconditionOf(request)
  return {
    precondition,
    'if-range': typeof ifRange === 'string' ? ifRange : undefined,
    range,
  }
}

/** Errors: HttpRefusal (403) where a browser asks for `headers` to run what comes. */
export function refuseToRun(headers: Readonly<Record<string, unknown>>): void {
  const destination = headers['sec-fetch-dest']
  if (typeof destination !== 'string' || !RUNS.has(destination)) return
  throw new HttpRefusal(403, 'ATTACHMENT_NOT_CODE', 'attachments are data, not parts of a page')
}

/**
 * Sends what is `asked` of `attachment`, whose bytes are in `file`, which is closed in any case.
 * Errors: HttpRefusal (412, 416).
 */
export async function sendAttachment(
  request: Pick<FastifyRequest, 'server' | 'reportFailure'>,
  reply: FastifyReply,
  { asked, attachment, file }: { asked: Asked; attachment: Attachment; file: FileHandle },
): Promise<FastifyReply> {
  const { status, headers: own, pieces } = answerOf(asked, attachment)
  reply.code(status).headers(own)
  if (pieces.length > 0) {
    reply.hijack()
    reply.raw.setTimeout(WINDOWS_UNTAKEN_MAX * request.server.server.requestTimeout)
    reply.raw.statusCode = status
    for (const [header, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(header, value)
    }
    await sendPieces(reply.raw, file, pieces).catch((error) => request.reportFailure(error))
    return reply
  }
  await file.close()
  if (status === 412) throw UNMATCHED
  if (status === 416) throw NO_SUCH_RANGE
  return reply.send()
}
