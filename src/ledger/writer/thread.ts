import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import { HASH_BYTES, type Head, sealBlock, unpackPosition } from '../../chain/index.ts'
import { DamageError, type Store, StoreError } from '../../storage/index.ts'
import { type Platform, systemPlatform, type ThreadPort } from '../platform.ts'
import type { Outcome, UnitOfWork } from '../unit-of-work.ts'
import { type FromWriter, type ToWriter, unpackBatch, type WriterStart } from './messages.ts'
import { type Plan, planBatch } from './plan.ts'

// The writer thread, the only place where blocks are sealed and stored: neither hashing nor waiting for the
// disk delays the event loop that serves requests.
//
// After a crash:
// - before `append`: nothing is stored and no request was answered; clients see a broken connection.
// - inside `append`: the transaction stores the whole block and its effects, or nothing.
// - after `append`, before the reply: the change is stored but unacknowledged. A retry with the same item
//   id gets ITEM_EXISTS; a retry with the same idempotency key gets the original reply.
// No reply is ever sent for a change that is not on disk.

/** Delay of maintenance after a block. */
const MAINTENANCE_DELAY_MS = 5
/** Delay of maintenance after the disk was full. */
const FULL_DELAY_MS = 1_000
/**
 * Delay of maintenance after it found a damaged part of the store. Longer, because a step may read the
 * whole file.
 */
const DAMAGED_DELAY_MS = 60_000
/** A longer step of maintenance is followed by a pause of PAUSE_FACTOR times its duration, up to PAUSE_MS_MAX. */
const LONG_STEP_MS = 100
const PAUSE_FACTOR = 4
const PAUSE_MS_MAX = 60_000

/**
 * Pause after a step of maintenance, milliseconds. It leaves most of the time to blocks: after an
 * erasure one step rewrites the whole file. Source: docs/decisions/0018-erasure.md.
 */
export function pauseAfter(stepMs: number): number {
  return stepMs < LONG_STEP_MS ? 0 : Math.min(PAUSE_FACTOR * stepMs, PAUSE_MS_MAX)
}

type Batch = Extract<ToWriter, { units: unknown }>

class WriterThread {
  readonly #store: Store
  readonly #difficulty: number
  readonly #port: ThreadPort
  readonly #platform: Platform
  #stopped = false
  /** Null if no maintenance is scheduled. */
  #cancelMaintenance: (() => void) | null = null
  #pauseMs = 0

  constructor(store: Store, difficulty: number, port: ThreadPort, platform: Platform) {
    this.#store = store
    this.#difficulty = difficulty
    this.#port = port
    this.#platform = platform
  }

