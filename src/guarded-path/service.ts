import { equalCredentials, parseBasic } from '../http/index.ts'
import type { Pairs } from './pairs.ts'

/** Compared with when an id is unknown, so that it answers as fast as a known one. */
const NOBODY = { name: '', password: '' }
/** The filter lets a header through that is longer than this. Source: specification, B 3. */
const HEADER_LENGTH_PASSED_OVER = 6

/** Decides who passes. Source: specification, “Authentication”, B. */
export class GuardService {
  readonly #pairs: Pairs

  constructor(pairs: Pairs) {
    this.#pairs = pairs
  }

  /**
   * Whether the `Authorization` header holds exactly the pair stored for `id`. An id that is
   * missing or given twice (then it is not a string) has no pair.
   */
  grants(id: unknown, authorization: string | undefined): boolean {
    const pair = typeof id === 'string' ? this.#pairs.get(id) : undefined
    const given = parseBasic(authorization)
    const equal = equalCredentials(given ?? NOBODY, pair ?? NOBODY)
    return equal && pair !== undefined && given !== null
  }
}

/** Whether the filter lets a request with this `Authorization` header through: presence, no more. */
export function isPresent(authorization: string | undefined): boolean {
  return authorization !== undefined && authorization.length > HEADER_LENGTH_PASSED_OVER
}
