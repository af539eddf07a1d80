import { CodedError } from '../../base/coded-error.ts'
import { errorMessage } from '../../base/errors.ts'
import { serveThread, type ThreadPort } from '../../base/worker/worker.ts'
import { HASH_BYTES, type Head, sealBlock, unpackPosition } from '../../chain/index.ts'
import { DamageError, type Store, StoreError, type StoreOptions } from '../../storage/index.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import {
  type FromWriter,
  type PackedBatch,
  type PackedCommit,
  packReply,
  type ToWriter,
  unpackRequest,
} from './messages.ts'
import { type Plan, planBatch } from './plan.ts'
import type { RequestConditions } from './request-conditions.ts'
import type { UnitOfWork, UnitOutcome } from './unit-of-work.ts'

// Program of the writer thread. Only this thread seals and stores blocks, so neither hashing nor waiting for the disk
// delays the event loop that serves requests.
//
// If the process crashes:
// - before `append`, nothing is stored and no request was answered. Clients see a broken connection.
// - inside `append`, the transaction stores the whole block and its effects, or nothing.
// - after `append`, before the reply, the change is stored but unacknowledged. A retry with the same item id gets
//   ITEM_EXISTS. A retry with the same idempotency key gets the original reply.
//
// With a database server, `append` may lose the connection during the commit. The store then checks whether the block
// was stored, or rejects with OUTCOME_UNKNOWN. The next batch reads the head again. No reply confirms a change that is
// not durable.

/** Delay of maintenance after a block. Without a block since the last step, the next step follows at once. */
const MAINTENANCE_DELAY_MS = 20
/** Interval of maintenance without blocks, for work that other processes of the node have left. */
const IDLE_DELAY_MS = 10_000
/** Delay of maintenance after the disk was full, or the database server did not answer. */
const OUTAGE_DELAY_MS = 1_000
/**
 * Growth of the free disk space after which the node reports that the disk is no longer full. Most blocks need less
 * space, because they have about 4 MiB and are stored up to three times.
 */
const SPACE_GROWTH_BYTES = 32 * 1024 * 1024
/** Random bytes that are drawn at once for the blinds, because drawing the 32 bytes of one takes longer than hashing an entry. */
const RANDOM_BYTES = 8_192
/** Maximum attempts to write a block while other processes append first. */
const ATTEMPTS_MAX = 8
/**
 * Delay of maintenance after a step found a damaged part of the store. The delay is long, because a step may read the
 * whole file.
 */
const DAMAGED_DELAY_MS = 60_000
/** Minimum duration of a maintenance step after which maintenance pauses for PAUSE_FACTOR times as long. */
const LONG_STEP_MS = 100
const PAUSE_FACTOR = 4
const PAUSE_MS_MAX = 60_000

/**
 * Returns the pause after a maintenance step, milliseconds. After an erasure, one step rewrites the whole file, so the
 * pause leaves most of the time to blocks. Source: docs/decisions/0018-erasure.md.
 */
export function pauseAfter(stepMs: number): number {
  return stepMs < LONG_STEP_MS ? 0 : Math.min(PAUSE_FACTOR * stepMs, PAUSE_MS_MAX)
}

type Batch = Extract<ToWriter, { units: unknown }>
type Port = ThreadPort<ToWriter | PackedBatch, FromWriter | PackedCommit>

class WriterThread {
  readonly #store: Store
  readonly #port: Port
  readonly #platform: Platform
  #stopped = false
  /** Null if no maintenance is scheduled. */
  #cancelMaintenance: (() => void) | null = null
  #cancelIdleMaintenance: (() => void) | null = null
  #pauseMs = 0
  /** Unused random bytes. */
  #random: Buffer = Buffer.alloc(0)
  #hasAppended = false
  /** Free disk space in bytes when the disk was full; null if it is not full or belongs to a database server. */
  #freeBytesWhenFull: number | null = null
  /** Whether the database server did not answer the last batch. */
  #isUnavailable = false
  /** Resolves when the store is free, because calls of the store must not overlap. */
  #last: Promise<void> = Promise.resolve()

