import { Type } from '../../base/shape.ts'
import { attachmentText } from '../../chain/index.ts'
import { arrivingBody, BodyShares, type HttpApp, HttpRefusal } from '../../http/index.ts'
import { LedgerError } from '../errors.ts'
import type { LedgerService } from '../node/service.ts'
import { At, AtReply, findSameReply, requireState } from './as-of.ts'
import { readItemConditions, readUploadConditions } from './conditions.ts'
import {
  AnyBytes,
  contentReplyTo,
  formatTag,
  readContentRequest,
  rejectExecution,
  sendAttachment,
} from './content-reply.ts'
import { attachmentListReply, requireRange, sendText, setLedgerPosition } from './replies.ts'
import {
  ConditionalHeaders,
  ConditionHeaders,
  DoneReply,
  failures,
  ItemParams,
  ListQuery,
  namePattern,
  okReply,
  operation,
  TokenQuery,
} from './schemas.ts'

const AttachmentParams = Type.Object({
  ...ItemParams.properties,
  name: Type.String({
    documentedPattern: namePattern(256),
    description: 'Name of the attachment',
  }),
})

const Attachment = Type.Object({
  content_type: Type.String(),
  length: Type.Integer({ description: 'Bytes' }),
  name: Type.String(),
  sha256: Type.String({ description: 'Hash of the bytes, 64 hexadecimal digits' }),
})

const AttachmentReply = okReply({ attachment: Attachment })
const AttachmentListQuery = Type.Object({
  ...ListQuery.properties,
  after: Type.Optional(
    Type.String({ description: 'Only attachments whose name follows this name, bytewise' }),
  ),
  at: At,
})
const AttachmentQuery = Type.Object({ ...TokenQuery.properties, at: At })
const AttachmentListReply = okReply({
  attachments: Type.Array(Attachment),
  limit: Type.Integer(),
  offset: Type.Integer(),
  at: AtReply,
})

const PATH = '/api/:db/:id/attachments/:name'
/** Minimum bytes that a client must upload in each window. A window is the request timeout of the listener (30 s). */
const BYTES_PER_WINDOW_MIN = 32 * 1024
/** Maximum concurrent uploads. Each upload keeps a file open and uses some memory. */
const UPLOADS_MAX = 64

export function attachmentRoutes(app: HttpApp, ledger: LedgerService): void {
  // The upload route reads the body itself, so it has its own Fastify scope without a body parser.
  app.register(async (scope: HttpApp) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    uploadRoute(scope, ledger)
  })
  downloadRoutes(app, ledger)
  listRoute(app, ledger)
  app.delete(
    PATH,
    operation('attachments', 'deleteAttachment', {
      summary: 'Delete one attachment; its bytes are kept until the entry is erased',
      params: AttachmentParams,
      reply: DoneReply,
      config: { scope: 'db:{db}:write', documentedHeaders: ConditionalHeaders },
    }),
    async (request, reply) => {
      const { db, id, name } = request.params
      const { position } = await ledger.attachments.delete(
        db,
        id,
        name,
        readItemConditions(request),
      )
      return setLedgerPosition(reply, ledger, position).send({ status: true as const })
    },
  )
}

function uploadRoute(app: HttpApp, ledger: LedgerService): void {
  const { requestTimeout } = app.server
  const uploads = new BodyShares(UPLOADS_MAX)
  app.put(
    PATH,
    operation('attachments', 'putAttachment', {
      summary: 'Attach the body to an item; an attachment of the same name is replaced',
      description:
        'The body is stored unchanged, with its `Content-Type`. A `Content-Digest` or ' +
        '`Repr-Digest` with `sha-256` is verified.',
      params: AttachmentParams,
      body: AnyBytes('The content of the attachment'),
      reply: AttachmentReply,
      config: { scope: 'db:{db}:write', streamsBody: true, documentedHeaders: ConditionalHeaders },
    }),
    async (request, reply) => {
      const { db, id, name } = request.params
      const { headers } = request
      if (headers['content-range'] !== undefined) {
        throw new HttpRefusal(
          400,
          'CONTENT_RANGE_REFUSED',
          'Content-Range is not supported: send the whole attachment',
        )
      }
      if (/^multipart\/form-data\b/i.test(headers['content-type'] ?? '')) {
        throw new HttpRefusal(
          415,
          'CONTENT_TYPE_UNKNOWN',
          'send the bytes of the attachment alone as the body, not a form (curl -T <file>)',
        )
      }
      if (!uploads.open(request, reply.raw)(1)) {
        const message = `${UPLOADS_MAX} uploads are already in progress; try again shortly`
        throw new LedgerError('UPLOADS_BUSY', message)
      }
      const contentLength = headers['content-length']
      const pace = { windowMs: requestTimeout, bytesMin: BYTES_PER_WINDOW_MIN }
      const { position, attachment } = await ledger.attachments.put(db, id, name, {
        contentType: headers['content-type'] ?? 'application/octet-stream',
        announcedLength: contentLength === undefined ? null : Number(contentLength),
        digests: parseDigests(headers),
        conditions: readUploadConditions(request),
        chunks: arrivingBody(request, pace),
      })
      setLedgerPosition(reply, ledger, position).header('etag', formatTag(attachment))
      return sendText(reply, `{"status":true,"attachment":${attachmentText(attachment)}}`)
    },
  )
}

