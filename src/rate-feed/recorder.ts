import type { Clock, Schedule } from '../base/clock.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import type { HourlyWarning } from './errors.ts'
import { digestJson } from './parsers.ts'
import { completeUnits, computeRates, PAIRS, type RateVector } from './rates.ts'

/** The ledger database with the recorded vectors. */
export const RATES_DATABASE = 'rates'
/** Maximum number of records in a reply of `/history`. */
export const HISTORY_ROWS_MAX = 1_000

/** An accepted vector as an item of the database `rates`. */
export interface VectorRecord {
  /** `<asOf>.<source>.<first 12 hex digits of the SHA-256 of the vector>`, so that equal vectors have equal ids. */
  readonly id: string
  readonly source: string
  readonly asOf: string
  /** Time at which the vector was first served, `YYYY-MM-DDThh:mm:ss.fffZ`. */
  readonly acceptedAt: string
  /** Units per euro. Contains `CNY` instead of `CNH` if only the rate of CNY is known. */
  readonly perEur: Readonly<Record<string, number>>
  readonly rate: Readonly<Record<string, number>>
}

export interface HistoryQuery {
  /** First date of `asOf`, `YYYY-MM-DD`, or null for no limit. */
  readonly from: string | null
  /** Last date of `asOf`, `YYYY-MM-DD`, or null for no limit. */
  readonly to: string | null
  /** From 1 to HISTORY_ROWS_MAX. */
  readonly limit: number
  readonly offset: number
}

/** A record and its position in the ledger, `<serverid>/<height>.<index>`. */
export interface RecordedVector {
  readonly record: VectorRecord
  readonly position: string
}

/** The methods of a ledger that the feed needs. Errors of these methods do not stop the feed. */
export interface RateLedger {
  /** Writes `record` durably to the database `rates`, and creates the database if necessary. Ignores an existing id. */
  record(record: VectorRecord): Promise<void>
  /** Returns records in the order in which they were written. */
  history(query: HistoryQuery): Promise<readonly RecordedVector[]>
}

/** Returns the record of `vector`, accepted at `now`. */
export function toRecord({ source, asOf, perEur }: RateVector, now: number): VectorRecord {
  const digest = digestJson({ asOf, perEur: { ...perEur }, source }).slice(0, 12)
  const rate = computeRates(completeUnits({ perEur }))
  const acceptedAt = new Date(now).toISOString()
  return { id: `${asOf}.${source}.${digest}`, source, asOf, acceptedAt, perEur, rate }
}

/** Returns the record in `item`, or null if it is not a record: clients can write any items to the database. */
export function parseVectorRecord(item: Json): VectorRecord | null {
  if (!isJsonObject(item)) return null
  const { id, source, asOf, acceptedAt, perEur, rate } = item
  if (typeof id !== 'string' || typeof source !== 'string') return null
  if (typeof asOf !== 'string' || typeof acceptedAt !== 'string') return null
  if (!isNumbers(perEur) || !isNumbers(rate)) return null
  if (PAIRS.some((pair) => rate[pair] === undefined)) return null
  return { id, source, asOf, acceptedAt, perEur, rate }
}

function isNumbers(value: Json | undefined): value is Record<string, number> {
  return isJsonObject(value) && Object.values(value).every((number) => typeof number === 'number')
}

/** Maximum number of records that wait for the ledger. Above this number, the oldest record is dropped. */
const PENDING_MAX = 1_000
const RETRY_MS = 60_000

/** Writes accepted vectors to the ledger, in order and in the background. */
export class Recorder {
  readonly #ledger: RateLedger
  readonly #clock: Clock
  readonly #schedule: Schedule
  readonly #warning: HourlyWarning
  readonly #pending: VectorRecord[] = []
  #flushing: Promise<void> | null = null
  #cancelRetry = () => {}

  constructor(ledger: RateLedger, clock: Clock, schedule: Schedule, warning: HourlyWarning) {
    this.#ledger = ledger
    this.#clock = clock
    this.#schedule = schedule
    this.#warning = warning
  }

  /** Number of vectors that are not recorded yet. */
  get pending(): number {
    return this.#pending.length
  }

  add(vector: RateVector): void {
    this.#pending.push(toRecord(vector, this.#clock.now()))
    if (this.#pending.length > PENDING_MAX) this.#pending.shift()
    void this.flush()
  }

  /** Writes pending records until the ledger rejects a record. Never rejects. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flushNow().finally(() => {
      this.#flushing = null
    })
    return this.#flushing
  }

  stop(): void {
    this.#cancelRetry()
  }

  async #flushNow(): Promise<void> {
    try {
      for (let first = this.#pending[0]; first !== undefined; first = this.#pending[0]) {
        await this.#ledger.record(first)
        if (this.#pending[0] === first) this.#pending.shift()
      }
      this.#warning.recovered('ledger', {}, 'rates are recorded again')
    } catch (error) {
      this.#warning.warn('ledger', { err: error }, 'the ledger rejected the rates')
      this.#cancelRetry()
      this.#cancelRetry = this.#schedule.after(RETRY_MS, () => void this.flush())
    }
  }
}
