import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import { HASH_BYTES, type Head, headOf, packPosition, sealBlock } from '../../chain/index.ts'
import { DamageError, type Store, StoreError } from '../../storage/index.ts'
import { type Platform, systemPlatform, type ThreadPort } from '../platform.ts'
import type { Outcome } from '../unit-of-work.ts'
import { decodeUnit } from './batch-text.ts'
import type { FromWriter, ToWriter, WriterStart } from './messages.ts'
import { type Plan, planBatch } from './plan.ts'
import { restAfter } from './upkeep-rest.ts'

// The program of the writer's thread: the only place where blocks are sealed and stored, so that
// neither hashing nor waiting for the disk ever holds up the event loop that serves requests.
//
// What a crash leaves, at each point:
// - before `append`: nothing was stored, nobody was answered; the clients see a broken connection.
// - inside `append`: the engine's transaction leaves all of the block and its effects, or nothing.
// - after it, before the answer is sent: the change is there and nobody was told. Whoever asks again
//   with an id of his own meets ITEM_EXISTS; with an idempotency key he gets the answer.
// In no case is an answer sent for what is not on the disk.

/** Pieces of upkeep run this long after a block. */
const TIDY_PAUSE_MS = 5
/** Upkeep that found no room is tried again after this. */
const FULL_REST_MS = 1_000
/** Upkeep that met a damaged part of the store, likewise; some of it reads the whole file. */
const DAMAGED_REST_MS = 60_000

/** What is to become one block. */
type Batch = Extract<ToWriter, { units: unknown }>

class WriterThread {
  readonly #store: Store
  readonly #difficulty: number
  readonly #port: ThreadPort
  readonly #platform: Platform
  #head: Head | null
  #stopped = false
  /** Forgets the piece of upkeep that is due; null when none is. */
  #forgetTidying: (() => void) | null = null
  /** For how long there is no upkeep, after a long piece of it; milliseconds. */
  #restMs = 0

  constructor(
    store: Store,
    { head, difficulty }: { head: Head | null; difficulty: number },
    port: ThreadPort,
    platform: Platform,
  ) {
    this.#store = store
    this.#head = head
    this.#difficulty = difficulty
    this.#port = port
    this.#platform = platform
  }

