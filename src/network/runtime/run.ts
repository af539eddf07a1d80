import type { GuestAnswer, GuestFailure } from './guest.ts'
import type { CallDone, Foreseen, GuestCall, ToSandbox } from './messages.ts'

/**
 * Answers `host(request)` of a guest, which called `tell` with each of `told` before that; what it
 * throws, the guest sees.
 */
export type Answerer = (
  request: string,
  told: readonly string[],
  evaluate: Evaluate,
) => Promise<string>

/** Calls the guest that evaluates conditions, while the other one waits for an answer. */
export type Evaluate = (
  call: Pick<GuestCall, 'request' | 'deadlineMs'>,
  answer: (request: string) => Promise<string>,
) => Promise<GuestAnswer>

/** What a call came to, and what was told when nothing was asked any more. */
export type Ended = Pick<CallDone, 'answer' | 'told'>

/** A call of a guest that has begun, or will. */
export interface Run {
  /**
   * What it was given in place of what it was sent with; null when it did not run, because of those
   * before it. Known when it asks something, or has ended. Errors: SandboxError.
   */
  readonly foreseen: Promise<readonly Foreseen[] | null>
  /** Whether it has ended, or failed. */
  readonly hasEnded: boolean
  /** Answers what it asks; gives what it came to, or null as above. Errors: SandboxError. */
  finish(answer: Answerer): Promise<Ended | null>
  /** Nobody will finish it: when it asks something, it is abandoned, and all behind it. */
  leave(): void
  /** Ends it soon, and all that were begun with it and have not ended. */
  abandon(): void
}

/** Calls that a sandbox was given together, and what it said of them. */
export class Series {
  readonly message: ToSandbox
  readonly runs: readonly BegunRun[]
  #at = 0
  #isAbandoned = false

  /** `abandon` has the sandbox stop with it. */
  constructor(message: ToSandbox, abandon: () => void) {
    this.message = message
    const abandonAll = () => {
      this.#isAbandoned = true
      abandon()
      for (const run of this.runs) run.leave()
    }
    this.runs = message.calls.map((call) => new BegunRun(call, abandonAll))
  }

  /** The first that has not ended. */
  get current(): BegunRun {
    const run = this.runs[this.#at]
    if (run === undefined) throw new Error('all runs of the series have ended')
    return run
  }

  /** Whether nobody wants to know what they come to any more. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /** Whether it is one call, with what it was sent with: what becomes of the thread is its doing. */
  get isOneByItself(): boolean {
    return this.runs.length === 1 && !this.message.follow
  }

  /** Whether all have ended. */
  get hasEnded(): boolean {
    return this.#at === this.runs.length
  }

  /** The next ones ended with `done`. */
  settle(done: readonly CallDone[]): void {
    for (const each of done) {
      this.current.end(each)
      this.#at += 1
    }
  }

  /** All that are left end with `ended`, null for those that did not run. */
  end(ended: Ended | null): void {
    while (!this.hasEnded) {
      this.current.end(ended === null ? null : { ...ended, foreseen: [] })
      this.#at += 1
    }
  }

  /** All that are left fail with `error`. */
  fail(error: unknown): void {
    while (!this.hasEnded) {
      this.current.fail(error)
      this.#at += 1
    }
  }
}

class BegunRun implements Run {
  readonly call: GuestCall
  /** See `Run`. */
  readonly abandon: () => void
  readonly #foreseen = Promise.withResolvers<readonly Foreseen[] | null>()
  readonly #answerer = Promise.withResolvers<Answerer | null>()
  readonly #ended = Promise.withResolvers<Ended | null>()
  #hasEnded = false

  constructor(call: GuestCall, abandon: () => void) {
    this.call = call
    this.abandon = abandon
    // Whoever waits for them learns of a failure; at times nobody waits.
    this.#foreseen.promise.catch(() => {})
    this.#ended.promise.catch(() => {})
  }

  get foreseen(): Promise<readonly Foreseen[] | null> {
    return this.#foreseen.promise
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  finish(answer: Answerer): Promise<Ended | null> {
    this.#answerer.resolve(answer)
    return this.#ended.promise
  }

  leave(): void {
    this.#answerer.resolve(null)
  }

  /** It asks something: resolves with who answers, or null when nobody will. */
  asks(foreseen: readonly Foreseen[]): Promise<Answerer | null> {
    this.#foreseen.resolve(foreseen)
    return this.#answerer.promise
  }

  end(done: CallDone | null): void {
    this.#hasEnded = true
    this.#foreseen.resolve(done?.foreseen ?? null)
    this.#ended.resolve(done)
  }

  fail(error: unknown): void {
    this.#hasEnded = true
    this.#foreseen.reject(error)
    this.#ended.reject(error)
  }
}

/** A call that failed without its script's doing. */
export function failed(what: GuestFailure, message: string): Ended {
  return { answer: { failed: what, message }, told: [] }
}
