import release from '@jitl/quickjs-wasmfile-release-sync'
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSDeferredPromise,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core'

/** The part of `WebAssembly` that is used here; Node has it, its types do not. */
interface WasmMemory {
  readonly buffer: ArrayBuffer
}
type MemoryClass = new (pages: { initial: number; maximum: number }) => WasmMemory
const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: MemoryClass } }).WebAssembly

// The package's types describe its CommonJS half, where this export is one level down.
const variant = release as unknown as QuickJSSyncVariant

/** WebAssembly counts memory in pages of 64 KiB. */
const PAGE_BYTES = 65_536
/** Memory that an instance starts with: the engine needs 16 MiB. */
const FIRST_PAGES = 256
/** Stack of a guest's own calls. */
const STACK_BYTES = 512 * 1024
/** The memory is scanned for zeros in pieces of this size. */
const PIECE_BYTES = 4_096
const ZEROS = Buffer.alloc(PIECE_BYTES)
/** Copied in front of the stack all the same: the data before it may end in zeros. */
const MARGIN_BYTES = 65_536
/** Characters of requests that wait for an answer: they are outside of the guest's memory. */
const WAITING_LENGTH_MAX = 64 * 1024 * 1024
/** Characters of a guest's error message that are kept. */
const MESSAGE_LENGTH_MAX = 4_096

/** The answer of a guest: JSON text, or how it failed. */
export type GuestAnswer =
  | { readonly value: string }
  | { readonly failed: GuestFailure; readonly message: string }

/**
 * `THROWN`: the guest's code threw. `DEADLINE`: it was stopped. `MEMORY`: it needed more heap or stack
 * than it may have. `LOST`: the engine itself failed.
 */
export type GuestFailure = 'THROWN' | 'DEADLINE' | 'MEMORY' | 'LOST'

/** One script; its name is shown in messages. */
export interface Script {
  readonly name: string
  readonly text: string
}

/** Serves the guest during one call. The messages of the errors thrown here reach the guest. */
export interface GuestHost {
  /** Answers `host(request)`, a promise in the guest. Requests are answered one after the other. */
  answer(request: string): Promise<string>
  /** Takes `log(request)`. */
  log(request: string): void
}

/** How a guest is made. */
export interface GuestOptions {
  /**
   * Evaluated first. Its value is a function that takes `host` and `log` and returns the entry, the
   * function that is called; so the scripts find none of the three.
   */
  readonly program: Script
  /** Evaluated after the program, in order, as global scripts. */
  readonly scripts: readonly Script[]
  /** Memory of the guest and its engine, bytes. */
  readonly memoryBytes: number
}

/**
 * Untrusted JavaScript in QuickJS, compiled to WebAssembly: it reaches its own memory and its host only.
 *
 * A guest is booted once. Its memory is copied then, and every call starts from that copy, so nothing
 * that a call leaves behind is seen by the next. The memory has a hard bound: it is the WebAssembly
 * memory itself that cannot grow. A guest that has failed (`LOST`) or has grown is `worn`: the caller
 * boots another, because such memory never shrinks.
 */
export class Guest {
  readonly #memory: WasmMemory
  readonly #runtime: QuickJSRuntime
  readonly #context: QuickJSContext
  readonly #requests: GuestRequest[] = []
  #waitingLength = 0
  #booted: readonly MemoryPart[] = []
  #bootedBytes = 0
  #entry: QuickJSHandle | null = null
  #host: GuestHost = NO_HOST
  #untilMs: number
  #isOutOfTime = false
  #isLost = false

  private constructor(memory: WasmMemory, runtime: QuickJSRuntime, bootMs: number) {
    this.#memory = memory
    this.#runtime = runtime
    this.#context = runtime.newContext()
    this.#untilMs = performance.now() + bootMs
    runtime.setMaxStackSize(STACK_BYTES)
    runtime.setInterruptHandler(() => {
      this.#isOutOfTime ||= performance.now() > this.#untilMs
      return this.#isOutOfTime
    })
  }