  /**
   * Makes one block of the units of `batch`, and answers when it is durable. `refused` are outcomes that
   * are known already, by the place of their unit.
   */
  async write(batch: Batch, refused = new Map<number, Outcome>()): Promise<void> {
    if (this.#stopped) {
      const reason = 'the store failed'
      this.#send({ refused: 'WRITER_STOPPED', reason, stopped: true, unknown: false })
      return
    }
    const { units, nowMs, terms } = batch
    const height = this.#head === null ? 0 : this.#head.height + 1
    let plan: Plan | null = null
    try {
      const on = { nowMs: Math.max(nowMs, this.#head?.timestamp ?? 0), terms }
      plan = await planBatch(this.#store, units.map(decodeUnit), height, on, refused)
      const { entries, effects, answers, outcomes } = plan
      if (entries.length === 0) {
        this.#send({ block: null, outcomes })
        return
      }
      const block = sealBlock(this.#head, this.#content(entries, nowMs), this.#difficulty)
      const startedAt = performance.now()
      await this.#store.append(block, effects, answers)
      const ms = performance.now() - startedAt
      this.#head = headOf(block)
      let bytes = 0
      for (const entry of entries) bytes += Buffer.byteLength(entry)
      const committed = { height, id: block.id, entries: entries.length, bytes, ms }
      this.#send({ block: committed, outcomes: isOneEach(outcomes) ? null : outcomes })
      this.tidySoon()
    } catch (error) {
      const unit = plan === null ? null : unitThatMetDamage(error, plan, height)
      if (unit === null) {
        this.#send(await this.#refusal(error, plan !== null))
        return
      }
      // The append changed nothing: the others go into a block without this unit.
      const message = `nothing was written: ${messageOf(error)}`
      await this.write(batch, refused.set(unit, { code: 'STORE_DAMAGED', message }))
    }
  }

  /** Declares or removes an index, which is durable when it is answered; building it is upkeep. */
  async changeIndex({ index, db, path }: Extract<ToWriter, { index: string }>): Promise<void> {
    try {
      if (this.#stopped) throw new StoreError('STORE_FAILED', 'the store failed')
      const change = index === 'add' ? this.#store.addIndex : this.#store.removeIndex
      this.#send({ indexed: await change.call(this.#store, db, path) })
      this.tidySoon()
    } catch (error) {
      this.#send({ indexed: null, ...(await this.#refusal(error, true)) })
    }
  }

  /** Lets go of the store; nothing comes after it. */
  async close(): Promise<void> {
    this.#forgetTidying?.()
    if (!this.#stopped) await this.#store.close()
    this.#send({ closed: true })
    this.#port.close()
  }

  #send(message: FromWriter): void {
    this.#port.postMessage(message)
  }

  #content(entries: string[], nowMs: number) {
    // Timestamps never decrease along the chain, also when the clock is set back.
    const timestamp = Math.max(nowMs, this.#head?.timestamp ?? 0)
    return {
      serverId: this.#store.serverId,
      entries,
      timestamps: new Array<number>(entries.length).fill(timestamp),
      blinds: this.#platform.random(entries.length * HASH_BYTES),
    }
  }

  /**
   * A full disk passes, and a damaged part of the store concerns only what needs it; after any other
   * failure nobody knows what the disk holds, so stop. `isAttempted`: whether something was being written.
   */
  async #refusal(error: unknown, isAttempted: boolean) {
    const code = passingCodeOf(error)
    const stopped = code === null
    if (stopped) await this.#stop()
    const refused = code ?? ('WRITER_STOPPED' as const)
    return { refused, reason: messageOf(error), stopped, unknown: stopped && isAttempted }
  }

  /** Lets go of the store: this process writes nothing to it any more. */
  async #stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    // A disk that failed may fail here, too; the writer has stopped either way.
    await this.#store.close().catch(() => {})
  }

  /** Does what upkeep waits, in pieces, between blocks. */
  tidySoon(): void {
    this.#forgetTidying ??= this.#platform.schedule.after(
      Math.max(TIDY_PAUSE_MS, this.#restMs),
      () => void this.#tidy(),
    )
  }

  async #tidy(): Promise<void> {
    this.#forgetTidying = null
    if (this.#stopped) return
    const { clock } = this.#platform
    const startedMs = clock.now()
    try {
      const isMoreDue = await this.#store.maintain()
      this.#restMs = restAfter(clock.now() - startedMs)
      if (isMoreDue) this.tidySoon()
    } catch (error) {
      const code = passingCodeOf(error)
      if (code !== null) {
        // Room may come without a change that would have upkeep go on.
        this.#restMs = code === 'STORE_FULL' ? FULL_REST_MS : DAMAGED_REST_MS
        this.tidySoon()
        return
      }
      this.#send({ maintenanceFailed: error instanceof Error ? error.message : String(error) })
      await this.#stop()
    }
  }
}

/** The code of a failure after which the store can go on, or null. */
function passingCodeOf(error: unknown): 'STORE_FULL' | 'STORE_DAMAGED' | null {
  if (!(error instanceof StoreError)) return null
  return error.code === 'STORE_FULL' || error.code === 'STORE_DAMAGED' ? error.code : null
}

/** The place of the unit whose entry met a damaged part of the store; null for any other failure. */
function unitThatMetDamage(error: unknown, { outcomes }: Plan, height: number): number | null {
  if (!(error instanceof DamageError) || error.position === null) return null
  const entry = error.position - packPosition(height, 0)
  return outcomes.findLastIndex((outcome) => 'index' in outcome && outcome.index <= entry)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Whether every unit made one entry, and nothing more is to be told of any. */
function isOneEach(outcomes: readonly Outcome[]): boolean {
  return outcomes.every(
    (outcome, at) => 'index' in outcome && outcome.index === at && outcome.freed === undefined,
  )
}

/** Opens the store and serves the messages of the main thread until it says close. */
export async function serveWriter(
  start: WriterStart,
  port: ThreadPort,
  platform: Platform,
): Promise<void> {
  const send = (message: FromWriter) => port.postMessage(message)
  try {
    const store = platform.openStore(start)
    const head = await store.head(start.serverId)
    if (head === null && (await store.databases()).length > 0) {
      throw new StoreError('STORE_DAMAGED', 'there are databases, but no chain they come from')
    }
    const writer = new WriterThread(store, { head, difficulty: start.difficulty }, port, platform)
    // Blocks follow each other: the next is begun when the one before it is durable or refused.
    let done = Promise.resolve()
    port.on('message', (message: ToWriter) => {
      done = done.then(() => {
        if ('close' in message) return writer.close()
        if ('index' in message) return writer.changeIndex(message)
        return writer.write(message)
      })
    })
    send({ ready: true })
    // What an earlier run left undone: an index half built, a deleted database half cleared away.
    writer.tidySoon()
  } catch (error) {
    const code = error instanceof CodedError ? String(error.code) : 'STORE_FAILED'
    send({ code, failed: error instanceof Error ? error.message : String(error) })
  }
}

if (parentPort !== null) await serveWriter(workerData as WriterStart, parentPort, systemPlatform)
