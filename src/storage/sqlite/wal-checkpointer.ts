import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { StoreError } from '../port/errors.ts'
import type { CheckpointResult } from './wal-checkpoint-thread.ts'

/** `threadId` of a worker that has exited. */
const EXITED = -1
const RETRY_DELAY_MS = 1_000

/** Checkpoints the WAL in a worker thread, which starts on first use, so that no commit waits for a checkpoint. */
export class WalCheckpointer {
  readonly #path: string
  #worker: Worker | null = null
  #failedAt = Number.NEGATIVE_INFINITY
  #state: 'idle' | 'running' | 'done' = 'idle'
  #failure: StoreError | null = null

  /** `path` is the database file. */
  constructor(path: string) {
    this.#path = path
  }

  /**
   * The disk failure of a checkpoint, or null. After a failure, nothing may be checkpointed or written, because SQLite
   * counts frames as checkpointed before it syncs their pages, and a second sync would report success.
   */
  get failure(): StoreError | null {
    return this.#failure
  }

  /** Starts a checkpoint unless one is running or has just failed. */
  start(): void {
    if (this.#state !== 'idle' || performance.now() - this.#failedAt < RETRY_DELAY_MS) return
    this.#state = 'running'
    this.#worker ??= this.#startWorker()
    this.#worker.postMessage('checkpoint')
  }

  /** Returns whether a checkpoint has finished since the last call. */
  takeFinished(): boolean {
    if (this.#state !== 'done') return false
    this.#state = 'idle'
    return true
  }

  /** Ends the thread after the current checkpoint. */
  async close(): Promise<void> {
    if (this.#worker === null || this.#worker.threadId === EXITED) return
    // Keeps the process alive until the worker has exited.
    this.#worker.ref()
    this.#worker.postMessage('close')
    // If this checkpoint fails, SQLite checkpoints the WAL when the last connection of the store closes.
    await once(this.#worker, 'exit').catch(() => {})
  }

  #startWorker(): Worker {
    // Development runs the TypeScript sources; a build contains only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const worker = new Worker(new URL(`./wal-checkpoint-thread.${extension}`, import.meta.url), {
      name: 'wal-checkpointer',
      workerData: this.#path,
    })
    worker.unref()
    worker.on('message', ({ failed, isDisk }: CheckpointResult) => {
      if (failed === null) {
        this.#state = 'done'
        return
      }
      // Allows a retry even after a full disk, because the WAL is unchanged, and the next checkpoint copies the same
      // frames.
      this.#retryLater()
      if (isDisk) {
        this.#failure ??= new StoreError('STORE_FAILED', `checkpointing the WAL failed: ${failed}`)
      }
    })
    // The worker could not start, for example because file descriptors or memory ran out.
    worker.on('error', () => {
      this.#worker = null
      this.#retryLater()
    })
    return worker
  }

  #retryLater(): void {
    this.#state = 'idle'
    this.#failedAt = performance.now()
  }
}
