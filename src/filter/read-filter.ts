import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseStrictJson, StrictJsonError } from '../base/strict-json.ts'
import { treeOf } from './brackets.ts'
import { FilterError } from './errors.ts'
import type { TypeOf } from './field-type.ts'
import { FILTER_LIMITS, type Fields, type Filter, type OrderTerm } from './filter.ts'
import { listOf, type Place, pathOf } from './place.ts'
import { whereOf } from './read-where.ts'

/** How a component wants its filters read. */
export interface FilterOptions {
  /** The types of a model's fields; without it every field is taken. */
  readonly typeOf?: TypeOf
  /** Whether there are relationships that `include=resolve` could ask for. */
  readonly mayResolve?: boolean
}

/**
 * The filter in the `query` of a request, or null when there is none: `filter=<JSON>`, or
 * `filter[where][qty][lt]=5` and so on. Other parameters are passed over.
 *
 * In brackets every value is a text. With a model its type decides what a text stands for. Without
 * one, a text that JSON would read as a number, `true`, `false` or `null` is equal to that and to
 * itself, and `lt` and its like take it as a number when it is one.
 *
 * Errors: FilterError. Source: docs/reference/queries.md; docs/decisions/0050-filter.md.
 */
export function filterOf(
  query: Readonly<Record<string, unknown>>,
  options: FilterOptions = {},
): Filter | null {
  const parameters = Object.entries(query).flatMap(([name, given]) => {
    if (name !== 'filter' && !name.startsWith('filter[')) return []
    return [given].flat().map((text) => [name, String(text)] as const)
  })
  const whole = parameters.filter(([name]) => name === 'filter')
  if (parameters.length === 0) return null
  const [only] = whole
  if (only === undefined) return filterIn(treeOf(parameters), true, options)
  if (parameters.length > 1) {
    throw new FilterError('FILTER_MALFORMED', [], 'give it once, as JSON or in brackets')
  }
  return filterIn(jsonOf(only[1]), false, options)
}

function jsonOf(text: string): Json {
  if (text.length > FILTER_LIMITS.characters) {
    throw new FilterError(
      'FILTER_TOO_LARGE',
      [],
      `it has more than ${FILTER_LIMITS.characters} characters`,
    )
  }
  try {
    return parseStrictJson(Buffer.from(text))
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    const reason = error.message.replace('the body is', 'it is')
    throw new FilterError('FILTER_MALFORMED', [], reason)
  }
}

const MEMBERS = ['where', 'order', 'limit', 'offset', 'skip', 'fields', 'include']

function filterIn(tree: Json, fromText: boolean, options: FilterOptions): Filter {
  if (!isJsonObject(tree)) throw new FilterError('FILTER_MALFORMED', [], 'it is not a JSON object')
  const unknown = Object.keys(tree).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined) {
    throw new FilterError('FILTER_UNKNOWN', [unknown], `known are ${MEMBERS.join(', ')}`)
  }
  const place = (name: string): Place => ({
    at: [name],
    fromText,
    ...(options.typeOf === undefined ? {} : { typeOf: options.typeOf }),
  })
  const { where, order, fields, include } = tree
  return {
    where: where === undefined ? null : whereOf(where, place('where')),
    order: order === undefined ? [] : orderOf(order, place('order')),
    limit: countOf(tree, 'limit', 1, fromText),
    offset: offsetOf(tree, fromText),
    fields: fields === undefined ? null : fieldsOf(fields, place('fields')),
    resolve:
      include !== undefined && resolves(include, place('include'), options.mayResolve === true),
  }
}

function offsetOf(tree: JsonObject, fromText: boolean): number | null {
  const offset = countOf(tree, 'offset', 0, fromText)
  const skip = countOf(tree, 'skip', 0, fromText)
  if (offset !== null && skip !== null) {
    throw new FilterError(
      'FILTER_MALFORMED',
      ['skip'],
      'it is another name of offset: give one of them',
    )
  }
  return offset ?? skip
}

