import { createHash } from 'node:crypto'
import { canonicalJson } from '../base/canonical-json.ts'
import type { Clock, Schedule } from '../base/clock.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import { PAIRS, ratesOf } from './currencies.ts'
import type { HourlyWarning } from './log.ts'
import { documentOf, type RateVector } from './vector.ts'

/** The database of the ledger that vectors are recorded in. */
export const RATES_DATABASE = 'rates'

/** An accepted vector, as it stands in the ledger: an item of the database `rates`. */
export interface VectorRecord {
  /** `<asOf>.<source>.<12 hex digits of the SHA-256 of what it says>`: equal vectors, equal ids. */
  readonly id: string
  readonly source: string
  readonly asOf: string
  /** When it was first served, `YYYY-MM-DDThh:mm:ss.fffZ`. */
  readonly acceptedAt: string
  /** Units per euro; `CNY` where the offshore rate is not known. */
  readonly perEur: Readonly<Record<string, number>>
  /** The twenty rates. */
  readonly rate: Readonly<Record<string, number>>
}

/** Where in the ledger an entry stands, `<serverid>/<height>.<index>`. */
type LedgerPosition = string

/** Which records to read. */
export interface HistoryQuery {
  /** First and last date of `asOf`, `YYYY-MM-DD`, both included; null is open. */
  readonly from: string | null
  readonly to: string | null
  /** 1..HISTORY_ROWS_MAX. */
  readonly limit: number
  readonly offset: number
}

/** A record and where anyone can check it. */
export interface RecordedVector {
  readonly record: VectorRecord
  readonly position: LedgerPosition
}

/** Most records one call reads. */
export const HISTORY_ROWS_MAX = 1_000

/**
 * What the feed needs of a ledger, and nothing more; whoever composes the program brings it.
 *
 * All methods may be called at any time. Errors rise as they are: the feed serves on without it.
 */
export interface RateLedger {
  /**
   * Records `record` in the database `rates`, making that when it is missing. A record whose id is
   * there already is not written again. When the promise resolves, the record is durable.
   */
  record(record: VectorRecord): Promise<void>
  /** Records in the order they were written. */
  history(query: HistoryQuery): Promise<readonly RecordedVector[]>
}

/** The record of `vector`, accepted at `now`. */
export function recordOf(vector: RateVector, now: number): VectorRecord {
  const { asOf, perEur } = documentOf(vector)
  const said = canonicalJson({ asOf, perEur: { ...perEur }, source: vector.source })
  const digest = createHash('sha256').update(said).digest('hex').slice(0, 12)
  return {
    id: `${asOf}.${vector.source}.${digest}`,
    source: vector.source,
    asOf,
    acceptedAt: new Date(now).toISOString(),
    perEur,
    rate: ratesOf(vector.perEur),
  }
}

/**
 * The record that a stored item holds, or null when it holds none: the database is an ordinary one,
 * so anyone who may write to the ledger may have put other items there.
 */
export function vectorRecordOf(item: Json): VectorRecord | null {
  if (!isJsonObject(item)) return null
  const { id, source, asOf, acceptedAt, perEur, rate } = item
  if (typeof id !== 'string' || typeof source !== 'string') return null
  if (typeof asOf !== 'string' || typeof acceptedAt !== 'string') return null
  const values = numbersOf(perEur)
  const rates = numbersOf(rate)
  if (values === null || rates === null) return null
  if (PAIRS.some((pair) => rates[pair] === undefined)) return null
  return { id, source, asOf, acceptedAt, perEur: values, rate: rates }
}

function numbersOf(value: Json | undefined): Record<string, number> | null {
  if (value === undefined || !isJsonObject(value)) return null
  const numbers: Record<string, number> = {}
  for (const [name, number] of Object.entries(value)) {
    if (typeof number !== 'number') return null
    numbers[name] = number
  }
  return numbers
}

/** Records that wait while the ledger does not take them; beyond this the oldest are lost. */
const PENDING_MAX = 1_000
const RETRY_MS = 60_000

/** Hands accepted vectors to the ledger, in order, without anybody waiting for it. */
export class Recorder {
  readonly #ledger: RateLedger
  readonly #clock: Clock
  readonly #schedule: Schedule
  readonly #warning: HourlyWarning
  readonly #pending: VectorRecord[] = []
  #flushing: Promise<void> | null = null
  #forget: () => void = () => {}

  constructor(ledger: RateLedger, clock: Clock, schedule: Schedule, warning: HourlyWarning) {
    this.#ledger = ledger
    this.#clock = clock
    this.#schedule = schedule
    this.#warning = warning
  }

  /** Vectors that are not recorded yet. */
  get pending(): number {
    return this.#pending.length
  }

  /** Will record `vector`. */
  add(vector: RateVector): void {
    this.#pending.push(recordOf(vector, this.#clock.now()))
    if (this.#pending.length > PENDING_MAX) this.#pending.shift()
    void this.flush()
  }

  /** Records what waits; resolves when nothing does or the ledger refused. Never rejects. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flushNow().finally(() => {
      this.#flushing = null
    })
    return this.#flushing
  }

  /** Tries no more. */
  stop(): void {
    this.#forget()
  }

  async #flushNow(): Promise<void> {
    try {
      for (let first = this.#pending[0]; first !== undefined; first = this.#pending[0]) {
        await this.#ledger.record(first)
        if (this.#pending[0] === first) this.#pending.shift()
      }
      this.#warning.recovered('ledger', {}, 'rates are recorded again')
    } catch (error) {
      this.#warning.warn('ledger', { err: error }, 'the ledger did not take the rates')
      this.#forget()
      this.#forget = this.#schedule.after(RETRY_MS, () => void this.flush())
    }
  }
}
