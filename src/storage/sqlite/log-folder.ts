import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** The id of a thread that has ended. */
const ENDED = -1
/** Before a fold that failed is tried again. */
const REST_MS = 1_000

/** Folds the write-ahead log in a thread of its own, which starts when it is first needed. */
export class LogFolder {
  readonly #path: string
  #worker: Worker | null = null
  #failedAt = Number.NEGATIVE_INFINITY
  #state: 'idle' | 'folding' | 'folded' = 'idle'

  /** `path` is the database file. */
  constructor(path: string) {
    this.#path = path
  }

  /** Starts folding unless it goes on already, or has just failed. */
  start(): void {
    if (this.#state !== 'idle' || performance.now() - this.#failedAt < REST_MS) return
    this.#state = 'folding'
    this.#worker ??= this.#startWorker()
    this.#worker.postMessage('fold')
  }

  /** Whether a fold has ended since this was last asked. */
  takeFolded(): boolean {
    if (this.#state !== 'folded') return false
    this.#state = 'idle'
    return true
  }

  /** Ends the thread, after the fold that it is at. */
  async close(): Promise<void> {
    if (this.#worker === null || this.#worker.threadId === ENDED) return
    // A program that waits for nothing else must not end before it.
    this.#worker.ref()
    this.#worker.postMessage('close')
    // What fails now is folded by whoever closes the store last.
    await once(this.#worker, 'exit').catch(() => {})
  }

  #startWorker(): Worker {
    // Sources run as they are, a build has only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const worker = new Worker(new URL(`./fold-thread.${extension}`, import.meta.url), {
      name: 'log-folder',
      workerData: this.#path,
    })
    worker.unref()
    worker.on('message', () => {
      this.#state = 'folded'
    })
    // On a full disk, say. Nothing is lost: the log stays as it is, and the next fold is in a new thread.
    worker.on('error', () => {
      this.#worker = null
      this.#state = 'idle'
      this.#failedAt = performance.now()
    })
    return worker
  }
}
