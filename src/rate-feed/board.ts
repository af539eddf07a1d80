import type { Clock } from '../base/clock.ts'
import { type Rates, ratesOf } from './currencies.ts'
import type { RateVector } from './vector.ts'

/** However well confirmed, rates older than this are stale: no source pauses for so long. */
const AS_OF_AGE_MAX_MS = 7 * 86_400_000
/** A confirmation counts at least this long. */
const CONFIRMED_MIN_MS = 2 * 3_600_000
/** Refreshes of the confirming source that may be missed before the rates count as stale. */
const REFRESHES_MISSED_MAX = 3

/** The rank of a vector that came from no live source. */
export const OFFLINE_RANK = Number.MAX_SAFE_INTEGER

/** The vector that is being served, and what is known about it. */
export interface Standing {
  readonly vector: RateVector
  /** The place of its source in the operator's list; lower is better. */
  readonly rank: number
  readonly rates: Rates
  /** `rates` as JSON, made once per vector. */
  readonly rateText: string
  /** The live source that last stood by it, and when; null when none did since the start. */
  readonly confirmed: { readonly by: string; readonly at: number } | null
  /** From this moment on it is stale, milliseconds since the Unix epoch. */
  readonly staleFrom: number
}

/** Holds the vector that is served. Replacing it is one assignment, so readers never see a half. */
export class RateBoard {
  readonly #clock: Clock
  #standing: Standing | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What is served now; null when there has never been anything. */
  get standing(): Standing | null {
    return this.#standing
  }

  /** Serves `vector` from now on; unconfirmed, and so stale, until `confirm`. */
  replace(vector: RateVector, rank: number): void {
    const rates = ratesOf(vector.perEur)
    this.#standing = {
      vector,
      rank,
      rates,
      rateText: JSON.stringify(rates),
      confirmed: null,
      staleFrom: Number.NEGATIVE_INFINITY,
    }
  }

  /** Notes that the live source `by`, asked every `refreshMs`, stands by what is served. */
  confirm(by: string, refreshMs: number): void {
    const standing = this.#standing
    if (standing === null) return
    const at = this.#clock.now()
    const until = at + Math.max(CONFIRMED_MIN_MS, REFRESHES_MISSED_MAX * refreshMs)
    this.#standing = {
      ...standing,
      confirmed: { by, at },
      staleFrom: Math.min(until, standing.vector.asOfMs + AS_OF_AGE_MAX_MS),
    }
  }
}
