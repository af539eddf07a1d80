import { Readable } from 'node:stream'
import { Worker } from 'node:worker_threads'
import type { Job, Plan } from './convert.ts'
import { ConverterError, isConverterErrorCode } from './errors.ts'
import { Seats } from './seats.ts'
import { type FromThread, PIECES_AHEAD_MAX, type ToThread } from './thread-messages.ts'

/** How much converting goes on at once, and how long any of it may take. */
export interface ThreadLimits {
  /** Conversions at a time. */
  readonly seats: number
  /** Conversions that wait for a seat; one more is refused. */
  readonly queueMax: number
  /** Longest wait for a seat, milliseconds. */
  readonly queueMs: number
  /** Longest time that nobody takes the next piece, milliseconds. */
  readonly stallMs: number
  /** Longest conversion from its seat to its last piece, milliseconds. */
  readonly conversionMs: number
}

/** What the service runs with. */
export const THREAD_LIMITS: ThreadLimits = {
  seats: 2,
  queueMax: 8,
  queueMs: 60_000,
  stallMs: 30_000,
  conversionMs: 300_000,
}

/** JavaScript heap of one thread; pixels and pieces lie outside of it. */
const HEAP_MEGABYTES_MAX = 64
/** Pieces wait here up to this many bytes before the thread is asked for more. */
const BUFFER_BYTES = 256 * 1024
/** The sources run as they are and so do the compiled files. */
const THREAD_FILE = new URL(
  import.meta.url.endsWith('.ts') ? './thread.ts' : './thread.js',
  import.meta.url,
)

/** A conversion under way: its image is decoded, its product comes out of the stream. */
export interface Conversion {
  readonly plan: Plan
  /** Destroying it ends the work. */
  readonly product: Readable
}

/**
 * Worker threads that convert, so that the calling thread stays free to answer others.
 *
 * A thread is started when it is first needed and kept for the next job; one whose job is given up
 * is ended on the spot, whatever it is doing, and its memory goes with it. Its seat is free again
 * only once it has really ended, so there is never more work than seats.
 */
export class ConversionThreads {
  readonly #limits: ThreadLimits
  readonly #seats: Seats
  readonly #idle: Worker[] = []
  readonly #closing = new AbortController()

  constructor(limits: ThreadLimits) {
    this.#limits = limits
    this.#seats = new Seats(limits.seats, limits.queueMax, limits.queueMs)
  }

  /**
   * Starts `job` as soon as there is a seat, and resolves when its image is decoded.
   *
   * `onRows` is told how many rows are done. Errors: ConverterError; the reason of `signal` when it
   * aborts before; Error when the thread itself fails.
   */
  async start(job: Job, signal: AbortSignal, onRows?: (rows: number) => void): Promise<Conversion> {
    const either = AbortSignal.any([signal, this.#closing.signal])
    await this.#seats.take(either)
    const thread = this.#idle.pop() ?? this.#startThread()
    thread.ref()
    const product = new Product(thread, this.#limits, (reusable) => this.#leave(thread, reusable))
    if (onRows !== undefined) product.on('rows', onRows)
    const giveUp = () => product.destroy(new Error('the conversion was given up'))
    either.addEventListener('abort', giveUp, { once: true })
    product.once('close', () => either.removeEventListener('abort', giveUp))
    return { plan: await product.begin(job), product }
  }

  /** Ends all work and every thread. */
  async close(): Promise<void> {
    this.#closing.abort(new ConverterError('BUSY', 'the converter is closing'))
    await Promise.all(this.#idle.splice(0).map((thread) => thread.terminate()))
  }

  #startThread(): Worker {
    const thread = new Worker(THREAD_FILE, {
      name: 'converter',
      // The operator's environment and arguments are no business of a decoder.
      env: {},
      argv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MEGABYTES_MAX },
    })
    // A job hears of the end of its thread by itself; one that ends between two is forgotten.
    thread.on('error', () => {})
    thread.once('exit', () => {
      const at = this.#idle.indexOf(thread)
      if (at !== -1) this.#idle.splice(at, 1)
    })
    return thread
  }

  async #leave(thread: Worker, reusable: boolean): Promise<void> {
    if (reusable && !this.#closing.signal.aborted) {
      thread.unref()
      this.#idle.push(thread)
    } else {
      await thread.terminate()
    }
    this.#seats.release()
  }
}

/** The bytes of one product, asked from its thread as they are read. */
class Product extends Readable {
  readonly #thread: Worker
  readonly #leave: (reusable: boolean) => Promise<void>
  readonly #stallMs: number
  #stall: NodeJS.Timeout | undefined
  readonly #overtime: NodeJS.Timeout
  readonly #planned = Promise.withResolvers<Plan>()
  #granted = 0
  #begun = false
  #ended = false

  constructor(thread: Worker, limits: ThreadLimits, leave: (reusable: boolean) => Promise<void>) {
    super({ highWaterMark: BUFFER_BYTES })
    this.#thread = thread
    this.#leave = leave
    this.#stallMs = limits.stallMs
    this.#overtime = setTimeout(() => {
      const seconds = limits.conversionMs / 1000
      this.destroy(new ConverterError('IMAGE_TOO_LARGE', `converting takes over ${seconds} s`))
    }, limits.conversionMs)
    // Whoever reads hears of errors by the stream closing early; before the plan `begin` rejects.
    this.on('error', () => {})
    this.#planned.promise.catch(() => {})
    thread.on('message', this.#onMessage).on('error', this.#onError).on('exit', this.#onExit)
  }

  begin(job: Job): Promise<Plan> {
    this.#post({ kind: 'job', job })
    return this.#planned.promise
  }

  override _read(): void {
    this.#stall?.refresh()
    if (!this.#begun) return
    const count = PIECES_AHEAD_MAX - this.#granted
    if (count === 0) return
    this.#granted += count
    this.#post({ kind: 'more', count })
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    clearTimeout(this.#stall)
    clearTimeout(this.#overtime)
    this.#thread.off('message', this.#onMessage).off('error', this.#onError)
    this.#thread.off('exit', this.#onExit)
    this.#planned.reject(error ?? new Error('the conversion was given up'))
    this.#leave(this.#ended).then(() => callback(error), callback)
  }

  #post(message: ToThread): void {
    this.#thread.postMessage(message)
  }

  readonly #onMessage = (message: FromThread): void => {
    switch (message.kind) {
      case 'plan':
        this.#begun = true
        this.#stall = setTimeout(
          () => this.destroy(new Error('nobody reads the product')),
          this.#stallMs,
        )
        this.#planned.resolve(message.plan)
        this._read()
        return
      case 'piece':
        this.#granted -= 1
        this.emit('rows', message.piece.rows)
        this.push(message.piece.bytes)
        return
      case 'end':
        this.#ended = true
        this.push(null)
        return
      case 'failed':
        // The thread has come to rest and can take another job.
        this.#ended = true
        this.destroy(errorOf(message.code, message.message))
    }
  }

  readonly #onError = (error: Error): void => {
    this.destroy(error)
  }

  readonly #onExit = (): void => {
    this.destroy(new Error('the conversion thread ended by itself'))
  }
}

function errorOf(code: string | null, message: string): Error {
  return code !== null && isConverterErrorCode(code)
    ? new ConverterError(code, message)
    : new Error(message)
}
