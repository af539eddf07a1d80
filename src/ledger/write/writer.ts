import assert from 'node:assert/strict'
import type { Clock } from '../../base/clock.ts'
import { startWorker, type WorkerThread } from '../../base/worker/worker.ts'
import { ENTRIES_BYTES_MAX, packPosition } from '../../chain/index.ts'
import {
  type IndexOutcome,
  StoreError,
  type StoreErrorCode,
  type StoreOptions,
} from '../../storage/index.ts'
import { LedgerError, type LedgerErrorCode, ownedByNetwork, STORE_OUTAGES } from '../errors.ts'
import type { Platform } from '../platform.ts'
import {
  type CommittedBlock,
  type FromWriter,
  type PackedBatch,
  type PackedCommit,
  packRequest,
  type SeenBlock,
  type StoreRefusal,
  type ToWriter,
  unpackReply,
} from './messages.ts'
import type { RequestConditions } from './request-conditions.ts'
import {
  type EarlierRequest,
  type Erased,
  requireUnitBytes,
  type UnitOfWork,
  type UnitOutcome,
  withAuthorship,
} from './unit-of-work.ts'

/** Maximum entries per block. A single larger unit of work gets a separate block. */
const BLOCK_ENTRIES_MAX = 1_024
/** Estimated bytes at which a block is complete. A single larger unit of work gets a separate block. */
const BLOCK_BYTES = ENTRIES_BYTES_MAX / 16
/** Fraction of these bounds from which on a few large units close a block at once. */
const BLOCK_FULL = 0.75
/** V8 young generation of the writer thread. The default (48 MB) would dominate the node's memory. */
const YOUNG_GENERATION_MB = 12

// Group commit, tuned with `npm run bench -- ledger single` (docs/decisions/0004-group-commit.md). A block closes when
// it contains BATCH_FRACTION of the concurrent requests, so that the thread commits one block while the event loop
// fills the next. Otherwise clients that wait for each reply would synchronize: the event loop would idle while the
// thread commits, and vice versa. With fewer than BATCH_MIN concurrent requests, blocks are not split, unless the
// requests almost fill a block, like those of a load. While no block is in flight, a block stays open as long as every
// event-loop iteration brings more requests, because one large block costs far less than several small blocks.
const BATCH_FRACTION = 0.4
const BATCH_MIN = 8
/** Maximum event-loop iterations to wait for more requests before a block closes. */
const BATCH_DELAY_ITERATIONS_MAX = 16
/** Maximum blocks in flight: one being committed, one queued in the thread. */
const BLOCKS_IN_FLIGHT_MAX = 2

/** Maximum bytes of pending changes. Changes beyond this or the next two limits are rejected with WRITER_BUSY. */
const QUEUE_BYTES_MAX = 2 * ENTRIES_BYTES_MAX
/** Maximum pending units of work. */
const QUEUE_UNITS_MAX = 20_000
/** Maximum pending index changes. */
const INDEX_CHANGES_MAX = 100

export interface RecordedUnit extends Partial<Erased> {
  readonly height: number
  /** Index of the first entry in the block. */
  readonly index: number
  readonly blockId: string
}

/** Returns the packed position of the first entry. */
export function firstPosition(recorded: RecordedUnit | EarlierRequest): number {
  return 'entries' in recorded ? recorded.position : packPosition(recorded.height, recorded.index)
}

interface PendingUnit {
  /** Replaced by an empty unit after it was sent, to free memory. */
  unit: UnitOfWork
  readonly entries: number
  readonly conditions: RequestConditions | undefined
  readonly bytes: number
  readonly resolve: (recorded: RecordedUnit | EarlierRequest) => void
  readonly reject: (error: Error) => void
}

type WriterWorker = WorkerThread<ToWriter | PackedBatch, FromWriter | PackedCommit>

interface PendingIndexChange {
  readonly resolve: (outcome: IndexOutcome) => void
  readonly reject: (error: Error) => void
}

/**
 * Batches concurrent changes into blocks and commits them in a worker thread (`writer-thread.ts`).
 *
 * A single write is committed immediately. Concurrent writes share one fsync.
 */
