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

/** A violation of a schema, as Ajv reports it. */
interface SchemaViolation {
  readonly keyword: string
  readonly instancePath: string
  readonly params: Readonly<Record<string, unknown>>
  readonly message?: string
  /** The violated schema, and the value that violates it. */
  readonly parentSchema?: unknown
  readonly data?: unknown
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
 * If the schema has alternatives (`anyOf`), Ajv reports a violation of each of them. The text then omits alternatives
 * that are probably not meant: with another constant, such as another `method`, or of another type.
 */
export function invalidText(errors: readonly SchemaViolation[], part: string): string {
  // The alternative `null` of a body means that the body is optional. A body `null` is refused before.
  const isBodyNull = ({ instancePath, params: { type } }: SchemaViolation) =>
    part === 'body' && instancePath === '' && type === 'null'
  const all = errors
    .filter((error) => error.keyword !== 'anyOf' && !isBodyNull(error))
    .flatMap(constantViolations)
  const depth = Math.max(...all.map(objectDepth))
  const deepest = all.filter((error) => objectDepth(error) === depth)
  const meant = withoutKeyword(withoutKeyword(deepest, 'const'), 'type')
  const expected = [...new Set(meant.flatMap(expectedValues))]
  if (expected.length === 0) {
    return [...new Set(meant.map((error) => violationText(error, part)))].join(', or ')
  }
  const earlier = expected.slice(0, -1).join(', ')
  const values = `${earlier}${earlier === '' ? '' : ' or '}${expected.at(-1)}`
  return `${locationOf(part, meant[0]?.instancePath ?? '')} must be ${values}`
}

/**
 * Returns, for a missing member of an alternative with another constant, the violations of this constant. Ajv checks
 * missing members first, so it does not report them. Other violations are returned unchanged.
 */
function constantViolations(error: SchemaViolation): SchemaViolation[] {
  const { keyword, instancePath, parentSchema, data } = error
  if (keyword !== 'required') return [error]
  const properties = Object.entries(Object(Object(parentSchema).properties))
  const violations = properties.flatMap(([name, schema]) => {
    const { const: constant, anyOf = [{ const: constant }] } = Object(schema)
    const constants: unknown[] = anyOf.map((each: unknown) => Object(each).const)
    const value = Object(data)[name]
    if (value === undefined || constants.includes(undefined) || constants.includes(value)) return []
    const path = `${instancePath}/${name}`
    return constants.map((allowedValue) => ({
      keyword: 'const',
      instancePath: path,
      params: { allowedValue },
    }))
  })
  return violations.length > 0 ? violations : [error]
}

/** Returns the length of the path of the violated value or, if a member is not the constant, of its object. */
function objectDepth({ keyword, instancePath }: SchemaViolation): number {
  return keyword === 'const' ? instancePath.lastIndexOf('/') : instancePath.length
}

/** Returns the violations of other keywords or, if there are none, all violations. */
function withoutKeyword(
  errors: readonly SchemaViolation[],
  unwanted: string,
): readonly SchemaViolation[] {
  const others = errors.filter(({ keyword }) => keyword !== unwanted)
  return others.length > 0 ? others : errors
}

/** Returns the values that a violated schema allows, or nothing if its keyword is of another kind. */
function expectedValues({ keyword, params }: SchemaViolation): string[] {
  const { type, allowedValue, allowedValues, limit } = params
  if (keyword === 'type') return [type].flat().map((name) => TYPE_NAMES[`${name}`] ?? `${name}`)
  if (keyword === 'const') return [`${allowedValue}`]
  if (keyword === 'enum') return [allowedValues].flat().map(String)
  if (keyword === 'minimum') return [`${limit} or more`]
  if (keyword === 'maximum') return [`${limit} or less`]
  return []
}

function violationText(error: SchemaViolation, part: string): string {
  const { keyword, instancePath, params, message, parentSchema } = error
  const location = locationOf(part, instancePath)
  const { missingProperty, additionalProperty } = params
  switch (keyword) {
    case 'required':
      return `${locationOf(part, `${instancePath}/${missingProperty}`)} is missing`
    case 'additionalProperties':
      return `${locationOf(part, `${instancePath}/${additionalProperty}`)} is unknown`
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
  return { status: 500, code: 'INTERNAL', message: 'internal error; see the log of the node' }
}

/** Returns the error reply of the ledger, the converter and the rate feed. Source: specification, “Errors”. */
export function statusFalseReply({ code, message }: Refusal): RefusalReply {
  return {
    contentType: 'application/json; charset=utf-8',
    body: JSON.stringify({ status: false, code, message }),
  }
}
