import { MessageChannel, Worker } from 'node:worker_threads'
import type { GuestAnswer } from './guest.ts'
import type { Answer, FromSandbox, GuestCall, Role, SandboxStart, Script } from './messages.ts'

/** The engine calls itself; its own bound comes first, if the thread has room for that. */
const STACK_MB = 16
/** A thread that does not answer so long after its guest's deadline is ended. */
const GRACE_MS = 1_000

/** How a sandbox is made. */
export interface SandboxOptions {
  /** What each of the guests loads. */
  readonly scripts: Readonly<Record<Role, readonly Script[]>>
  /** The most memory of one guest, bytes. */
  readonly memoryBytes: number
  /** How long a guest may take to load its scripts, milliseconds. */
  readonly bootMs: number
}

/** What the guests of a sandbox ask of their network, in the guest's own words. */
export interface SandboxHost {
  /** Answers `host(request)`; what it throws, the guest sees. */
  answer(request: string, evaluate: Evaluate): Promise<string>
}

/** Calls a function of the guest that evaluates conditions. */
export type Evaluate = (call: Omit<GuestCall, 'role'>) => Promise<GuestAnswer>

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

  /** Calls a guest's global function; `host` answers what it asks meanwhile. */
  call(call: GuestCall, host: SandboxHost): Promise<GuestAnswer> {
    const turn = this.#last.then(() => this.#call(call, host))
    this.#last = turn.catch(() => {})
    return turn
  }

  /** Ends the thread. Calls that wait are told that the guest is lost. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#thread?.end()
    this.#thread = null
  }

  async #call(call: GuestCall, host: SandboxHost): Promise<GuestAnswer> {
    if (this.#closed) return { failed: 'LOST', message: 'the sandbox is closed' }
    this.#thread ??= await Thread.start(this.#options)
    const answer = await this.#thread.call(call, host)
    if (this.#thread?.ended) this.#thread = null
    return answer
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
  ended = false

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
      this.ended = true
      channel.port1.close()
      this.#listener(null)
    })
  }

  static async start({ scripts, memoryBytes, bootMs }: SandboxOptions): Promise<Thread> {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const channel = new MessageChannel()
    const signal = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const start: SandboxStart = { scripts, memoryBytes, bootMs, signal, answers: channel.port2 }
    const worker = new Worker(new URL(`./thread.${extension}`, import.meta.url), {
      name: 'network-sandbox',
      workerData: start,
      transferList: [channel.port2],
      env: {},
      resourceLimits: { stackSizeMb: STACK_MB },
    })
    const thread = new Thread(worker, signal, channel)
    const first = await thread.#next(2 * bootMs + GRACE_MS)
    if (first !== null && 'ready' in first) return thread
    await thread.end()
    throw new SandboxError(first !== null && 'failed' in first ? first.failed : 'it did not start')
  }

  /** One call; the thread is ended when it does not answer in time. */
  async call(call: GuestCall, host: SandboxHost): Promise<GuestAnswer> {
    const evaluate: Evaluate = async (inner) => {
      const message = await this.#answer({ evaluate: { ...inner, role: 'conditions' } }, inner)
      if (message !== null && 'evaluated' in message) return message.evaluated
      return { failed: 'LOST', message: 'the sandbox has ended' }
    }
    this.#worker.postMessage({ call })
    let message = await this.#next(call.deadlineMs + GRACE_MS)
    while (message !== null && 'asked' in message) {
      const answer = await answered(host, message.asked, evaluate)
      message = await this.#answer(answer, call)
    }
    if (message !== null && 'done' in message) return message.done
    const late = !this.ended
    await this.end()
    if (late) return { failed: 'DEADLINE', message: 'out of time' }
    return { failed: 'MEMORY', message: 'the sandbox ran out of memory' }
  }

  async end(): Promise<void> {
    this.ended = true
    await this.#worker.terminate()
  }

  #answer(answer: Answer, { deadlineMs }: { deadlineMs: number }): Promise<FromSandbox | null> {
    if (this.ended) return Promise.resolve(null)
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

async function answered(host: SandboxHost, request: string, evaluate: Evaluate): Promise<Answer> {
  try {
    return { answer: await host.answer(request, evaluate) }
  } catch (error) {
    return { refused: error instanceof Error ? error.message : String(error) }
  }
}
