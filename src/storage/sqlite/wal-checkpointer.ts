import { startWorker, type WorkerThread } from '../../base/worker/worker.ts'
import { StoreError } from '../port/errors.ts'
import type { CheckpointResult } from './wal-checkpoint-thread.ts'

const RETRY_DELAY_MS = 1_000

/** Checkpoints the WAL in a worker thread, which starts on first use, so that no commit waits for a checkpoint. */
export class WalCheckpointer {
  readonly #path: string
  #worker: WorkerThread<'checkpoint' | 'close', CheckpointResult> | null = null
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
    this.#worker.post('checkpoint')
  }

  /** Returns whether a checkpoint has finished since the last call. */
  takeFinished(): boolean {
    if (this.#state !== 'done') return false
    this.#state = 'idle'
    return true
  }

  /** Ends the thread after the current checkpoint. */
  async close(): Promise<void> {
    // If this checkpoint fails, SQLite checkpoints the WAL when the last connection of the store closes.
    await this.#worker?.close('close')
  }

  #startWorker() {
    const worker = startWorker<'checkpoint' | 'close', CheckpointResult>({
      name: 'wal-checkpointer',
      program: [import.meta.url, './wal-checkpoint-thread'],
      workerData: this.#path,
    })
    worker.listen({
      message: ({ failed, isDisk }) => {
        if (failed === null) {
          this.#state = 'done'
          return
        }
        // Allows a retry even after a full disk, because the WAL is unchanged, and the next checkpoint copies the same
        // frames.
        this.#retryLater()
        if (isDisk) {
          const message = `checkpointing the WAL failed: ${failed}`
          this.#failure ??= new StoreError('STORE_FAILED', message)
        }
      },
      failed: () => {
        this.#worker = null
        this.#retryLater()
      },
    })
    return worker
  }

  #retryLater(): void {
    this.#state = 'idle'
    this.#failedAt = performance.now()
  }
}
