import type { FastifyError } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { isDiskFull } from '../base/errors.ts'
import { Type } from '../base/shape.ts'
import type { HttpComponent, Refusal, RefusalReply } from './component.ts'
import type { Denial } from './denials.ts'

/** The errors of HTTP itself: status and default message by code. */
export const httpErrors = {
  URL_MALFORMED: [400, 'the path is not a valid URL'],
  URL_TOO_LONG: [414, 'a segment of the path is too long'],
  TARGET_NOT_PATH: [
    400,
    'the target of the request is not a path; send the path without scheme and host',
  ],
  PATH_UNKNOWN: [404, 'nothing is served at this path'],
  METHOD_NOT_ALLOWED: [405, 'this path does not accept this method; see Allow'],
  HOST_NOT_ONE: [400, 'the request has no Host header or several; send exactly one'],
  HOST_UNKNOWN: [
    421,
    'this node does not serve this Host; the operator can add it to PUBLIC_HOSTS',
  ],
  CROSS_ORIGIN: [403, 'requests from other sites are blocked'],
  EXPECTATION_UNKNOWN: [417, 'the only supported value of Expect is 100-continue'],
  HEADERS_TOO_LARGE: [431, 'the headers are too long'],
  REQUEST_MALFORMED: [400, 'this is not a valid HTTP request'],
  REQUEST_TIMEOUT: [408, 'the request took too long to arrive'],
  REQUEST_INVALID: [400, 'a parameter or the body does not match its schema'],
  REQUEST_REFUSED: [400, 'the request is invalid'],
  BODY_INCOMPLETE: [400, 'the connection closed before the body was complete'],
  BODY_TOO_LARGE: [413, 'the request body is longer than this path accepts'],
  BODIES_BUSY: [503, 'too many long request bodies at the same time; try again later'],
  REPLIES_BUSY: [503, 'too many long replies are waiting for slow clients; try again later'],
  CONTENT_ENCODING_UNKNOWN: [415, 'Content-Encoding is not supported; send the body unencoded'],
  CONTENT_LENGTH_WRONG: [400, 'the body is not as long as Content-Length says'],
  CONTENT_TYPE_UNKNOWN: [415, 'this path does not accept the Content-Type of the body'],
  STORE_FULL: [507, 'the disk of the node is full'],
  INTERNAL: [500, 'internal error; see the log of the node'],
} as const satisfies Readonly<Record<string, readonly [number, string]>>

type HttpErrorCode = keyof typeof httpErrors

/** An error with an HTTP status, for guards and handlers. Services throw a CodedError, mapped by `statusOf`. */
export class HttpRefusal extends CodedError<string> implements Refusal {
  override readonly name = 'HttpRefusal'
  readonly status: number
  readonly allow?: readonly string[]
  readonly challenge?: string
  /** Present if the refusal is logged and counted as a denial. */
  readonly denial?: Denial

  constructor(
    status: number,
    code: string,
    message: string,
    options: ErrorOptions & Partial<Pick<HttpRefusal, 'allow' | 'challenge' | 'denial'>> = {},
  ) {
    super(code, message, options)
    this.status = status
    const { allow, challenge, denial } = options
    if (allow !== undefined) this.allow = allow
    if (challenge !== undefined) this.challenge = challenge
    if (denial !== undefined) this.denial = denial
  }
}

/** Returns an error of `httpErrors`, with a message that is more specific than the default. */
export function createRefusal(
  code: HttpErrorCode,
  message: string = httpErrors[code][1],
): HttpRefusal {
  return new HttpRefusal(httpErrors[code][0], code, message)
}

/** Fastify's own errors. The messages are replaced, because Fastify's may quote the request. */
const FASTIFY_REFUSALS: Readonly<Record<string, HttpRefusal>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: createRefusal('BODY_TOO_LARGE'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: createRefusal('CONTENT_TYPE_UNKNOWN'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: createRefusal('CONTENT_LENGTH_WRONG'),
  FST_ERR_BAD_URL: createRefusal('URL_MALFORMED'),
  FST_ERR_MAX_PARAM_LENGTH: createRefusal('URL_TOO_LONG'),
}

/** A violation of a schema, as Ajv reports it. */
interface SchemaViolation {
  readonly keyword: string
  readonly instancePath: string
  readonly params: Readonly<Record<string, unknown>>
  readonly message?: string
  /** The violated schema. */
  readonly parentSchema?: unknown
}

/** A schema whose alternatives differ in the constants of one property. */
interface Alternatives {
  readonly oneOf: readonly {
    readonly properties: Readonly<Record<string, { const?: string; enum?: readonly string[] }>>
  }[]
}

/** Names of JSON types in messages. Other types are named as in the schema. */
const TYPE_NAMES: Readonly<Record<string, string>> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
}