export class LedgerWriter {
  readonly #clock: Clock
  readonly #worker: WriterWorker
  /** Pending units, oldest first. */
  #queue: PendingUnit[] = []
  /** The units of each block in flight, oldest first. */
  #inFlight: PendingUnit[][] = []
  /** Queue length at which a block closes without waiting for more. */
  #batchSize = Number.POSITIVE_INFINITY
  /** Index changes in the thread, oldest first. */
  #indexChanges: PendingIndexChange[] = []
  #queueBytes = 0
  /** The part of #queueBytes that is not in flight, and its number of entries. */
  #unsent = { bytes: 0, entries: 0 }
  #isBatchOpen = false
  #stopped: LedgerError | null = null
  #suspended: LedgerError | null = null
  /** The failure of the last block (STORE_FULL, STORE_DAMAGED, STORE_OUTAGES), or null if that block was stored. */
  #failed: LedgerError | null = null
  #closing = false
  /** Resolves when the thread has ended, for any reason. */
  readonly #ended = Promise.withResolvers<void>()

  onStored: (block: CommittedBlock) => void = () => {}
  /**
   * Called after each batch or index change, before its requests are answered. `last` is the packed position of the
   * last entry of the block, or null if no block was stored.
   */
  onCommit: (last: number | null) => void = () => {}
  /** Whether each change must have an author, because the node requires tokens. */
  isAuthorRequired = false
  /** Databases that only the networks of this process may change (`LedgerWrites.ownDatabase`). */
  readonly owned = new Set<string>()

  private constructor(worker: WriterWorker, clock: Clock) {
    this.#worker = worker
    this.#clock = clock
    worker.listen({
      message: (message) => this.#receive(unpackReply(message)),
      failed: ({ message }) => this.#stop(`the writer thread failed: ${message}`),
      ended: () => {
        this.#stop('the writer thread has ended')
        this.#ended.resolve()
      },
    })
  }

  /** Starts the thread, which opens the store. Errors: StoreError. */
  static start(
    start: StoreOptions,
    clock: Clock,
    platform: Pick<Platform, 'startThread'>,
  ): Promise<LedgerWriter> {
    const thread = {
      name: 'ledger-writer',
      program: [import.meta.url, './writer-thread'],
      workerData: start,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
      keepsAlive: true,
    } as const
    const worker: WriterWorker = startWorker(thread, platform)
    return new Promise((resolve, reject) => {
      worker.listen({
        message: (message) => {
          worker.listen(null)
          if ('failed' in message) {
            reject(new StoreError(message.code as StoreErrorCode, message.failed))
          } else resolve(new LedgerWriter(worker, clock))
        },
        failed: ({ message }) =>
          reject(new StoreError('STORE_FAILED', `the writer thread cannot start: ${message}`)),
      })
    })
  }

  /**
   * The reason why changes are rejected, or why the last block was not stored, or null:
   * - WRITER_STOPPED, STORE_ROLLED_BACK, CHAIN_DOUBTED;
   * - STORE_FULL, until a change is stored again or the disk has free space;
   * - STORE_DAMAGED, until a change is stored again;
   * - STORE_UNAVAILABLE, OUTCOME_UNKNOWN, until the database server answers again.
   */
  get failure(): LedgerError | null {
    return this.#stopped ?? this.#suspended ?? this.#failed
  }

  /** Rejects every later change with `error`. Pending changes are still written. */
  suspend(error: LedgerError): void {
    this.#suspended ??= error
  }

