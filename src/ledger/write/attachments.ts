import { type Attachment, attachmentText } from '../../chain/index.ts'
import type {
  BlobStore,
  FormerItem,
  OpenBlob,
  StoredAttachment,
  StoreReader,
} from '../../storage/index.ts'
import { LedgerError, mayBeRecorded } from '../errors.ts'
import { type AsOf, type ListRange, readPages, requireDatabase } from '../read/pages.ts'
import { requireAttachmentName, requireDatabaseName, requireItemId } from './names.ts'
import { requireAttachmentCondition } from './plan.ts'
import type { RequestConditions, UploadConditions } from './request-conditions.ts'
import { firstPosition, type LedgerWriter } from './writer.ts'

export const ATTACHMENT_BYTES_MAX = 1024 * 1024 * 1024
/** Attachments per page of a list. */
const PAGE_ROWS = 500
/**
 * Maximum attempts to open an attachment. An attempt fails if the attachment is replaced, and its old blob erased,
 * after its metadata were read.
 */
const OPEN_ATTEMPTS_MAX = 3

/** Maximum characters of a `Content-Type`. */
const MEDIA_TYPE_LENGTH_MAX = 255
/** A type or a subtype. Source: RFC 6838 section 4.2. */
const TYPE_NAME = '[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}'
const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+"
const QUOTED = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\[\\t \\x21-\\x7e])*"'
/**
 * A media type with parameters. Blanks match in one way only, otherwise a mismatch would take a time that doubles with
 * each empty parameter. Source: RFC 9110 section 8.3.1.
 */
const MEDIA_TYPE = new RegExp(
  `^${TYPE_NAME}/${TYPE_NAME}(?:[ \\t]*;(?:[ \\t]*${TOKEN}=(?:${TOKEN}|${QUOTED}))?)*$`,
)

export interface Upload {
  readonly contentType: string
  /** The announced length in bytes, or null. */
  readonly announcedLength: number | null
  /** The announced SHA-256 digests, in hex. */
  readonly digests: readonly string[]
  readonly conditions: UploadConditions
  readonly chunks: AsyncIterable<Uint8Array>
}

/**
 * Reads and changes the attachments of items. Their bytes are stored outside the chain. The chain contains only their
 * SHA-256.
 */
export class AttachmentService {
  readonly #store: StoreReader
  readonly #writer: LedgerWriter
  readonly #blobs: BlobStore
  readonly #bytesMax: number

  /** `bytesMax`: maximum size of one attachment. */
  constructor(store: StoreReader, writer: LedgerWriter, blobs: BlobStore, bytesMax: number) {
    this.#store = store
    this.#writer = writer
    this.#blobs = blobs
    this.#bytesMax = bytesMax
  }

