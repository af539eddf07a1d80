import release from '@jitl/quickjs-wasmfile-release-sync'
import { parseJson } from '../../base/json.ts'

/** The part of `WebAssembly.Memory` that is used here; Node has it, its types do not. */
interface WasmMemory {
  readonly buffer: ArrayBuffer
}
type MemoryClass = new (pages: { initial: number; maximum: number }) => WasmMemory
const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: MemoryClass } }).WebAssembly

/** Where something is in the memory of an engine; 0 is nowhere. */
export type Pointer = number

/** What the engine calls. */
interface Callbacks {
  callFunction(
    _: unknown,
    context: Pointer,
    self: Pointer,
    count: number,
    given: Pointer,
    id: number,
  ): Pointer
  shouldInterrupt(): 0 | 1
  loadModuleSource(): Pointer
  normalizeModule(): Pointer
  freeHostRef(): void
}

/** The compiled engine. */
interface Module {
  callbacks: Callbacks
  _malloc(bytes: number): Pointer
  _free(pointer: Pointer): void
}

/** What is exported of it, as far as it is used here. Values are given and returned as pointers. */
interface Library {
  QTS_NewRuntime(): Pointer
  QTS_NewContext(runtime: Pointer, intrinsics: number): Pointer
  QTS_RuntimeSetMaxStackSize(runtime: Pointer, bytes: number): void
  QTS_RuntimeEnableInterruptHandler(runtime: Pointer): void
  QTS_GetUndefined(): Pointer
  QTS_GetGlobalObject(context: Pointer): Pointer
  QTS_SetProp(context: Pointer, of: Pointer, name: Pointer, value: Pointer): void
  QTS_NewString(context: Pointer, text: Pointer): Pointer
  QTS_NewError(context: Pointer): Pointer
  QTS_NewFunction(
    context: Pointer,
    name: string,
    count: number,
    constructs: boolean,
    id: number,
  ): Pointer
  QTS_ArgvGetJSValueConstPointer(given: Pointer, at: number): Pointer
  QTS_Throw(context: Pointer, error: Pointer): Pointer
  QTS_Eval(
    context: Pointer,
    text: Pointer,
    bytes: number,
    name: string,
    detectModule: number,
    flags: number,
  ): Pointer
  QTS_Call(context: Pointer, called: Pointer, self: Pointer, count: number, given: Pointer): Pointer
  QTS_ResolveException(context: Pointer, result: Pointer): Pointer
  QTS_ExecutePendingJob(runtime: Pointer, max: number, lastContext: Pointer): Pointer
  QTS_PromiseState(context: Pointer, promise: Pointer): number
  QTS_PromiseResult(context: Pointer, promise: Pointer): Pointer
  QTS_Typeof(context: Pointer, value: Pointer): Pointer
  QTS_GetString(context: Pointer, value: Pointer): Pointer
  QTS_FreeCString(context: Pointer, text: Pointer): void
  QTS_FreeValuePointer(context: Pointer, value: Pointer): void
  QTS_GetSymbolDescriptionOrKey(context: Pointer, value: Pointer): Pointer
  QTS_Dump(context: Pointer, value: Pointer): Pointer
}

// The package's types describe its CommonJS half, where this export is one level down.
const variant = release as unknown as {
  importFFI(): Promise<new (module: Module) => Library>
  importModuleLoader(): Promise<(options: { wasmMemory: WasmMemory }) => Promise<Module>>
}

/** WebAssembly counts memory in pages of 64 KiB. */
const PAGE_BYTES = 65_536
/** What an instance starts with: the engine asks for 16 MiB. */
const FIRST_PAGES = 256
/** All that the language has; without a module loader, and no script is a module. */
const ALL_INTRINSICS = 0
const GLOBAL_SCRIPT = 0
const POINTER_BYTES = 4
/** As many pending jobs as there are. */
const ALL_JOBS = -1
const PENDING = 0
const REJECTED = 2

/** What a guest may call: synchronous, text in and text out. */
export type HostFunction = (request: string) => string

