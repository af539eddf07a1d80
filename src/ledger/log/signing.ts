import { startWorker, type WorkerThread } from '../../base/worker/worker.ts'
import { LedgerError } from '../errors.ts'
import type { Platform } from '../platform.ts'
import type { FromSigner, SignedHeadUpdate, SignerStart, ToSigner } from './thread.ts'

/** Minimum time between two signatures. */
const REST_MS = 100
/** Time without new blocks after which the log and its state are signed. */
const IDLE_MS = 1_000
/** Number of times that the state is followed under load, every IDLE_MS, after a request for it. */
const FOLLOWS_AFTER_REQUEST = 60
/**
 * Intervals of IDLE_MS under load after which the log is signed and the state is followed once, without a request: up to
 * 50,000 entries, in about 2 s of one processor. Otherwise the state of a node that is never idle would be hours behind.
 */
const BUSY_INTERVALS = 20
/** Blocks that the state of an idle node is behind from which on it is continued without a delay. */
const BACKLOG = 10_000
/** Maximum wait of a request for a signature. */
const WAIT_MS = 10_000
/** V8 young generation of the thread, MB. It is small, because the thread allocates little. */
const YOUNG_MB = 8
/**
 * Old generation of the thread, MB: enough for the longest block, of 128 Mi characters. V8 lets garbage grow in
 * proportion to this limit: after 60 items of 10 MB, the idle thread kept 200 MB with V8's default.
 */
const OLD_MB = 1_024

interface Waiting {
  readonly size: number
  /** Whether the request waits for the signed state, and not only for the signed log. */
  readonly isForState: boolean
  readonly resolve: (signed: SignedHeadUpdate) => void
  readonly reject: (error: Error) => void
  readonly cancelTimeout: () => void
}

/**
 * Signs the log and its state on request and when idle, and the log on shutdown. Recomputing blocks costs as much as
 * writing them, so under load little is signed unless a signature is requested, or the state was requested during the
 * last minute. The work is done in a worker thread (`thread.ts`), which is started on first use.
 */
export class LogSigning {
  readonly #start: SignerStart
  readonly #platform: Platform
  #worker: WorkerThread<ToSigner, FromSigner> | null = null
  #signed: SignedHeadUpdate | null = null
  #waiting: Waiting[] = []
  #isSigning = false
  /** Cancels the pause after a signature; null if no pause is active. */
  #cancelRest: (() => void) | null = null
  #cancelIdle: (() => void) | null = null
  #commits = 0
  #isUnsigned = false
  #isStateDue = false
  #isStateDamaged = false
  /** Remaining times that the state is followed under load. */
  #follows = 0
  /** Intervals under load since the last signature without a request. */
  #busyIntervals = 0
  /** Called with each new signed head. */
  onSigned: (signed: SignedHeadUpdate) => void = () => {}
  /** Set when signing has stopped permanently. */
  #stopped: LedgerError | null = null

  constructor(start: SignerStart, platform: Platform) {
    this.#start = start
    this.#platform = platform
  }

  /** Must be called after each durable block. */
  onCommit(): void {
    this.#commits += 1
    this.#isUnsigned = true
    this.#signWhenIdle()
  }

  /**
   * Returns the last signed head if it covers all `committed` blocks or was signed less than REST_MS ago. Otherwise
   * signs newer blocks, and returns the new head.
   * Errors: as for `covering`.
   */
  newest(committed: number): Promise<SignedHeadUpdate> {
    if (this.#signed === null) return this.covering(0)
    if (this.#signed.size >= committed || this.#cancelRest !== null) {
      return Promise.resolve(this.#signed)
    }
    return this.covering(this.#signed.size + 1)
  }

  /**
   * Returns a signed head of at least `size` blocks, which must have been committed.
   * Errors: LOG_BEHIND, LOG_STOPPED, LOG_CONTRADICTED.
   */
  covering(size: number): Promise<SignedHeadUpdate> {
    return this.#wait(size, false)
  }

  /** Resolves when the signed state has at least `size` blocks. Errors: as for `covering`. */
  async stateCovering(size: number): Promise<void> {
    // Further requests are likely. Without this, they would wait for all blocks since the last request.
    this.#follows = FOLLOWS_AFTER_REQUEST
    await this.#wait(size, true)
  }

  /** Lets the state be computed again from the chain, because its file is damaged. */
  renewState(): void {
    this.#isStateDamaged = true
    this.#isStateDue = true
    this.#sign()
  }

  #wait(size: number, isForState: boolean): Promise<SignedHeadUpdate> {
    const signed = this.#signed
    if (signed !== null && isCovered({ size, isForState }, signed)) return Promise.resolve(signed)
    return new Promise((resolve, reject) => {
      if (this.#stopped !== null) throw this.#stopped
      const cancelTimeout = this.#platform.schedule.after(WAIT_MS, () => {
        this.#waiting = this.#waiting.filter((waiting) => waiting.cancelTimeout !== cancelTimeout)
        reject(
          new LedgerError('LOG_BEHIND', 'the newest blocks are not signed yet; try again shortly'),
        )
      })
      this.#waiting.push({ size, isForState, resolve, reject, cancelTimeout })
      this.#sign()
    })
  }

  /**
   * Rejects pending requests, signs the blocks committed since the last signature, and stops the thread. With this
   * signature, the next start detects an older store that replaced this store while the node was down.
   */
  async close(): Promise<void> {
    this.#stop(new LedgerError('LOG_STOPPED', 'the node is closing'))
    this.#cancelIdle?.()
    this.#cancelRest?.()
    const mustSign = this.#start.durable && this.#isUnsigned
    const worker = this.#worker ?? (mustSign ? this.#startWorker() : null)
    await worker?.close('close')
  }

  #signWhenIdle(): void {
    const commits = this.#commits
    this.#cancelIdle ??= this.#platform.schedule.after(IDLE_MS, () => {
      this.#cancelIdle = null
      const isBusy = this.#commits !== commits
      this.#busyIntervals = isBusy && this.#follows === 0 ? this.#busyIntervals + 1 : 0
      if (this.#busyIntervals % BUSY_INTERVALS !== 0) return this.#signWhenIdle()
      if (isBusy && this.#follows > 0) this.#follows -= 1
      this.#isStateDue ||= this.#busyIntervals === 0
      this.#sign()
    })
  }

