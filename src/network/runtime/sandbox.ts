import { MessageChannel, Worker } from 'node:worker_threads'
import { compileCacheEnvironment } from '../../base/compile-cache.ts'
import {
  ABANDONED,
  ANSWERED,
  type Answer,
  type Answered,
  type FromSandbox,
  type GuestCall,
  type GuestScripts,
  type SandboxStart,
} from './messages.ts'
import { type Answerer, type Ended, type Evaluate, failed, type Run, Series } from './run.ts'

/** The engine calls itself; its own bound comes first, if the thread has room for that. */
const STACK_MB = 16
/** A thread that does not answer so long after its guest's deadline is ended. */
const GRACE_MS = 1_000
/** How long a thread may take to start, beside what its guests take: a busy machine is no fault of theirs. */
const STARTING_MS = 30_000
/** Scripts that were loaded in time may take this many times as long when they are loaded again. */
const AGAIN = 10

/** How a sandbox is made. */
export interface SandboxOptions extends GuestScripts {
  /** The most memory of one guest, bytes. */
  readonly memoryBytes: number
  /** How long a guest may take to load its scripts, milliseconds. */
  readonly bootMs: number
}

/** Called when something came from the thread, or it has ended (null). */
type Listener = (message: FromSandbox | null) => void

/**
 * A thread in which the scripts of one network run: its processors in one guest, the conditions of its
 * access rules in another. Calls are taken one after the other.
 *
 * A call ends by its deadline whatever the script does. When not even the engine heeds that, the
 * thread is ended, and the next call starts another.
 */
export class Sandbox {
  readonly #options: SandboxOptions
  #thread: Thread | null
  #last: Promise<unknown> = Promise.resolve()
  #closed = false

  private constructor(options: SandboxOptions, thread: Thread) {
    this.#options = options
    this.#thread = thread
  }

  /** Starts the thread. Errors: SandboxError when a script cannot be loaded. */
  static async start(options: SandboxOptions): Promise<Sandbox> {
    return new Sandbox(options, await Thread.start(options))
  }

  /** Calls a guest; `answer` is for what it asks meanwhile. */
  async call(call: GuestCall, answer: Answerer): Promise<Ended> {
    const [run] = this.begin([call])
    const ended = await run?.finish(answer)
    return ended ?? failed('LOST', 'the call was abandoned')
  }