  /**
   * Attaches the uploaded bytes to an item, and replaces an attachment of the same name. When the promise resolves,
   * the bytes and the entry are durable. When it rejects, nothing has changed, unless the code is
   * OUTCOME_UNKNOWN or WRITER_STOPPED: then the entry may have been recorded.
   * Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ATTACHMENT_…, PRECONDITION_FAILED, DIGEST_MISMATCH,
   * STORE_FULL, STORE_FAILED, and the errors of `chunks`.
   */
  async put(
    db: string,
    id: string,
    name: string,
    upload: Upload,
  ): Promise<{ position: number; attachment: Attachment }> {
    const { contentType, announcedLength, digests, conditions, chunks } = upload
    requirePath(db, id, name)
    if (contentType.length > MEDIA_TYPE_LENGTH_MAX || !MEDIA_TYPE.test(contentType)) {
      throw new LedgerError(
        'ATTACHMENT_TYPE_INVALID',
        `Content-Type must be a media type of at most ${MEDIA_TYPE_LENGTH_MAX} characters`,
      )
    }
    await this.#refuseEarly(db, id, name, conditions)
    if (announcedLength !== null) this.#checkLength(announcedLength)
    return this.#blobs.add(
      this.#bounded(chunks),
      async ({ sha256, length }) => {
        requireDigests(digests, sha256)
        const attachment = { content_type: contentType, length, name, sha256 }
        const text = attachmentText(attachment)
        const operation = { kind: 'create_attachment', db, id, text } as const
        const { keyed, ...others } = conditions
        const idempotency = keyed?.with(text) ?? null
        const recorded = await this.#writer.record([operation], { ...others, idempotency })
        return { position: firstPosition(recorded), attachment, isNew: !('entries' in recorded) }
      },
      { isRecorded: ({ isNew }) => isNew, mayBeRecorded },
    )
  }

  /** Returns the metadata of an attachment. Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ATTACHMENT_NOT_FOUND. */
  async read(
    db: string,
    id: string,
    name: string,
    asOf: AsOf | null = null,
  ): Promise<StoredAttachment> {
    const rows = this.#store.attachments
    const attachment =
      asOf === null
        ? await rows.current(db, id, name)
        : await rows.currentBefore(await this.#requireFormerItem(db, id, asOf), name)
    if (attachment !== null) return attachment
    if (asOf === null) await this.#requireItem(db, id)
    throw new LedgerError(
      'ATTACHMENT_NOT_FOUND',
      `there is no attachment ${name} of ${id} in ${db}`,
    )
  }

  /**
   * Returns the metadata and the open blob, which the caller must close. Errors: as for `read`; ATTACHMENT_LOST.
   */
  async open(
    db: string,
    id: string,
    name: string,
    asOf: AsOf | null = null,
  ): Promise<{ attachment: StoredAttachment; blob: OpenBlob }> {
    for (let attempt = 1; attempt <= OPEN_ATTEMPTS_MAX; attempt += 1) {
      const attachment = await this.read(db, id, name, asOf)
      const blob = await this.#blobs.read(attachment)
      if (blob !== null) return { attachment, blob }
    }
    throw new LedgerError('ATTACHMENT_LOST', `the bytes of ${name} are missing; run daicho verify`)
  }

  /**
   * Deletes an attachment, and returns the packed position of the entry.
   * Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ATTACHMENT_NOT_FOUND, PRECONDITION_FAILED.
   */
  async delete(
    db: string,
    id: string,
    name: string,
    conditions: RequestConditions | undefined,
  ): Promise<{ position: number }> {
    requirePath(db, id, name)
    const operation = { kind: 'delete_attachment', db, id, name } as const
    return { position: firstPosition(await this.#writer.record([operation], conditions)) }
  }

  /**
   * Lists the attachments of an item in the order of their names, page by page, after the name `after`.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND.
   */
  async list(
    db: string,
    id: string,
    range: ListRange & { readonly after: string },
    asOf: AsOf | null = null,
  ): Promise<AsyncIterable<StoredAttachment[]>> {
    const item = asOf === null ? null : await this.#requireFormerItem(db, id, asOf)
    if (item === null) await this.#requireItem(db, id)
    const rows = this.#store.attachments
    let from = { after: range.after, offset: range.offset }
    return readPages<StoredAttachment>(range.limit, PAGE_ROWS, async (limit) => {
      const page = await (item === null
        ? rows.list(db, id, { ...from, limit })
        : rows.listBefore(item, { ...from, limit }))
      from = { after: page.at(-1)?.name ?? from.after, offset: 0 }
      return page
    })
  }

  /**
   * Runs `erase`, which records an erasure and returns, in `freed`, the SHA-256 of the blobs of the erased entries.
   * Then removes each of these blobs unless another entry refers to it. Errors: as for `erase`; STORE_FAILED.
   */
  erasing<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
  ): Promise<Result> {
    return this.#blobs.eraseRows(erase, mayBeRecorded)
  }

  async *#bounded(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let length = 0
    for await (const chunk of chunks) {
      length += chunk.length
      this.#checkLength(length)
      yield chunk
    }
  }

  #checkLength(length: number): void {
    if (length <= this.#bytesMax) return
    throw new LedgerError(
      'ATTACHMENT_TOO_LARGE',
      `an attachment can be up to ${this.#bytesMax} bytes`,
    )
  }

  /**
   * If an upload cannot succeed, rejects it before its bytes arrive. The writer checks again after the upload. Does not
   * reject a repeated request, which must get the original reply even if the item or attachment has changed since.
   */
  async #refuseEarly(
    db: string,
    id: string,
    name: string,
    { precondition, keyed }: UploadConditions,
  ): Promise<void> {
    try {
      await this.#requireItem(db, id)
      if (precondition === null) return
      requireAttachmentCondition(precondition, await this.#store.attachments.current(db, id, name))
    } catch (error) {
      // Reads the idempotency record only after the check. If the check failed because an earlier copy of this request
      // has succeeded, the record of that copy was committed in the same block as its change, so this read finds it.
      if (keyed === null || (await this.#store.idempotencyRecord(keyed.key)) === null) throw error
    }
  }

  async #requireFormerItem(db: string, id: string, asOf: AsOf): Promise<FormerItem> {
    const { before, height } = asOf
    const database = await requireDatabase(this.#store, db, asOf)
    const created = await this.#store.createdBefore(database, id, before)
    if (created !== null) return { database, id, created, before }
    throw new LedgerError('ITEM_NOT_FOUND', `there was no item ${id} in ${db} at height ${height}`)
  }

  async #requireItem(db: string, id: string): Promise<void> {
    if ((await this.#store.item(db, id)) !== null) return
    await requireDatabase(this.#store, db)
    throw new LedgerError('ITEM_NOT_FOUND', `there is no item ${id} in ${db}`)
  }
}

function requirePath(db: string, id: string, name: string): void {
  requireDatabaseName(db)
  requireItemId(id)
  requireAttachmentName(name)
}

/** Errors: DIGEST_MISMATCH. */
function requireDigests(digests: readonly string[], sha256: string): void {
  const other = digests.find((digest) => digest !== sha256)
  if (other === undefined) return
  throw new LedgerError(
    'DIGEST_MISMATCH',
    `the received bytes have the SHA-256 ${sha256}, not ${other}`,
  )
}
