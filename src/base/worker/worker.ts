import {
  parentPort,
  receiveMessageOnPort,
  Worker,
  type WorkerOptions,
  workerData,
} from 'node:worker_threads'

/** The members of `Worker` that `WorkerThread` uses. */
export interface Thread {
  postMessage(message: unknown, moved: ArrayBuffer[]): void
  // biome-ignore lint/suspicious/noExplicitAny: the type of Worker.on
  on(event: 'message' | 'error' | 'exit', listener: (value: any) => void): unknown
  ref(): void
  unref(): void
  terminate(): Promise<unknown>
}

/** The port of a thread to the thread that started it. */
export interface ThreadPort<Request = never, Reply = unknown> {
  postMessage(reply: Reply): void
  on(event: 'message', listener: (request: Request) => void): unknown
  close(): void
}

/** The events of a thread, for the thread that started it. */
export interface WorkerEvents<Reply> {
  message?(reply: Reply): void
  /** Called if the thread could not start, or ended because of an error such as out of memory. `ended` follows. */
  failed?(error: Error): void
  /** Called once when the thread has ended, for any reason. */
  ended?(): void
}

export interface WorkerStart extends Pick<WorkerOptions, 'workerData' | 'resourceLimits' | 'env'> {
  readonly name: string
  /** `import.meta.url` of the caller, and the path of the program from there, without its extension. */
  readonly program: readonly [from: string, path: string]
  /** Whether the process stays alive while the thread runs. */
  readonly keepsAlive?: boolean
}

/** Starts programs as threads. The simulation replaces it. */
export interface Threads {
  startThread(program: URL, options: WorkerOptions): Thread
}

export const systemThreads: Threads = {
  startThread: (program, options) => new Worker(program, options),
}

/** A thread, as the thread that started it sees it: it takes `Request` messages and sends `Reply` messages. */
export class WorkerThread<Request, Reply> {
  readonly #thread: Thread | null
  readonly #ended = Promise.withResolvers<void>()
  #hasEnded = false
  #events: WorkerEvents<Reply> | null = null
  /**
   * Events that nobody has received. When a thread ends, all its messages arrive in one turn of the event loop, so it
   * can have ended before the code that started it continues.
   */
  #missed: ((events: WorkerEvents<Reply>) => void)[] = []

  constructor(start: () => Thread) {
    let thread: Thread | null = null
    try {
      thread = start()
      thread.on('message', (reply: Reply) => this.#notify((events) => events.message?.(reply)))
      thread.on('error', (error) => this.#notify((events) => events.failed?.(error)))
      thread.on('exit', () => this.#end())
    } catch (error) {
      // The system has no more memory, threads or open files.
      const failure = error instanceof Error ? error : new Error(String(error))
      queueMicrotask(() => {
        this.#notify((events) => events.failed?.(failure))
        this.#end()
      })
    }
    this.#thread = thread
  }

  /** Sets the receiver of the events, and passes the events to it that nobody has received. Null keeps later events. */
  listen(events: WorkerEvents<Reply> | null): void {
    this.#events = events
    while (this.#events !== null && this.#missed.length > 0) this.#missed.shift()?.(this.#events)
  }

  /** Sends `request`. Moves the buffers in `moved` to the thread instead of copying them. */
  post(request: Request, moved: ArrayBuffer[] = []): void {
    this.#thread?.postMessage(request, moved)
  }

  /** Sends `last`, a request to end, and waits for the end of the thread, which keeps the process alive. */
  async close(last: Request): Promise<void> {
    if (this.#hasEnded) return
    this.#thread?.ref()
    this.post(last)
    await this.#ended.promise
  }

  async terminate(): Promise<void> {
    if (!this.#hasEnded) await this.#thread?.terminate()
  }

  #notify(pass: (events: WorkerEvents<Reply>) => void): void {
    if (this.#events === null) this.#missed.push(pass)
    else pass(this.#events)
  }

  #end(): void {
    this.#hasEnded = true
    this.#notify((events) => events.ended?.())
    this.#ended.resolve()
  }
}

/** Starts a thread. If it cannot start, its event `failed` has the error. */
export function startWorker<Request, Reply>(
  { program: [from, path], keepsAlive = false, ...options }: WorkerStart,
  threads: Threads = systemThreads,
): WorkerThread<Request, Reply> {
  // Development runs the TypeScript sources; a build contains only JavaScript.
  const program = new URL(`${path}.${from.endsWith('.ts') ? 'ts' : 'js'}`, from)
  return new WorkerThread(() => {
    const thread = threads.startThread(program, options)
    if (!keepsAlive) thread.unref()
    return thread
  })
}

/**
 * Runs `serve` if this is a thread that `startWorker` has started. `take` returns the next request that has arrived, or
 * undefined; without it, each request takes an event.
 */
export async function serveThread<Data, Request, Reply>(
  serve: (
    data: Data,
    port: ThreadPort<Request, Reply>,
    take: () => Request | undefined,
  ) => Promise<void>,
): Promise<void> {
  const port = parentPort
  if (port === null) return
  // `WorkerStart.workerData` and the messages have the types that the program expects.
  await serve(workerData as Data, port, () => receiveMessageOnPort(port)?.message)
}
