import release from '@jitl/quickjs-wasmfile-release-sync'
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core'
import { errorMessage } from '../../base/errors.ts'
import type { EngineModule } from './engine.ts'
import type { GuestClock } from './guest-clock.ts'

/** The part of `WebAssembly` used in this file. Node's types do not declare `WebAssembly`. */
interface WasmMemory {
  readonly buffer: ArrayBuffer
}
type MemoryClass = new (pages: { initial: number; maximum: number }) => WasmMemory
const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: MemoryClass } }).WebAssembly

// The cast is needed, because the package's types describe its CommonJS build, in which this export is nested one level
// deeper.
const variant = release as unknown as QuickJSSyncVariant

/** Size of a page of WebAssembly memory. */
const PAGE_BYTES = 65_536
/** Initial memory of a guest in pages: 16 MiB, which the engine needs. */
const FIRST_PAGES = 256
/** Maximum stack size of a guest. */
const STACK_BYTES = 512 * 1024
/** Size of the pieces in which the memory is searched for zeros. */
const PIECE_BYTES = 4_096
const ZEROS = Buffer.alloc(PIECE_BYTES)
/** Number of zero bytes at the start of the stack that `usedParts` copies: the data before the stack can end with zeros. */
const MARGIN_BYTES = 65_536
/** Maximum characters of all unanswered requests together. Requests are stored outside of the guest's memory. */
const WAITING_LENGTH_MAX = 64 * 1024 * 1024
/** Maximum characters of a guest's error message; longer messages are truncated. */
const MESSAGE_LENGTH_MAX = 4_096

/**
 * Makes the promises of `host` inside of the guest, because each call from the host into the guest takes long. `resolve`
 * and `reject` settle the oldest promise. Keeps copies, because scripts may replace the globals.
 */
const PROMISES = {
  name: 'promises',
  text: `((send) => {
    const [OwnPromise, OwnError] = [Promise, Error]
    const waiting = { __proto__: null }
    let [first, next] = [0, 0]
    const settle = (how, value) => { const at = first; first += 1; waiting[at][how](value); delete waiting[at] }
    return {
      host: (request) => {
        send(request)
        return new OwnPromise((resolve, reject) => { waiting[next] = { resolve, reject }; next += 1 })
      },
      resolve: (text) => settle('resolve', text),
      reject: (text) => settle('reject', new OwnError(text)),
    }
  })`,
}

/** The answer of a guest: JSON text, or a failure. */
export type GuestAnswer =
  | { readonly value: string }
  | { readonly failed: GuestFailure; readonly message: string }

/**
 * `THROWN`: the guest's code threw. `DEADLINE`: the guest was stopped at its deadline, or waits for a promise that
 * never settles. `MEMORY`: the guest exceeded its heap or stack. `LOST`: the engine itself failed.
 */
export type GuestFailure = 'THROWN' | 'DEADLINE' | 'MEMORY' | 'LOST'

/** A script. Its name appears in error messages. */
export interface Script {
  readonly name: string
  readonly text: string
}

/** Serves the guest during one call. If a method throws, the guest receives only the error's message. */
export interface GuestHost {
  /** Answers `host(request)`, which returns a promise in the guest. Requests are answered one at a time. */
  answer(request: string): Promise<string>
  /** Handles `log(request)`. */
  log(request: string): void
}

/** The program, the scripts and the memory limit of a guest. */
export interface GuestOptions {
  /**
   * Evaluated first. Its value is a function that receives `host` and `log` and returns the entry, the function to
   * call. The scripts can access neither `host`, nor `log`, nor the entry.
   */
  readonly program: Script
  /** Evaluated after the program, in order, as global scripts. */
  readonly scripts: readonly Script[]
  readonly engine: EngineModule
  readonly clock: GuestClock
  /** Maximum memory of the guest and its engine in bytes. */
  readonly memoryBytes: number
}

/**
 * Runs untrusted JavaScript in QuickJS, compiled to WebAssembly. The code can access only its own memory and its
 * host.
 *
 * A guest is booted once, and its memory is copied. Every call starts from that copy, so no call sees the effects of
 * an earlier call. The memory limit is strict, because the WebAssembly memory cannot grow beyond its maximum. A guest
 * that has failed (`LOST`) or whose memory has grown is `worn`: WebAssembly memory never shrinks, so the caller must
 * boot another guest.
 */
