import type { Clock } from '../../base/clock.ts'
import type { Attachment } from '../../chain/index.ts'
import {
  type AttachmentReader,
  type BlobStore,
  type OpenBlob,
  type StoredBlob,
  StoreError,
  type StoreReader,
} from '../../storage/index.ts'
import { PeerError } from './errors.ts'
import type { BlobSource, MissingBlob, MissingBlobs, PeerClient } from './peer-client.ts'

/** Maximum size of a part of a blob in one request between nodes. */
export const PART_BYTES_MAX = 2 * 1024 * 1024
const ROWS_PER_PAGE = 100
/** Maximum rows that one call of `absent` checks. */
const ROWS_MAX = 1_000
const BLOBS_PER_PAGE = 16
/** Maximum attempts to read the first row that names a blob. */
const ROW_ATTEMPTS_MAX = 3
/** Number of consecutive blobs whose transfer failed after which a run ends with the last error. */
const FAILURES_MAX = 8
/**
 * Delays before all blobs are checked again. If some blobs are missing, the delay is RETRY_MS, doubled each time up to
 * RETRY_MS_MAX. If no blob is missing, the delay is RESCAN_MS.
 */
const RETRY_MS = 500
const RETRY_MS_MAX = 30_000
const RESCAN_MS = 60_000
/**
 * After a rescan, the delay is at least this multiple of the duration of the rescan, up to REST_MS_MAX, so that rescans
 * take only a small part of the time.
 */
const TIME_SHARE = 10
const REST_MS_MAX = 3_600_000

/** The blobs to which the entries of one chain refer, whether this node has stored them or not. */
export class ChainBlobs {
  readonly #rows: AttachmentReader
  readonly #files: BlobStore
  readonly #bytesMax: number

  /** `bytesMax`: maximum size of a blob accepted from another node. */
  constructor(rows: AttachmentReader, files: BlobStore, bytesMax = Number.POSITIVE_INFINITY) {
    this.#rows = rows
    this.#files = files
    this.#bytesMax = bytesMax
  }

  /**
   * Opens a blob, which the caller must close. Name and type of the returned attachment are placeholders, because
   * several entries may refer to the blob with different names and types. Errors: CONTENT_UNKNOWN, CONTENT_ABSENT.
   */
  async open(sha256: string): Promise<{ attachment: Attachment; blob: OpenBlob }> {
    const { length } = await this.#blob(sha256)
    const blob = await this.#files.read({ sha256, length })
    if (blob !== null) {
      const attachment = { content_type: 'application/octet-stream', length, name: sha256, sha256 }
      return { attachment, blob }
    }
    throw new PeerError('CONTENT_ABSENT', `this node has not stored the blob ${sha256}`)
  }

  /** Lists at most `limit` missing blobs to which entries after the packed position `after` (-1: all) refer. */
  async absent(after: number, limit: number): Promise<MissingBlobs> {
    const blobs: MissingBlob[] = []
    let upTo = after
    for (let checked = 0; checked < ROWS_MAX; ) {
      const page = await this.#rows.byPosition(upTo, ROWS_PER_PAGE)
      for (const { position, sha256, length } of page) {
        const { isComplete, bytes } = await this.#progress({ sha256, length })
        if (!isComplete) blobs.push({ sha256, length, bytes })
        upTo = position
        checked += 1
        if (blobs.length === limit) return { blobs, upTo, more: true }
      }
      if (page.length === 0) return { blobs, upTo, more: false }
    }
    return { blobs, upTo, more: true }
  }

  /**
   * Stores the `bytes` of a blob at offset `from`. Returns the number of bytes of the blob that are then stored.
   * Errors: CONTENT_UNKNOWN, CONTENT_TOO_LARGE, CONTENT_DIFFERS, STORE_FULL, STORE_FAILED.
   */
  async add(sha256: string, from: number, bytes: Uint8Array): Promise<number> {
    const { length } = await this.#blob(sha256)
    if (length <= this.#bytesMax) return this.#files.addPart({ sha256, length }, from, bytes)
    throw new PeerError(
      'CONTENT_TOO_LARGE',
      `on this node, a blob can be up to ${this.#bytesMax} bytes`,
    )
  }

  /** Returns how much of a blob is stored. A file that cannot be read counts as missing, so that it is replaced. */
  async #progress(blob: StoredBlob): Promise<{ isComplete: boolean; bytes: number }> {
    try {
      return await this.#files.progress(blob)
    } catch (error) {
      if (!isUnreadable(error)) throw error
      return { isComplete: false, bytes: 0 }
    }
  }

