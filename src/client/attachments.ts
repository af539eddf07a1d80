import type { Attachment } from '../chain/portable.ts'
import {
  describeValue,
  requireCount,
  requireHeightOrTime,
  requireObject,
  requireText,
  valueInvalid,
} from './json-body.ts'
import { jsonWithLists, malformed, readJson, requireBody, requireNextPage } from './reply.ts'
import {
  type Call,
  type Content,
  formatPath,
  type PastOptions,
  requireName,
  type Transport,
  type WriteOptions,
} from './transport.ts'

/** The content of an attachment. */
export interface AttachmentBytes {
  readonly contentType: string
  /** Length of the stream in bytes, or null if the node does not send the length. */
  readonly length: number | null
  /** Entity tag, which changes when the bytes change. */
  readonly etag: string | null
  readonly stream: ReadableStream<Uint8Array>
}

/** A part of an attachment. */
export interface ByteRange {
  /** Index of the first byte. */
  readonly from: number
  /** Index of the last byte; by default, the last byte of the attachment. */
  readonly to?: number
}

const PATH = '/api/{db}/{id}/attachments'
const PAGE = 500

export class AttachmentsClient {
  readonly #transport: Transport
  readonly #item: { readonly db: string; readonly id: string }

  constructor(transport: Transport, db: string, id: string) {
    this.#transport = transport
    this.#item = { db, id: requireName(id, 'id') }
  }

  /**
   * Creates or replaces the attachment `name`. Bytes, strings, blobs and functions that return a stream are sent
   * again after a transient failure; a stream can be sent only once. Errors: ClientError.
   */
  async put(
    name: string,
    content: Content,
    options: WriteOptions & { readonly contentType?: string } = {},
  ): Promise<Attachment> {
    const { contentType = 'application/octet-stream', ...rest } = options
    const call = {
      method: 'PUT',
      path: this.#path(name),
      headers: { 'content-type': requireText(contentType, 'contentType') },
      content: requireContent(content),
      streams: 'content',
      options: rest,
    } satisfies Call
    return this.#transport.write(
      call,
      async (reply) => (await readJson<{ attachment: Attachment }>(reply)).attachment,
    )
  }

  /** Reads an attachment or a part of it; with `at`, of a past state. Errors: ClientError. The stream fails if the connection is interrupted. */
  async get(
    name: string,
    options: PastOptions & { readonly range?: ByteRange } = {},
  ): Promise<AttachmentBytes> {
    const { range, at, ...rest } = options
    const headers: Record<string, string> = range === undefined ? {} : { range: formatRange(range) }
    const call = {
      method: 'GET',
      path: this.#path(name),
      query: { at: requireHeightOrTime(at, 'at') },
      headers,
      streams: 'reply',
      options: rest,
    } satisfies Call
    return this.#transport.read(call, async (reply) => {
      // A proxy may ignore the range. Then the reply is the whole attachment, or another part.
      if (range !== undefined && !isPart(reply, range)) {
        await reply.body?.cancel()
        throw malformed(reply)
      }
      // A proxy may have compressed the attachment. `fetch` has decompressed it.
      const isEncoded = reply.headers.has('content-encoding')
      const length = isEncoded ? null : reply.headers.get('content-length')
      return {
        contentType: reply.headers.get('content-type') ?? 'application/octet-stream',
        length: length === null ? null : Number(length),
        etag: reply.headers.get('etag'),
        stream: await requireBody(reply),
      }
    })
  }

  /**
   * Yields all attachments, with `at` of a past state, ordered by name. An attachment that exists during the whole loop is
   * yielded once. Errors: ClientError.
   */
  async *list({ at, ...rest }: PastOptions = {}): AsyncGenerator<Attachment> {
    for (let after: string | undefined; ; ) {
      const query = { limit: PAGE, after, at: requireHeightOrTime(at, 'at') }
      const path = formatPath(PATH, this.#item)
      const call = { method: 'GET', path, query, options: rest }
      const { attachments } = await this.#transport.read(
        call,
        jsonWithLists<{ attachments: readonly Attachment[] }>('attachments'),
      )
      yield* attachments
      if (attachments.length < PAGE) return
      after = requireNextPage(attachments.at(-1)?.name, after)
    }
  }

  /** Deletes the attachment `name`. Errors: ClientError. */
  async delete(name: string, options: WriteOptions = {}): Promise<void> {
    const call = { method: 'DELETE', path: this.#path(name), options }
    await this.#transport.write(call, readJson)
  }

  #path(name: string): string {
    return formatPath(`${PATH}/{name}`, { ...this.#item, name })
  }
}

/** Errors: ClientError, VALUE_INVALID, because `fetch` would send another value as text, or nothing. */
function requireContent(content: Content): Content {
  const kinds = [Blob, Uint8Array, ReadableStream]
  const isContent = ['string', 'function'].includes(typeof content)
  if (isContent || kinds.some((kind) => content instanceof kind)) return content
  throw valueInvalid(
    `content is ${describeValue(content)} instead of a string, bytes, a Blob or a stream`,
  )
}

/** Whether a reply contains the requested bytes, or the first of them if the attachment is shorter. */
function isPart({ status, headers }: Response, { from, to }: ByteRange): boolean {
  const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(headers.get('content-range') ?? '') ?? []
  return status === 206 && Number(first) === from && Number(last) <= (to ?? Number(last))
}

function formatRange(range: ByteRange): string {
  const { from, to } = requireObject(range, 'range')
  const last = to === undefined ? '' : requireCount(to, 'range/to')
  return `bytes=${requireCount(from, 'range/from')}-${last}`
}
