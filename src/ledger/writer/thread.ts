import assert from 'node:assert/strict'
import { randomFillSync } from 'node:crypto'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import { HASH_BYTES, type Head, headOf, sealBlock } from '../../chain/index.ts'
import { openStore, type Store, StoreError } from '../../storage/index.ts'
import { decodeBatch } from './batch-text.ts'
import type { FromWriter, ToWriter, WriterStart } from './messages.ts'
import { planBatch } from './plan.ts'

// The program of the writer's thread: the only place where blocks are sealed and stored, so that
// neither hashing nor waiting for the disk ever holds up the event loop that serves requests.
//
// What a crash leaves, at each point:
// - before `append`: nothing was stored, nobody was answered; the clients see a broken connection.
// - inside `append`: the engine's transaction leaves all of the block and its effects, or nothing.
// - after it, before the answer is sent: the change is there and nobody was told. Whoever asks again
//   with an id of his own meets ITEM_EXISTS.
// In no case is an answer sent for what is not on the disk.

/** Entries of one block, beyond which a message waits for the next; a larger one goes alone. */
const BLOCK_ENTRIES = 1_024
/** Bytes of one block, likewise. */
const BLOCK_BYTES = 4 * 1024 * 1024
/** Pieces of upkeep run this long after a block. */
const TIDY_PAUSE_MS = 5

type Units = Extract<ToWriter, { units: string }>

class WriterThread {
  readonly #store: Store
  readonly #difficulty: number
  readonly #port: MessagePort
  #head: Head | null
  #stopped = false
  #tidying: NodeJS.Timeout | null = null
  /** Received and not yet taken, oldest first. */
  readonly #waiting: ToWriter[] = []
  #working = false

  constructor(store: Store, head: Head | null, difficulty: number, port: MessagePort) {
    this.#store = store
    this.#head = head
    this.#difficulty = difficulty
    this.#port = port
  }

  /** Group commit: everything that came while the last block was written goes into the next one. */
  async receive(message: ToWriter): Promise<void> {
    this.#waiting.push(message)
    if (this.#working) return
    this.#working = true
    for (let group = this.#nextGroup(); group.length > 0; group = this.#nextGroup()) {
      await this.#write(group)
    }
    this.#working = false
    if (this.#waiting.length > 0) await this.#close()
  }

  /** The messages that make the next block; empty when none is waiting, or `close` is the next. */
  #nextGroup(): Units[] {
    for (
      let more = receiveMessageOnPort(this.#port);
      more;
      more = receiveMessageOnPort(this.#port)
    ) {
      this.#waiting.push(more.message)
    }
    const group: Units[] = []
    let entries = 0
    let bytes = 0
    for (const message of this.#waiting) {
      if ('close' in message) break
      entries += message.entries
      bytes += message.bytes
      if (group.length > 0 && (entries > BLOCK_ENTRIES || bytes > BLOCK_BYTES)) break
      group.push(message)
    }
    this.#waiting.splice(0, group.length)
    return group
  }

  async #write(group: readonly Units[]): Promise<void> {
    const messages = group.length
    if (this.#stopped) {
      const reason = 'the store failed'
      this.#send({ messages, refused: 'WRITER_STOPPED', reason, stopped: true })
      return
    }
    try {
      const height = this.#head === null ? 0 : this.#head.height + 1
      const units = decodeBatch(group.map((message) => message.units).join(''))
      const { entries, effects, outcomes } = await planBatch(this.#store, units, height)
      if (entries.length === 0) {
        this.#send({ messages, block: null, outcomes })
        return
      }
      const nowMs = Math.max(...group.map((message) => message.nowMs))
      const block = sealBlock(this.#head, this.#content(entries, nowMs), this.#difficulty)
      await this.#store.append(block, effects)
      this.#head = headOf(block)
      this.#send({ messages, block: { height, id: block.id }, outcomes })
      this.#tidySoon()
    } catch (error) {
      this.#refuse(messages, error)
    }
  }

  async #close(): Promise<void> {
    if (this.#tidying !== null) clearTimeout(this.#tidying)
    await this.#store.close()
    this.#send({ closed: true })
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
      blinds: randomFillSync(Buffer.allocUnsafe(entries.length * HASH_BYTES)),
    }
  }

  /** A full disk passes; after any other failure nobody knows what the disk holds, so stop. */
  #refuse(messages: number, error: unknown): void {
    const full = error instanceof StoreError && error.code === 'STORE_FULL'
    this.#stopped = !full
    const reason = error instanceof Error ? error.message : String(error)
    const refused = full ? 'STORE_FULL' : 'WRITER_STOPPED'
    this.#send({ messages, refused, reason, stopped: !full })
  }

  #tidySoon(): void {
    this.#tidying ??= setTimeout(() => void this.#tidy(), TIDY_PAUSE_MS)
  }

  async #tidy(): Promise<void> {
    this.#tidying = null
    if (this.#stopped) return
    try {
      if (await this.#store.tidy()) this.#tidySoon()
    } catch (error) {
      if (error instanceof StoreError && error.code === 'STORE_FULL') return
      this.#stopped = true
    }
  }
}

/** Opens the store and serves the messages of the main thread until it says close. */
async function run(start: WriterStart, port: MessagePort): Promise<void> {
  const send = (message: FromWriter) => port.postMessage(message)
  try {
    const store = openStore(start)
    const head = await store.head(start.serverId)
    if (head === null && (await store.databases()).length > 0) {
      throw new StoreError('STORE_DAMAGED', 'there are databases, but no chain they come from')
    }
    const writer = new WriterThread(store, head, start.difficulty, port)
    port.on('message', (message: ToWriter) => void writer.receive(message))
    send({ ready: true })
  } catch (error) {
    const code = error instanceof CodedError ? String(error.code) : 'STORE_FAILED'
    send({ code, failed: error instanceof Error ? error.message : String(error) })
  }
}

assert(parentPort !== null)
await run(workerData as WriterStart, parentPort)
