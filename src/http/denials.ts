import type { FastifyBaseLogger } from 'fastify'

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

/** A denied request. */
interface DeniedRequest {
  readonly component: string
  readonly logger: FastifyBaseLogger
  readonly address: string
  /** Further fields of the log line: method, route and path. */
  readonly fields: object
}

/** Maximum lines in one window, so that an attack cannot fill the disk. The next line says how many were left out. */
const LINES_MAX = 200
const WINDOW_MS = 10_000
/** Maximum characters of a subject in the log. */
const SUBJECT_LENGTH_MAX = 128

/** Logs and counts the denials of all listeners of a process. */
export class Denials {
  readonly #counts = new Map<string, { component: string; reason: string; count: number }>()
  #windowEndsMs = 0
  #lines = 0

  note({ component, logger, address, fields }: DeniedRequest, { reason, subject }: Denial): void {
    const key = `${component} ${reason}`
    const counted = this.#counts.get(key) ?? { component, reason, count: 0 }
    counted.count += 1
    this.#counts.set(key, counted)
    const omitted = this.#startWindow()
    this.#lines += 1
    if (this.#lines > LINES_MAX) return
    const line = { address, subject: subject?.slice(0, SUBJECT_LENGTH_MAX), reason, ...fields }
    logger.warn(omitted === 0 ? line : { ...line, omitted }, 'access denied')
  }

  /** Returns the counts by component and reason. */
  samples(): (readonly [{ component: string; reason: string }, number])[] {
    return [...this.#counts.values()].map(({ count, ...labels }) => [labels, count] as const)
  }

  /** Starts a window if the last one has ended; returns the number of lines that were left out in it. */
  #startWindow(): number {
    const nowMs = performance.now()
    if (nowMs < this.#windowEndsMs) return 0
    const omitted = Math.max(0, this.#lines - LINES_MAX)
    this.#windowEndsMs = nowMs + WINDOW_MS
    this.#lines = 0
    return omitted
  }
}