/** A value of the guest's, or what it threw instead. */
export type Outcome = { readonly value: Pointer } | { readonly thrown: Pointer }

/** How an engine is made. */
export interface EngineOptions {
  /** The most memory that it may take for itself and its scripts, bytes. */
  readonly memoryBytes: number
  /** What calls inside it may take of its stack, bytes. */
  readonly stackBytes: number
  /** Asked now and then while it runs; when it says true, what runs is ended. */
  readonly isStopped: () => boolean
}

/**
 * QuickJS, compiled to WebAssembly, in a memory of its own.
 *
 * It is called as its package exports it, without the layer that comes with it and keeps account of
 * each value: that was a fifth of a short call. Whoever calls this puts the memory back as a whole, so
 * of a call only that is freed here which could come to much.
 * Source: docs/decisions/0124-calls-of-a-guest.md.
 */
export class Engine {
  readonly #memory: WasmMemory
  readonly #module: Module
  readonly #library: Library
  readonly #runtime: Pointer
  readonly #context: Pointer
  /** Room for two pointers. */
  readonly #place: Pointer
  readonly #functions: HostFunction[] = []
  #bytes: Buffer

  private constructor(memory: WasmMemory, module: Module, library: Library) {
    this.#memory = memory
    this.#module = module
    this.#library = library
    this.#bytes = Buffer.from(memory.buffer)
    this.#place = module._malloc(2 * POINTER_BYTES)
    this.#runtime = library.QTS_NewRuntime()
    this.#context = library.QTS_NewContext(this.#runtime, ALL_INTRINSICS)
  }

  static async start({ memoryBytes, stackBytes, isStopped }: EngineOptions): Promise<Engine> {
    const maximum = Math.max(FIRST_PAGES, Math.floor(memoryBytes / PAGE_BYTES))
    const memory = new Memory({ initial: FIRST_PAGES, maximum })
    const [load, Exported] = await Promise.all([variant.importModuleLoader(), variant.importFFI()])
    const module = await load({ wasmMemory: memory })
    const engine = new Engine(memory, module, new Exported(module))
    module.callbacks = {
      callFunction: (_, _context, _self, _count, given, id) => engine.#answered(given, id),
      shouldInterrupt: () => (isStopped() ? 1 : 0),
      loadModuleSource: () => 0,
      normalizeModule: () => 0,
      freeHostRef: () => {},
    }
    engine.#library.QTS_RuntimeSetMaxStackSize(engine.#runtime, stackBytes)
    engine.#library.QTS_RuntimeEnableInterruptHandler(engine.#runtime)
    return engine
  }