  /**
   * Commits `units` as one block, then sends their outcomes. `refused` contains outcomes that are already
   * known, by index of the unit.
   */
  async write(
    units: readonly UnitOfWork[],
    batch: Pick<Batch, 'nowMs' | 'conditions'>,
    refused = new Map<number, Outcome>(),
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
          const reason = `nothing was written: ${messageOf(error)}`
          refused.set(unit, { code: 'STORE_DAMAGED', message: reason })
          return null
        }
      })
    } catch (error) {
      message = await this.#refusal(error, isAttempted)
    }
    if (message !== null) this.#send(message)
    // The append changed nothing, so the other units go into a block without the refused one.
    else await this.write(units, batch, refused)
  }

  async #append({ entries, effects, records }: Plan, head: Head | null, timestamp: number) {
    const content = {
      serverId: this.#store.serverId,
      entries,
      timestamps: new Array<number>(entries.length).fill(timestamp),
      blinds: this.#platform.random(entries.length * HASH_BYTES),
    }
    const block = sealBlock(head, content, this.#difficulty)
    const startedAt = performance.now()
    await this.#store.append(block, effects, records)
    const ms = performance.now() - startedAt
    this.scheduleMaintenance()
    const bytes = entries.reduce((sum, entry) => sum + Buffer.byteLength(entry), 0)
    return { height: block.height, id: block.id, entries: entries.length, bytes, ms }
  }

  /** Declares or removes an index durably; maintenance builds it. */
  async changeIndex({ index, db, path }: Extract<ToWriter, { index: string }>): Promise<void> {
    try {
      if (this.#stopped) throw new StoreError('STORE_FAILED', 'the store failed')
      const change = index === 'add' ? this.#store.addIndex : this.#store.removeIndex
      this.#send({ indexed: await change.call(this.#store, db, path) })
      this.scheduleMaintenance()
    } catch (error) {
      this.#send({ indexed: null, ...(await this.#refusal(error, true)) })
    }
  }

  async close(): Promise<void> {
    this.#cancelMaintenance?.()
    if (!this.#stopped) await this.#store.close()
    this.#send({ closed: true })
    this.#port.close()
  }

  #send(message: FromWriter): void {
    this.#port.postMessage(message)
  }

  /**
   * A full disk is temporary, and damage concerns only changes that need the damaged part. After any other
   * failure the state of the disk is unknown, so the writer stops. `isAttempted`: a write had started.
   */
  async #refusal(error: unknown, isAttempted: boolean) {
    const code = passingCodeOf(error)
    const stopped = code === null
    if (stopped) await this.#stop()
    const refused = code ?? ('WRITER_STOPPED' as const)
    return { refused, reason: messageOf(error), stopped, unknown: stopped && isAttempted }
  }

  /** Closes the store; later batches are rejected. */
  async #stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    // On a failed disk closing may fail too; the writer has stopped anyway.
    await this.#store.close().catch(() => {})
  }

  /** Runs due maintenance step by step, between blocks. */
  scheduleMaintenance(): void {
    this.#cancelMaintenance ??= this.#platform.schedule.after(
      Math.max(MAINTENANCE_DELAY_MS, this.#pauseMs),
      () => void this.#maintain(),
    )
  }

  async #maintain(): Promise<void> {
    this.#cancelMaintenance = null
    if (this.#stopped) return
    const { clock } = this.#platform
    const startedMs = clock.now()
    try {
      const isMoreDue = await this.#store.maintain()
      this.#pauseMs = pauseAfter(clock.now() - startedMs)
      if (isMoreDue) this.scheduleMaintenance()
    } catch (error) {
      const code = passingCodeOf(error)
      if (code !== null) {
        // Retries after a pause: disk space may become free without a change that would resume maintenance.
        this.#pauseMs = code === 'STORE_FULL' ? FULL_DELAY_MS : DAMAGED_DELAY_MS
        this.scheduleMaintenance()
        return
      }
      this.#send({ maintenanceFailed: messageOf(error) })
      await this.#stop()
    }
  }
}

/** Returns the code of a temporary failure, or null. */
function passingCodeOf(error: unknown): 'STORE_FULL' | 'STORE_DAMAGED' | null {
  if (!(error instanceof StoreError)) return null
  return error.code === 'STORE_FULL' || error.code === 'STORE_DAMAGED' ? error.code : null
}

/**
 * Returns the index of the unit whose entry needs a damaged part of the store; null for any other failure.
 */
function unitThatMetDamage(error: unknown, { outcomes }: Plan): number | null {
  if (!(error instanceof DamageError) || error.position === null) return null
  const { index: entry } = unpackPosition(error.position)
  return outcomes.findLastIndex((outcome) => 'index' in outcome && outcome.index <= entry)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Opens the store and handles the messages of the main thread until the last one. */
export async function serveWriter(
  start: WriterStart,
  port: ThreadPort,
  platform: Platform,
): Promise<void> {
  const send = (message: FromWriter) => port.postMessage(message)
  try {
    const store = await platform.openStore(start)
    const head = await store.head(start.serverId)
    if (head === null && (await store.databases()).length > 0) {
      throw new StoreError('STORE_DAMAGED', 'there are databases, but no chain they come from')
    }
    const writer = new WriterThread(store, start.difficulty, port, platform)
    // One block at a time: the next one starts when the previous one is durable or rejected.
    let done = Promise.resolve()
    port.on('message', (message: ToWriter) => {
      done = done.then(() => {
        if ('close' in message) return writer.close()
        if ('index' in message) return writer.changeIndex(message)
        return writer.write(unpackBatch(message.units), message)
      })
    })
    send({ ready: true })
    // An earlier run may have left an index half built or a deleted database half removed.
    writer.scheduleMaintenance()
  } catch (error) {
    const code = error instanceof CodedError ? String(error.code) : 'STORE_FAILED'
    send({ code, failed: messageOf(error) })
  }
}

if (parentPort !== null) await serveWriter(workerData as WriterStart, parentPort, systemPlatform)
