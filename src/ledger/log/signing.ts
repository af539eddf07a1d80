import { LedgerError } from '../errors.ts'
import type { Platform, Thread } from '../platform.ts'
import type { Signed } from './signer.ts'
import type { FromSigner, SignerStart, ToSigner } from './thread.ts'

/** Between two signatures, at least. */
const REST_MS = 100
/** Nothing was asked for and nothing was written for this long: the head is signed meanwhile. */
const IDLE_MS = 1_000
/** Longest wait for a signature. */
const WAIT_MS = 10_000
/** The id of a thread that has ended. */
const ENDED = -1
/** The thread keeps little. */
const YOUNG_MB = 8

interface Waiting {
  readonly size: number
  readonly resolve: (signed: Signed) => void
  readonly reject: (error: Error) => void
  /** Gives up waiting to be told that it takes too long. */
  readonly forget: () => void
}

/**
 * Has the log signed when somebody asks, when nothing else is going on, or at the end: recomputing what was
 * written costs as much as writing it did, and nobody shall wait for what nobody wants.
 *
 * The work is done in a thread of its own (`thread.ts`), which starts when it is first needed.
 */
export class LogSigning {
  readonly #start: SignerStart
  readonly #platform: Platform
  #worker: Thread | null = null
  #signed: Signed | null = null
  #waiting: Waiting[] = []
  #isSigning = false
  /** Ends the rest; null while there is none. */
  #forgetRest: (() => void) | null = null
  #forgetIdle: (() => void) | null = null
  #commits = 0
  /** Why nothing is signed any more. */
  #refused: LedgerError | null = null

  constructor(start: SignerStart, platform: Platform) {
    this.#start = start
    this.#platform = platform
  }

  /** To be called when a block is durable. Costs nearly nothing. */
  onCommit(): void {
    this.#commits += 1
    if (this.#forgetIdle === null) this.#signWhenIdle(this.#commits)
  }

  /**
   * A head that is signed now, `committed` blocks being there, or one that is as old as the rest between
   * two signatures. Errors: as `covering`.
   */
  newest(committed: number): Promise<Signed> {
    if (this.#signed === null) return this.covering(0)
    if (this.#signed.size >= committed || this.#forgetRest !== null) {
      return Promise.resolve(this.#signed)
    }
    return this.covering(this.#signed.size + 1)
  }

  /**
   * A signed head of `size` blocks or more, which must have been committed.
   * Errors: LOG_BEHIND, LOG_STOPPED, LOG_CONTRADICTED.
   */
  covering(size: number): Promise<Signed> {
    if (this.#signed !== null && this.#signed.size >= size) return Promise.resolve(this.#signed)
    return new Promise((resolve, reject) => {
      if (this.#refused !== null) throw this.#refused
      const forget = this.#platform.schedule.after(WAIT_MS, () => {
        this.#waiting = this.#waiting.filter((waiting) => waiting.forget !== forget)
        reject(new LedgerError('LOG_BEHIND', 'too much was written to be signed yet; ask again'))
      })
      this.#waiting.push({ size, resolve, reject, forget })
      this.#signSoon()
    })
  }

  /**
   * Ends the thread, which signs what was written since: an older store that is put in while the node
   * rests contradicts that. Errors out whoever waits.
   */
  async close(): Promise<void> {
    this.#refuse(new LedgerError('LOG_STOPPED', 'the node is closing'))
    this.#forgetIdle?.()
    this.#forgetRest?.()
    const isLeft = this.#start.lasting && this.#commits > 0
    const worker = this.#worker ?? (isLeft ? this.#startWorker() : null)
    if (worker === null || worker.threadId === ENDED) return
    const ended = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    const message: ToSigner = 'close'
    worker.postMessage(message)
    await ended
  }

  #signWhenIdle(commits: number): void {
    this.#forgetIdle = this.#platform.schedule.after(IDLE_MS, () => {
      this.#forgetIdle = null
      if (this.#commits !== commits) this.#signWhenIdle(this.#commits)
      else this.#signSoon()
    })
  }

  #signSoon(): void {
    if (this.#isSigning || this.#forgetRest !== null || this.#refused !== null) return
    this.#isSigning = true
    this.#worker ??= this.#startWorker()
    const message: ToSigner = 'sign'
    this.#worker.postMessage(message)
  }

  #startWorker(): Thread {
    // Sources run as they are, a build has only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const program = new URL(`./thread.${extension}`, import.meta.url)
    const worker = this.#platform.startThread(program, {
      name: 'log-signer',
      workerData: this.#start,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    })
    worker.unref()
    worker.on('message', (message: FromSigner) => this.#receive(message))
    // Out of memory or of files, say, which passes: whoever asks next has another thread started.
    worker.on('error', (error) => {
      this.#worker = null
      this.#isSigning = false
      this.#rejectAll(new LedgerError('LOG_STOPPED', `the signing thread failed: ${error.message}`))
    })
    return worker
  }

  #receive(message: FromSigner): void {
    this.#isSigning = false
    if ('failed' in message) {
      const error = new LedgerError(
        message.contradicted ? 'LOG_CONTRADICTED' : 'LOG_STOPPED',
        `nothing was signed: ${message.failed}`,
      )
      if (message.contradicted) this.#refuse(error)
      else this.#rejectAll(error)
      return
    }
    const { signed } = message
    this.#signed = signed
    const covered = this.#waiting.filter(({ size }) => size <= signed.size)
    this.#waiting = this.#waiting.filter(({ size }) => size > signed.size)
    for (const { forget, resolve } of covered) {
      forget()
      resolve(signed)
    }
    if (signed.isBehind && this.#waiting.length > 0) {
      this.#signSoon()
      return
    }
    this.#forgetRest = this.#platform.schedule.after(REST_MS, () => {
      this.#forgetRest = null
      if (this.#waiting.length > 0) this.#signSoon()
    })
  }

  #refuse(error: LedgerError): void {
    this.#refused ??= error
    this.#rejectAll(this.#refused)
  }

  #rejectAll(error: LedgerError): void {
    for (const { forget, reject } of this.#waiting) {
      forget()
      reject(error)
    }
    this.#waiting = []
  }
}