  /** All of its memory. It is another object when the engine has taken more. */
  get bytes(): Buffer {
    const { buffer } = this.#memory
    if (this.#bytes.buffer !== buffer) this.#bytes = Buffer.from(buffer)
    return this.#bytes
  }

  /** Where its heap begins: nothing in front of that was ever allocated. */
  get heapFrom(): number {
    return this.#place
  }

  /** Puts a function into the guest's global scope; null takes it out again. */
  provide(name: string, answer: HostFunction | null): void {
    const context = this.#context
    const library = this.#library
    const value =
      answer === null
        ? library.QTS_GetUndefined()
        : library.QTS_NewFunction(context, name, 1, false, this.#functions.push(answer) - 1)
    library.QTS_SetProp(context, library.QTS_GetGlobalObject(context), this.newText(name), value)
  }

  /** The value of `text`, evaluated as a global script; messages show it as `name`. */
  evaluate(name: string, text: string): Outcome {
    const written = this.#written(text)
    const length = Buffer.byteLength(text)
    const library = this.#library
    const result = library.QTS_Eval(this.#context, written, length, name, 0, GLOBAL_SCRIPT)
    this.#module._free(written)
    return this.#outcome(result)
  }

  /** Calls a function with two texts. */
  call(called: Pointer, one: string, other: string): Outcome {
    const library = this.#library
    const given = [this.newText(one), this.newText(other)] as const
    this.bytes.writeUInt32LE(given[0], this.#place)
    this.bytes.writeUInt32LE(given[1], this.#place + POINTER_BYTES)
    const self = library.QTS_GetUndefined()
    return this.#outcome(library.QTS_Call(this.#context, called, self, 2, this.#place))
  }

  /** Runs what waits to be run until nothing does; gives what was thrown, or null. */
  runJobs(): Pointer | null {
    this.bytes.writeUInt32LE(0, this.#place)
    const result = this.#library.QTS_ExecutePendingJob(this.#runtime, ALL_JOBS, this.#place)
    // It is the number of jobs, unless one of them threw.
    const isNone = this.bytes.readUInt32LE(this.#place) === 0
    return isNone || this.typeOf(result) === 'number' ? null : result
  }

  /** What `value` came to, if it is a promise: null when that is not known. Else itself. */
  settled(value: Pointer): Outcome | null {
    const state = this.#library.QTS_PromiseState(this.#context, value)
    if (state < 0) return { value }
    if (state === PENDING) return null
    const result = this.#library.QTS_PromiseResult(this.#context, value)
    return state === REJECTED ? { thrown: result } : { value: result }
  }

  /** What `typeof` says of it. */
  typeOf(value: Pointer): string {
    const text = this.#library.QTS_Typeof(this.#context, value)
    const type = this.#read(text)
    this.#module._free(text)
    return type
  }

  /** What `String` says of it. */
  textOf(value: Pointer): string {
    const text = this.#library.QTS_GetString(this.#context, value)
    const read = this.#read(text)
    if (text !== 0) this.#library.QTS_FreeCString(this.#context, text)
    return read
  }

  /** A copy of it, as far as JSON has words for it. */
  copyOf(value: Pointer): unknown {
    const type = this.typeOf(value)
    if (type === 'undefined') return undefined
    if (type === 'symbol') {
      const text = this.#library.QTS_GetSymbolDescriptionOrKey(this.#context, value)
      return `Symbol(${this.#read(text)})`
    }
    if (type !== 'object' && type !== 'function') return this.textOf(value)
    const text = this.#read(this.#library.QTS_Dump(this.#context, value))
    try {
      return parseJson(text)
    } catch {
      return text
    }
  }

  /** A text as a value of the guest's. */
  newText(text: string): Pointer {
    const written = this.#written(text)
    const value = this.#library.QTS_NewString(this.#context, written)
    this.#module._free(written)
    return value
  }

  #outcome(result: Pointer): Outcome {
    const thrown = this.#library.QTS_ResolveException(this.#context, result)
    return thrown === 0 ? { value: result } : { thrown }
  }

  /** The guest calls a function that it was provided with. */
  #answered(given: Pointer, id: number): Pointer {
    const library = this.#library
    try {
      const request = this.textOf(library.QTS_ArgvGetJSValueConstPointer(given, 0))
      return this.newText(this.#functions[id]?.(request) ?? '')
    } catch (error) {
      const { name, message } = error instanceof Error ? error : new Error(String(error))
      const thrown = library.QTS_NewError(this.#context)
      this.#setText(thrown, 'name', name)
      this.#setText(thrown, 'message', message)
      const result = library.QTS_Throw(this.#context, thrown)
      library.QTS_FreeValuePointer(this.#context, thrown)
      return result
    }
  }

  #setText(of: Pointer, name: string, text: string): void {
    const values = [this.newText(name), this.newText(text)] as const
    this.#library.QTS_SetProp(this.#context, of, ...values)
    for (const value of values) this.#library.QTS_FreeValuePointer(this.#context, value)
  }

  /** Writes `text` into memory, with a zero behind it. */
  #written(text: string): Pointer {
    const length = Buffer.byteLength(text)
    const written = this.#module._malloc(length + 1)
    if (written === 0) throw new Error('out of memory')
    const { bytes } = this
    bytes.write(text, written, length)
    bytes[written + length] = 0
    return written
  }

  /** The text that ends with a zero. */
  #read(text: Pointer): string {
    if (text === 0) return ''
    const { bytes } = this
    return bytes.toString('utf8', text, bytes.indexOf(0, text))
  }
}
