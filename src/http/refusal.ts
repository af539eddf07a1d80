import type { FastifyError } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import type { HttpComponent, Refusal, RefusalReply } from './component.ts'

/** Thrown by guards and handlers that know their HTTP status themselves. */
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

/** Refusals by Fastify itself. Its own texts may quote the request; ours do not. */
const OF_FASTIFY: Readonly<Record<string, Refusal>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    status: 413,
    code: 'BODY_TOO_LARGE',
    message: 'the request body is longer than this address takes',
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    status: 415,
    code: 'CONTENT_TYPE_UNKNOWN',
    message: 'the Content-Type of the body is not one that this address takes',
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
    message: 'a part of the path is longer than this address takes',
  },
}

/**
 * Describes how `part` of a request violates its schema: `limit must be integer`. Parameters and headers
 * appear by name; a location in a body as `body` and a JSON pointer; Fastify's `querystring` as the query.
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

/** Returns what the client of `component` is told of `error`; anything unforeseen becomes a bare 500. */
export function refusalOf(component: HttpComponent, error: unknown): Refusal {
  if (error instanceof HttpRefusal) return error
  if (error instanceof CodedError) {
    const status = component.statusOf[String(error.code)]
    if (status !== undefined) return { status, code: String(error.code), message: error.message }
  }
  const fastifyError = error as Partial<FastifyError>
  const known = OF_FASTIFY[fastifyError.code ?? '']
  if (known !== undefined) return known
  if (Array.isArray(fastifyError.validation)) {
    return { status: 400, code: 'REQUEST_INVALID', message: String(fastifyError.message) }
  }
  const status = fastifyError.statusCode ?? 500
  if (status >= 400 && status < 500) {
    return { status, code: 'REQUEST_REFUSED', message: 'the request cannot be answered' }
  }
  return { status: 500, code: 'INTERNAL', message: 'something went wrong on our side' }
}

/** The refusal shape of every component but T and B. Source: specification, “Errors”, rows L and R. */
export function statusFalseReply({ code, message }: Refusal): RefusalReply {
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({ status: false, code, message }),
  }
}
