import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import { HASH_BYTES, type Head, headOf, sealBlock } from '../../chain/index.ts'
import { type Store, StoreError } from '../../storage/index.ts'
import { type Machine, systemMachine, type ThreadPort } from '../machine.ts'
import type { Outcome } from '../unit-of-work.ts'
import { decodeUnit } from './batch-text.ts'
import type { FromWriter, ToWriter, WriterStart } from './messages.ts'
import { planBatch } from './plan.ts'
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

class WriterThread {
  readonly #store: Store
  readonly #difficulty: number
  readonly #port: ThreadPort
  readonly #machine: Machine
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
    machine: Machine,
  ) {
    this.#store = store
    this.#head = head
    this.#difficulty = difficulty
    this.#port = port
    this.#machine = machine
  }

  /** Makes one block of `units`, and answers when it is durable. */
  async write({ units, nowMs, terms }: Extract<ToWriter, { units: unknown }>): Promise<void> {
    if (this.#stopped) {
      this.#send({ refused: 'WRITER_STOPPED', reason: 'the store failed', stopped: true })
      return
    }
    try {
      const height = this.#head === null ? 0 : this.#head.height + 1
      const on = { nowMs: Math.max(nowMs, this.#head?.timestamp ?? 0), terms }
      const plan = await planBatch(this.#store, units.map(decodeUnit), height, on)
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
      this.#refuse(error)
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
      // Nothing was begun that is not taken back: whether the store can go on, the next block finds out.
      this.#send({ indexed: null, reason: error instanceof Error ? error.message : String(error) })
    }
  }

  /** Lets go of the store; nothing comes after it. */
  async close(): Promise<void> {
    this.#forgetTidying?.()
    await this.#store.close()
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
      blinds: this.#machine.random(entries.length * HASH_BYTES),
    }
  }

  /** A full disk passes; after any other failure nobody knows what the disk holds, so stop. */
  #refuse(error: unknown): void {
    const full = error instanceof StoreError && error.code === 'STORE_FULL'
    this.#stopped = !full
    const reason = error instanceof Error ? error.message : String(error)
    const refused = full ? 'STORE_FULL' : 'WRITER_STOPPED'
    this.#send({ refused, reason, stopped: !full })
  }

  /** Does what upkeep waits, in pieces, between blocks. */
  tidySoon(): void {
    this.#forgetTidying ??= this.#machine.schedule.after(
      Math.max(TIDY_PAUSE_MS, this.#restMs),
      () => void this.#tidy(),
    )
  }

  async #tidy(): Promise<void> {
    this.#forgetTidying = null
    if (this.#stopped) return
    const { clock } = this.#machine
    const startedMs = clock.now()
    try {
      const isMoreDue = await this.#store.tidy()
      this.#restMs = restAfter(clock.now() - startedMs)
      if (isMoreDue) this.tidySoon()
    } catch (error) {
      if (error instanceof StoreError && error.code === 'STORE_FULL') {
        // Room may come without a change that would have upkeep go on.
        this.#restMs = FULL_REST_MS
        this.tidySoon()
        return
      }
      this.#stopped = true
    }
  }
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
  machine: Machine,
): Promise<void> {
  const send = (message: FromWriter) => port.postMessage(message)
  try {
    const store = machine.openStore(start)
    const head = await store.head(start.serverId)
    if (head === null && (await store.databases()).length > 0) {
      throw new StoreError('STORE_DAMAGED', 'there are databases, but no chain they come from')
    }
    const writer = new WriterThread(store, { head, difficulty: start.difficulty }, port, machine)
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

if (parentPort !== null) await serveWriter(workerData as WriterStart, parentPort, systemMachine)
