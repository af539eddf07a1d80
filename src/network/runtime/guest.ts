import { Engine, type HostFunction, type Pointer } from './engine.ts'

/** What a guest's own calls may take of the stack. */
const STACK_BYTES = 512 * 1024
/** The memory is looked through in pieces of this size. */
const PIECE_BYTES = 4_096
/** Characters that are told of what a guest throws. */
const MESSAGE_LENGTH_MAX = 4_096
const ZEROS = Buffer.alloc(PIECE_BYTES)
/** What is copied of a run of zeros although it is taken for the stack. */
const MARGIN_BYTES = 65_536

/** What a guest answers: JSON text, or how it failed. */
export type GuestAnswer =
  | { readonly value: string }
  | { readonly failed: GuestFailure; readonly message: string }

/**
 * `THROWN`: the guest's code threw. `DEADLINE`: it was stopped. `MEMORY`: it asked for more than
 * there is, of the heap or of the stack. `LOST`: the engine itself gave way. `BUSY`: nobody runs it now.
 */
export type GuestFailure = 'THROWN' | 'DEADLINE' | 'MEMORY' | 'LOST' | 'BUSY'

/** One script; its name is shown in messages. */
export interface Script {
  readonly name: string
  readonly text: string
}

/** How a guest is made. */
export interface GuestOptions {
  /**
   * Evaluated first, as all are as a global script; its value is a function, which is what calls go
   * to. It is held here, not by a name that the scripts behind it could take.
   */
  readonly program: Script
  /** Evaluated after the program, in order. */
  readonly scripts: readonly Script[]
  /** Global functions that are there for the program alone. */
  readonly functions: Readonly<Record<'host' | 'tell', HostFunction>>
  /** The most memory that the guest and its engine may take, bytes. */
  readonly memoryBytes: number
  /** Milliseconds of a clock that never goes back. */
  readonly nowMs: () => number
  /** Asked now and then while the guest runs; when it says true, the call ends as by its deadline. */
  readonly isStopped: () => boolean
}

/**
 * JavaScript that nobody vouches for, in an engine that is compiled to WebAssembly: it reaches its own
 * memory and the functions it is given, and nothing else.
 *
 * A guest is booted once. Then its memory is copied, and every call starts from that copy, so that
 * nothing one call leaves behind is seen by the next. The memory has a hard upper bound: it is the
 * WebAssembly memory itself that cannot grow. A guest that has given way (`LOST`) or has grown is not
 * used again: `worn` says so, and the caller makes a new one, because such memory never shrinks.
 */
export class Guest {
  readonly #engine: Engine
  readonly #booted: readonly UsedPart[]
  readonly #bootedBytes: number
  readonly #entry: Pointer
  readonly #clock: () => number
  readonly #limit: Limit
  #lost = false

  private constructor(engine: Engine, entry: Pointer, clock: () => number, limit: Limit) {
    this.#engine = engine
    this.#entry = entry
    this.#clock = clock
    this.#limit = limit
    this.#bootedBytes = engine.bytes.length
    this.#booted = usedParts(engine)
  }

  /** Boots a guest. Errors: GuestBootError when a script throws, or takes too long. */
  static async boot(options: GuestOptions, bootMs: number): Promise<Guest> {
    const { program, scripts, functions, memoryBytes, nowMs, isStopped } = options
    const limit = { untilMs: nowMs() + bootMs, isReached: false }
    const isOver = () => {
      limit.isReached ||= isStopped() || nowMs() > limit.untilMs
      return limit.isReached
    }
    const engine = await Engine.start({ memoryBytes, stackBytes: STACK_BYTES, isStopped: isOver })
    for (const [name, answer] of Object.entries(functions)) engine.provide(name, answer)
    const entry = loaded(engine, program)
    for (const name of Object.keys(functions)) engine.provide(name, null)
    for (const script of scripts) loaded(engine, script)
    return new Guest(engine, entry, nowMs, limit)
  }

  /** Whether this guest must be replaced by a new one before the next call. */
  get worn(): boolean {
    return this.#lost || this.#engine.bytes.length > this.#bootedBytes
  }

