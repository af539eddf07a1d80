import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { setPriority } from 'node:os'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { compileCacheEnvironment } from '../base/compile-cache.ts'
import type { Job, Plan } from './convert.ts'
import { ConverterError, isConverterErrorCode } from './errors.ts'
import { Seats } from './seats.ts'
import { type FromWorker, PRODUCT_FD } from './worker-messages.ts'

/** How much converting goes on at once, and how long any of it may take. */
export interface WorkerLimits {
  /** Conversions at a time. */
  readonly seats: number
  /** Conversions that wait for a seat; one more is refused. */
  readonly queueMax: number
  /** Longest wait for a seat, milliseconds. */
  readonly queueMs: number
  /** Longest time that nobody reads any of the product, milliseconds. */
  readonly stallMs: number
  /** Longest conversion from its seat to its last byte, milliseconds. */
  readonly conversionMs: number
  /** How long a worker without a job is kept, milliseconds. */
  readonly idleMs: number
  /** Resident memory of a worker, Node's own 60 MB included; beyond, its image is refused. */
  readonly memoryBytesMax: number
  /** The nice value of workers, so that whoever answers requests goes first. */
  readonly nice: number
}

/** What the service runs with. */
export const WORKER_LIMITS: WorkerLimits = {
  seats: 2,
  queueMax: 8,
  queueMs: 60_000,
  stallMs: 30_000,
  conversionMs: 300_000,
  idleMs: 30_000,
  memoryBytesMax: 360_000_000,
  nice: 10,
}

/**
 * How Node runs a worker: with little JavaScript heap, because pixels lie outside of it, and a small
 * nursery, because what it makes is short-lived.
 */
export const WORKER_FLAGS: readonly string[] = [
  '--max-old-space-size=64',
  '--max-semi-space-size=1',
  '--disable-warning=ExperimentalWarning',
]
/**
 * A worker's environment, beside where compiled sources are: the operator's is no business of a decoder. The C library of most
 * Linux systems is told to give large blocks back at once, others know no such variables.
 */
export const WORKER_ENVIRONMENT: Readonly<Record<string, string>> = {
  MALLOC_MMAP_THRESHOLD_: '131072',
  MALLOC_ARENA_MAX: '2',
}
/** After this many cells a worker is ended with its job, because it has grown. */
const CELLS_KEPT_MAX = 1_000_000
/** Signals of a crash: the same image would crash the next worker too. */
const CRASH_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set([
  ...(['SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGILL', 'SIGSEGV', 'SIGTRAP'] as const),
])
/** The sources run as they are and so do the compiled files. */
const WORKER_FILE = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url),
)

/** A conversion under way: its image is decoded, its product comes out of the stream. */
export interface Conversion {
  readonly plan: Plan
  /** Destroying it ends the work. */
  readonly product: Readable
}

/** A worker without a job, and when that ends. */
interface Idle {
  readonly worker: ChildProcess
  readonly timer: NodeJS.Timeout
}

/** Told how many rows of a product are done, and of how many. */
type OnRows = (rows: number, ofRows: number) => void

/**
 * Processes that convert, so that this one stays free to answer others, and stays whole whatever an
 * image does to a decoder.
 *
 * A worker is started when it is first needed and kept for a while for the next job; one whose job
 * is given up is killed on the spot, whatever it is doing, and its memory goes with it. Its seat is
 * free again only once it has ended, so there is never more work than seats.
 * Source: docs/decisions/0026-conversion-processes.md.
 */
export class ConversionWorkers {
  readonly #limits: WorkerLimits
  readonly #seats: Seats
  readonly #idle: Idle[] = []
  /** Every product under way, with the promise that its worker is idle or has ended. */
  readonly #running = new Map<Product, Promise<void>>()
  #closed = false

  constructor(limits: WorkerLimits) {
    this.#limits = limits
    this.#seats = new Seats(limits.seats, limits.queueMax, limits.queueMs)
  }

