import { MessageChannel, Worker } from 'node:worker_threads'
import type { GuestAnswer, GuestFailure } from './guest.ts'
import type { Answer, FromSandbox, GuestCall, GuestScripts, SandboxStart } from './messages.ts'

/** The engine calls itself; its own bound comes first, if the thread has room for that. */
const STACK_MB = 16
/** A thread that does not answer so long after its guest's deadline is ended. */
const GRACE_MS = 1_000

/** How a sandbox is made. */
export interface SandboxOptions extends GuestScripts {
  /** The most memory of one guest, bytes. */
  readonly memoryBytes: number
  /** How long a guest may take to load its scripts, milliseconds. */
  readonly bootMs: number
}

/**
 * Answers `host(request)` of a guest, which called `tell` with each of `told` before that; what it
 * throws, the guest sees.
 */
export type Answerer = (
  request: string,
  told: readonly string[],
  evaluate: Evaluate,
) => Promise<string>

/** What a call came to, and what was told when nothing was asked any more. */
export interface Ended {
  readonly answer: GuestAnswer
  readonly told: readonly string[]
}

/** Calls the guest that evaluates conditions, while the other one waits for an answer. */
export type Evaluate = (
  call: Pick<GuestCall, 'request' | 'deadlineMs'>,
  answer: (request: string) => Promise<string>,
) => Promise<GuestAnswer>

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
  call(call: GuestCall, answer: Answerer): Promise<Ended> {
    const turn = this.#last.then(() => this.#call(call, answer))
    this.#last = turn.catch(() => {})
    return turn
  }

  /** Ends the thread when the call that runs has ended. Calls that wait are refused as CLOSED. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#last
    await this.#thread?.end()
    this.#thread = null
  }

  async #call(call: GuestCall, answer: Answerer): Promise<Ended> {
    if (this.#closed) return failed('CLOSED', 'the sandbox is closed')
    this.#thread ??= await Thread.start(this.#options)
    const done = await this.#thread.call(call, answer)
    // With the thread goes all memory that its guests took: the next call begins with another.
    if (this.#thread.worn) {
      await this.#thread.end()
      this.#thread = null
    }
    return done
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
    const signal = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const start: SandboxStart = { ...options, signal, answers: channel.port2 }
    const worker = new Worker(new URL(`./thread.${extension}`, import.meta.url), {
      name: 'network-sandbox',
      workerData: start,
      transferList: [channel.port2],
      env: {},
      resourceLimits: { stackSizeMb: STACK_MB },
    })
    const thread = new Thread(worker, signal, channel)
    const first = await thread.#next(2 * options.bootMs + GRACE_MS)
    if (first !== null && 'ready' in first) return thread
    await thread.end()
    throw new SandboxError(first !== null && 'failed' in first ? first.failed : 'it did not start')
  }

  /** Whether it cannot be called again: it has ended, or one of its guests has given way. */
  get worn(): boolean {
    return this.#worn || this.#ended
  }

  /** One call; the thread is ended when it does not answer in time. */
  async call(call: GuestCall, answer: Answerer): Promise<Ended> {
    const evaluate: Evaluate = async (inner, answerCondition) => {
      const call = { ...inner, role: 'conditions', areWritesAsked: true } as const
      const evaluated = this.#answer({ evaluate: call }, inner)
      const message = await this.#converse(evaluated, inner, answerCondition)
      if (message !== null && 'evaluated' in message) return message.evaluated
      return { failed: 'LOST', message: 'the sandbox has ended' }
    }
    const first = this.#next(call.deadlineMs + GRACE_MS)
    this.#worker.postMessage({ call })
    const message = await this.#converse(first, call, (request, told) =>
      answer(request, told, evaluate),
    )
    if (message !== null && 'done' in message) {
      this.#worn = message.worn
      return { answer: message.done, told: message.told }
    }
    const late = !this.#ended
    await this.end()
    if (late) return failed('DEADLINE', 'out of time')
    return failed('MEMORY', 'the sandbox ran out of memory')
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#worker.terminate()
  }

  /** Answers what a guest asks until it has done with its call. */
  async #converse(
    first: Promise<FromSandbox | null>,
    call: Pick<GuestCall, 'deadlineMs'>,
    answer: (request: string, told: readonly string[]) => Promise<string>,
  ): Promise<FromSandbox | null> {
    let message = await first
    while (message !== null && 'asked' in message) {
      const { asked, told } = message
      message = await this.#answer(await answered(() => answer(asked, told)), call)
    }
    return message
  }

  #answer(
    answer: Answer,
    { deadlineMs }: Pick<GuestCall, 'deadlineMs'>,
  ): Promise<FromSandbox | null> {
    if (this.#ended) return Promise.resolve(null)
    const next = this.#next(deadlineMs + GRACE_MS)
    this.#answers.postMessage(answer)
    Atomics.store(this.#signal, 0, 1)
    Atomics.notify(this.#signal, 0)
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

async function answered(answer: () => Promise<string>): Promise<Answer> {
  try {
    return { answer: await answer() }
  } catch (error) {
    return { refused: error instanceof Error ? error.message : String(error) }
  }
}

function failed(what: GuestFailure, message: string): Ended {
  return { answer: { failed: what, message }, told: [] }
}
