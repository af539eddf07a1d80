import type { Clock, Schedule } from '../../base/clock.ts'
import { startWorker, type Threads, type WorkerThread } from '../../base/worker/worker.ts'
import type { VerificationResult, VerificationStart } from './verification-thread.ts'

/**
 * Maximum delay between the start of the node and the first verification, which would otherwise slow down the start.
 */
export const FIRST_VERIFICATION_MS = 5 * 60_000
/** V8 young generation of the thread; see `WalkThreads`. */
const YOUNG_GENERATION_MB = 12
const OLD_GENERATION_MB = 1_024

export type FinishedVerification = VerificationResult & {
  /** End of the verification, milliseconds since the Unix epoch. */
  readonly time: number
  readonly seconds: number
}

/** The last verification. `pending` means that no verification has ended yet. */
export type VerificationState = { readonly result: 'pending' } | FinishedVerification

export interface VerificationOptions {
  /**
   * Delay between the end of a verification and the start of the next, milliseconds; at most 24 days, because longer
   * timers are impossible in Node.js.
   */
  readonly everyMs: number
  /** Called after each verification. */
  readonly report: (state: FinishedVerification) => void
}

/** Verifies the node's store at intervals, in a thread of low priority, one verification at a time. */
export class ScheduledVerification {
  readonly #start: VerificationStart
  readonly #options: VerificationOptions
  readonly #clock: Clock
  readonly #schedule: Schedule
  readonly #threads: Threads
  #state: VerificationState = { result: 'pending' }
  #lastPassed: number | null = null
  #cancel: () => void
  #thread: WorkerThread<never, VerificationResult> | null = null
  #isClosed = false

  constructor(
    start: VerificationStart,
    options: VerificationOptions,
    context: {
      readonly clock: Clock
      readonly schedule: Schedule
      readonly threads: Threads
    },
  ) {
    this.#start = start
    this.#options = options
    this.#clock = context.clock
    this.#schedule = context.schedule
    this.#threads = context.threads
    const first = Math.min(options.everyMs, FIRST_VERIFICATION_MS)
    this.#cancel = this.#schedule.after(first, () => this.#run())
  }

  /** Result of the last verification. An unfinished verification does not replace a failed result. */
  get state(): VerificationState {
    return this.#state
  }

  /** Time of the last verification that passed, milliseconds since the Unix epoch, or null. */
  get lastPassed(): number | null {
    return this.#lastPassed
  }

  /** Stops a running verification, and starts no other. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel()
    await this.#thread?.terminate()
  }

  #run(): void {
    const startedMs = this.#clock.now()
    const start = {
      name: 'verifier',
      program: [import.meta.url, './verification-thread'],
      workerData: this.#start,
      resourceLimits: {
        maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
        maxOldGenerationSizeMb: OLD_GENERATION_MB,
      },
    } as const
    const unfinished = (reason: string) => ({ result: 'unfinished', reason }) as const
    let result: VerificationResult = unfinished('the thread ended without a result')
    this.#thread = startWorker<never, VerificationResult>(start, this.#threads)
    this.#thread.listen({
      message: (received) => {
        result = received
      },
      failed: ({ message }) => {
        result = unfinished(`the thread failed: ${message}`)
      },
      ended: () => {
        this.#thread = null
        if (!this.#isClosed) this.#finish(result, startedMs)
      },
    })
  }

  #finish(message: VerificationResult, startedMs: number): void {
    const time = this.#clock.now()
    const state = { ...message, time, seconds: Math.max(0, time - startedMs) / 1_000 }
    if (state.result === 'passed') this.#lastPassed = time
    if (state.result !== 'unfinished' || this.#state.result !== 'failed') this.#state = state
    this.#options.report(state)
    this.#cancel = this.#schedule.after(this.#options.everyMs, () => this.#run())
  }
}
