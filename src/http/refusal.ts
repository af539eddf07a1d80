import type { FastifyError } from 'fastify'
import { CodedError } from '../base/coded-error.ts'
import { isDiskFull } from '../base/disk-full.ts'
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
export function invalidText(errors: readonly SchemaViolation[], part: string): string {
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
  if (violation !== undefined) return violationText(violation, part)
  const types = innermost.flatMap(({ params: { type } }) => type).map((type) => `${type}`)
  const names = types.map((type) => TYPE_NAMES[type] ?? type)
  return `${locationOf(part, innermost[0]?.instancePath ?? '')} must be ${listText(names)}`
}

function violationText(error: SchemaViolation, part: string): string {
  const { keyword, instancePath, params, message, parentSchema } = error
  const location = locationOf(part, instancePath)
  const { missingProperty, additionalProperty, allowedValues, limit, tag } = params
  switch (keyword) {
    case 'required':
      return `${locationOf(part, `${instancePath}/${missingProperty}`)} is missing`
    case 'additionalProperties':
      return `${locationOf(part, `${instancePath}/${additionalProperty}`)} is unknown`
    case 'enum':
      return `${location} must be ${listText([allowedValues].flat())}`
    case 'minimum':
      return `${location} must be ${limit} or more`
    case 'maximum':
      return `${location} must be ${limit} or less`
    case 'discriminator': {
      // The cast is safe, because Ajv compiles a discriminator only beside such alternatives.
      const { oneOf } = parentSchema as Alternatives
      const constants = oneOf.map(({ properties }) => properties[`${tag}`] ?? {})
      const values = constants.flatMap((each) => each.enum ?? each.const ?? [])
      return `${locationOf(part, `${instancePath}/${tag}`)} must be ${listText(values)}`
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
function listText(values: readonly unknown[]): string {
  const last = `${values.at(-1)}`
  return values.length > 1 ? `${values.slice(0, -1).join(', ')} or ${last}` : last
}

/** Returns the name of a parameter or header, or `body` with the JSON pointer. */
function locationOf(part: string, pointer: string): string {
  if (part === 'body') return `body${pointer}`
  if (pointer !== '') return pointer.slice(1)
  return part === 'querystring' ? 'query' : part
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
  if (isDiskFull(error)) {
    return { status: 507, code: 'STORE_FULL', message: 'the disk of the node is full' }
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
