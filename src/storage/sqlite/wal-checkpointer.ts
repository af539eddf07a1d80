import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { StoreError } from '../errors.ts'
import type { Fold } from './wal-checkpoint-thread.ts'

/** The id of a thread that has ended. */
const ENDED = -1
/** Before a fold that failed is tried again. */
const REST_MS = 1_000

/** Folds the write-ahead log in a thread of its own, which starts when it is first needed. */
export class WalCheckpointer {
  readonly #path: string
  #worker: Worker | null = null
  #failedAt = Number.NEGATIVE_INFINITY
  #state: 'idle' | 'folding' | 'folded' = 'idle'
  #failure: StoreError | null = null

  /** `path` is the database file. */
  constructor(path: string) {
    this.#path = path
  }

  /**
   * The failure of the disk under a fold, or null. Nothing may be folded or written after it: the engine
   * counts frames as folded before their pages are synced, and a second sync would report success.
   */
  get failure(): StoreError | null {
    return this.#failure
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
    const worker = new Worker(new URL(`./wal-checkpoint-thread.${extension}`, import.meta.url), {
      name: 'wal-checkpointer',
      workerData: this.#path,
    })
    worker.unref()
    worker.on('message', (fold: Fold) => {
      if (fold.failed === null) {
        this.#state = 'folded'
        return
      }
      // A full disk passes. The log stays as it is, and the next fold takes the same frames again.
      this.#rest()
      if (fold.isDisk) {
        this.#failure ??= new StoreError('STORE_FAILED', `folding the log failed: ${fold.failed}`)
      }
    })
    // It did not start, for example for want of files or memory; the next fold is in a new thread.
    worker.on('error', () => {
      this.#worker = null
      this.#rest()
    })
    return worker
  }

  #rest(): void {
    this.#state = 'idle'
    this.#failedAt = performance.now()
  }
}