  /** Boots a guest. Errors: GuestBootError when a script throws, or takes longer than `bootMs`. */
  static async boot(options: GuestOptions, bootMs: number): Promise<Guest> {
    const maximum = Math.max(FIRST_PAGES, Math.floor(options.memoryBytes / PAGE_BYTES))
    const memory = new Memory({ initial: FIRST_PAGES, maximum })
    const engine = await newQuickJSWASMModuleFromVariant(
      newVariant(variant, { wasmMemory: memory as never }),
    )
    const guest = new Guest(memory, engine.newRuntime(), bootMs)
    guest.#load(options)
    return guest
  }

  /** Whether this guest must be replaced before the next call. */
  get worn(): boolean {
    return this.#isLost || this.#memory.buffer.byteLength > this.#bootedBytes
  }

  /**
   * Calls the program's entry with a text. It returns a text or a promise of one; the call ends when
   * all that the guest asked `host` for is answered. `deadlineMs` includes the waiting.
   */
  async call(request: string, host: GuestHost, deadlineMs: number): Promise<GuestAnswer> {
    if (this.#isLost) return { failed: 'LOST', message: 'the engine has failed' }
    const memory = Buffer.from(this.#memory.buffer)
    for (const { from, bytes } of this.#booted) memory.set(bytes, from)
    this.#requests.length = 0
    this.#waitingLength = 0
    this.#host = host
    this.#untilMs = performance.now() + deadlineMs
    this.#isOutOfTime = false
    try {
      const answer = await this.#run(request)
      // A guest that is stopped after its answer fails as well: how far it came is chance.
      return this.#isOutOfTime ? OUT_OF_TIME : answer
    } catch (error) {
      // An error of the engine, or of V8 under it (its stack, say): the engine's state is unknown.
      this.#isLost = true
      const message = textOf(error)
      if (/call stack/i.test(message)) return { failed: 'MEMORY', message: 'stack overflow' }
      return { failed: 'LOST', message }
    } finally {
      this.#host = NO_HOST
    }
  }

  // The memory is restored as a whole, so handles are disposed only where a call may make many of them.

  async #run(request: string): Promise<GuestAnswer> {
    const context = this.#context
    const entry = this.#entry ?? context.undefined
    const called = context.callFunction(entry, context.undefined, context.newString(request))
    if (called.error !== undefined) return this.#failure(called.error)
    for (;;) {
      const jobs = this.#runtime.executePendingJobs()
      if (jobs.error !== undefined) return this.#failure(jobs.error)
      const next = this.#requests.shift()
      if (next === undefined) break
      this.#waitingLength -= next.text.length
      await this.#answer(next)
      if (performance.now() > this.#untilMs) return OUT_OF_TIME
    }
    const result = context.getPromiseState(called.value)
    switch (result.type) {
      case 'pending':
        // Nothing is left to run, so the promise is never settled.
        return { failed: 'DEADLINE', message: 'it waits for what never happens' }
      case 'rejected':
        return this.#failure(result.error)
      case 'fulfilled':
        return { value: context.getString(result.value) }
    }
  }

  async #answer({ text, promise }: GuestRequest): Promise<void> {
    try {
      const answer = await this.#host.answer(text)
      this.#context.newString(answer).consume((value) => promise.resolve(value))
    } catch (error) {
      this.#context.newError(textOf(error)).consume((value) => promise.reject(value))
    }
  }

  #load({ program, scripts }: GuestOptions): void {
    const context = this.#context
    const stack = stackIn(Buffer.from(this.#memory.buffer))
    const host = context.newFunction('host', (request) => {
      const text = context.getString(request)
      if (this.#waitingLength + text.length > WAITING_LENGTH_MAX) {
        throw new Error('too many requests wait for an answer')
      }
      this.#waitingLength += text.length
      const promise = context.newPromise()
      this.#requests.push({ text, promise })
      return promise.handle
    })
    const log = context.newFunction('log', (request) => {
      try {
        this.#host.log(context.getString(request))
        return context.undefined
      } catch (error) {
        // Only the message reaches the guest, as from `host`.
        throw new Error(textOf(error))
      }
    })
    const entry = context.callFunction(this.#evaluated(program), context.undefined, host, log)
    if (entry.error !== undefined) throw this.#bootError(program, entry.error)
    this.#entry = entry.value
    for (const script of scripts) this.#evaluated(script).dispose()
    this.#booted = usedParts(Buffer.from(this.#memory.buffer), stack)
    this.#bootedBytes = this.#memory.buffer.byteLength
  }

  /** The value of a script. Errors: GuestBootError. */
  #evaluated(script: Script): QuickJSHandle {
    const result = this.#context.evalCode(script.text, script.name, { type: 'global' })
    if (result.error !== undefined) throw this.#bootError(script, result.error)
    return result.value
  }

  #bootError({ name }: Script, thrown: QuickJSHandle): GuestBootError {
    return new GuestBootError(`${name}: ${messageOf(this.#context.dump(thrown))}`)
  }

  #failure(handle: QuickJSHandle): GuestAnswer {
    const thrown: unknown = this.#context.dump(handle)
    const message = messageOf(thrown)
    if (performance.now() > this.#untilMs) return OUT_OF_TIME
    if (/^InternalError: (?:out of memory|stack overflow|string too long)/.test(message)) {
      return { failed: 'MEMORY', message }
    }
    // The engine throws null when there is no memory left even for an error.
    if (thrown === null && this.worn) return { failed: 'MEMORY', message: 'out of memory' }
    return { failed: 'THROWN', message }
  }
}

/** A call of `host` that is not answered yet. */
interface GuestRequest {
  readonly text: string
  readonly promise: QuickJSDeferredPromise
}

/** Answers nothing. */
export const NO_HOST: GuestHost = {
  answer: () => Promise.reject(new Error('the host is not there')),
  log: () => {},
}
const OUT_OF_TIME = { failed: 'DEADLINE', message: 'out of time' } as const

/** A script of a network that cannot be loaded. */
export class GuestBootError extends Error {
  override readonly name = 'GuestBootError'
}

interface Range {
  readonly from: number
  readonly to: number
}

interface MemoryPart {
  readonly from: number
  readonly bytes: Uint8Array
}

/** The first piece from `at` on that is not zero, or the end of the memory. */
function nextUsed(memory: Buffer, at: number): number {
  let used = at
  while (used < memory.length && ZEROS.equals(memory.subarray(used, used + PIECE_BYTES))) {
    used += PIECE_BYTES
  }
  return used
}

/**
 * The stack of an engine that has run nothing yet: the longest run of zeros in front of something else.
 * Between calls nothing on it counts, and it is longer than all that is used.
 */
function stackIn(memory: Buffer): Range {
  let stack: Range = { from: 0, to: 0 }
  for (let from = 0; from < memory.length; ) {
    const to = nextUsed(memory, from)
    if (to < memory.length && to - from > stack.to - stack.from) stack = { from, to }
    from = to + PIECE_BYTES
  }
  return stack
}

/** A copy of all that an engine has in memory, except the part of its stack that is zeros. */
function usedParts(memory: Buffer, stack: Range): MemoryPart[] {
  const from = Math.min(stack.from + MARGIN_BYTES, stack.to)
  const to = Math.min(nextUsed(memory, from), stack.to)
  let end = memory.length
  while (end > to && nextUsed(memory.subarray(0, end), end - PIECE_BYTES) === end)
    end -= PIECE_BYTES
  return [
    { from: 0, bytes: Buffer.from(memory.subarray(0, from)) },
    { from: to, bytes: Buffer.from(memory.subarray(to, end)) },
  ]
}

/** `<name>: <message>` of a thrown value, which can be anything. */
function messageOf(thrown: unknown): string {
  return wholeMessageOf(thrown).slice(0, MESSAGE_LENGTH_MAX)
}

function wholeMessageOf(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return String(thrown)
  const name = 'name' in thrown && typeof thrown.name === 'string' ? thrown.name : 'Error'
  return 'message' in thrown && typeof thrown.message === 'string'
    ? `${name}: ${thrown.message}`
    : name
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
