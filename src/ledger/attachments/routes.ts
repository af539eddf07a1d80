import type { FastifyReply } from 'fastify'
import { attachmentText, positionText } from '../../chain/index.ts'
import { arrivingBody, type HttpApp, HttpRefusal } from '../../http/index.ts'
import { attachmentListReply } from '../list-reply.ts'
import { failures, rangeOf, sendText } from '../routes.ts'
import { DoneReply, ItemParams, TokenQuery } from '../schemas.ts'
import type { LedgerService } from '../service.ts'
import { conditionalTermsOf, uploadTermsOf } from '../terms/request-terms.ts'
import { ConditionalHeaders, ConditionHeaders } from '../terms/schemas.ts'
import { answerOf } from './answer.ts'
import { tagOf } from './conditions.ts'
import { type Digest, digestOf } from './digest.ts'
import { askedIn, refuseToRun, sendAttachment } from './download.ts'
import {
  AnyBytes,
  AttachmentListQuery,
  AttachmentListReply,
  AttachmentParams,
  AttachmentReply,
} from './schemas.ts'

const PATH = '/api/:db/:id/attachments/:name'
const tags = ['attachments']
/** In each time limit of a whole request (30 s), a longer upload must bring this much. */
const BYTES_PER_WINDOW_MIN = 32 * 1024

/** Mounts the paths of attachments on `app`. */
export function attachmentRoutes(app: HttpApp, ledger: LedgerService): void {
  // Routes of this one read the body themselves: in a scope of its own, without a parser.
  app.register(async (scope: HttpApp) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    uploadRoute(scope, ledger)
  })
  downloadRoutes(app, ledger)
  listRoute(app, ledger)
  app.delete(
    PATH,
    {
      schema: {
        tags,
        summary: 'Delete one attachment; its bytes stay as long as the ledger names them',
        params: AttachmentParams,
        querystring: TokenQuery,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'db:{db}:write', shownHeaders: ConditionalHeaders },
    },
    async (request, reply) => {
      const { db, id, name } = request.params
      const { position } = await ledger.attachments.delete(
        db,
        id,
        name,
        conditionalTermsOf(request),
      )
      return at(reply, ledger, position).send({ status: true as const })
    },
  )
}

function uploadRoute(app: HttpApp, ledger: LedgerService): void {
  const { requestTimeout } = app.server
  app.put(
    PATH,
    {
      schema: {
        tags,
        summary: 'Attach the bytes of the body to an item, in place of what has that name',
        description:
          'The body is stored as it arrives, of any length up to the limit, with its `Content-Type`. ' +
          'A `Content-Digest` or `Repr-Digest` with `sha-256` is compared.',
        params: AttachmentParams,
        querystring: TokenQuery,
        body: AnyBytes('The content of the attachment'),
        response: { 200: AttachmentReply, ...failures },
      },
      config: { scope: 'db:{db}:write', streamsBody: true, shownHeaders: ConditionalHeaders },
    },
    async (request, reply) => {
      const { db, id, name } = request.params
      const { headers, raw } = request
      if (headers['content-range'] !== undefined) {
        throw new HttpRefusal(400, 'CONTENT_RANGE_REFUSED', 'an attachment is sent whole')
      }
      const said = headers['content-length']
      const pace = { windowMs: requestTimeout, bytesMin: BYTES_PER_WINDOW_MIN }
      const { position, attachment } = await ledger.attachments.put(db, id, name, {
        contentType: headers['content-type'] ?? 'application/octet-stream',
        lengthSaid: said === undefined ? null : Number(said),
        digests: digestsIn(headers),
        terms: uploadTermsOf(request),
        chunks: arrivingBody(raw, pace),
      })
      at(reply, ledger, position).header('etag', tagOf(attachment))
      return sendText(reply, `{"status":true,"attachment":${attachmentText(attachment)}}`)
    },
  )
}

function digestsIn(headers: Readonly<Record<string, string | string[] | undefined>>): Digest[] {
  const digests = [digestOf(headers['content-digest']), digestOf(headers['repr-digest'])]
  return digests.filter((digest) => digest !== null)
}

function downloadRoutes(app: HttpApp, ledger: LedgerService): void {
  const schema = {
    tags,
    params: AttachmentParams,
    querystring: TokenQuery,
    response: {
      200: AnyBytes('The bytes, with the `Content-Type` that they came with'),
      206: AnyBytes('The parts that `Range` asks for'),
      ...failures,
    },
  }
  // Before GET, in whose place Fastify would put one that reads the file to its end.
  app.head(
    PATH,
    {
      schema: { ...schema, summary: 'What GET would say of an attachment' },
      config: { scope: 'db:{db}:read', shownHeaders: ConditionHeaders },
    },
    async (request, reply) => {
      const { db, id, name } = request.params
      // A Range is for GET only: RFC 9110 section 14.2.
      const asked = { ...askedIn(request), range: undefined }
      const attachment = await ledger.attachments.read(db, id, name)
      const { status, headers: own } = answerOf(asked, attachment)
      return at(reply.code(status).headers(own), ledger, attachment.position).send()
    },
  )
  app.get(
    PATH,
    {
      schema: { ...schema, summary: 'Read an attachment, or the parts that `Range` asks for' },
      config: { scope: 'db:{db}:read', shownHeaders: ConditionHeaders },
    },
    async (request, reply) => {
      const { db, id, name } = request.params
      refuseToRun(request.headers)
      const asked = askedIn(request)
      const opened = await ledger.attachments.open(db, id, name)
      at(reply, ledger, opened.attachment.position)
      return sendAttachment(request, reply, { ...opened, asked })
    },
  )
}

function listRoute(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/:db/:id/attachments',
    {
      schema: {
        tags,
        summary: 'List what is attached to an item, by name',
        params: ItemParams,
        querystring: AttachmentListQuery,
        response: { 200: AttachmentListReply, ...failures },
      },
      config: { scope: 'db:{db}:read' },
    },
    async ({ params: { db, id }, query }, reply) => {
      const range = rangeOf(query)
      const pages = await ledger.attachments.list(db, id, range)
      return sendText(reply, attachmentListReply(pages, range))
    },
  )
}

/** Says where the entry is. */
function at(reply: FastifyReply, ledger: LedgerService, position: number): FastifyReply {
  return reply.header('ledger-position', `${ledger.serverId}/${positionText(position)}`)
}