  /** Notes a block that this process has read or signed. See `Store.noteSeen`. */
  noteSeen(seen: SeenBlock): void {
    if (this.#stopped === null) this.#post({ seen })
  }

  /** Number of units that are queued or in flight. */
  get depth(): number {
    return this.#inFlight.reduce((sum, block) => sum + block.length, this.#queue.length)
  }

  get queueBytes(): number {
    return this.#queueBytes
  }

  /**
   * Records `unit` durably. With `conditions`, may return the result of an earlier request. Errors: LedgerError. After
   * OUTCOME_UNKNOWN or WRITER_STOPPED, the unit may have been recorded; after any other error, nothing was recorded.
   */
  record(unit: UnitOfWork): Promise<RecordedUnit>
  record(
    unit: UnitOfWork,
    conditions: RequestConditions & { readonly idempotency: null },
  ): Promise<RecordedUnit>
  record(
    unit: UnitOfWork,
    conditions: RequestConditions | undefined,
  ): Promise<RecordedUnit | EarlierRequest>
  record(unit: UnitOfWork, conditions?: RequestConditions): Promise<RecordedUnit | EarlierRequest> {
    return new Promise((resolve, reject) => {
      this.#requireOpen()
      if (this.#suspended !== null) throw this.#suspended
      const authored = withAuthorship(unit, conditions ?? {})
      const isAnonymous = this.isAuthorRequired && authored.some(({ by }) => by === undefined)
      assert(!isAnonymous, 'a change has no author')
      const bytes = requireUnitBytes(authored)
      const byNetwork = conditions?.network !== undefined
      if (!byNetwork && this.owned.size > 0) requireNotOwned(unit, this.owned)
      if (
        this.#queue.length >= QUEUE_UNITS_MAX ||
        (this.#queueBytes > 0 && this.#queueBytes + bytes > QUEUE_BYTES_MAX)
      ) {
        throw busy()
      }
      const entries = unit.length
      this.#queue.push({ unit: authored, entries, conditions, bytes, resolve, reject })
      this.#queueBytes += bytes
      this.#unsent.bytes += bytes
      this.#unsent.entries += unit.length
      // A network batches its changes itself, so the block need not wait for more requests.
      if (byNetwork || this.#isBlockDue()) this.#next()
      else this.#openBatch()
    })
  }

  /** Declares or removes an index. Errors: WRITER_STOPPED, WRITER_BUSY, STORE_FULL, STORE_DAMAGED. */
  changeIndex(index: 'add' | 'remove', name: { db: string; path: string }): Promise<IndexOutcome> {
    return new Promise((resolve, reject) => {
      this.#requireOpen()
      if (this.#indexChanges.length >= INDEX_CHANGES_MAX) throw busy()
      this.#indexChanges.push({ resolve, reject })
      this.#post({ index, ...name })
    })
  }

  #requireOpen(): void {
    if (this.#stopped !== null) throw this.#stopped
    if (this.#closing) throw new LedgerError('WRITER_STOPPED', 'the node is closing')
  }

  /** Writes the pending changes, then closes the store. Later changes are rejected. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#stopped === null) this.#next()
    else void this.#worker.terminate()
    await this.#ended.promise
  }

  /** Returns whether the queue need not wait for more requests. */
  #isBlockDue(): boolean {
    const { bytes, entries } = this.#unsent
    const isFull = bytes >= BLOCK_FULL * BLOCK_BYTES || entries >= BLOCK_FULL * BLOCK_ENTRIES_MAX
    return this.#queue.length >= this.#batchSize || (isFull && this.#queue.length < BATCH_MIN)
  }

  /**
   * Sends a block after an event-loop iteration that brings no more requests, or after BATCH_DELAY_ITERATIONS_MAX
   * iterations. A single write waits one iteration.
   */
  #openBatch(): void {
    if (this.#inFlight.length > 0 || this.#isBatchOpen) return
    this.#isBatchOpen = true
    let length = this.#queue.length
    let iterations = 0
    const iterate = (): void => {
      iterations += 1
      if (this.#queue.length > length && iterations < BATCH_DELAY_ITERATIONS_MAX) {
        length = this.#queue.length
        setImmediate(iterate)
        return
      }
      this.#isBatchOpen = false
      this.#next()
    }
    setImmediate(iterate)
  }

  /** Sends the next block, or closes the thread when nothing is pending. */
  #next(): void {
    if (this.#inFlight.length === BLOCKS_IN_FLIGHT_MAX || this.#stopped !== null) return
    if (this.#queue.length > 0) this.#sendBlock()
    else if (this.#closing && this.#inFlight.length === 0 && this.#indexChanges.length === 0) {
      this.#post({ close: true })
    }
  }

  #sendBlock(): void {
    let entries = 0
    let bytes = 0
    let count = 0
    for (const pending of this.#queue) {
      entries += pending.entries
      bytes += pending.bytes
      if (count > 0 && (entries > BLOCK_ENTRIES_MAX || bytes > BLOCK_BYTES)) break
      count += 1
    }
    const block = this.#queue.splice(0, count)
    for (const pending of block) {
      this.#unsent.bytes -= pending.bytes
      this.#unsent.entries -= pending.entries
    }
    this.#inFlight.push(block)
    const units = block.map(({ unit }) => unit)
    const conditions = new Map<number, RequestConditions>()
    for (const [at, pending] of block.entries()) {
      if (hasConditions(pending.conditions)) conditions.set(at, pending.conditions)
    }
    this.#post({
      units,
      nowMs: this.#clock.now(),
      ...(conditions.size === 0 ? {} : { conditions }),
    })
    for (const pending of block) pending.unit = []
  }

  #post(message: ToWriter): void {
    this.#worker.post(packRequest(message))
  }

  #receive(message: FromWriter): void {
    // The thread exits by itself. It is not terminated, because terminating a running thread can crash the process.
    if ('closed' in message) return
    if ('maintenanceFailed' in message) {
      this.#stop(message.maintenanceFailed, message.code)
      return
    }
    if ('available' in message) {
      if (STORE_OUTAGES.some((code) => code === this.#failed?.code)) this.#failed = null
      return
    }
    if ('hasSpace' in message) {
      if (this.#failed?.code === 'STORE_FULL') this.#failed = null
      return
    }
    if ('indexed' in message) {
      this.#receiveIndexed(message)
      return
    }
    const concurrent = this.depth
    this.#batchSize =
      concurrent < BATCH_MIN ? Number.POSITIVE_INFINITY : Math.ceil(concurrent * BATCH_FRACTION)
    const answered = this.#takeAnswered(message)
    for (const { bytes } of answered) this.#queueBytes -= bytes
    if ('outcomes' in message) {
      const { block, outcomes } = message
      if (block !== null) {
        this.#failed = null
        this.onStored(block)
      }
      this.onCommit(block === null ? null : packPosition(block.height, block.entries - 1))
      for (const [at, pending] of answered.entries()) {
        const error = settle(pending, block, outcomes[at])
        if (error?.code === 'STORE_DAMAGED') this.#failed ??= error
      }
    } else if ('refused' in message) {
      const summary = message.unknown
        ? 'the outcome of the write is unknown'
        : 'nothing was written'
      const error = this.#refusal(message, summary)
      for (const pending of answered) pending.reject(error)
      if (!message.stopped) this.#failed ??= error
    }
    // Sends the next block first, so that the thread works while the replies are sent.
    if (this.#closing || this.#isBlockDue()) this.#next()
    else if (this.#queue.length > 0) this.#openBatch()
  }

  /** Removes the units that `message` answers. The thread may divide a batch into several blocks. */
  #takeAnswered(message: FromWriter): PendingUnit[] {
    const [oldest = []] = this.#inFlight
    const answered = oldest.splice(
      0,
      'outcomes' in message ? message.outcomes.length : oldest.length,
    )
    if (oldest.length === 0) this.#inFlight.shift()
    return answered
  }

  #receiveIndexed(message: Extract<FromWriter, { indexed: unknown }>): void {
    const change = this.#indexChanges.shift()
    if (message.indexed === null) {
      const what = message.stopped
        ? 'it is unknown whether the index was changed'
        : 'nothing was changed'
      change?.reject(this.#refusal(message, what))
    } else {
      this.onCommit(null)
      change?.resolve(message.indexed)
    }
    if (this.#closing) this.#next()
  }

  /** Returns the error for a failure of the store. Stops the writer if the failure is permanent. */
  #refusal({ refused, reason, stopped }: StoreRefusal, what: string): LedgerError {
    // Later errors have the first error as their cause, because the HTTP listener logs each cause only once.
    const error = new LedgerError(refused, `${what}: ${reason}`, { cause: this.#failed })
    if (stopped) this.#stop(reason, refused, error)
    return error
  }

  #stop(reason: string, code: LedgerErrorCode = 'WRITER_STOPPED', cause?: LedgerError): void {
    this.#stopped ??= new LedgerError(code, reason, { cause })
    const pending = [...this.#inFlight.flat(), ...this.#queue, ...this.#indexChanges]
    this.#inFlight = []
    this.#indexChanges = []
    this.#queue = []
    this.#queueBytes = 0
    for (const { reject } of pending) reject(this.#stopped)
  }
}

/** Whether the thread needs the conditions: the operations already contain author and reason. */
function hasConditions(conditions: RequestConditions | undefined): conditions is RequestConditions {
  const { precondition, idempotency, network } = conditions ?? {}
  return Boolean(precondition) || Boolean(idempotency) || network !== undefined
}

function busy(): LedgerError {
  return new LedgerError('WRITER_BUSY', 'too many changes are pending; try again shortly')
}

/** Rejects a change of an owned database. Errors: OWNED_BY_NETWORK. */
function requireNotOwned(unit: UnitOfWork, owned: ReadonlySet<string>): void {
  for (const { db } of unit) if (owned.has(db)) throw ownedByNetwork(db)
}

/** Resolves or rejects a unit. Returns the error of a rejected unit. */
function settle(
  { resolve, reject }: PendingUnit,
  block: { height: number; id: string } | null,
  outcome: UnitOutcome | undefined,
): LedgerError | null {
  assert(outcome !== undefined)
  if ('code' in outcome) {
    const error = new LedgerError(outcome.code, outcome.message)
    reject(error)
    return error
  }
  if ('position' in outcome) resolve(outcome)
  else {
    assert(block !== null)
    resolve({ height: block.height, blockId: block.id, ...outcome })
  }
  return null
}
