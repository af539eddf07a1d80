import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseStrictJson, StrictJsonError } from '../base/strict-json.ts'
import type { TypeOf } from './field-type.ts'
import {
  FILTER_LIMITS,
  type Fields,
  type Filter,
  FilterError,
  type OrderTerm,
  type Where,
} from './filter.ts'
import { FilterLocation, parseTree, requireList, requirePath, requireShort } from './location.ts'
import { parseWhere } from './read-where.ts'

export interface FilterOptions {
  /** Types of a model's fields; if absent, every field is allowed. */
  readonly typeOf?: TypeOf
  readonly mayResolve?: boolean
}

/**
 * Reads the filter in the `query` of a request: `filter=<JSON>`, or `filter[where][qty][lt]=5` and so on. Returns
 * null if the query contains no filter. Ignores other parameters.
 *
 * In bracket form every value is a text. With a model, the field's type decides the meaning of the text. Without a
 * model, a text that is a number, `true`, `false` or `null` in JSON equals both that JSON value and the text, and
 * ranges compare the text as a number if possible.
 *
 * Errors: FilterError. Source: docs/reference/queries.md; docs/decisions/0016-filters-and-indexes.md.
 */
export function parseFilter(
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
  if (only === undefined) return parseFilterTree(parseTree(parameters), true, options)
  if (parameters.length > 1) {
    throw new FilterError(
      'FILTER_MALFORMED',
      [],
      'give only one filter, either as JSON or in brackets',
    )
  }
  return parseFilterTree(parseFilterJson(only[1]), false, options)
}

function parseFilterJson(text: string): Json {
  requireShort(text.length)
  try {
    return parseStrictJson(Buffer.from(text))
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    const reason = error.message.replace('the body is', 'it is')
    throw new FilterError('FILTER_MALFORMED', [], reason)
  }
}

const MEMBERS = ['where', 'order', 'limit', 'offset', 'skip', 'fields', 'include']

function parseFilterTree(tree: Json, isText: boolean, options: FilterOptions): Filter {
  if (!isJsonObject(tree)) throw new FilterError('FILTER_MALFORMED', [], 'it is not a JSON object')
  const unknown = Object.keys(tree).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined) {
    throw new FilterError('FILTER_UNKNOWN', [unknown], `unknown member; use ${MEMBERS.join(', ')}`)
  }
  const location = (name: string) => new FilterLocation([name], isText, options.typeOf)
  const { where, order, fields, include } = tree
  return {
    where: where === undefined ? null : parseWhere(where, location('where')),
    order: order === undefined ? [] : parseOrder(order, location('order')),
    limit: parseCount(tree, 'limit', 1, isText),
    offset: parseOffset(tree, isText),
    fields: fields === undefined ? null : parseFields(fields, location('fields')),
    resolve:
      include !== undefined &&
      readInclude(include, location('include'), options.mayResolve === true),
  }
}

function parseOffset(tree: JsonObject, isText: boolean): number | null {
  const offset = parseCount(tree, 'offset', 0, isText)
  const skip = parseCount(tree, 'skip', 0, isText)
  if (offset !== null && skip !== null) {
    throw new FilterError(
      'FILTER_MALFORMED',
      ['skip'],
      'skip means the same as offset: give only one of them',
    )
  }
  return offset ?? skip
}

function parseCount(tree: JsonObject, name: string, min: number, isText: boolean): number | null {
  const given = tree[name]
  if (given === undefined) return null
  const isDigits = isText && typeof given === 'string' && /^\d{1,16}$/.test(given)
  const count = isDigits ? Number(given) : given
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= min) return count
  throw new FilterError('FILTER_VALUE_WRONG', [name], `must be an integer, ${min} or more`)
}

/** Accepts `"a DESC"`, `"a, b DESC"`, or a list of such texts. */
function parseOrder(given: Json, location: FilterLocation): OrderTerm[] {
  const terms = requireList(given, location, FILTER_LIMITS.orderTerms).flatMap((text, index) => {
    if (typeof text !== 'string') throw wrongOrder(location.child(index))
    return text.split(',').map((term) => parseTerm(term.trim(), location))
  })
  location.requireMax(terms.length, FILTER_LIMITS.orderTerms, 'criteria')
  return terms
}

function parseTerm(text: string, location: FilterLocation): OrderTerm {
  const [, name, direction = 'ASC'] = /^(\S+)(?:\s+(ASC|DESC))?$/i.exec(text) ?? []
  if (name === undefined) throw wrongOrder(location)
  const path = requirePath(name, location)
  if (location.typeOf !== undefined && location.typeOf(path) === undefined) {
    throw location.error('FILTER_FIELD_UNKNOWN', `there is no field ${name}`)
  }
  return { path, descending: direction.toUpperCase() === 'DESC' }
}

function wrongOrder(location: FilterLocation): FilterError {
  return location.error(
    'FILTER_VALUE_WRONG',
    'must be a field, optionally followed by a space and ASC or DESC',
  )
}

/** Accepts a list of names, in a parameter also separated by commas, or an object with boolean members. */
function parseFields(value: Json, location: FilterLocation): Fields {
  const given = location.isText && typeof value === 'string' ? value.split(',') : value
  const isList = Array.isArray(given) || typeof given === 'string' || isIndexed(given, location)
  const named = isList
    ? requireList(given, location, FILTER_LIMITS.fields).map((name) => [name, true] as const)
    : Object.entries(isJsonObject(given) ? given : {})
  location.requireMax(named.length, FILTER_LIMITS.fields, 'names')
  const names: string[] = []
  const kinds = new Set<boolean>()
  for (const [name, shown] of named) {
    const kind = location.isText && typeof shown === 'string' ? shown === 'true' : shown
    const isSwitch = typeof kind === 'boolean' && (kind || shown === false || shown === 'false')
    if (typeof name !== 'string' || !isSwitch) {
      throw location.error(
        'FILTER_VALUE_WRONG',
        'must be a list of names, or an object with values true or false',
      )
    }
    if (location.typeOf !== undefined && location.typeOf([name]) === undefined) {
      throw location.error('FILTER_FIELD_UNKNOWN', `there is no field ${name.slice(0, 64)}`)
    }
    names.push(name)
    kinds.add(kind)
  }
  if (kinds.size !== 1) {
    throw location.error('FILTER_VALUE_WRONG', 'must either include or exclude fields, not both')
  }
  return { kind: kinds.has(true) ? 'only' : 'without', names }
}

function isIndexed(given: Json, { isText }: FilterLocation): boolean {
  return isText && isJsonObject(given) && Object.keys(given).every((name) => /^\d+$/.test(name))
}

function readInclude(given: Json, location: FilterLocation, mayResolve: boolean): true {
  const include = requireList(given, location, 1)
  if (mayResolve && include.length === 1 && include[0] === 'resolve') return true
  const reason = mayResolve ? 'must be resolve' : 'there are no relationships to resolve here'
  throw location.error('FILTER_VALUE_WRONG', reason)
}

/** Returns the `where` of an aggregation's filter. Errors: FILTER_UNKNOWN if `filter` has another member. */
export function requireOnlyWhere(filter: Filter | null): Where | null {
  if (filter === null) return null
  const { where, order, limit, offset, fields, resolve } = filter
  const others = { order: order.length > 0, limit, offset, fields, include: resolve }
  const other = Object.entries(others).find(([, value]) => value !== null && value !== false)
  if (other === undefined) return where
  const reason = 'the filter of an aggregation may contain only where'
  throw new FilterError('FILTER_UNKNOWN', [other[0]], reason)
}
