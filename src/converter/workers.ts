import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { setPriority } from 'node:os'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { compileCacheEnvironment } from '../base/compile-cache.ts'
import { errorMessage } from '../base/errors.ts'
import { Semaphore } from '../base/semaphore.ts'
import { type ConversionMessage, type ConversionPlan, type Job, PRODUCT_FD } from './convert.ts'
import { ConverterError, isConverterErrorCode } from './errors.ts'
import type { Grid } from './options.ts'

/** Limits for the conversions of a process. */
export interface WorkerLimits {
  /** Maximum number of concurrent conversions. */
  readonly workers: number
  /** Maximum number of queued conversions of a client. */
  readonly queueMax: number
  /** Maximum time that a conversion waits for a worker, in milliseconds. */
  readonly queueMs: number
  /** Maximum time between two reads of the product, in milliseconds. */
  readonly stallMs: number
  /** Maximum duration of a conversion, without waiting for a worker, in milliseconds. */
  readonly conversionMs: number
  /** Time after which an idle worker exits, in milliseconds. */
  readonly idleMs: number
  /** Maximum resident memory of a worker, including 60 MB of Node. */
  readonly memoryBytesMax: number
  /** The nice value of workers, which gives requests priority over conversions. */
  readonly nice: number
}

export const WORKER_LIMITS: WorkerLimits = {
  workers: 2,
  queueMax: 8,
  queueMs: 60_000,
  stallMs: 30_000,
  conversionMs: 300_000,
  idleMs: 30_000,
  memoryBytesMax: 360_000_000,
  nice: 10,
}

/**
 * V8 flags of a worker. The heap can be small, because pixels are stored outside of the heap. The young generation can
 * be small, because most objects are short-lived.
 */
export const WORKER_FLAGS: readonly string[] = [
  '--max-old-space-size=64',
  '--max-semi-space-size=1',
  '--disable-warning=ExperimentalWarning',
]
/**
 * Environment of a worker, which does not inherit the operator's environment. The variables make glibc return large
 * blocks of memory to the system at once.
 */
export const WORKER_ENVIRONMENT: Readonly<Record<string, string>> = {
  MALLOC_MMAP_THRESHOLD_: '131072',
  MALLOC_ARENA_MAX: '2',
}
/** Maximum cells of a job. After a larger job, its worker is not reused, because it keeps too much memory. */
const CELLS_KEPT_MAX = 1_000_000
/** While a job waits, the interval of the search for products with slow readers. */
const SEARCH_MS = 1_000
/** A reader is slow if the product waits for it after a window in which it has read less than SLOW_BYTES. */
const SLOW_WINDOW_MS = 10_000
const SLOW_BYTES = 640_000
/** Minimum time that the product waits for a slow reader. A quick reader reads much sooner. */
const SLOW_WAIT_MS = 1_000
/** Signals of a crash. A crash is reported as an error of the image, because it would crash the next worker too. */
const CRASH_SIGNALS: ReadonlySet<string> = new Set(
  'SIGABRT SIGBUS SIGFPE SIGILL SIGSEGV SIGTRAP'.split(' '),
)
/** Path of the worker: a `.ts` file in the repository, a `.js` file in the package. */
const WORKER_FILE = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url),
)

/** Called with the number of completed rows and the total number of rows. */
type OnRows = (rows: number, ofRows: number) => void

/**
 * Converts images in worker processes, so that this process stays responsive and no image can crash it.
 *
 * A worker is started when a job needs it, reused for other jobs, and killed after `idleMs` without a job. If a job is
 * aborted, its worker is killed, and the next job starts only after that worker has exited. Source: decision 0011.
 */
export class ConversionWorkers {
  readonly #limits: WorkerLimits
  readonly #semaphore: Semaphore
  /** Workers without a job, and the timers that end them. */
  readonly #idle = new Map<ChildProcess, NodeJS.Timeout>()
  /** Products in progress. The promises resolve when the worker is idle or has exited. */
  readonly #running = new Map<Product, Promise<void>>()
  #isClosed = false

  constructor(limits: WorkerLimits) {
    this.#limits = limits
    this.#semaphore = new Semaphore(limits.workers, limits.queueMax)
  }