  /**
   * Starts `job` as soon as there is a seat, and resolves when its image is decoded.
   *
   * `onRows` is told how many rows are done, and of how many. Errors: ConverterError; the reason of `signal` when it
   * aborts; Error when the worker itself fails.
   */
  async start(job: Job, signal: AbortSignal, onRows?: OnRows): Promise<Conversion> {
    await this.#seats.take(signal)
    // Both may have happened while this waited for its seat.
    if (this.#closed || signal.aborted) {
      this.#seats.release()
      signal.throwIfAborted()
      throw new ConverterError('BUSY', 'the converter is closing')
    }
    const worker = this.#hire()
    const product = new Product(worker, this.#limits, onRows ?? (() => {}))
    const left = new Promise((resolve) => product.once('close', resolve))
      .then(() => this.#leave(worker, product.reusable))
      .finally(() => this.#running.delete(product))
    this.#running.set(product, left)
    const giveUp = () => product.destroy(signal.reason)
    signal.addEventListener('abort', giveUp, { once: true })
    product.once('close', () => signal.removeEventListener('abort', giveUp))
    return { plan: await product.begin(job), product }
  }

  /** Ends all work and every worker. */
  async close(): Promise<void> {
    this.#closed = true
    const left = [...this.#running.values()]
    for (const product of this.#running.keys()) product.destroy(new Error('closing'))
    await Promise.all([...left, ...this.#idle.map(({ worker }) => ended(worker))])
  }

  #hire(): ChildProcess {
    const idle = this.#idle.pop()
    if (idle !== undefined) {
      clearTimeout(idle.timer)
      return idle.worker
    }
    const worker = startWorker(this.#limits)
    worker.once('exit', () => {
      const at = this.#idle.findIndex((one) => one.worker === worker)
      if (at !== -1) this.#idle.splice(at, 1)
    })
    return worker
  }

  async #leave(worker: ChildProcess, reusable: boolean): Promise<void> {
    if (!reusable || this.#closed) {
      await ended(worker)
      this.#seats.release()
      return
    }
    const timer = setTimeout(() => void ended(worker), this.#limits.idleMs)
    timer.unref()
    this.#idle.push({ worker, timer })
    this.#seats.release()
  }
}

function startWorker({ memoryBytesMax, nice }: WorkerLimits): ChildProcess {
  const worker = fork(WORKER_FILE, [String(memoryBytesMax)], {
    // The descriptors: none of the standard three but for complaints, messages, the product.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc', 'pipe'],
    serialization: 'advanced',
    execArgv: [...WORKER_FLAGS],
    env: { ...WORKER_ENVIRONMENT, ...compileCacheEnvironment() },
  })
  try {
    if (worker.pid !== undefined) setPriority(worker.pid, nice)
  } catch {
    // A system without priorities, or a worker that has already ended: its exit is seen elsewhere.
  }
  // A job hears of its worker's end through its exit.
  worker.on('error', () => {})
  return worker
}

/** Ends `worker`, whatever it is doing, and resolves when it has ended. */
async function ended(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null || worker.pid === undefined) return
  const exit = new Promise((resolve) => worker.once('exit', resolve))
  worker.kill('SIGKILL')
  await exit
}

/** The pipe that `startWorker` asked for. */
function pipeOf(worker: ChildProcess): Readable {
  const pipe = worker.stdio[PRODUCT_FD]
  assert(pipe instanceof Readable)
  return pipe
}

/** The bytes of one product, read from the pipe of its worker. */
class Product extends Readable {
  readonly #worker: ChildProcess
  readonly #pipe: Readable
  readonly #onRows: OnRows
  readonly #stallMs: number
  readonly #overtime: NodeJS.Timeout
  readonly #planned = Promise.withResolvers<Plan>()
  #stall: NodeJS.Timeout | undefined
  #cells = 0
  #rows = 0
  #received = 0
  #total: number | null = null
  #atRest = false

  constructor(worker: ChildProcess, limits: WorkerLimits, onRows: OnRows) {
    super()
    this.#worker = worker
    this.#pipe = pipeOf(worker)
    this.#onRows = onRows
    this.#stallMs = limits.stallMs
    this.#overtime = setTimeout(() => {
      const seconds = limits.conversionMs / 1000
      this.destroy(new ConverterError('IMAGE_TOO_LARGE', `converting takes over ${seconds} s`))
    }, limits.conversionMs)
    // Whoever reads hears of errors by the stream closing early; before the plan `begin` rejects.
    this.on('error', () => {})
    this.#planned.promise.catch(() => {})
    worker.on('message', this.#onMessage).once('exit', this.#onExit)
    this.#pipe.on('data', this.#onData)
  }

  /** Whether the worker has come to the end of the job and may take another. */
  get reusable(): boolean {
    return this.#atRest && this.#cells <= CELLS_KEPT_MAX
  }

  begin(job: Job): Promise<Plan> {
    this.#worker.send(job, (error) => {
      if (error !== null) this.destroy(error)
    })
    return this.#planned.promise
  }

  override _read(): void {
    this.#stall?.refresh()
    this.#pipe.resume()
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    clearTimeout(this.#stall)
    clearTimeout(this.#overtime)
    this.#worker.off('message', this.#onMessage).off('exit', this.#onExit)
    this.#pipe.off('data', this.#onData)
    this.#planned.reject(error ?? new Error('the conversion was given up'))
    callback(error)
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#received += bytes.length
    if (!this.push(bytes)) this.#pipe.pause()
    this.#endWhenComplete()
  }

  readonly #onMessage = (message: FromWorker): void => {
    switch (message.kind) {
      case 'plan':
        this.#rows = message.plan.grid.rows
        this.#cells = message.plan.grid.columns * this.#rows
        this.#stall = setTimeout(
          () => this.destroy(new Error('nobody reads the product')),
          this.#stallMs,
        )
        this.#planned.resolve(message.plan)
        return
      case 'rows':
        // Often before whoever waits for the plan has it.
        this.#onRows(message.rows, this.#rows)
        return
      case 'end':
        this.#total = message.bytes
        this.#endWhenComplete()
        return
      case 'failed':
        // An image that is too large may still be being decoded.
        this.#atRest = this.#received === 0 && message.code !== 'IMAGE_TOO_LARGE'
        this.destroy(errorOf(message.code, message.message))
    }
  }

  /** The message may overtake the bytes. */
  #endWhenComplete(): void {
    if (this.#total === null || this.#received < this.#total) return
    this.#atRest = true
    this.push(null)
  }

  readonly #onExit = (code: number | null, signal: NodeJS.Signals | null): void => {
    if (signal !== null && CRASH_SIGNALS.has(signal)) {
      const message = `the image cannot be decoded: it crashes the decoder (${signal})`
      this.destroy(new ConverterError('IMAGE_UNDECODABLE', message))
      return
    }
    const how = signal === null ? `with exit code ${code}` : `by ${signal}`
    const message = `the process that converts has ended, ${how}: if memory ran out, a smaller image may do`
    this.destroy(new ConverterError('WORKER_ENDED', message))
  }
}

function errorOf(code: string | null, message: string): Error {
  return code !== null && isConverterErrorCode(code)
    ? new ConverterError(code, message)
    : new Error(message)
}