  /** Returns the blob if an entry of the chain refers to it. Errors: CONTENT_UNKNOWN. */
  async #blob(sha256: string): Promise<StoredBlob> {
    for (let attempt = 1; attempt <= ROW_ATTEMPTS_MAX; attempt += 1) {
      const position = await this.#rows.namedAt(sha256)
      if (position === null) break
      // Without a row, the entry was erased after its position was read. A later entry may refer to the blob, so this
      // tries again.
      const row = await this.#rows.at(position)
      if (row !== null) return row
    }
    throw new PeerError('CONTENT_UNKNOWN', `no entry of this chain refers to the blob ${sha256}`)
  }
}

/** Moves blobs of one chain between this node and another: fetches or pushes them. */
export interface BlobTransfer {
  /** Lists the next blobs that the receiver lacks. */
  absent(after: number, limit: number): Promise<MissingBlobs>
  /** Moves a blob. Returns whether the receiver has the whole blob. */
  move(blob: MissingBlob, run: BlobRun): Promise<boolean>
}

export interface BlobRun {
  /** Called before each part of a blob. */
  isStopped(): boolean
  /** Called after each part that was moved. */
  onProgress(): void
}

/** A run that moves all blobs. */
export const WHOLE_RUN: BlobRun = { isStopped: () => false, onProgress: () => {} }

/**
 * Keeps the blobs of a chain in sync: moves the blobs of new entries, and periodically checks all blobs, because a
 * transfer may have failed or a disk may have lost a blob.
 */
export class BlobSync {
  readonly #clock: Clock
  /** Packed position of the last entry that was checked. */
  #upTo = -1
  #missing = 0
  #retryMs = RETRY_MS
  #rescanAtMs = Number.NEGATIVE_INFINITY
  #failure: unknown = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Number of blobs that could not be moved, among those checked so far. */
  get missing(): number {
    return this.#missing
  }

  /**
   * The last error of a transfer of the last run, after which the blob may be moved later; null if there was none. A blob
   * that this node cannot read or write has none.
   */
  get failure(): unknown {
    return this.#failure
  }

  /**
   * Moves blobs until all entries are checked or `isStopped` returns true. A blob that cannot be moved counts as missing,
   * and the others are moved. Only if FAILURES_MAX transfers in a row fail, the run ends with the last error. The next
   * call continues after their page, and the next rescan tries them again.
   * Errors: PeerError, OutboundError, StoreError.
   */
  async run(transfer: BlobTransfer, run: BlobRun = WHOLE_RUN): Promise<void> {
    const startedMs = this.#clock.now()
    this.#failure = null
    // A longer delay means that the clock was set back.
    const isRescan = startedMs >= this.#rescanAtMs || this.#rescanAtMs - startedMs > REST_MS_MAX
    if (isRescan) {
      this.#upTo = -1
      // Set before the rescan: if the rescan fails midway, the next call continues at `#upTo` and does not start again.
      this.#rescanAtMs = startedMs + RESCAN_MS
    }
    const { failed, error } = await this.#scan(transfer, run)
    const endedMs = this.#clock.now()
    this.#missing = isRescan ? failed : this.#missing + failed
    if (isRescan) {
      const restMs = Math.min(TIME_SHARE * (endedMs - startedMs), REST_MS_MAX)
      const dueMs = failed === 0 ? this.#rescanAtMs : endedMs + this.#retryMs
      this.#rescanAtMs = Math.max(dueMs, endedMs + restMs)
      this.#retryMs = failed === 0 ? RETRY_MS : Math.min(2 * this.#retryMs, RETRY_MS_MAX)
    } else if (failed > 0) {
      this.#retryMs = RETRY_MS
      this.#rescanAtMs = Math.min(this.#rescanAtMs, endedMs + RETRY_MS)
    }
    if (error !== null) throw error
  }

  /**
   * Moves the blobs after `#upTo`. Returns the number of blobs that could not be moved, and the error that ended the
   * scan, or null.
   */
  async #scan(transfer: BlobTransfer, run: BlobRun): Promise<{ failed: number; error: unknown }> {
    let failed = 0
    let inARow = 0
    for (let more = true; more && !run.isStopped(); ) {
      const page = await transfer.absent(this.#upTo, BLOBS_PER_PAGE)
      // A receiver could otherwise let this node ask for the same page for ever.
      more = page.more && page.upTo > this.#upTo
      this.#upTo = page.upTo
      for (const [at, blob] of page.blobs.entries()) {
        try {
          if (!(await transfer.move(blob, run))) failed += 1
          inARow = 0
        } catch (error) {
          failed += 1
          inARow += 1
          if (!isUnreadable(error)) this.#failure = error
          if (run.isStopped()) return { failed, error: null }
          if (inARow === FAILURES_MAX) return { failed: failed + page.blobs.length - at - 1, error }
        }
      }
    }
    return { failed, error: null }
  }
}

