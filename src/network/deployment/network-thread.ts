import { compileCacheEnvironment } from '../../base/compile-cache.ts'
import { startWorker, type WorkerThread } from '../../base/worker/worker.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { compiledEngine } from '../runtime/engine.ts'
import {
  type FromThread,
  type ThreadStart,
  type ToThread,
  toError,
} from '../transactions/messages.ts'

/** Stack size of the thread, MB: so large that deep recursion in the sandbox reaches the sandbox's own limit first. */
const STACK_MB = 16
/** Old generation of the thread, MB. With a limit, V8 collects garbage when the heap has grown by half, not fourfold. */
const OLD_MB = 1_024
/** Milliseconds between a guest's deadline and the termination of its thread. */
const GRACE_MS = 1_000
/** Interval of the deadline check, milliseconds. */
const CHECK_MS = 250
/** Maximum milliseconds to start a thread, without loading its scripts. Long, because the computer may be busy. */
const STARTING_MS = 30_000
const NS_PER_MS = 1_000_000n

/** Why a thread exited: DEADLINE if its guest exceeded the deadline, otherwise MEMORY, the most likely reason. */
export type ThreadEnd = 'DEADLINE' | 'MEMORY'

/** Receives the messages of a thread, and a notification of its exit. */
export interface ThreadEvents {
  message(message: FromThread): void
  /** Called once when the thread has exited, unless `end` was called first. */
  ended(end: ThreadEnd): void
}

/** The main thread's handle of a network's thread. */
export class NetworkThread {
  readonly #worker: WorkerThread<ToThread, FromThread>
  readonly #stopAt: BigInt64Array<SharedArrayBuffer>
  readonly #timer: NodeJS.Timeout
  #end: ThreadEnd = 'MEMORY'

  private constructor(start: Omit<ThreadStart, 'stopAt'>) {
    this.#stopAt = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT))
    const workerData: ThreadStart = { ...start, stopAt: this.#stopAt }
    this.#worker = startWorker({
      name: 'network-sandbox',
      program: [import.meta.url, '../transactions/thread'],
      workerData,
      env: compileCacheEnvironment(),
      resourceLimits: { stackSizeMb: STACK_MB, maxOldGenerationSizeMb: OLD_MB },
      keepsAlive: true,
    })
    this.#timer = setInterval(() => this.#check(), CHECK_MS).unref()
  }

  /** Starts a thread. Errors: NETWORK_INVALID if its scripts cannot be loaded, NETWORK_BUSY. */
  static async start(start: Omit<ThreadStart, 'engine' | 'stopAt'>): Promise<NetworkThread> {
    const begunMs = performance.now()
    try {
      return await NetworkThread.#startOnce(start)
    } catch (error) {
      if (performance.now() - begunMs < start.bootMs) throw error
      // The computer may have been busy, or the process suspended. Scripts that are too slow fail again.
      return await NetworkThread.#startOnce(start)
    }
  }

  static async #startOnce(start: Omit<ThreadStart, 'engine' | 'stopAt'>): Promise<NetworkThread> {
    const thread = new NetworkThread({ ...start, engine: await compiledEngine() })
    const started = Promise.withResolvers<void>()
    const busy = () =>
      new NetworkError('NETWORK_BUSY', 'the thread of the network did not start; try again')
    const tooSlow = () =>
      new NetworkError('NETWORK_INVALID', 'the scripts of the network take too long to load')
    const timer = setTimeout(() => started.reject(busy()), 2 * start.bootMs + STARTING_MS)
    thread.listen({
      message: (message) => {
        if ('ready' in message) {
          thread.#worker.listen(null)
          started.resolve()
        }
        if ('failed' in message) started.reject(toError(message.failed))
      },
      ended: (end) => started.reject(end === 'DEADLINE' ? tooSlow() : busy()),
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

  /** Sets the receiver of messages and of the exit. Passes the events since the start to the first receiver. */
  listen({ message, ended }: ThreadEvents): void {
    // Ignores errors, such as out of memory, because the end follows.
    this.#worker.listen({
      message,
      ended: () => {
        clearInterval(this.#timer)
        ended(this.#end)
      },
    })
  }

  post(message: ToThread): void {
    this.#worker.post(message)
  }

  /** Terminates the thread. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    this.#worker.listen({})
    await this.#worker.terminate()
  }

  /** Terminates the thread GRACE_MS after its guest's deadline, because some scripts evade the engine's deadline. */
  #check(): void {
    const stopAt = Atomics.load(this.#stopAt, 0)
    if (stopAt === 0n || process.hrtime.bigint() < stopAt + BigInt(GRACE_MS) * NS_PER_MS) return
    this.#end = 'DEADLINE'
    void this.#worker.terminate()
  }
}

/** Loads the scripts of `definition` once, as its deployment would. Errors: NETWORK_INVALID. */
export async function checkScripts(definition: NetworkDefinition): Promise<void> {
  // Imported only here, because the script engine is large, and a node needs it only in the threads.
  const { loadScripts } = await import('../transactions/scripts.ts')
  await loadScripts(definition)
}