export class Guest {
  readonly #clock: GuestClock
  readonly #memory: WasmMemory
  readonly #runtime: QuickJSRuntime
  readonly #context: QuickJSContext
  /** Unanswered calls of `host`, oldest first. */
  readonly #requests: string[] = []
  #waitingLength = 0
  #booted: readonly MemoryPart[] = []
  #bootedBytes = 0
  #entry: QuickJSHandle | null = null
  #resolve: QuickJSHandle | null = null
  #reject: QuickJSHandle | null = null
  #host: GuestHost = NO_HOST
  #untilMs: number
  #isOutOfTime = false
  #isLost = false

  private constructor(
    memory: WasmMemory,
    runtime: QuickJSRuntime,
    { clock, bootMs }: { readonly clock: GuestClock; readonly bootMs: number },
  ) {
    this.#clock = clock
    this.#memory = memory
    this.#runtime = runtime
    this.#context = runtime.newContext()
    this.#untilMs = this.#clock.now() + bootMs
    runtime.setMaxStackSize(STACK_BYTES)
    runtime.setInterruptHandler(() => {
      this.#isOutOfTime ||= this.#clock.now() > this.#untilMs
      return this.#isOutOfTime
    })
  }

  /** Boots a guest. Errors: GuestBootError if a script throws or takes longer than `bootMs`. */
  static async boot(options: GuestOptions, bootMs: number): Promise<Guest> {
    const maximum = Math.max(FIRST_PAGES, Math.floor(options.memoryBytes / PAGE_BYTES))
    const memory = new Memory({ initial: FIRST_PAGES, maximum })
    const engine = await newQuickJSWASMModuleFromVariant(
      newVariant(variant, { wasmModule: options.engine as never, wasmMemory: memory as never }),
    )
    const guest = new Guest(memory, engine.newRuntime(), { clock: options.clock, bootMs })
    guest.#load(options)
    return guest
  }

  /** Whether this guest must be replaced before the next call. */
  get worn(): boolean {
    return this.#isLost || this.#memory.buffer.byteLength > this.#bootedBytes
  }

