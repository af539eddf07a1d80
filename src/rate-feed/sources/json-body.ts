import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { SourceError } from '../source-error.ts'

/**
 * The JSON object in `text`. Errors: SourceError MALFORMED; REFUSED when it says that it is a
 * failure (`success: false`, a true or filled `error`), whatever the status around it.
 */
export function jsonObjectOf(text: string): JsonObject {
  let value: Json
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new SourceError('MALFORMED', 'the body is not JSON', { cause: error })
  }
  if (!isJsonObject(value)) throw new SourceError('MALFORMED', 'the body is not a JSON object')
  if (value.success === false || value.error) {
    throw new SourceError('REFUSED', 'the body says that the request failed')
  }
  return value
}

/** The string member `name`. Errors: SourceError MALFORMED. */
export function stringIn(object: JsonObject, name: string): string {
  const value = object[name]
  if (typeof value !== 'string') throw new SourceError('MALFORMED', `${name} is not a string`)
  return value
}

/** The object member `name`. Errors: SourceError MALFORMED. */
export function objectIn(object: JsonObject, name: string): JsonObject {
  const value = object[name]
  if (!isJsonObject(value)) throw new SourceError('MALFORMED', `${name} is not an object`)
  return value
}

/**
 * The members `codes` of `object` that are there, as numbers. Errors: SourceError VALUE_INVALID for
 * one that is there and is not a number.
 */
export function numbersIn(object: JsonObject, codes: readonly string[]): [string, number][] {
  const found: [string, number][] = []
  for (const code of codes) {
    if (!Object.hasOwn(object, code)) continue
    const value = object[code]
    if (typeof value !== 'number') throw new SourceError('VALUE_INVALID', `${code} is no number`)
    found.push([code, value])
  }
  return found
}
