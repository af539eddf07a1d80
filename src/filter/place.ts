import { isJsonObject, type Json } from '../base/json.ts'
import { FilterError } from './errors.ts'
import type { TypeOf } from './field-type.ts'
import { FILTER_LIMITS, type Path } from './filter.ts'

/** Where in a filter something is being read, and how. */
export interface Place {
  /** The way from the filter's root, for messages. */
  readonly at: readonly (string | number)[]
  /** Whether it is spelt in brackets, where every value is a text. */
  readonly fromText: boolean
  readonly typeOf?: TypeOf
}

/** The place of a member or element. */
export function within(place: Place, ...parts: (string | number)[]): Place {
  return { ...place, at: [...place.at, ...parts] }
}

/**
 * The elements of a list: an array; in brackets also indexes, and one text is a list of one.
 * Errors: FILTER_MALFORMED, FILTER_TOO_LARGE beyond `max`.
 */
export function listOf(given: Json, place: Place, max: number): Json[] {
  const list = elementsOf(given, place)
  if (list.length <= max) return list
  throw new FilterError('FILTER_TOO_LARGE', place.at, `it holds more than ${max}`)
}

function elementsOf(given: Json, { at, fromText }: Place): Json[] {
  if (Array.isArray(given)) return given
  if (typeof given === 'string' && (fromText || at[0] !== 'where')) return [given]
  if (fromText && isJsonObject(given)) {
    const entries = Object.entries(given)
    if (entries.every(([name]) => /^\d{1,6}$/.test(name))) {
      return entries.sort(([one], [other]) => Number(one) - Number(other)).map(([, value]) => value)
    }
  }
  throw new FilterError('FILTER_MALFORMED', at, 'must be a list')
}

/** The path that `text` spells with dots, or null when it spells none or is too long. */
export function pathIn(text: string): Path | null {
  const path = text.split('.')
  const { pathCharacters, pathSteps } = FILTER_LIMITS
  const isShort = text.length <= pathCharacters && path.length <= pathSteps
  return isShort && !path.includes('') && isText(text) ? path : null
}

/** What can be stored and shown: no control characters, no half of a surrogate pair. */
function isText(text: string): boolean {
  return text.isWellFormed() && !/[\u0000-\u001f]/.test(text)
}

/** The same, for a place in a filter. Errors: FILTER_MALFORMED, FILTER_TOO_LARGE. */
export function pathOf(text: string, { at }: Place): Path {
  const path = pathIn(text)
  if (path !== null) return path
  const { pathCharacters, pathSteps } = FILTER_LIMITS
  if (text.length > pathCharacters || text.split('.').length > pathSteps) {
    const most = `a path has at most ${pathSteps} names and ${pathCharacters} characters`
    throw new FilterError('FILTER_TOO_LARGE', at, most)
  }
  throw new FilterError('FILTER_MALFORMED', at, 'a path is names with dots between them')
}
