import type { FastifyBaseLogger } from 'fastify'
import { type Clock, systemClock } from '../base/clock.ts'
import { LineLimit } from './line-limit.ts'

/** A failed log-in, a refused token, a missing scope or a throttled address. Contains no secret. */
export interface Denial {
  /** The code of the refusal, or why a log-in failed. */
  readonly reason: string
  /** The user name or the subject of the token, if it is known. */
  readonly subject?: string
}

/** Returns the denial of a log-in. Names `given` only if it is `known`: another name may be a password in the wrong field. */
export function failedLogin(given: string, known: string | undefined): Denial {
  return { reason: 'LOGIN_FAILED', ...(given === known ? { subject: given } : {}) }
}

interface DeniedRequest {
  readonly component: string
  readonly logger: FastifyBaseLogger
  readonly address: string
  /** Further fields of the log line. */
  readonly fields: { readonly method: string; readonly path: string }
}

/** The denials of one subject at one address for one reason. Times are in milliseconds since the Unix epoch. */
export interface RepeatedDenial {
  readonly component: string
  readonly reason: string
  readonly address: string
  readonly subject: string | null
  /** The last request, without its query. */
  readonly method: string
  readonly path: string
  readonly count: number
  readonly first: number
  readonly last: number
}

/** Maximum characters of a subject in the log. */
const SUBJECT_LENGTH_MAX = 128

/** Maximum number of remembered denials. A further one replaces the one that was repeated least recently. */
const REMEMBERED_MAX = 500
const REMEMBERED_MS = 3_600_000

/** Logs, counts and remembers the denials of all listeners of a process. */
export class Denials {
  readonly #clock: Clock
  /** Least recently repeated first. */
  readonly #recent = new Map<string, RepeatedDenial>()
  readonly #counts = new Map<string, { component: string; reason: string; count: number }>()
  readonly #lines = new LineLimit()

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  note({ component, logger, address, fields }: DeniedRequest, { reason, subject }: Denial): void {
    const key = `${component} ${reason}`
    const counted = this.#counts.get(key) ?? { component, reason, count: 0 }
    counted.count += 1
    this.#counts.set(key, counted)
    const shown = subject?.slice(0, SUBJECT_LENGTH_MAX) ?? null
    const { method, path } = fields
    this.#remember({ component, reason, address, subject: shown, method, path })
    const omitted = this.#lines.next()
    if (omitted === null) return
    const line = { address, subject: shown ?? undefined, reason, ...fields, ...omitted }
    logger.warn(line, 'access denied')
  }

  samples(): (readonly [{ component: string; reason: string }, number])[] {
    return [...this.#counts.values()].map(({ count, ...labels }) => [labels, count] as const)
  }

  /** Returns the denials of the last hour, those of the same subject, address and reason as one, newest first. */
  recent(): readonly RepeatedDenial[] {
    const since = this.#clock.now() - REMEMBERED_MS
    return [...this.#recent.values()].filter(({ last }) => last >= since).reverse()
  }

  #remember(denial: Omit<RepeatedDenial, 'count' | 'first' | 'last'>): void {
    const now = this.#clock.now()
    const { component, reason, address, subject } = denial
    const key = JSON.stringify([component, reason, address, subject])
    const known = this.#recent.get(key)
    const { count = 0, first = now } =
      known !== undefined && now - known.last < REMEMBERED_MS ? known : {}
    this.#recent.delete(key)
    this.#recent.set(key, { ...denial, count: count + 1, first, last: now })
    if (this.#recent.size <= REMEMBERED_MAX) return
    const [oldest = ''] = this.#recent.keys()
    this.#recent.delete(oldest)
  }
}