  /**
   * Calls the program's function with two texts. It returns a text, or a promise of one; whatever it
   * left in its memory is forgotten before the next call.
   */
  call(request: string, known: string, deadlineMs: number): GuestAnswer {
    if (this.#lost) return { failed: 'LOST', message: 'the guest has given way' }
    const { bytes: memory } = this.#engine
    for (const { from, bytes } of this.#booted) memory.set(bytes, from)
    this.#limit.untilMs = this.#clock() + deadlineMs
    this.#limit.isReached = false
    try {
      const answer = this.#call(request, known)
      // Also what was stopped behind an answer counts: how far it came is chance.
      return this.#limit.isReached ? OUT_OF_TIME : answer
    } catch (error) {
      // Not an error of the guest's code but of the engine, or of V8 under it (its stack, say):
      // nothing is known of the engine's state any more.
      this.#lost = true
      const message = error instanceof Error ? error.message : String(error)
      if (/call stack/i.test(message)) return { failed: 'MEMORY', message: 'stack overflow' }
      return { failed: 'LOST', message }
    }
  }

  #call(request: string, known: string): GuestAnswer {
    const engine = this.#engine
    const result = engine.call(this.#entry, request, known)
    if ('thrown' in result) return this.#failure(engine.copyOf(result.thrown))
    const thrown = engine.runJobs()
    if (thrown !== null) return this.#failure(engine.copyOf(thrown))
    const settled = engine.settled(result.value)
    // All that could run has run: what it waits for never comes.
    if (settled === null) return { failed: 'DEADLINE', message: 'it waits for what never happens' }
    if ('thrown' in settled) return this.#failure(engine.copyOf(settled.thrown))
    return { value: engine.textOf(settled.value) }
  }

  #failure(thrown: unknown): GuestAnswer {
    const message = messageOf(thrown)
    if (this.#clock() > this.#limit.untilMs) return OUT_OF_TIME
    if (/^InternalError: (?:out of memory|stack overflow|string too long)/.test(message)) {
      return { failed: 'MEMORY', message }
    }
    // The engine throws null when there is no room left even for an error.
    if (thrown === null && this.worn) return { failed: 'MEMORY', message: 'out of memory' }
    return { failed: 'THROWN', message }
  }
}

/** When a guest is stopped, and whether it was. */
interface Limit {
  /** By the guest's clock. */
  untilMs: number
  isReached: boolean
}

const OUT_OF_TIME = { failed: 'DEADLINE', message: 'out of time' } as const

/** A script of a network that cannot even be loaded. */
class GuestBootError extends Error {
  override readonly name = 'GuestBootError'
}

/** The value of `script`. Errors: GuestBootError. */
function loaded(engine: Engine, { name, text }: Script): Pointer {
  const result = engine.evaluate(name, text)
  if ('value' in result) return result.value
  throw new GuestBootError(`${name}: ${messageOf(engine.copyOf(result.thrown))}`)
}

/**
 * A copy of all that the engine has in memory: what it was compiled with, then its heap up to the last
 * piece that holds something. Between the two lies its stack, which is longer than both together. The
 * part of it that loading the scripts did not reach is the longest run of zeros in front of the heap,
 * and is left out: between calls nothing on the stack counts. What lies in front of the stack may end
 * in zeros that do count, so the run begins `MARGIN_BYTES` late.
 */
function usedParts({ bytes: all, heapFrom }: Engine): UsedPart[] {
  const isUsed = (at: number) => Buffer.compare(all.subarray(at, at + PIECE_BYTES), ZEROS) !== 0
  let end = 0
  const gap = { from: 0, to: 0 }
  for (let at = 0; at < all.length; at += PIECE_BYTES) {
    if (!isUsed(at)) continue
    if (at <= heapFrom && at - end > gap.to - gap.from) Object.assign(gap, { from: end, to: at })
    end = at + PIECE_BYTES
  }
  const front = Math.min(gap.from + MARGIN_BYTES, gap.to)
  return [partOf(all, 0, front), partOf(all, gap.to, end)]
}

function partOf(all: Buffer, from: number, to: number): UsedPart {
  return { from, bytes: Uint8Array.from(all.subarray(from, to)) }
}

interface UsedPart {
  readonly from: number
  readonly bytes: Uint8Array
}

/** `<name>: <message>` of what was thrown, which can be anything. */
function messageOf(thrown: unknown): string {
  return wholeMessageOf(thrown).slice(0, MESSAGE_LENGTH_MAX)
}

function wholeMessageOf(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return String(thrown)
  // Members of it can be anything, too.
  const name = 'name' in thrown && typeof thrown.name === 'string' ? thrown.name : 'Error'
  const isTold = 'message' in thrown && typeof thrown.message === 'string'
  return isTold ? `${name}: ${thrown.message}` : name
}