  /**
   * Calls the same guest several times, in one message. Each run goes on until it asks something, and
   * then waits for whoever finishes it; those behind it wait as well, and so do later calls. With `follow`
   * they also see what the calls wrote that were begun before them.
   */
  begin(calls: readonly GuestCall[], follow = false): readonly Run[] {
    const series = new Series({ calls, follow }, () => this.#thread?.abandon(series))
    this.#last = this.#last
      .then(() => this.#run(series))
      .catch((error: unknown) => series.fail(error))
    return series.runs
  }

  /** Ends the thread when the call that runs has ended. Calls that wait are refused as BUSY. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#last
    await this.#thread?.end()
    this.#thread = null
  }

  async #run(series: Series): Promise<void> {
    if (this.#closed) series.end(failed('BUSY', 'the sandbox is closed'))
    if (series.isAbandoned) series.end(null)
    if (series.hasEnded) return
    const thread = this.#thread ?? (await this.#startAgain())
    this.#thread = thread
    if (thread === null) return series.end(failed('BUSY', 'the sandbox did not start again'))
    await thread.run(series)
    // With the thread goes all memory that its guests took: the next call begins with another.
    if (thread.worn) {
      await thread.end()
      this.#thread = null
    }
  }

  /** Another thread for scripts that were loaded before; null when the machine has none to give now. */
  async #startAgain(): Promise<Thread | null> {
    const bootMs = AGAIN * this.#options.bootMs
    try {
      return await Thread.start({ ...this.#options, bootMs })
    } catch (error) {
      if (error instanceof SandboxError) return null
      throw error
    }
  }
}

/** A script of a network that cannot be loaded. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError'
}

/** One run of the thread's program. */
class Thread {
  readonly #worker: Worker
  readonly #signal: Int32Array<SharedArrayBuffer>
  readonly #answers: MessageChannel['port1']
  #listener: Listener = () => {}
  /** What it runs, or ran last. */
  #series: Series | null = null
  #worn = false
  #ended = false

  private constructor(
    worker: Worker,
    signal: Int32Array<SharedArrayBuffer>,
    channel: MessageChannel,
  ) {
    this.#worker = worker
    this.#signal = signal
    this.#answers = channel.port1
    channel.port1.unref()
    worker.on('message', (message: FromSandbox) => this.#listener(message))
    // Out of memory beside the guest's, say: what follows is the exit.
    worker.on('error', () => {})
    worker.on('exit', () => {
      this.#ended = true
      channel.port1.close()
      this.#listener(null)
    })
  }

  static async start(options: SandboxOptions): Promise<Thread> {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const channel = new MessageChannel()
    const signal = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
    const start: SandboxStart = { ...options, signal, answers: channel.port2 }
    const worker = new Worker(new URL(`./thread.${extension}`, import.meta.url), {
      name: 'network-sandbox',
      workerData: start,
      transferList: [channel.port2],
      env: compileCacheEnvironment(),
      resourceLimits: { stackSizeMb: STACK_MB },
    })
    const thread = new Thread(worker, signal, channel)
    const first = await thread.#next(2 * options.bootMs + STARTING_MS)
    if (first !== null && 'ready' in first) return thread
    await thread.end()
    throw new SandboxError(first !== null && 'failed' in first ? first.failed : 'it did not start')
  }

  /** Whether it cannot be called again: it has ended, or one of its guests has given way. */
  get worn(): boolean {
    return this.#worn || this.#ended
  }

  /** Runs `series`; the thread is ended when it does not answer in time. */
  async run(series: Series): Promise<void> {
    this.#series = series
    Atomics.store(this.#signal, ABANDONED, 0)
    const first = this.#next(series.current.call.deadlineMs + GRACE_MS)
    this.#worker.postMessage(series.message)
    let message = await first
    while (message !== null && 'done' in message) {
      series.settle(message.done)
      if ('ended' in message) {
        this.#worn = message.worn
        series.end(null)
        return
      }
      message = await ('asked' in message
        ? this.#answerOf(series.current, message)
        : this.#next(series.current.call.deadlineMs + GRACE_MS))
    }
    const late = !this.#ended
    await this.end()
    const what = late
      ? failed('DEADLINE', 'out of time')
      : failed('MEMORY', 'the sandbox ran out of memory')
    // Of several nobody knows which one it was, or what it had been given that is not true.
    series.end(series.isOneByItself ? what : null)
  }

  /** Has the thread stop with `series`, if it is at that. */
  abandon(series: Series): void {
    if (this.#series === series) Atomics.store(this.#signal, ABANDONED, 1)
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#worker.terminate()
  }

  /** What comes after `run` was answered what it asks, which is when somebody is there to finish it. */
  async #answerOf(
    run: Series['current'],
    { asked, told, foreseen }: Extract<FromSandbox, { asked: string }>,
  ): Promise<FromSandbox | null> {
    const { call } = run
    const askedMs = performance.now()
    const answer = await run.asks(foreseen)
    const waitedMs = performance.now() - askedMs
    if (answer === null) {
      Atomics.store(this.#signal, ABANDONED, 1)
      return this.#answer({ abandoned: true }, call)
    }
    const given = await answered(() => answer(asked, told, this.#evaluate))
    return this.#answer({ ...given, waitedMs }, call)
  }

  /** Calls the guest of the conditions, while the other one waits for an answer. */
  readonly #evaluate: Evaluate = async (inner, answer) => {
    const call = { ...inner, role: 'conditions', known: [], areWritesAsked: true } as const
    let message = await this.#answer({ evaluate: call }, inner)
    while (message !== null && 'asked' in message) {
      const { asked } = message
      const given = await answered(() => answer(asked))
      message = await this.#answer({ ...given, waitedMs: 0 }, inner)
    }
    if (message !== null && 'evaluated' in message) return message.evaluated
    return { failed: 'LOST', message: 'the sandbox has ended' }
  }

  #answer(
    answer: Answer,
    { deadlineMs }: Pick<GuestCall, 'deadlineMs'>,
  ): Promise<FromSandbox | null> {
    if (this.#ended) return Promise.resolve(null)
    const next = this.#next(deadlineMs + GRACE_MS)
    this.#answers.postMessage(answer)
    Atomics.store(this.#signal, ANSWERED, 1)
    Atomics.notify(this.#signal, ANSWERED)
    return next
  }

  /** What comes next, or null when nothing does within `withinMs`. */
  #next(withinMs: number): Promise<FromSandbox | null> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(null), withinMs)
      this.#listener = (message) => {
        clearTimeout(timer)
        resolve(message)
      }
    })
  }
}

async function answered(answer: () => Promise<string>): Promise<Answered> {
  try {
    return { answer: await answer() }
  } catch (error) {
    return { refused: error instanceof Error ? error.message : String(error) }
  }
}
