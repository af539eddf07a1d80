import type { Quote } from '../vector.ts'

/**
 * Where vectors come from.
 *
 * A source only reads: when to ask, whether to believe it, and what to do when it fails is decided
 * by others. One call at a time.
 */
export interface RateSource {
  /** As in `X-Rates-Source` and `/healthz`. */
  readonly name: string
  /** Sources of one family repeat each other, so together they are one witness. */
  readonly family: string
  /** How often it is worth asking, milliseconds. */
  readonly refreshMs: number
  /** Whether it quotes only some currencies by nature, so that another source completes it. */
  readonly partial: boolean
  /**
   * What the source says now, or `unchanged` when it confirms what it said last.
   *
   * `unchanged` is only answered when the previous call of this object gave a quote. Errors:
   * SourceError.
   */
  read(): Promise<Quote | 'unchanged'>
}