  constructor(store: Store, port: Port, platform: Platform) {
    this.#store = store
    this.#port = port
    this.#platform = platform
  }

  /** Handles one message at a time. The next block starts when the previous block is durable or rejected. */
  receive(message: ToWriter): void {
    // Noted at once, so that it also concerns the batches that wait.
    if ('seen' in message) this.#store.noteSeen(message.seen)
    else this.#handle(message)
  }

  #handle(message: Exclude<ToWriter, { seen: unknown }>): void {
    this.#run(() => {
      if ('close' in message) return this.#close()
      if ('index' in message) return this.#changeIndex(message)
      return this.#write(message.units, message)
    })
  }

  #run(work: () => Promise<void>): void {
    this.#last = this.#last.then(work)
  }

  /**
   * Commits `units` as one block, or as several if they do not fit into one, and sends their outcomes. `refused` contains outcomes that are already
   * known, by index of the unit.
   */
  async #write(
    units: readonly UnitOfWork[],
    batch: Pick<Batch, 'nowMs' | 'conditions'>,
    refused = new Map<number, UnitOutcome>(),
    attempt = 1,
  ): Promise<void> {
    if (this.#stopped) {
      const reason = 'the store failed'
      this.#send({ refused: 'WRITER_STOPPED', reason, stopped: true, unknown: false })
      return
    }
    let isAttempted = false
    let message: FromWriter | null
    try {
      message = await this.#store.exclusive(async (head) => {
        const height = head === null ? 0 : head.height + 1
        // Timestamps never decrease along the chain, even if the clock is set back.
        const nowMs = Math.max(batch.nowMs, head?.timestamp ?? 0)
        const context = { nowMs, conditions: batch.conditions }
        const plan = await planBatch(this.#store, units, height, context, refused)
        const { entries, outcomes } = plan
        if (entries.length === 0) return { block: null, outcomes }
        isAttempted = true
        try {
          return { block: await this.#append(plan, head, nowMs), outcomes }
        } catch (error) {
          const unit = unitThatMetDamage(error, plan)
          if (unit === null) throw error
          const reason = `nothing was written: ${errorMessage(error)}`
          refused.set(unit, { code: 'STORE_DAMAGED', message: reason })
          return null
        }
      })
    } catch (error) {
      const hasMoved = error instanceof StoreError && error.code === 'HEAD_MOVED'
      // Another process has appended first. Nothing was written, so the units are planned on the new head.
      const isRetried = hasMoved && attempt < ATTEMPTS_MAX
      message = isRetried ? null : await this.#refusal(error, isAttempted)
    }
    // The failed append has changed nothing. The next attempt leaves out a unit that was refused because of damage.
    if (message === null) return this.#write(units, batch, refused, attempt + 1)
    this.#send(message)
    const answered = 'outcomes' in message ? message.outcomes.length : units.length
    if (answered === units.length) return
    const conditions = new Map<number, RequestConditions>()
    for (const [at, one] of batch.conditions ?? []) {
      if (at >= answered) conditions.set(at - answered, one)
    }
    await this.#write(units.slice(answered), { ...batch, conditions })
  }

  async #append({ entries, effects, records }: Plan, head: Head | null, timestamp: number) {
    const content = {
      serverId: this.#store.serverId,
      entries,
      timestamps: new Array<number>(entries.length).fill(timestamp),
      blinds: this.#takeRandom(entries.length * HASH_BYTES),
    }
    const block = sealBlock(head, content)
    const startedAt = performance.now()
    await this.#store.append(block, effects, records)
    const ms = performance.now() - startedAt
    this.#freeBytesWhenFull = null
    this.#hasAppended = true
    this.scheduleMaintenance()
    const bytes = entries.reduce((sum, entry) => sum + Buffer.byteLength(entry), 0)
    return { height: block.height, id: block.id, entries: entries.length, bytes, ms }
  }

  #takeRandom(bytes: number): Buffer {
    if (this.#random.length < bytes) {
      this.#random = this.#platform.random(Math.max(bytes, RANDOM_BYTES))
    }
    const taken = this.#random.subarray(0, bytes)
    this.#random = this.#random.subarray(bytes)
    return taken
  }

  /** Declares or removes an index durably. Maintenance builds a declared index. */
  async #changeIndex({ index, db, path }: Extract<ToWriter, { index: string }>): Promise<void> {
    try {
      if (this.#stopped) throw new StoreError('STORE_FAILED', 'the store failed')
      const change = index === 'add' ? this.#store.addIndex : this.#store.removeIndex
      this.#send({ indexed: await change.call(this.#store, db, path) })
      this.scheduleMaintenance()
    } catch (error) {
      this.#send({ indexed: null, ...(await this.#refusal(error, true)) })
    }
  }

  async #close(): Promise<void> {
    this.#cancelMaintenance?.()
    this.#cancelIdleMaintenance?.()
    if (!this.#stopped) await this.#store.close()
    this.#send({ closed: true })
    this.#port.close()
  }

  #send(message: FromWriter): void {
    this.#port.postMessage(packReply(message))
  }

  /**
   * Returns the refusal for `error`. A full disk and an outage of the database server are temporary, and damage
   * concerns only changes that need the damaged part. After any other failure, the state of the disk is unknown, so the
   * writer stops. `isAttempted`: whether a write had started.
   */
  async #refusal(error: unknown, isAttempted: boolean) {
    const code = findTemporaryCode(error)
    const stopped = code === null
    if (stopped) await this.#stop()
    if (code === 'STORE_UNAVAILABLE' || code === 'OUTCOME_UNKNOWN') {
      this.#isUnavailable = true
      this.#pauseMs = OUTAGE_DELAY_MS
      this.scheduleMaintenance()
    }
    if (code === 'STORE_FULL') {
      this.#freeBytesWhenFull = await this.#freeBytes()
      this.scheduleMaintenance()
    }
    const refused = code ?? toPermanentCode(error)
    const unknown = code === 'OUTCOME_UNKNOWN' || (stopped && isAttempted)
    return { refused, reason: errorMessage(error), stopped, unknown }
  }

  /** Closes the store. Later batches are rejected. */
  async #stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    // On a failed disk, closing may fail too. The error is ignored, because the writer has stopped anyway.
    await this.#store.close().catch(() => {})
  }

  /** Schedules the next maintenance step, which runs between two blocks. */
  scheduleMaintenance(): void {
    this.#cancelMaintenance ??= this.#platform.schedule.after(
      Math.max(this.#hasAppended ? MAINTENANCE_DELAY_MS : 0, this.#pauseMs),
      () => this.#run(() => this.#maintain()),
    )
  }

  #scheduleIdleMaintenance(): void {
    this.#cancelIdleMaintenance?.()
    this.#cancelIdleMaintenance = this.#platform.schedule.after(IDLE_DELAY_MS, () =>
      this.scheduleMaintenance(),
    )
  }

  async #maintain(): Promise<void> {
    this.#cancelMaintenance = null
    if (this.#stopped) return
    const { clock } = this.#platform
    const startedMs = clock.now()
    this.#hasAppended = false
    try {
      await this.#checkAvailability()
      const isFull = await this.#isStillFull()
      const isMoreDue = await this.#store.maintain()
      this.#pauseMs = isFull ? OUTAGE_DELAY_MS : pauseAfter(clock.now() - startedMs)
      if (isMoreDue || isFull) this.scheduleMaintenance()
      else if (this.#store.isShared) this.#scheduleIdleMaintenance()
    } catch (error) {
      const code = findTemporaryCode(error)
      if (code !== null) {
        // Retries after a pause, because disk space may become free without a change that would resume maintenance.
        this.#pauseMs = code === 'STORE_DAMAGED' ? DAMAGED_DELAY_MS : OUTAGE_DELAY_MS
        this.scheduleMaintenance()
        return
      }
      this.#send({ maintenanceFailed: errorMessage(error), code: toPermanentCode(error) })
      await this.#stop()
    }
  }

  /**
   * Reports the end of an outage. Without this check, a node that gets no changes while it is not ready would never
   * become ready again.
   */
  async #checkAvailability(): Promise<void> {
    if (!this.#isUnavailable) return
    await this.#store.exclusive(async () => {})
    this.#isUnavailable = false
    this.#send({ available: true })
  }

  /** Returns whether the disk is still full. Reports new space, for the same reason as `#checkAvailability`. */
  async #isStillFull(): Promise<boolean> {
    if (this.#freeBytesWhenFull === null) return false
    const freeBytes = await this.#freeBytes()
    if (freeBytes === null || freeBytes < this.#freeBytesWhenFull + SPACE_GROWTH_BYTES) return true
    this.#freeBytesWhenFull = null
    this.#send({ hasSpace: true })
    return false
  }

  /** Returns the free disk space in bytes; null if it belongs to a database server or cannot be read. */
  async #freeBytes(): Promise<number | null> {
    try {
      return (await this.#store.diskUsage()).freeBytes
    } catch {
      return null
    }
  }
}

type TemporaryCode = 'STORE_FULL' | 'STORE_DAMAGED' | 'STORE_UNAVAILABLE' | 'OUTCOME_UNKNOWN'

function findTemporaryCode(error: unknown): TemporaryCode | null {
  if (!(error instanceof StoreError)) return null
  const { code } = error
  switch (code) {
    case 'STORE_FULL':
    case 'STORE_DAMAGED':
    case 'STORE_UNAVAILABLE':
    case 'OUTCOME_UNKNOWN':
      return code
    // Nothing was written, and other processes can still write.
    case 'HEAD_MOVED':
      return 'STORE_UNAVAILABLE'
    default:
      return null
  }
}

function toPermanentCode(error: unknown): 'STORE_ROLLED_BACK' | 'WRITER_STOPPED' {
  const isRolledBack = error instanceof StoreError && error.code === 'STORE_ROLLED_BACK'
  return isRolledBack ? 'STORE_ROLLED_BACK' : 'WRITER_STOPPED'
}

/**
 * Returns the index of the unit whose entry needs a damaged part of the store, or null for any other failure.
 */
function unitThatMetDamage(error: unknown, { outcomes }: Plan): number | null {
  if (!(error instanceof DamageError) || error.position === null) return null
  const { index: entry } = unpackPosition(error.position)
  const unit = outcomes.findLastIndex((outcome) => 'index' in outcome && outcome.index <= entry)
  return unit === -1 ? null : unit
}

/** Opens the store, and handles the messages of the main thread until the request to close. */
export async function serveWriter(
  start: StoreOptions,
  port: Port,
  platform: Platform,
): Promise<void> {
  try {
    const store = await platform.openStore(start)
    // Reads the head after the databases. In the other order, another process could write the first blocks in between,
    // so that the store would seem to have databases but no chain.
    const databases = await store.databases()
    if (databases.length > 0 && (await store.head(start.serverId)) === null) {
      throw new StoreError('STORE_DAMAGED', 'the store has databases but no chain')
    }
    const writer = new WriterThread(store, port, platform)
    port.on('message', (message) => writer.receive(unpackRequest(message)))
    port.postMessage({ ready: true })
    // An earlier run may have left an index half built or a deleted database half removed.
    writer.scheduleMaintenance()
  } catch (error) {
    const code = error instanceof CodedError ? String(error.code) : 'STORE_FAILED'
    port.postMessage({ code, failed: errorMessage(error) })
  }
}

await serveThread((start: StoreOptions, port: Port) => serveWriter(start, port, systemPlatform))