/**
 * Describes how `part` of a request (`body`, `querystring`, `params` or `headers`) violates its schema, e.g.
 * `limit must be an integer`. The text has the name of a parameter or header, or `body` and a JSON pointer.
 *
 * If the schema has alternatives (`anyOf`), Ajv reports one violation of each of them. The text is about the innermost
 * value, and omits alternatives of another type.
 */
export function formatViolations(errors: readonly SchemaViolation[], part: string): string {
  // The alternative `null` of a body means that the body is optional. A body `null` is refused before.
  const isBodyNull = ({ instancePath, params: { type } }: SchemaViolation) =>
    part === 'body' && instancePath === '' && type === 'null'
  const violations = errors
    .filter((error) => error.keyword !== 'anyOf' && !isBodyNull(error))
    .toSorted((one, other) => other.instancePath.length - one.instancePath.length)
  const innermost = violations.filter(
    ({ instancePath }) => instancePath === violations[0]?.instancePath,
  )
  const violation = innermost.find(({ keyword }) => keyword !== 'type')
  if (violation !== undefined) return formatViolation(violation, part)
  const types = innermost.flatMap(({ params: { type } }) => type).map((type) => `${type}`)
  const names = types.map((type) => TYPE_NAMES[type] ?? type)
  return `${formatLocation(part, innermost[0]?.instancePath ?? '')} must be ${formatList(names)}`
}

function formatViolation(error: SchemaViolation, part: string): string {
  const { keyword, instancePath, params, message, parentSchema } = error
  const location = formatLocation(part, instancePath)
  const { missingProperty, additionalProperty, allowedValues, limit, tag } = params
  switch (keyword) {
    case 'required':
      return `${formatLocation(part, `${instancePath}/${missingProperty}`)} is missing`
    case 'additionalProperties':
      return `${formatLocation(part, `${instancePath}/${additionalProperty}`)} is unknown`
    case 'enum':
      return `${location} must be ${formatList([allowedValues].flat())}`
    case 'minimum':
      return `${location} must be ${limit} or more`
    case 'maximum':
      return `${location} must be ${limit} or less`
    case 'discriminator': {
      // The cast is safe, because Ajv compiles a discriminator only beside such alternatives.
      const { oneOf } = parentSchema as Alternatives
      const constants = oneOf.map(({ properties }) => properties[`${tag}`] ?? {})
      const values = constants.flatMap((each) => each.enum ?? each.const ?? [])
      return `${formatLocation(part, `${instancePath}/${tag}`)} must be ${formatList(values)}`
    }
    case 'pattern': {
      const { description } = Object(parentSchema)
      return typeof description === 'string'
        ? `${location} has the wrong form: ${description}`
        : `${location} ${message}`
    }
    default:
      return `${location} ${message}`
  }
}

/** Returns e.g. `a, b or c`. */
function formatList(values: readonly unknown[]): string {
  const last = `${values.at(-1)}`
  return values.length > 1 ? `${values.slice(0, -1).join(', ')} or ${last}` : last
}

/** Returns the name of a parameter or header, or `body` with the JSON pointer. */
function formatLocation(part: string, pointer: string): string {
  if (part === 'body') return `body${pointer}`
  if (pointer !== '') return pointer.slice(1)
  return part === 'querystring' ? 'query' : part
}

/** Returns the refusal with which `component` answers `error`. An unexpected error gives a 500 without details. */
export function toRefusal(component: HttpComponent, error: unknown): Refusal {
  if (error instanceof HttpRefusal) return error
  if (error instanceof CodedError) {
    const status = component.statusOf[String(error.code)]
    if (status !== undefined) return { status, code: String(error.code), message: error.message }
  }
  const fastifyError = error as Partial<FastifyError>
  const known = FASTIFY_REFUSALS[fastifyError.code ?? '']
  if (known !== undefined) return known
  if (Array.isArray(fastifyError.validation)) {
    return createRefusal('REQUEST_INVALID', String(fastifyError.message))
  }
  const status = fastifyError.statusCode ?? 500
  if (status >= 400 && status < 500)
    return new HttpRefusal(status, 'REQUEST_REFUSED', httpErrors.REQUEST_REFUSED[1])
  return createRefusal(isDiskFull(error) ? 'STORE_FULL' : 'INTERNAL')
}

/** The schema of the body of `statusFalseReply`. */
export const StatusFalse = Type.Object({
  status: Type.Literal(false),
  code: Type.String(),
  message: Type.String(),
})

/** Returns the error reply of the ledger, the converter and the rate feed. Source: specification, “Errors”. */
export function statusFalseReply({ code, message }: Refusal): RefusalReply {
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({ status: false, code, message }),
  }
}
