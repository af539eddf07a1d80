import { createHash } from 'node:crypto'
import type { Schedule } from '../../src/base/clock.ts'

/** Time at which a world starts, milliseconds since the Unix epoch. */
const START_MS = 1_800_000_000_000
/** Maximum number of trace lines that are kept. The hash of the trace covers all lines. */
const TRACE_LINES = 4_000

interface Due {
  readonly atMs: number
  /** Events at the same time run in the order of their numbers, which is the order in which they were scheduled. */
  readonly number: number
  readonly run: () => void
}

/**
 * Time, randomness and scheduling of a world, all derived from its seed. Everything happens in events. All
 * work that one event causes is completed before the next event, so a seed always gives the same run.
 */
export class World implements Schedule {
  readonly seed: number
  nowMs = START_MS
  /** Number of messages between threads that are not delivered yet. */
  underWay = 0
  /** Descriptions of the violated invariants. */
  readonly faults: string[] = []
  readonly trace: string[] = []
  readonly #hash = createHash('sha256')
  #queue: Due[] = []
  #count = 0
  #state: number

  constructor(seed: number) {
    this.seed = seed
    this.#state = Math.imul(seed, 0x9e3779b1) >>> 0
  }

  /** Returns a random number of at least 0 and less than 1. Source: mulberry32. */
  chance(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Returns true with this probability. */
  happens(probability: number): boolean {
    return this.chance() < probability
  }

  /** Returns a random integer of at least `from` and less than `to`. */
  between(from: number, to: number): number {
    return from + Math.floor(this.chance() * (to - from))
  }

  /** Returns a random element of `list`, which must not be empty. */
  one<Value>(list: readonly Value[]): Value {
    return list[this.between(0, list.length)] as Value
  }

  /** Returns random bytes. */
  bytes(count: number): Buffer {
    return Buffer.from(Array.from({ length: count }, () => this.between(0, 256)))
  }

  after(ms: number, run: () => void): () => void {
    const due = { atMs: this.nowMs + Math.max(0, ms), number: this.#count, run }
    this.#count += 1
    let at = this.#queue.length
    while (at > 0 && isBefore(due, this.#queue[at - 1])) at -= 1
    this.#queue.splice(at, 0, due)
    return () => {
      const found = this.#queue.indexOf(due)
      if (found !== -1) this.#queue.splice(found, 1)
    }
  }

  /** Adds a line to the trace. */
  note(line: string): void {
    const dated = `${((this.nowMs - START_MS) / 1000).toFixed(3)} ${line}`
    this.#hash.update(`${dated}\n`)
    if (this.trace.length < TRACE_LINES) this.trace.push(dated)
  }

  fault(problem: string): void {
    this.note(`FAULT ${problem}`)
    this.faults.push(problem)
  }

  /** SHA-256 of the whole trace, hex. */
  get traceHash(): string {
    return this.#hash.copy().digest('hex')
  }

  /** Runs all events of the next `ms` milliseconds. */
  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms
    await this.settle()
    for (;;) {
      const [due] = this.#queue
      if (due === undefined || due.atMs > endMs) break
      this.#queue.shift()
      this.nowMs = due.atMs
      due.run()
      await this.settle()
    }
    this.nowMs = endMs
  }

  /** Runs events until `work` settles. */
  async until<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false
    const ended = work.finally(() => {
      isDone = true
    })
    ended.catch(() => {})
    while (!isDone) await this.pass(10)
    return ended
  }

  /** Completes all work that the last event caused. */
  async settle(): Promise<void> {
    do await nextIteration()
    while (this.underWay > 0 || isMoreToCome())
  }
}

/**
 * Returns whether this process has a pending iteration of its event loop or an unfinished file operation. The
 * simulation waits for both, because their real duration must not influence the run.
 */
function isMoreToCome(): boolean {
  return process.getActiveResourcesInfo().some((resource) => {
    return resource === 'Immediate' || resource.startsWith('FSReq')
  })
}

function nextIteration(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

function isBefore(one: Due, other: Due | undefined): boolean {
  if (other === undefined) return false
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.number < other.number)
}
