import type { IncomingMessage } from 'node:http'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { errorCode } from '../base/errors.ts'
import type { HttpComponent, Refusal } from './component.ts'
import type { Denial, Denials } from './denials.ts'
import { LineLimit } from './line-limit.ts'
import { HttpRefusal, toRefusal } from './refusal.ts'
import { readAddress } from './throttle.ts'

/**
 * Codes of errors that are normal after the client has disconnected, because Fastify destroys the stream of the reply
 * or a component ends a search early.
 */
const DISCONNECTED = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'SEARCH_INTERRUPTED'])

/** Time after which a failure is logged again, in milliseconds. Constants are used for every overload of the process. */
const REPEAT_MS = 3_600_000

/** Logs the denials of a listener, and its failures, each once an hour, because one failure, e.g. of the disk, may cause thousands of refusals. */
export class FailureLog {
  readonly #component: HttpComponent
  readonly #logger: FastifyBaseLogger
  readonly #denials: Denials
  /** With the time from which each may be logged again. */
  readonly #logged = new WeakMap<Error, number>()
  /** By code, so that a flood of refusals cannot hide another failure. */
  readonly #lines = new Map<string, LineLimit>()
  /** Whether the listener is closing. Then failures that need an operator otherwise are expected. */
  isClosing = false

  constructor(component: HttpComponent, logger: FastifyBaseLogger, denials: Denials) {
    this.#component = component
    this.#logger = logger
    this.#denials = denials
  }

  /** Logs and counts a denial. */
  deny(request: FastifyRequest, denial: Denial): void {
    this.#note(readAddress(request), denial, toLogFields(request))
  }

  /** Logs and counts the denial of a request to upgrade to WebSocket, if `error` is one. */
  reportUpgrade({ socket, url = '' }: IncomingMessage, error: unknown): void {
    if (!(error instanceof HttpRefusal) || error.denial === undefined) return
    const [path = ''] = url.split('?', 1)
    const address = socket.remoteAddress ?? ''
    this.#note(address, error.denial, { method: 'GET', path: path.slice(0, PATH_LENGTH_MAX) })
  }

  #note(address: string, denial: Denial, fields: { method: string; path: string }): void {
    const { name: component } = this.#component
    this.#denials.note({ component, logger: this.#logger, address, fields }, denial)
  }

  /** Returns the refusal for `error`. If its status is 500 or above, logs the failure. */
  report(request: FastifyRequest, error: unknown): Refusal {
    const refusal = toRefusal(this.#component, error)
    if (error instanceof HttpRefusal && error.denial !== undefined) this.deny(request, error.denial)
    const code = errorCode(error)
    const isDisconnected = request.raw.socket.destroyed && DISCONNECTED.has(code)
    if (refusal.status < 500 || isDisconnected) return refusal
    const failure = error instanceof Error ? error : new Error(String(error))
    // A refusal that was caused by an earlier failure has this failure as its cause.
    const root = failure.cause instanceof CodedError ? failure.cause : failure
    const nowMs = performance.now()
    if (nowMs < (this.#logged.get(root) ?? 0)) return refusal
    this.#logged.set(root, nowMs + REPEAT_MS)
    this.#write(request, failure, refusal)
    return refusal
  }

  /** Logs one line, with the stack if the error is unexpected. */
  #write(request: FastifyRequest, error: Error, { status, code, message }: Refusal): void {
    const lines = this.#lines.get(code) ?? new LineLimit()
    this.#lines.set(code, lines)
    const omitted = lines.next()
    if (omitted === null) return
    const fields = { ...toLogFields(request), ...omitted }
    const isAlarm = !this.isClosing && this.#component.alarms?.has(code) === true
    if (status === 503 && !isAlarm) {
      this.#logger.warn({ ...fields, reason: message }, code)
    } else if (error instanceof CodedError) {
      // The reply to an unexpected error has no details, so the log has the cause.
      const reason = code === 'INTERNAL' ? error.message : message
      this.#logger.error({ ...fields, reason }, code)
    } else {
      this.#logger.error({ err: error, ...fields }, code)
    }
  }
}

/** Maximum characters of a path in the log. */
const PATH_LENGTH_MAX = 512

/** Returns the fields of a request to log: no query, no headers, no body. */
export function toLogFields({ method, url, routeOptions }: FastifyRequest) {
  const [path = ''] = url.split('?', 1)
  return { method, route: routeOptions?.url, path: path.slice(0, PATH_LENGTH_MAX) }
}
