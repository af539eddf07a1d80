import {
  bytesOf,
  type Content,
  jsonOf,
  pathOf,
  type RequestOptions,
  type Transport,
} from './transport.ts'

/** What is attached to an item under a name. */
export interface Attachment {
  readonly name: string
  readonly content_type: string
  /** Bytes. */
  readonly length: number
  /** Of the bytes, 64 hexadecimal digits. */
  readonly sha256: string
}

/** The bytes of an attachment, as they come. */
export interface AttachmentBytes {
  readonly contentType: string
  /** Bytes that are coming: of the range where one was asked for; null when the node does not say. */
  readonly length: number | null
  /** Changes when the bytes do. */
  readonly etag: string | null
  readonly stream: ReadableStream<Uint8Array>
}

/** Part of an attachment. */
export interface ByteRange {
  /** Of the first byte; the first of all is 0. */
  readonly from: number
  /** Of the last byte; to the end when left out. */
  readonly to?: number
}

const PATH = '/api/{db}/{id}/attachments'
const PAGE = 500

/** The attachments of one item. */
export class AttachmentsClient {
  readonly #transport: Transport
  readonly #item: { readonly db: string; readonly id: string }

  constructor(transport: Transport, db: string, id: string) {
    this.#transport = transport
    this.#item = { db, id }
  }

  /**
   * Attaches `content` under `name`, in place of what is there. Bytes, texts, blobs and functions that
   * give a stream are sent again when a connection breaks; a stream itself can be sent once only.
   * Errors: ClientError.
   */
  async put(
    name: string,
    content: Content,
    options: RequestOptions & { readonly contentType?: string } = {},
  ): Promise<Attachment> {
    const { contentType = 'application/octet-stream', ...rest } = options
    const call = {
      method: 'PUT',
      path: this.#path(name),
      headers: { 'content-type': contentType },
      content,
      lasts: 'content',
      ...rest,
    } as const
    return this.#transport.write(
      call,
      async (reply) => (await jsonOf<{ attachment: Attachment }>(reply)).attachment,
    )
  }

  /** The bytes, or a part of them. Errors: ClientError; reading the stream fails when it breaks off. */
  async get(
    name: string,
    options: RequestOptions & { readonly range?: ByteRange } = {},
  ): Promise<AttachmentBytes> {
    const { range, ...rest } = options
    const headers: Record<string, string> =
      range === undefined ? {} : { range: `bytes=${range.from}-${range.to ?? ''}` }
    const call = {
      method: 'GET',
      path: this.#path(name),
      headers,
      lasts: 'reply',
      ...rest,
    } as const
    return this.#transport.read(call, async (reply) => {
      const length = reply.headers.get('content-length')
      return {
        contentType: reply.headers.get('content-type') ?? 'application/octet-stream',
        length: length === null ? null : Number(length),
        etag: reply.headers.get('etag'),
        stream: await bytesOf(reply),
      }
    })
  }

  /** All of them, by name. Errors: ClientError. */
  async *list(options: RequestOptions = {}): AsyncGenerator<Attachment> {
    for (let offset = 0; ; offset += PAGE) {
      const query = { limit: PAGE, offset }
      const call = { method: 'GET', path: pathOf(PATH, this.#item), query, ...options }
      const { attachments } = await this.#transport.read(
        call,
        jsonOf<{ attachments: readonly Attachment[] }>,
      )
      yield* attachments
      if (attachments.length < PAGE) return
    }
  }

  /** Errors: ClientError. */
  async delete(name: string, options: RequestOptions = {}): Promise<void> {
    const call = { method: 'DELETE', path: this.#path(name), ...options }
    await this.#transport.write(call, jsonOf)
  }

  #path(name: string): string {
    return pathOf(`${PATH}/{name}`, { ...this.#item, name })
  }
}
