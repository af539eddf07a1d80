import { createHash } from 'node:crypto'
import type { Schedule } from '../../src/base/clock.ts'

/** When the world begins, milliseconds since the Unix epoch. */
const START_MS = 1_800_000_000_000
/** Lines of the trace that are kept to be shown; all of them are in its hash. */
const TRACE_LINES = 4_000

interface Due {
  readonly atMs: number
  /** Events of one moment happen in the order in which they were put down. */
  readonly number: number
  readonly run: () => void
}

/**
 * Time, chance and order, all of them by a seed. Whatever happens is an event at a moment; between two
 * events everything that the first one set off has run to its end, so a seed always gives the same run.
 */
export class World implements Schedule {
  readonly seed: number
  nowMs = START_MS
  /** Messages between threads that are under way. */
  underWay = 0
  /** What must never be. */
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

  /** From 0 up to, but not with, 1. Source: mulberry32. */
  chance(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Whether something of this probability happens. */
  happens(probability: number): boolean {
    return this.chance() < probability
  }

  /** A whole number from `from` up to, but not with, `to`. */
  between(from: number, to: number): number {
    return from + Math.floor(this.chance() * (to - from))
  }

  /** One of `list`, which has some. */
  one<Value>(list: readonly Value[]): Value {
    return list[this.between(0, list.length)] as Value
  }

  /** Bytes by the seed. */
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

  /** Notes what happened. */
  note(line: string): void {
    const dated = `${((this.nowMs - START_MS) / 1000).toFixed(3)} ${line}`
    this.#hash.update(`${dated}\n`)
    if (this.trace.length < TRACE_LINES) this.trace.push(dated)
  }

  /** Notes what must not be. */
  fault(what: string): void {
    this.note(`FAULT ${what}`)
    this.faults.push(what)
  }

  /** The hash of all that was noted, hex. */
  get traceHash(): string {
    return this.#hash.copy().digest('hex')
  }

  /** Lets everything happen that is due within `ms`. */
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

  /** Lets time pass until `work` is done. */
  async until<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false
    const ended = work.finally(() => {
      isDone = true
    })
    ended.catch(() => {})
    while (!isDone) await this.pass(10)
    return ended
  }

  /** Lets what the last event has set off run to its end. */
  async settle(): Promise<void> {
    do await turn()
    while (this.underWay > 0 || isMoreToCome())
  }
}

/**
 * Whether this process has a turn of its event loop before it, or reads or writes a file for somebody who
 * waits: how long that takes is no chance of ours.
 */
function isMoreToCome(): boolean {
  return process.getActiveResourcesInfo().some((resource) => {
    return resource === 'Immediate' || resource.startsWith('FSReq')
  })
}

/** A turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

function isBefore(one: Due, other: Due | undefined): boolean {
  if (other === undefined) return false
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.number < other.number)
}
