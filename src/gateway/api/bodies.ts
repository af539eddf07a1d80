import type { FastifyRequest } from 'fastify'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseStrictText, utf8Text } from '../../base/strict-json.ts'
import { HttpRefusal } from '../../http/index.ts'
import {
  type Model,
  NetworkError,
  type Problem,
  type TypeDeclaration,
} from '../../network/index.ts'
import { Form } from './forms.ts'

/** A JSON body as text. The network's thread parses it, because the objects of 10 MB of JSON can take 300 MB. */
export class JsonBody {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** Decodes a body; returns null for the JSON value null. Errors: StrictJsonError JSON_NOT_UTF8. */
  static read(bytes: Buffer): JsonBody | null {
    const text = utf8Text(bytes)
    return text.trim() === 'null' ? null : new JsonBody(text)
  }
}

/**
 * Returns the text of the body. A form becomes an instance of `type`. Errors: RESOURCE_INVALID if there is no body;
 * 415 for a form if `type` is missing.
 */
export function requireBodyText(
  { body }: FastifyRequest,
  model?: Model,
  type?: TypeDeclaration,
): string {
  if (body instanceof JsonBody) return body.text
  if (!(body instanceof Form)) throw invalidBody('MISSING', 'the body is missing; send JSON')
  if (model !== undefined && type !== undefined) return JSON.stringify(body.toInstance(type, model))
  throw new HttpRefusal(415, 'CONTENT_TYPE_UNKNOWN', 'this path does not accept forms; send JSON')
}

/** Returns the text of the body, an object or an array. Errors: RESOURCE_INVALID, StrictJsonError. */
function requireBracket(request: FastifyRequest, bracket: '{' | '['): string {
  const text = requireBodyText(request)
  if (hasBracket(text, bracket)) return text
  parseStrictText(text)
  throw invalidBody('WRONG_TYPE', bracket === '{' ? 'must be an object' : 'must be an array')
}

/** Whether the JSON value in `text` is an object or an array, if it is valid. */
export function hasBracket(text: string, bracket: '{' | '['): boolean {
  return text.trimStart().startsWith(bracket)
}

/** Returns the text of the body, an object. Errors: RESOURCE_INVALID, StrictJsonError. */
export function requireObjectText(request: FastifyRequest): string {
  return requireBracket(request, '{')
}

/** Returns the object in the body. Errors: RESOURCE_INVALID, StrictJsonError. */
export function requireObjectBody(request: FastifyRequest): JsonObject {
  const body = parseStrictText(requireObjectText(request))
  // Always true: a valid text with this bracket is an object.
  return isJsonObject(body) ? body : {}
}

/**
 * Returns the text of the body, an array. Errors: RESOURCE_INVALID, StrictJsonError; 400 if the request has
 * `If-Match`.
 */
export function requireArrayText(request: FastifyRequest): string {
  if (request.headers['if-match'] !== undefined) {
    throw new HttpRefusal(400, 'REQUEST_INVALID', 'If-Match works only at the path of one resource')
  }
  return requireBracket(request, '[')
}

/** Returns the ids in the body. Errors: as for `requireArrayText`. */
export function requireIdsBody(request: FastifyRequest): string[] {
  return parseArray(requireArrayText(request)).map((id, index) => {
    if (typeof id === 'string') return id
    throw invalidBody('WRONG_TYPE', 'must be an id (a string)', `/${index}`)
  })
}

/** Returns the elements of an array. Errors: StrictJsonError. */
export function parseArray(text: string): readonly Json[] {
  const value = parseStrictText(text)
  return Array.isArray(value) ? value : []
}

function invalidBody(code: Problem['code'], message: string, path = ''): NetworkError {
  return new NetworkError('RESOURCE_INVALID', path === '' ? message : `${path}: ${message}`, {
    problems: [{ path, code, message }],
  })
}