  /**
   * Starts a conversion, and resolves when the image is decoded. To abort the conversion, destroy the product or abort
   * `signal`. Jobs of several clients take turns. Errors: ConverterError; the reason of `signal`; Error for an
   * unexpected failure of the worker.
   */
  async start(
    job: Job,
    signal: AbortSignal,
    onRows: OnRows = () => {},
    client = '',
  ): Promise<{ readonly plan: ConversionPlan; readonly product: Readable }> {
    const search = setInterval(() => this.#abortSlowReader(), SEARCH_MS)
    await this.#acquire(signal, client).finally(() => clearInterval(search))
    const product = this.#openProduct(signal, onRows)
    const onAbort = () => product.destroy(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    product.once('close', () => signal.removeEventListener('abort', onAbort))
    return { plan: await product.begin(job), product }
  }

  /** Aborts a product whose slow reader makes another job wait. */
  #abortSlowReader(): void {
    const slow = [...this.#running.keys()].find((product) => product.hasSlowReader)
    slow?.destroy(new Error('the product was read too slowly, and other jobs wait'))
  }

  async #acquire(signal: AbortSignal, client: string): Promise<void> {
    const waiting = AbortSignal.any([signal, AbortSignal.timeout(this.#limits.queueMs)])
    const hasPermit = await this.#semaphore.acquire(waiting, client).catch(() => {
      signal.throwIfAborted()
      return false
    })
    if (hasPermit) return
    throw new ConverterError('BUSY', 'too many images are being converted; try again shortly')
  }

  /** Gives a worker to a job that has a permit. The permit is released when the product closes, or on any error. */
  #openProduct(signal: AbortSignal, onRows: OnRows): Product {
    try {
      // While the job was queued, `close` may have been called, or `signal` may have been aborted.
      signal.throwIfAborted()
      if (this.#isClosed) throw new ConverterError('BUSY', 'the converter is closing')
      const worker = this.#takeWorker()
      const product = new Product(worker, this.#limits, onRows)
      const released = new Promise((resolve) => product.once('close', resolve))
        .then(() => this.#release(worker, product.isReusable))
        .finally(() => this.#running.delete(product))
      this.#running.set(product, released)
      return product
    } catch (error) {
      this.#semaphore.release()
      throw error
    }
  }

  /** Aborts all jobs and kills all workers. */
  async close(): Promise<void> {
    this.#isClosed = true
    const released = [...this.#running.values()]
    for (const product of this.#running.keys()) product.destroy(new Error('closing'))
    await Promise.all([...released, ...[...this.#idle.keys()].map(kill)])
  }

  #takeWorker(): ChildProcess {
    const worker = [...this.#idle.keys()].at(-1)
    if (worker === undefined) {
      const started = startWorker(this.#limits)
      return started.once('exit', () => this.#idle.delete(started))
    }
    clearTimeout(this.#idle.get(worker))
    this.#idle.delete(worker)
    return worker
  }

  async #release(worker: ChildProcess, isReusable: boolean): Promise<void> {
    if (isReusable && worker.connected && !this.#isClosed) {
      const timer = setTimeout(() => {
        // Removed now, because the event `exit` arrives only later, and a job must not get a killed worker.
        this.#idle.delete(worker)
        void kill(worker)
      }, this.#limits.idleMs)
      this.#idle.set(worker, timer.unref())
    } else {
      await kill(worker)
    }
    // Neither branch can fail, so every permit is released.
    this.#semaphore.release()
  }
}

/** Errors: WORKER_ENDED if the system lacks processes, memory or files for a worker. */
function startWorker({ memoryBytesMax, nice }: WorkerLimits): ChildProcess {
  let worker: ChildProcess
  try {
    worker = fork(WORKER_FILE, [String(memoryBytesMax)], {
      // Stdin, stdout, stderr, the channel for messages, and the pipe for the product (PRODUCT_FD).
      stdio: ['ignore', 'ignore', 'inherit', 'ipc', 'pipe'],
      serialization: 'advanced',
      execArgv: [...WORKER_FLAGS],
      env: { ...WORKER_ENVIRONMENT, ...compileCacheEnvironment() },
    })
    // Without a listener, an error would end this process. The job fails when the worker exits.
    worker.on('error', () => {})
    // With too few file descriptors, Node returns a process without pipes.
    if (!(worker.stdio?.[PRODUCT_FD] instanceof Readable)) {
      throw new Error('too few processes or file descriptors')
    }
  } catch (error) {
    const reason = errorMessage(error)
    const message = `no conversion process can be started: ${reason}; try again later`
    throw new ConverterError('WORKER_ENDED', message, { cause: error })
  }
  try {
    if (worker.pid !== undefined) setPriority(worker.pid, nice)
  } catch {
    // The system does not support priorities, or the worker has already exited.
  }
  return worker
}

async function kill(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null || worker.pid === undefined) return
  const exit = new Promise((resolve) => worker.once('exit', resolve))
  worker.kill('SIGKILL')
  await exit
}

/** The bytes of a product, read from the pipe of its worker. */
class Product extends Readable {
  readonly #worker: ChildProcess
  readonly #pipe: Readable
  readonly #limits: WorkerLimits
  readonly #onRows: OnRows
  readonly #deadline: NodeJS.Timeout
  readonly #plan = Promise.withResolvers<ConversionPlan>()
  #stall: NodeJS.Timeout | undefined
  #grid: Grid = { columns: 0, rows: 0 }
  #received = 0
  /** When the product began to wait for its reader; null unless it waits. */
  #waitsSinceMs: number | null = null
  /** Measures each window. The buffers of the system take some megabytes at once, so the first window proves nothing. */
  #window: NodeJS.Timeout | undefined
  #receivedBefore = 0
  #isSlow = false
  #total: number | null = null
  #isJobOver = false

  constructor(worker: ChildProcess, limits: WorkerLimits, onRows: OnRows) {
    super()
    const pipe = worker.stdio[PRODUCT_FD]
    assert(pipe instanceof Readable)
    this.#worker = worker
    this.#pipe = pipe
    this.#limits = limits
    this.#onRows = onRows
    this.#deadline = setTimeout(() => {
      const message = `converting the image takes longer than ${limits.conversionMs / 1000} seconds`
      this.destroy(new ConverterError('IMAGE_TOO_LARGE', message))
    }, limits.conversionMs)
    // Without a listener, an error would end this process. Until the plan arrives, `begin` rejects with the error.
    // Later, the reader sees that the stream ends early.
    this.on('error', () => {})
    this.#plan.promise.catch(() => {})
    worker.on('message', this.#onMessage).once('exit', this.#onExit)
    pipe.on('data', this.#onData)
  }

  /** Whether the worker can be reused: its job is over, and its memory has not grown too much. */
  get isReusable(): boolean {
    return this.#isJobOver && this.#grid.columns * this.#grid.rows <= CELLS_KEPT_MAX
  }

  get hasSlowReader(): boolean {
    return this.#isSlow && !this.destroyed
  }

  begin(job: Job): Promise<ConversionPlan> {
    this.#worker.send(job, (error) => {
      if (error !== null) this.destroy(error)
    })
    return this.#plan.promise
  }

  override _read(): void {
    this.#stall?.refresh()
    this.#waitsSinceMs = null
    this.#pipe.resume()
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    clearTimeout(this.#stall)
    clearTimeout(this.#deadline)
    clearInterval(this.#window)
    this.#worker.off('message', this.#onMessage).off('exit', this.#onExit)
    this.#pipe.off('data', this.#onData)
    this.#plan.reject(error ?? new Error('the conversion was aborted'))
    callback(error)
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#received += bytes.length
    if (!this.push(bytes)) {
      this.#pipe.pause()
      this.#waitsSinceMs ??= performance.now()
    }
    this.#endIfComplete()
  }

  readonly #onWindow = (): void => {
    const waitedMs = performance.now() - (this.#waitsSinceMs ?? performance.now())
    const bytes = this.#received - this.#receivedBefore
    this.#isSlow = waitedMs >= SLOW_WAIT_MS && bytes < SLOW_BYTES
    this.#receivedBefore = this.#received
  }

  readonly #onMessage = (message: ConversionMessage): void => {
    switch (message.kind) {
      case 'plan': {
        this.#grid = message.plan.grid
        const stalled = () => this.destroy(new Error('the product was not read in time'))
        this.#stall = setTimeout(stalled, this.#limits.stallMs)
        this.#window = setInterval(this.#onWindow, SLOW_WINDOW_MS)
        this.#plan.resolve(message.plan)
        return
      }
      case 'rows':
        this.#onRows(message.rows, this.#grid.rows)
        return
      case 'end':
        this.#total = message.bytes
        this.#endIfComplete()
        return
      case 'failed': {
        const { code, message: text } = message
        // With IMAGE_TOO_LARGE, the decoder may still be running, so the worker is not reusable.
        this.#isJobOver = this.#received === 0 && code !== 'IMAGE_TOO_LARGE'
        // A worker taken over by an image could send any code.
        const isKnown = code !== null && isConverterErrorCode(code)
        this.destroy(isKnown ? new ConverterError(code, text) : new Error(text))
      }
    }
  }

  /** Ends the product when all bytes have arrived. The message `end` may arrive before the last bytes. */
  #endIfComplete(): void {
    if (this.#total === null || this.#received < this.#total) return
    this.#isJobOver = true
    this.#waitsSinceMs ??= performance.now()
    this.push(null)
  }

  readonly #onExit = (code: number | null, signal: NodeJS.Signals | null): void => {
    if (signal !== null && CRASH_SIGNALS.has(signal)) {
      const message = `the image cannot be decoded: it crashes the decoder (${signal})`
      this.destroy(new ConverterError('IMAGE_UNDECODABLE', message))
      return
    }
    const how = signal === null ? `with exit code ${code}` : `by ${signal}`
    const message = `the conversion process ended ${how}; if it ran out of memory, try a smaller image`
    this.destroy(new ConverterError('WORKER_ENDED', message))
  }
}
