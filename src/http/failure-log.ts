import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { errorCode } from '../base/errors.ts'
import type { HttpComponent, Refusal } from './component.ts'
import { toRefusal } from './refusal.ts'

/**
 * Codes of errors that are normal after the client has disconnected, because Fastify destroys the stream of the reply
 * or a component ends a search early.
 */
const DISCONNECTED = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'SEARCH_INTERRUPTED'])

/** Logs the failures of a listener, each once, because one failure, e.g. of the disk, may cause thousands of refusals. */
export class FailureLog {
  readonly #component: HttpComponent
  readonly #logger: FastifyBaseLogger
  readonly #logged = new WeakSet<Error>()
  /** Whether the listener is closing. Then failures that need an operator otherwise are expected. */
  isClosing = false

  constructor(component: HttpComponent, logger: FastifyBaseLogger) {
    this.#component = component
    this.#logger = logger
  }

  /** Returns the refusal for `error`. If its status is 500 or above, logs the failure. */
  report(request: FastifyRequest, error: unknown): Refusal {
    const refusal = toRefusal(this.#component, error)
    const code = errorCode(error)
    const isDisconnected = request.raw.socket.destroyed && DISCONNECTED.has(code)
    if (refusal.status < 500 || isDisconnected) return refusal
    const failure = error instanceof Error ? error : new Error(String(error))
    // A refusal that was caused by an earlier failure has this failure as its cause.
    const root = failure.cause instanceof CodedError ? failure.cause : failure
    if (this.#logged.has(root)) return refusal
    this.#logged.add(root)
    this.#write(request, failure, refusal)
    return refusal
  }

  /** Logs one line, with the stack if the error is unexpected. */
  #write(request: FastifyRequest, error: Error, { status, code, message }: Refusal): void {
    const fields = toLogFields(request)
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

/** Returns the fields of a request to log: no query, no headers, no body. */
export function toLogFields({ method, url, routeOptions }: FastifyRequest): object {
  const [path = ''] = url.split('?', 1)
  return { method, route: routeOptions?.url, path: path.slice(0, 512) }
}
