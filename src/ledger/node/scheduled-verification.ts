import type { WorkerOptions } from 'node:worker_threads'
import type { Clock, Schedule } from '../../base/clock.ts'
import type { VerificationResult, VerificationStart } from './verification-thread.ts'

/**
 * Maximum delay between the start of the node and the first verification, which would otherwise slow down the start.
 */
export const FIRST_VERIFICATION_MS = 5 * 60_000
/** V8 young generation of the thread; see `WalkThreads`. */
const YOUNG_GENERATION_MB = 12
const OLD_GENERATION_MB = 1_024
/** `threadId` of a thread that has exited. */
const EXITED = -1

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

/** The members of a thread that `ScheduledVerification` uses. */
interface VerifierThread {
  readonly threadId: number
  on(event: 'message', listener: (result: VerificationResult) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  once(event: 'exit', listener: () => void): unknown
  unref(): void
  terminate(): Promise<number>
}

/** Verifies the node's store at intervals, in a thread of low priority, one verification at a time. */
export class ScheduledVerification {
  readonly #start: VerificationStart
  readonly #options: VerificationOptions
  readonly #clock: Clock
  readonly #schedule: Schedule
  readonly #startThread: (program: URL, options: WorkerOptions) => VerifierThread
  #state: VerificationState = { result: 'pending' }
  #lastPassed: number | null = null
  #cancel: () => void
  #thread: VerifierThread | null = null
  #isClosed = false

  constructor(
    start: VerificationStart,
    options: VerificationOptions,
    context: {
      readonly clock: Clock
      readonly schedule: Schedule
      readonly startThread: (program: URL, options: WorkerOptions) => VerifierThread
    },
  ) {
    this.#start = start
    this.#options = options
    this.#clock = context.clock
    this.#schedule = context.schedule
    this.#startThread = context.startThread
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
    const thread = this.#thread
    if (thread === null || thread.threadId === EXITED) return
    await thread.terminate()
  }

  #run(): void {
    const startedMs = this.#clock.now()
    // Development runs the TypeScript sources; a build contains only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const thread = this.#startThread(
      new URL(`./verification-thread.${extension}`, import.meta.url),
      {
        name: 'verifier',
        workerData: this.#start,
        resourceLimits: {
          maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
          maxOldGenerationSizeMb: OLD_GENERATION_MB,
        },
      },
    )
    this.#thread = thread
    thread.unref()
    let message: VerificationResult = {
      result: 'unfinished',
      reason: 'the thread ended without a result',
    }
    thread.on('message', (received: VerificationResult) => {
      message = received
    })
    thread.on('error', (error) => {
      message = { result: 'unfinished', reason: `the thread failed: ${error.message}` }
    })
    thread.once('exit', () => {
      this.#thread = null
      if (!this.#isClosed) this.#finish(message, startedMs)
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
