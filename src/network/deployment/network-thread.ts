import { Worker } from 'node:worker_threads'
import { compileCacheEnvironment } from '../../base/compile-cache.ts'
import { NetworkError } from '../errors.ts'
import {
  errorOf,
  type FromThread,
  type ThreadStart,
  type ToThread,
} from '../transactions/messages.ts'

/** The engine calls itself; its own bound comes first if the thread has that much stack. */
const STACK_MB = 16
/** How long a guest may go on after its deadline before its thread is ended. */
const GRACE_MS = 1_000
/** How often that is checked. */
const CHECK_MS = 250
/** How long a thread may take to start, beside its scripts: the machine may be busy. */
const STARTING_MS = 30_000
const NANOSECONDS = 1_000_000n

/** Why a thread ended: its guest did not stop, or anything else, most likely its memory. */
export type ThreadEnd = 'DEADLINE' | 'MEMORY'

/** Receives the messages of a thread, and its end. */
export interface ThreadEvents {
  message(message: FromThread): void
  /** Called once, unless `end` was called before. */
  ended(end: ThreadEnd): void
}

/** The main thread's end of a network's thread. */
export class NetworkThread {
  readonly #worker: Worker
  readonly #stopAt: BigInt64Array<SharedArrayBuffer>
  readonly #timer: NodeJS.Timeout
  #events: ThreadEvents | null = null
  #end: ThreadEnd = 'MEMORY'

  private constructor(start: Omit<ThreadStart, 'stopAt'>) {
    this.#stopAt = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT))
    const workerData: ThreadStart = { ...start, stopAt: this.#stopAt }
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`../transactions/thread.${extension}`, import.meta.url), {
      name: 'network-sandbox',
      workerData,
      env: compileCacheEnvironment(),
      resourceLimits: { stackSizeMb: STACK_MB },
    })
    this.#timer = setInterval(() => this.#check(), CHECK_MS).unref()
    this.#worker.on('message', (message: FromThread) => this.#events?.message(message))
    // Out of memory beside the guest's, say; the exit follows.
    this.#worker.on('error', () => {})
    this.#worker.on('exit', () => {
      clearInterval(this.#timer)
      this.#events?.ended(this.#end)
    })
  }

  /** Starts a thread. Errors: NETWORK_INVALID when its scripts cannot be loaded, NETWORK_BUSY. */
  static async start(start: Omit<ThreadStart, 'stopAt'>): Promise<NetworkThread> {
    const thread = new NetworkThread(start)
    const started = Promise.withResolvers<void>()
    const busy = () =>
      new NetworkError('NETWORK_BUSY', 'the thread of the network did not start; try again')
    const timer = setTimeout(() => started.reject(busy()), 2 * start.bootMs + STARTING_MS)
    thread.listen({
      message: (message) => {
        if ('ready' in message) started.resolve()
        if ('failed' in message) started.reject(errorOf(message.failed))
      },
      ended: () => started.reject(busy()),
    })
    try {
      await started.promise
      return thread
    } catch (error) {
      await thread.end()
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** Replaces the receiver. */
  listen(events: ThreadEvents): void {
    this.#events = events
  }

  post(message: ToThread): void {
    this.#worker.postMessage(message)
  }

  /** Terminates the thread. */
  async end(): Promise<void> {
    this.#events = null
    await this.#worker.terminate()
  }

  /** Not even the engine's own deadline stops every script. */
  #check(): void {
    const stopAt = Atomics.load(this.#stopAt, 0)
    if (stopAt === 0n || process.hrtime.bigint() < stopAt + BigInt(GRACE_MS) * NANOSECONDS) return
    this.#end = 'DEADLINE'
    void this.#worker.terminate()
  }
}
