import type { Clock } from '../base/clock.ts'
import { type Rates, ratesOf } from './currencies.ts'
import type { RateVector } from './vector.ts'

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
  /** The live source that last stood by it, and when; null when none did since the start. */
  readonly confirmed: { readonly by: string; readonly at: number } | null
  /** From this moment on it is stale, milliseconds since the Unix epoch. */
  readonly staleFrom: number
}

/** Holds the vector that is served. Replacing it is one assignment, so readers never see a half. */
export class RateBoard {
  readonly #clock: Clock
  readonly #staleAfterMs: number
  #standing: Standing | null = null

  /** However well confirmed, rates whose date is `staleAfterMs` back are stale. */
  constructor(clock: Clock, staleAfterMs: number) {
    this.#clock = clock
    this.#staleAfterMs = staleAfterMs
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
      staleFrom: Math.min(until, standing.vector.asOfMs + this.#staleAfterMs),
    }
  }
}
