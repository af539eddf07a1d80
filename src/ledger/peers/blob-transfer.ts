import type { Clock } from '../../base/clock.ts'
import { StoreError, type StoreReader } from '../../storage/index.ts'
import {
  type AbsentBlob,
  type AbsentBlobs,
  type ChainBlobs,
  PART_BYTES_MAX,
} from './chain-blobs.ts'
import { PeerError } from './errors.ts'
import type { BlobSource, PeerClient } from './peer-client.ts'

const BLOBS_PER_PAGE = 16
/** Delay before the blobs that failed are tried again; it doubles up to the maximum. */
const RETRY_MS = 500
const RETRY_MS_MAX = 30_000
/** Delay before all blobs are checked again, since some may have been lost on the disk. */
const RESCAN_MS = 60_000
const RESCAN_MS_MAX = 3_600_000
/** Retries and rescans take at most one part in this many of the time. */
const TIME_SHARE = 10

/** Moves blobs of one chain between this node and another: fetches or pushes them. */
export interface BlobTransfer {
  /** Lists the next blobs that the receiver does not have. */
  absent(after: number, limit: number): Promise<AbsentBlobs>
  /** Moves a blob; returns whether the receiver has all of it. `isStopped` is called before each part. */
  move(blob: AbsentBlob, isStopped: () => boolean): Promise<boolean>
}

/**
 * Keeps the blobs of a chain in sync: moves those of new entries, retries those that failed, and from time to
 * time checks all of them again.
 */
export class BlobSync {
  readonly #clock: Clock
  readonly #rescans = new RescanSchedule()
  /** Entries up to this position have been checked. */
  #upTo = -1
  /** Position before the first blob that failed, or null. */
  #retryFrom: number | null = null
  #missing = 0
  #retryMs = RETRY_MS
  #retryAtMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Number of blobs that could not be moved, as far as checked. */
  get missing(): number {
    return this.#missing
  }

  /**
   * Moves blobs until all entries are checked or `isStopped`. After an error, the next call continues.
   * Errors: PeerError, OutboundError, StoreError.
   */
  async run(transfer: BlobTransfer, isStopped: () => boolean = () => false): Promise<void> {
    const startedMs = this.#clock.now()
    const isRescan = this.#rescans.begins(startedMs)
    const isRetry = isRescan || (this.#retryFrom !== null && startedMs >= this.#retryAtMs)
    if (isRetry) {
      this.#upTo = isRescan ? -1 : (this.#retryFrom ?? -1)
      this.#retryFrom = null
    }
    const failed = await this.#scan(transfer, isStopped)
    const endedMs = this.#clock.now()
    if (isRescan) this.#rescans.ended(endedMs, endedMs - startedMs)
    this.#missing = isRetry ? failed : this.#missing + failed
    if (failed === 0) return
    this.#retryMs = isRetry ? Math.min(2 * this.#retryMs, RETRY_MS_MAX) : RETRY_MS
    this.#retryAtMs = endedMs + Math.max(this.#retryMs, TIME_SHARE * (endedMs - startedMs))
  }

  /** Moves the blobs after `#upTo`; returns how many failed. */
  async #scan(transfer: BlobTransfer, isStopped: () => boolean): Promise<number> {
    let failed = 0
    for (let more = true; more && !isStopped(); ) {
      const page = await transfer.absent(this.#upTo, BLOBS_PER_PAGE)
      for (const blob of page.blobs) {
        if (await transfer.move(blob, isStopped)) continue
        this.#retryFrom ??= this.#upTo
        failed += 1
      }
      this.#upTo = page.upTo
      more = page.more
    }
    return failed
  }
}

/** Decides when all blobs of a chain are checked again. */
export class RescanSchedule {
  #dueMs: number | null = null

  /** Returns whether a rescan begins now. The first scan checks all blobs anyway. */
  begins(nowMs: number): boolean {
    const isDue = this.#dueMs !== null && nowMs >= this.#dueMs
    // Set now, so that a rescan that fails midway continues instead of starting over.
    if (isDue || this.#dueMs === null) this.#dueMs = nowMs + RESCAN_MS
    return isDue
  }

  /** Called after a rescan: a long one is followed by a long delay. */
  ended(nowMs: number, tookMs: number): void {
    const delayMs = Math.min(TIME_SHARE * tookMs, RESCAN_MS_MAX)
    this.#dueMs = Math.max(this.#dueMs ?? 0, nowMs + delayMs)
  }
}

/** Fetches the blobs of a mirrored chain from `source`. */
export function fetchingBlobs(source: BlobSource, blobs: ChainBlobs): BlobTransfer {
  return {
    absent: (after, limit) => blobs.absent(after, limit),
    async move(blob, isStopped) {
      const { sha256, length } = blob
      try {
        return await moveParts(blob, isStopped, async (from) => {
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

/** Pushes the blobs of the own chain to a mirror that cannot fetch them. */
export function pushingBlobs(
  peer: PeerClient,
  store: StoreReader,
  blobs: ChainBlobs,
): BlobTransfer {
  return {
    async absent(after, limit) {
      store.refresh()
      // Usually nothing was attached since, and the mirror need not be asked.
      const isNothingNew = (await store.attachments.byPosition(after, 1)).length === 0
      if (isNothingNew) return { blobs: [], upTo: after, more: false }
      return peer.absentBlobs(after, limit)
    },
    async move({ sha256, bytes }, isStopped) {
      const opened = await blobs.open(sha256).catch((error: unknown) => {
        if (concernsOneBlob(error)) return null
        throw error
      })
      if (opened === null) return false
      const { file, attachment } = opened
      const part = Buffer.allocUnsafe(Math.min(PART_BYTES_MAX, attachment.length))
      try {
        return await moveParts({ length: attachment.length, bytes }, isStopped, async (from) => {
          const { bytesRead } = await file.read(part, 0, part.length, from)
          return peer.sendBlobPart(sha256, from, part.subarray(0, bytesRead))
        })
      } finally {
        await file.close()
      }
    },
  }
}

/**
 * Moves a blob part by part. `movePart` moves the part at `from`, and returns how many bytes the receiver has
 * then, or null to give up. Returns whether the receiver has the whole blob.
 */
async function moveParts(
  { length, bytes }: Pick<AbsentBlob, 'length' | 'bytes'>,
  isStopped: () => boolean,
  movePart: (from: number) => Promise<number | null>,
): Promise<boolean> {
  for (let from = bytes; !isStopped(); ) {
    const arrived = await movePart(from)
    if (arrived === length) return true
    if (arrived === null || arrived === from) return false
    from = arrived
  }
  return false
}

/** Whether the error concerns one blob only, so that others can still be moved. */
function concernsOneBlob(error: unknown): boolean {
  if (error instanceof StoreError) return error.code === 'CONTENT_DIFFERS'
  return error instanceof PeerError && error.code.startsWith('CONTENT_')
}