/**
 * Returns blobs of this node as a source. A blob that the disk cannot read counts as absent, so that the other blobs are
 * copied.
 */
export function localBlobs(rows: AttachmentReader, files: BlobStore): BlobSource {
  const blobs = new ChainBlobs(rows, files)
  return {
    async blob(sha256, from, length) {
      let opened: OpenBlob | null = null
      try {
        opened = (await blobs.open(sha256)).blob
        const part = Buffer.allocUnsafe(length)
        return part.subarray(0, await opened.read(part, from))
      } catch (error) {
        if (isUnreadable(error) || concernsOneBlob(error)) return null
        throw error
      } finally {
        await opened?.close()
      }
    },
  }
}

/** Fetches the blobs of a mirrored chain from `source`. */
export function fetchingBlobs(source: BlobSource, blobs: ChainBlobs): BlobTransfer {
  return {
    absent: (after, limit) => blobs.absent(after, limit),
    async move(blob, run) {
      const { sha256, length } = blob
      try {
        return await moveParts(blob, run, async (from) => {
          const bytes = Math.min(PART_BYTES_MAX, Math.max(0, length - from))
          const part = bytes === 0 ? new Uint8Array() : await source.blob(sha256, from, bytes)
          return part === null ? null : blobs.add(sha256, from, part)
        })
      } catch (error) {
        if (concernsOneBlob(error)) return false
        throw error
      }
    },
  }
}

/** Pushes the blobs of this node's chain to a mirror that cannot fetch them. */
export function pushingBlobs(
  peer: PeerClient,
  store: StoreReader,
  blobs: ChainBlobs,
): BlobTransfer {
  return {
    async absent(after, limit) {
      store.refresh()
      // Usually there is no new attachment, so this check saves a request to the mirror.
      const isNothingNew = (await store.attachments.byPosition(after, 1)).length === 0
      if (isNothingNew) return { blobs: [], upTo: after, more: false }
      return peer.missingBlobs(after, limit)
    },
    async move({ sha256, bytes }, run) {
      const opened = await blobs.open(sha256).catch((error: unknown) => {
        if (concernsOneBlob(error)) return null
        throw error
      })
      if (opened === null) return false
      const { blob, attachment } = opened
      const part = Buffer.allocUnsafe(Math.min(PART_BYTES_MAX, attachment.length))
      try {
        return await moveParts({ length: attachment.length, bytes }, run, async (from) => {
          const bytes = await blob.read(part, from)
          return peer.sendBlobPart(sha256, from, part.subarray(0, bytes))
        })
      } finally {
        await blob.close()
      }
    },
  }
}

/**
 * Moves a blob part by part. `movePart` moves the part at offset `from`, and returns the number of bytes that the
 * receiver then has, or null if the blob cannot be moved. Returns whether the receiver has the whole blob.
 */
async function moveParts(
  { length, bytes }: Pick<MissingBlob, 'length' | 'bytes'>,
  { isStopped, onProgress }: BlobRun,
  movePart: (from: number) => Promise<number | null>,
): Promise<boolean> {
  // Twice the number of parts, because the receiver may have lost parts that it had. Bounded, because it may also lie.
  const partsMax = 2 * Math.ceil(length / PART_BYTES_MAX) + 2
  let from = bytes
  for (let parts = 0; parts < partsMax && !isStopped(); parts += 1) {
    const arrived = await movePart(from)
    if (arrived !== null && arrived > from) onProgress()
    if (arrived === length) return true
    if (arrived === null || arrived === from) return false
    from = arrived
  }
  return false
}

/** Returns whether the disk of this node failed. */
function isUnreadable(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'STORE_FAILED'
}

/** Returns whether the error concerns only one blob, so that other blobs can still be moved. */
function concernsOneBlob(error: unknown): boolean {
  if (error instanceof StoreError) return error.code === 'CONTENT_DIFFERS'
  return error instanceof PeerError && error.code.startsWith('CONTENT_')
}
