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

/** The path that `text` spells with dots. Errors: FILTER_MALFORMED, FILTER_TOO_LARGE. */
export function pathOf(text: string, { at }: Place): Path {
  const path = text.split('.')
  if (text.length > FILTER_LIMITS.pathCharacters || path.length > FILTER_LIMITS.pathSteps) {
    const { pathCharacters, pathSteps } = FILTER_LIMITS
    throw new FilterError(
      'FILTER_TOO_LARGE',
      at,
      `a path has at most ${pathSteps} names and ${pathCharacters} characters`,
    )
  }
  if (path.includes('') || /[\u0000-\u001f]/.test(text)) {
    throw new FilterError('FILTER_MALFORMED', at, 'a path is names with dots between them')
  }
  return path
}
