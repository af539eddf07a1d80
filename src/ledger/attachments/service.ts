import type { FileHandle } from 'node:fs/promises'
import { type Attachment, attachmentText } from '../../chain/index.ts'
import type { BlobStore, StoredAttachment, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { checkAttachmentName, checkDatabaseName, checkItemId } from '../names.ts'
import type { RequestConditions, UploadConditions } from '../request-conditions.ts'
import { checkAttachment } from '../writer/plan.ts'
import { type LedgerWriter, positionOf } from '../writer/writer.ts'
import { checkMediaType } from './media-type.ts'

/** The most bytes of one attachment, where nothing else is said. */
export const ATTACHMENT_BYTES_MAX = 1024 * 1024 * 1024
/** Attachments that may arrive at once; each keeps a file open and some memory. */
const UPLOADS_MAX = 64
/** Attachments read from the store at a time while a list is sent. */
const PAGE_ROWS = 500
/** How often a content that is gone is looked for anew: it may have been replaced just then. */
const LOOKS_MAX = 3

/** What a client sends under a name. */
export interface Upload {
  readonly contentType: string
  /** Bytes that it says will come; null when it does not say. */
  readonly lengthSaid: number | null
  /** SHA-256 digests that the client states, in hex. */
  readonly digests: readonly string[]
  readonly conditions: UploadConditions
  readonly chunks: AsyncIterable<Uint8Array>
}

/** Where a change was recorded, packed. */
export interface Placed {
  readonly position: number
}

/** Items' attachments: bytes under a name, kept outside the chain, which holds their SHA-256. */
export class AttachmentService {
  readonly #store: StoreReader
  readonly #writer: LedgerWriter
  readonly #contents: BlobStore
  readonly #bytesMax: number
  #uploads = 0

  /** `bytesMax`: of one attachment. */
  constructor(store: StoreReader, writer: LedgerWriter, contents: BlobStore, bytesMax: number) {
    this.#store = store
    this.#writer = writer
    this.#contents = contents
    this.#bytesMax = bytesMax
  }

  /**
   * Attaches what arrives, in place of what has that name already. When the promise resolves, bytes
   * and entry are on the disk; when it rejects, there is neither.
   * Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ATTACHMENT_…, PRECONDITION_FAILED,
   * DIGEST_MISMATCH, UPLOADS_BUSY, STORE_FULL, STORE_FAILED, those of `chunks`.
   */
  async put(
    db: string,
    id: string,
    name: string,
    upload: Upload,
  ): Promise<Placed & { attachment: Attachment }> {
    checkPath(db, id, name)
    checkMediaType(upload.contentType)
    const { precondition, keyed } = upload.conditions
    await this.#refuseEarly(db, id, name, upload.conditions)
    if (upload.lengthSaid !== null) this.#checkLength(upload.lengthSaid)
    if (this.#uploads >= UPLOADS_MAX) {
      throw new LedgerError('UPLOADS_BUSY', `${UPLOADS_MAX} attachments are arriving already`)
    }
    this.#uploads += 1
    try {
      return await this.#contents.take(
        this.#bounded(upload.chunks),
        async ({ sha256, length }) => {
          checkDigests(upload.digests, sha256)
          const attachment = { content_type: upload.contentType, length, name, sha256 }
          const text = attachmentText(attachment)
          const operation = { kind: 'create_attachment', db, id, text } as const
          const once = keyed?.with(text) ?? null
          const recorded = await this.#writer.record([operation], { precondition, once })
          return { position: positionOf(recorded), attachment, isNew: !('entries' in recorded) }
        },
        {
          isRecorded: ({ isNew }) => isNew,
          mayBeRecorded,
        },
      )
    } finally {
      this.#uploads -= 1
    }
  }

  /** What is attached under the name. Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ATTACHMENT_NOT_FOUND. */
  async read(db: string, id: string, name: string): Promise<StoredAttachment> {
    const attachment = await this.#store.attachments.current(db, id, name)
    if (attachment !== null) return attachment
    if ((await this.#store.item(db, id)) === null) throw await this.#noItem(db, id)
    throw new LedgerError(
      'ATTACHMENT_NOT_FOUND',
      `there is no attachment ${name} of ${id} in ${db}`,
    )
  }

  /** The same with its bytes; the caller closes the file. Errors: likewise, ATTACHMENT_LOST. */
  async open(
    db: string,
    id: string,
    name: string,
  ): Promise<{ attachment: StoredAttachment; file: FileHandle }> {
    for (let look = 1; ; look += 1) {
      const attachment = await this.read(db, id, name)
      const file = await this.#contents.read(attachment)
      if (file !== null) return { attachment, file }
      if (look === LOOKS_MAX) {
        throw new LedgerError('ATTACHMENT_LOST', `the bytes of ${name} are not there; run verify`)
      }
    }
  }

  /** Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ATTACHMENT_NOT_FOUND, PRECONDITION_FAILED. */
  async delete(
    db: string,
    id: string,
    name: string,
    conditions: RequestConditions | undefined,
  ): Promise<Placed> {
    checkPath(db, id, name)
    const operation = { kind: 'delete_attachment', db, id, name } as const
    return { position: positionOf(await this.#writer.record([operation], conditions)) }
  }

  /**
   * What is attached to an item, by name, page by page as the reader takes them; `limit` 0 stands for
   * no limit. Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND.
   */
  async list(
    db: string,
    id: string,
    range: { limit: number; offset: number },
  ): Promise<AsyncIterable<StoredAttachment[]>> {
    if ((await this.#store.item(db, id)) === null) throw await this.#noItem(db, id)
    return this.#pages(db, id, range)
  }

  /**
   * Runs `erase`, which records an erasure and says which contents its entries named; then removes the
   * files of those that no entry names any more. Errors: those of `erase`; STORE_FAILED.
   */
  erasing<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
  ): Promise<Result> {
    return this.#contents.erasing(erase, mayBeRecorded)
  }

  async *#pages(
    db: string,
    id: string,
    range: { limit: number; offset: number },
  ): AsyncGenerator<StoredAttachment[]> {
    let left = range.limit === 0 ? Number.POSITIVE_INFINITY : range.limit
    let from = { after: '', offset: range.offset }
    while (left > 0) {
      const limit = Math.min(left, PAGE_ROWS)
      const page = await this.#store.attachments.list(db, id, { ...from, limit })
      const last = page.at(-1)
      if (last === undefined) return
      yield page
      from = { after: last.name, offset: 0 }
      left -= page.length
    }
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
    throw new LedgerError('ATTACHMENT_TOO_LARGE', `an attachment may have ${this.#bytesMax} bytes`)
  }

  /**
   * Refuses before a gigabyte arrives for nothing; the writer decides again when it has. What was
   * done before under the same key is refused by nothing that has happened since.
   */
  async #refuseEarly(
    db: string,
    id: string,
    name: string,
    conditions: UploadConditions,
  ): Promise<void> {
    const { precondition, keyed } = conditions
    try {
      if ((await this.#store.item(db, id)) === null) throw await this.#noItem(db, id)
      if (precondition === null) return
      checkAttachment(precondition, await this.#store.attachments.current(db, id, name))
    } catch (error) {
      // Looked for last: answers are kept in the commit of what may have been in the way just now.
      if (keyed === null || (await this.#store.idempotencyRecord(keyed.key)) === null) throw error
    }
  }

  async #noItem(db: string, id: string): Promise<LedgerError> {
    return (await this.#store.database(db)) === null
      ? new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
      : new LedgerError('ITEM_NOT_FOUND', `there is no item ${id} in ${db}`)
  }
}

function checkPath(db: string, id: string, name: string): void {
  checkDatabaseName(db)
  checkItemId(id)
  checkAttachmentName(name)
}

/** Errors: DIGEST_MISMATCH. */
function checkDigests(digests: readonly string[], sha256: string): void {
  const other = digests.find((digest) => digest !== sha256)
  if (other === undefined) return
  throw new LedgerError('DIGEST_MISMATCH', `what arrived has the SHA-256 ${sha256}, not ${other}`)
}

/** Of an error of the writer: whether nobody knows what became of the entry. */
function mayBeRecorded(error: unknown): boolean {
  return error instanceof LedgerError && error.code === 'WRITER_STOPPED'
}