function parseDigests(headers: Readonly<Record<string, string | string[] | undefined>>): string[] {
  const digests = [parseDigest(headers['content-digest']), parseDigest(headers['repr-digest'])]
  return digests.filter((digest) => digest !== null)
}

function downloadRoutes(app: HttpApp, ledger: LedgerService): void {
  const read = operation('attachments', 'readAttachment', {
    summary: 'Read an attachment, or the parts that `Range` selects',
    params: AttachmentParams,
    query: AttachmentQuery,
    reply: AnyBytes('The bytes, with the `Content-Type` of the upload'),
    others: { 206: AnyBytes('The parts that `Range` selects'), ...failures },
    config: { scope: 'db:{db}:read', lasting: true, documentedHeaders: ConditionHeaders },
  })
  // Registered before GET, because Fastify's own HEAD route would read the whole file.
  app.head(
    PATH,
    {
      schema: {
        ...read.schema,
        operationId: 'readAttachmentHeaders',
        summary: 'Read the headers of an attachment, as GET would return them',
      },
      config: { ...read.config, lasting: false },
    },
    async (request, reply) => {
      const { db, id, name } = request.params
      const asOf = await requireState(ledger, request.query.at, reply)
      if (asOf === null) reply.header('cache-control', 'no-cache')
      // `Range` applies only to GET (RFC 9110 section 14.2).
      const requested = { ...readContentRequest(request), range: undefined }
      const attachment = await ledger.attachments.read(db, id, name, asOf)
      const { status, headers: own } = contentReplyTo(requested, attachment)
      return setLedgerPosition(reply.code(status).headers(own), ledger, attachment.position).send()
    },
  )
  app.get(PATH, read, async (request, reply) => {
    const { db, id, name } = request.params
    rejectExecution(request.headers)
    const requested = readContentRequest(request)
    const asOf = await requireState(ledger, request.query.at, reply)
    if (asOf === null) reply.header('cache-control', 'no-cache')
    const opened = await ledger.attachments.open(db, id, name, asOf)
    setLedgerPosition(reply, ledger, opened.attachment.position)
    return sendAttachment(request, reply, { ...opened, requested })
  })
}

function listRoute(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/:db/:id/attachments',
    operation('attachments', 'listAttachments', {
      summary: 'List the attachments of an item, by name',
      params: ItemParams,
      query: AttachmentListQuery,
      reply: AttachmentListReply,
      config: { scope: 'db:{db}:read', lasting: true },
    }),
    async ({ params: { db, id }, query, headers }, reply) => {
      const asOf = await requireState(ledger, query.at, reply)
      const range = { ...requireRange(query), after: query.after ?? '' }
      const pages = await ledger.attachments.list(db, id, range, asOf)
      const same = await findSameReply(ledger, reply, headers, asOf)
      if (same !== null) return same
      return sendText(reply, attachmentListReply(pages, { ...range, at: asOf?.height }))
    },
  )
}

const MEMBER = /^([a-z*][a-z0-9_.*-]*)=(.*)$/
const SHA_256 = /^:([A-Za-z0-9+/]{43}=):(?:;.*)?$/

/**
 * Returns the SHA-256 in a `Content-Digest` or `Repr-Digest` header, in hex, or null. Without a content encoding
 * both headers have the same value. Ignores other algorithms, as the standard requires.
 * Errors: DIGEST_INVALID. Source: RFC 9530 sections 2 and 3; RFC 9651 section 3.2 for the syntax.
 */
function parseDigest(header: string | readonly string[] | undefined): string | null {
  let digest: string | null = null
  // Every comma separates two members, because names and base64 contain none. The last of several equal names counts.
  for (const member of header === undefined ? [] : String(header).split(',')) {
    const [, name, value = ''] = MEMBER.exec(member.trim()) ?? []
    if (name === undefined) throw invalid()
    if (name !== 'sha-256') continue
    const [, base64] = SHA_256.exec(value) ?? []
    if (base64 === undefined) throw invalid()
    digest = Buffer.from(base64, 'base64').toString('hex')
  }
  return digest
}

function invalid(): LedgerError {
  return new LedgerError('DIGEST_INVALID', 'a digest must have the form sha-256=:…base64…:')
}
