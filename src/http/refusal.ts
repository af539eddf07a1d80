import type { FastifyError } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import type { HttpComponent, Refusal, RefusalReply } from './component.ts'

/** An error with an HTTP status, for guards and handlers. Services throw a CodedError, mapped by `statusOf`. */
export class HttpRefusal extends CodedError<string> implements Refusal {
  override readonly name = 'HttpRefusal'
  readonly status: number
  readonly allow?: readonly string[]

  constructor(
    status: number,
    code: string,
    message: string,
    options: ErrorOptions & { readonly allow?: readonly string[] } = {},
  ) {
    super(code, message, options)
    this.status = status
    if (options.allow !== undefined) this.allow = options.allow
  }
}

/** Replies to Fastify's own errors, by code. They replace Fastify's messages, which may quote the request. */
const FASTIFY_REFUSALS: Readonly<Record<string, Refusal>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    status: 413,
    code: 'BODY_TOO_LARGE',
    message: 'the request body is longer than this path accepts',
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    status: 415,
    code: 'CONTENT_TYPE_UNKNOWN',
    message: 'this path does not accept the Content-Type of the body',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    status: 400,
    code: 'CONTENT_LENGTH_WRONG',
    message: 'the body is not as long as Content-Length says',
  },
  FST_ERR_BAD_URL: { status: 400, code: 'URL_MALFORMED', message: 'the path is not a valid URL' },
  FST_ERR_MAX_PARAM_LENGTH: {
    status: 414,
    code: 'URL_TOO_LONG',
    message: 'a segment of the path is too long',
  },
}

/**
 * Describes how `part` of a request (`body`, `querystring`, `params` or `headers`) violates its schema, e.g.
 * `limit must be integer`. The text has the name of a parameter or header, or `body` and a JSON pointer.
 */
export function invalidText(
  errors: readonly { readonly instancePath: string; readonly message?: string }[],
  part: string,
): string {
  const whole = part === 'querystring' ? 'query' : part
  const locationOf = (pointer: string) =>
    part === 'body' || pointer === '' ? whole + pointer : pointer.slice(1)
  return errors
    .map(({ instancePath, message }) => `${locationOf(instancePath)} ${message}`)
    .join(', ')
}

/** Returns the refusal with which `component` answers `error`. An unexpected error gives a 500 without details. */
export function refusalOf(component: HttpComponent, error: unknown): Refusal {
  if (error instanceof HttpRefusal) return error
  if (error instanceof CodedError) {
    const status = component.statusOf[String(error.code)]
    if (status !== undefined) return { status, code: String(error.code), message: error.message }
  }
  const fastifyError = error as Partial<FastifyError>
  const known = FASTIFY_REFUSALS[fastifyError.code ?? '']
  if (known !== undefined) return known
  if (Array.isArray(fastifyError.validation)) {
    return { status: 400, code: 'REQUEST_INVALID', message: String(fastifyError.message) }
  }
  const status = fastifyError.statusCode ?? 500
  if (status >= 400 && status < 500) {
    return { status, code: 'REQUEST_REFUSED', message: 'the request is invalid' }
  }
  return { status: 500, code: 'INTERNAL', message: 'internal error; see the log of the node' }
}

/** Returns the error reply of the ledger, the converter and the rate feed. Source: specification, “Errors”. */
export function statusFalseReply({ code, message }: Refusal): RefusalReply {
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({ status: false, code, message }),
  }
}
