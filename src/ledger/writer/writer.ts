import assert from 'node:assert/strict'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../base/clock.ts'
import { StoreError, type StoreErrorCode } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { bytesOf, checkUnit, type Outcome, type UnitOfWork } from '../unit-of-work.ts'
import { encodeBatch } from './batch-text.ts'
import type { FromWriter, ToWriter, WriterStart } from './messages.ts'

/** Entries of one message to the thread, beyond which a unit goes with the next; one larger alone. */
const MESSAGE_ENTRIES = 512
/** Bytes of one message, likewise. */
const MESSAGE_BYTES = 1024 * 1024
/** Bytes that may wait; more is refused with WRITER_BUSY. */
const QUEUE_BYTES_MAX = 128 * 1024 * 1024
/** Units of work that may wait. */
const QUEUE_UNITS_MAX = 20_000

/** Where a unit of work was recorded. */
export interface Recorded {
  readonly height: number
  /** The index of its first entry in the block. */
  readonly index: number
  /** The id of the block. */
  readonly blockId: string
}

interface Waiting {
  readonly unit: UnitOfWork
  readonly bytes: number
  readonly resolve: (recorded: Recorded) => void
  readonly reject: (error: Error) => void
}

/**
 * The near end of group commit: sends units of work to the writer's thread, together those that
 * arrived in one turn of the event loop, and answers when they are durable. The thread (`thread.ts`)
 * makes one block of all that came while it was busy. So a lone write waits for nobody, and a
 * thousand at once share one wait for the disk.
 */
export class LedgerWriter {
  readonly #clock: Clock
  readonly #worker: Worker
  /** What arrived in this turn. */
  #arrived: Waiting[] = []
  /** What each unanswered message to the thread holds, oldest first. */
  #sent: Waiting[][] = []
  #waitingUnits = 0
  #waitingBytes = 0
  #scheduled = false
  #stopped: LedgerError | null = null
  #closing = false
  /** Resolves when the thread has ended, for whatever reason. */
  readonly #ended: Promise<void>

  /** Called when a block is durable, before anyone is answered. */
  onCommit: () => void = () => {}

  private constructor(worker: Worker, clock: Clock) {
    this.#worker = worker
    this.#clock = clock
    worker.on('message', (message: FromWriter) => this.#receive(message))
    worker.on('error', (error) => this.#stop(`the writer's thread failed: ${error.message}`))
    this.#ended = new Promise((resolve) => {
      worker.on('exit', () => {
        this.#stop("the writer's thread has ended")
        resolve()
      })
    })
  }

  /** Starts the thread and opens the store in it. Errors: StoreError. */
  static async start(start: WriterStart, clock: Clock): Promise<LedgerWriter> {
    // Sources run as they are, a build has only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const worker = new Worker(new URL(`./thread.${extension}`, import.meta.url), {
      name: 'ledger-writer',
      workerData: start,
    })
    await new Promise<void>((resolve, reject) => {
      worker.once('error', reject)
      worker.once('message', (message: FromWriter) => {
        worker.off('error', reject)
        if ('failed' in message)
          reject(new StoreError(message.code as StoreErrorCode, message.failed))
        else resolve()
      })
    })
    return new LedgerWriter(worker, clock)
  }

  /** Why nothing can be written any more, or null. */
  get stopped(): string | null {
    return this.#stopped?.message ?? null
  }

  /** Units of work that wait or are being written. */
  get depth(): number {
    return this.#waitingUnits
  }

  /**
   * Records `unit`: when the promise resolves, it is durable.
   * Errors: LedgerError with the code of what stands in the way; then nothing of it was done.
   */
  record(unit: UnitOfWork): Promise<Recorded> {
    return new Promise((resolve, reject) => {
      if (this.#stopped !== null) throw this.#stopped
      if (this.#closing) throw new LedgerError('WRITER_STOPPED', 'the node is closing')
      checkUnit(unit)
      const bytes = bytesOf(unit)
      if (
        this.#waitingUnits >= QUEUE_UNITS_MAX ||
        (this.#waitingBytes > 0 && this.#waitingBytes + bytes > QUEUE_BYTES_MAX)
      ) {
        throw new LedgerError('WRITER_BUSY', 'too many changes are waiting; try again shortly')
      }
      this.#arrived.push({ unit, bytes, resolve, reject })
      this.#waitingUnits += 1
      this.#waitingBytes += bytes
      this.#sendSoon()
    })
  }

  /** Writes what waits, then lets go of the store. Nothing more is taken. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#stopped === null) {
      this.#sendArrived()
      this.#post({ close: true })
    } else {
      void this.#worker.terminate()
    }
    await this.#ended
  }

  /** Once per turn of the event loop: requests that arrived together travel together. */
  #sendSoon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#sendArrived())
  }

  #sendArrived(): void {
    this.#scheduled = false
    const nowMs = this.#clock.now()
    let start = 0
    while (start < this.#arrived.length) {
      let entries = 0
      let bytes = 0
      let end = start
      for (const waiting of this.#arrived.slice(start)) {
        const more = entries + waiting.unit.length > MESSAGE_ENTRIES
        if (end > start && (more || bytes + waiting.bytes > MESSAGE_BYTES)) break
        entries += waiting.unit.length
        bytes += waiting.bytes
        end += 1
      }
      const message = this.#arrived.slice(start, end)
      this.#sent.push(message)
      this.#post({ units: encodeBatch(message.map(({ unit }) => unit)), entries, bytes, nowMs })
      start = end
    }
    this.#arrived = []
  }

  #post(message: ToWriter): void {
    this.#worker.postMessage(message)
  }

  #receive(message: FromWriter): void {
    if ('closed' in message) {
      void this.#worker.terminate()
      return
    }
    if (!('messages' in message)) return
    const answered = this.#sent.splice(0, message.messages).flat()
    for (const { bytes } of answered) this.#waitingBytes -= bytes
    this.#waitingUnits -= answered.length
    if ('outcomes' in message) {
      this.onCommit()
      for (const [at, waiting] of answered.entries()) {
        settle(waiting, message.block, message.outcomes[at])
      }
      return
    }
    const what = message.stopped ? 'it is not known what was written' : 'nothing was written'
    const error = new LedgerError(message.refused, `${what}: ${message.reason}`)
    for (const waiting of answered) waiting.reject(error)
    if (message.stopped) this.#stop(message.reason)
  }

  #stop(reason: string): void {
    this.#stopped ??= new LedgerError('WRITER_STOPPED', reason)
    for (const waiting of [...this.#sent.flat(), ...this.#arrived]) waiting.reject(this.#stopped)
    this.#sent = []
    this.#arrived = []
    this.#waitingUnits = 0
    this.#waitingBytes = 0
  }
}

function settle(
  { resolve, reject }: Waiting,
  block: { height: number; id: string } | null,
  outcome: Outcome | undefined,
): void {
  assert(outcome !== undefined)
  if ('code' in outcome) {
    reject(new LedgerError(outcome.code, outcome.message))
    return
  }
  assert(block !== null)
  resolve({ height: block.height, index: outcome.index, blockId: block.id })
}