function countOf(tree: JsonObject, name: string, min: number, fromText: boolean): number | null {
  const given = tree[name]
  if (given === undefined) return null
  const isDigits = fromText && typeof given === 'string' && /^\d{1,16}$/.test(given)
  const count = isDigits ? Number(given) : given
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= min) return count
  throw new FilterError('FILTER_VALUE_WRONG', [name], `must be an integer, ${min} or more`)
}

/** `"a DESC"`, `"a, b DESC"`, or a list of such. */
function orderOf(given: Json, place: Place): OrderTerm[] {
  const terms = listOf(given, place, FILTER_LIMITS.orderTerms).flatMap((text, index) => {
    if (typeof text !== 'string') throw wrongOrder([...place.at, index])
    return text.split(',').map((term) => termOf(term.trim(), place))
  })
  if (terms.length <= FILTER_LIMITS.orderTerms) return terms
  throw new FilterError(
    'FILTER_TOO_LARGE',
    place.at,
    `more than ${FILTER_LIMITS.orderTerms} criteria`,
  )
}

function termOf(text: string, place: Place): OrderTerm {
  const [, name, direction = 'ASC'] = /^(\S+)(?:\s+(ASC|DESC))?$/i.exec(text) ?? []
  if (name === undefined) throw wrongOrder(place.at)
  const path = pathOf(name, place)
  if (place.typeOf !== undefined && place.typeOf(path) === undefined) {
    throw new FilterError('FILTER_FIELD_UNKNOWN', place.at, `there is no field ${name}`)
  }
  return { path, descending: direction.toUpperCase() === 'DESC' }
}

function wrongOrder(at: Place['at']): FilterError {
  return new FilterError(
    'FILTER_VALUE_WRONG',
    at,
    'must be a field, and ASC or DESC behind a space',
  )
}

/** A list of names, or an object that says true or false of each. */
function fieldsOf(given: Json, place: Place): Fields {
  const isList = Array.isArray(given) || typeof given === 'string' || isIndexed(given, place)
  const named = isList
    ? listOf(given, place, FILTER_LIMITS.fields).map((name) => [name, true] as const)
    : Object.entries(isJsonObject(given) ? given : {})
  if (named.length > FILTER_LIMITS.fields) {
    throw new FilterError('FILTER_TOO_LARGE', place.at, `more than ${FILTER_LIMITS.fields} names`)
  }
  const names: string[] = []
  const kinds = new Set<boolean>()
  for (const [name, shown] of named) {
    const kind = place.fromText && typeof shown === 'string' ? shown === 'true' : shown
    const isSwitch = typeof kind === 'boolean' && (kind || shown === false || shown === 'false')
    if (typeof name !== 'string' || !isSwitch) {
      throw new FilterError(
        'FILTER_VALUE_WRONG',
        place.at,
        'must be names, or an object of true and false',
      )
    }
    if (place.typeOf !== undefined && place.typeOf([name]) === undefined) {
      throw new FilterError(
        'FILTER_FIELD_UNKNOWN',
        place.at,
        `there is no field ${name.slice(0, 64)}`,
      )
    }
    names.push(name)
    kinds.add(kind)
  }
  if (kinds.size !== 1) {
    throw new FilterError(
      'FILTER_VALUE_WRONG',
      place.at,
      'must name fields to show, or fields to leave out',
    )
  }
  return { kind: kinds.has(true) ? 'only' : 'without', names }
}

function isIndexed(given: Json, { fromText }: Place): boolean {
  return fromText && isJsonObject(given) && Object.keys(given).every((name) => /^\d+$/.test(name))
}

function resolves(given: Json, place: Place, mayResolve: boolean): true {
  const wanted = listOf(given, place, 1)
  if (mayResolve && wanted.length === 1 && wanted[0] === 'resolve') return true
  const reason = mayResolve ? 'must be resolve' : 'there are no relationships to resolve here'
  throw new FilterError('FILTER_VALUE_WRONG', place.at, reason)
}