  /**
   * Calls the program's entry with a text. The entry returns a text or a promise of a text. The call ends when all
   * requests to `host` are answered. `deadlineMs` includes the time to answer these requests, except the waits of `clock`.
   */
  async call(request: string, host: GuestHost, deadlineMs: number): Promise<GuestAnswer> {
    if (this.#isLost) return { failed: 'LOST', message: 'the engine has failed' }
    const memory = Buffer.from(this.#memory.buffer)
    for (const { from, bytes } of this.#booted) memory.set(bytes, from)
    this.#requests.length = 0
    this.#waitingLength = 0
    this.#host = host
    this.#untilMs = this.#clock.now() + deadlineMs
    this.#isOutOfTime = false
    try {
      const answer = await this.#run(request)
      // A guest that was stopped after its result was complete fails too, because it is random how much of its
      // remaining work ran.
      return this.#isOutOfTime ? OUT_OF_TIME : answer
    } catch (error) {
      // The engine or V8 failed (for example, V8's stack overflowed), so the state of the engine is unknown.
      this.#isLost = true
      const message = errorMessage(error)
      if (/call stack/i.test(message)) return { failed: 'MEMORY', message: 'stack overflow' }
      return { failed: 'LOST', message }
    } finally {
      this.#host = NO_HOST
    }
  }

  // The whole memory is restored before each call, so handles are disposed only where a call can create many of them.

  async #run(request: string): Promise<GuestAnswer> {
    const context = this.#context
    const called = this.#callWith(this.#entry, request)
    if (called.error !== undefined) return this.#failure(called.error)
    for (;;) {
      const jobs = this.#runtime.executePendingJobs()
      if (jobs.error !== undefined) return this.#failure(jobs.error)
      const next = this.#requests.shift()
      if (next === undefined) break
      this.#waitingLength -= next.length
      const settled = await this.#answer(next)
      if (settled.error !== undefined) return this.#failure(settled.error)
      if (this.#clock.now() > this.#untilMs) return OUT_OF_TIME
    }
    const result = context.getPromiseState(called.value)
    switch (result.type) {
      case 'pending':
        // There are no more jobs, so the promise is never settled.
        return { failed: 'DEADLINE', message: 'it waits for a promise that never settles' }
      case 'rejected':
        return this.#failure(result.error)
      case 'fulfilled':
        return { value: context.getString(result.value) }
    }
  }

  async #answer(request: string) {
    try {
      return this.#callWith(this.#resolve, await this.#host.answer(request))
    } catch (error) {
      return this.#callWith(this.#reject, errorMessage(error))
    }
  }

  #callWith(guestFunction: QuickJSHandle | null, text: string) {
    const context = this.#context
    const called = guestFunction ?? context.undefined
    return context
      .newString(text)
      .consume((value) => context.callFunction(called, context.undefined, value))
  }

  #load({ program, scripts }: GuestOptions): void {
    const context = this.#context
    const stack = findStack(Buffer.from(this.#memory.buffer))
    const send = context.newFunction('send', (request) => {
      const text = context.getString(request)
      if (this.#waitingLength + text.length > WAITING_LENGTH_MAX) {
        throw new Error('too many requests wait for an answer')
      }
      this.#waitingLength += text.length
      this.#requests.push(text)
      return context.undefined
    })
    const log = context.newFunction('log', (request) => {
      try {
        this.#host.log(context.getString(request))
        return context.undefined
      } catch (error) {
        // The guest receives only the message of the error, as for a call of `host`.
        throw new Error(errorMessage(error))
      }
    })
    const promises = context.unwrapResult(
      context.callFunction(this.#evaluated(PROMISES), context.undefined, send),
    )
    const host = context.getProp(promises, 'host')
    this.#resolve = context.getProp(promises, 'resolve')
    this.#reject = context.getProp(promises, 'reject')
    const entry = context.callFunction(this.#evaluated(program), context.undefined, host, log)
    if (entry.error !== undefined) throw this.#bootError(program, entry.error)
    this.#entry = entry.value
    for (const script of scripts) this.#evaluated(script).dispose()
    this.#booted = usedParts(Buffer.from(this.#memory.buffer), stack)
    this.#bootedBytes = this.#memory.buffer.byteLength
  }

  /** Evaluates a script and returns its value. Errors: GuestBootError. */
  #evaluated(script: Script): QuickJSHandle {
    const result = this.#context.evalCode(script.text, script.name, { type: 'global' })
    if (result.error !== undefined) throw this.#bootError(script, result.error)
    return result.value
  }

  #bootError({ name }: Script, thrown: QuickJSHandle): GuestBootError {
    return new GuestBootError(`${name}: ${formatThrown(this.#context.dump(thrown))}`)
  }

  #failure(handle: QuickJSHandle): GuestAnswer {
    const thrown: unknown = this.#context.dump(handle)
    const message = formatThrown(thrown)
    if (this.#clock.now() > this.#untilMs) return OUT_OF_TIME
    if (/^InternalError: (?:out of memory|stack overflow|string too long)/.test(message)) {
      return { failed: 'MEMORY', message }
    }
    // The engine throws null if there is not enough memory for an error object.
    if (thrown === null && this.worn) return { failed: 'MEMORY', message: 'out of memory' }
    return { failed: 'THROWN', message }
  }
}

/** A host that rejects every request. */
export const NO_HOST: GuestHost = {
  answer: () => Promise.reject(new Error('the host is not available')),
  log: () => {},
}
const OUT_OF_TIME = { failed: 'DEADLINE', message: 'out of time' } as const

/** Thrown if a script cannot be loaded. */
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

/** Returns the offset of the first non-zero piece at or after `at`, or the end of the memory. */
function nextUsed(memory: Buffer, at: number): number {
  let used = at
  while (used < memory.length && ZEROS.equals(memory.subarray(used, used + PIECE_BYTES))) {
    used += PIECE_BYTES
  }
  return used
}

/**
 * Returns the location of the stack of a new engine: the longest run of zeros before other data, because the stack is
 * longer than all memory in use. The content of the stack is irrelevant between calls.
 */
function findStack(memory: Buffer): Range {
  let stack: Range = { from: 0, to: 0 }
  for (let from = 0; from < memory.length; ) {
    const to = nextUsed(memory, from)
    if (to < memory.length && to - from > stack.to - stack.from) stack = { from, to }
    from = to + PIECE_BYTES
  }
  return stack
}

/** Copies the memory of an engine, except the zeros in its stack and at the end of the memory. */
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

/** Returns `<name>: <message>` for a thrown value of any type, truncated to MESSAGE_LENGTH_MAX. */
function formatThrown(thrown: unknown): string {
  return thrownText(thrown).slice(0, MESSAGE_LENGTH_MAX)
}

function thrownText(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return String(thrown)
  const name = 'name' in thrown && typeof thrown.name === 'string' ? thrown.name : 'Error'
  return 'message' in thrown && typeof thrown.message === 'string'
    ? `${name}: ${thrown.message}`
    : name
}