  #sign(): void {
    if (this.#isSigning || this.#cancelRest !== null || this.#stopped !== null) return
    this.#worker ??= this.#startWorker()
    this.#isSigning = true
    this.#isUnsigned = false
    const withState = this.#isStateDue || this.#waiting.some(({ isForState }) => isForState)
    this.#isStateDue = false
    if (this.#isStateDamaged && this.#signed !== null) {
      this.#signed = { ...this.#signed, stateSize: -1 }
    }
    this.#worker.post(this.#isStateDamaged ? 'renew state' : withState ? 'sign state' : 'sign')
    this.#isStateDamaged = false
  }

  #startWorker() {
    const start = {
      name: 'log-signer',
      program: [import.meta.url, './thread'],
      workerData: this.#start,
      resourceLimits: { maxOldGenerationSizeMb: OLD_MB, maxYoungGenerationSizeMb: YOUNG_MB },
    } as const
    const worker = startWorker<ToSigner, FromSigner>(start, this.#platform)
    worker.listen({
      message: (message) => this.#receive(message),
      // The thread may have run out of memory or files. This can be temporary, so the next request starts a new thread.
      failed: ({ message }) => {
        this.#worker = null
        this.#isSigning = false
        this.#rejectAll(new LedgerError('LOG_STOPPED', `the signing thread failed: ${message}`))
      },
    })
    return worker
  }

  #receive(message: FromSigner): void {
    this.#isSigning = false
    if (message.kind === 'failed') {
      const code = message.contradicted ? 'LOG_CONTRADICTED' : 'LOG_STOPPED'
      const error = new LedgerError(code, `nothing was signed: ${message.message}`)
      if (message.contradicted) this.#stop(error)
      else this.#rejectAll(error)
      return
    }
    const { signed } = message
    this.#signed = signed
    this.onSigned(signed)
    const covered = this.#waiting.filter((waiting) => isCovered(waiting, signed))
    this.#waiting = this.#waiting.filter((waiting) => !isCovered(waiting, signed))
    for (const { cancelTimeout, resolve } of covered) {
      cancelTimeout()
      resolve(signed)
    }
    if (signed.isBehind && this.#waiting.length > 0) {
      this.#sign()
      return
    }
    this.#cancelRest = this.#platform.schedule.after(REST_MS, () => {
      this.#cancelRest = null
      const { isBehind, stateSize, size } = signed
      this.#isStateDue ||= this.#busyIntervals === 0 && (isBehind || stateSize + BACKLOG < size)
      if (this.#waiting.length > 0 || this.#isStateDue) this.#sign()
      else if (this.#isUnsigned || isBehind || stateSize < size) this.#signWhenIdle()
    })
  }

  #stop(error: LedgerError): void {
    this.#stopped ??= error
    this.#rejectAll(this.#stopped)
  }

  #rejectAll(error: LedgerError): void {
    for (const { cancelTimeout, reject } of this.#waiting) {
      cancelTimeout()
      reject(error)
    }
    this.#waiting = []
  }
}

function isCovered(
  { size, isForState }: Pick<Waiting, 'size' | 'isForState'>,
  signed: SignedHeadUpdate,
): boolean {
  return size <= (isForState ? signed.stateSize : signed.size)
}
