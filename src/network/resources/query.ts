import type { Json, JsonObject } from '../../base/json.ts'
import { compareByOrder, matches, type SortValue, toSortValues } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import type { RowLimit } from '../language/query-parser.ts'
import type { Model } from '../model/model.ts'
import { PROBLEMS_MAX, type Problem, pointer } from '../model/validation.ts'
import type { NamedQuery } from '../queries/check.ts'
import {
  type Arguments,
  formatParameterType,
  parseParameter,
  toPredicate,
} from '../queries/predicate.ts'
import { parseStored, type StoredResource } from './database.ts'
import type { Guard } from './guard.ts'
import { type Listing, presentedPages, resourceFilter } from './listing.ts'

/** Maximum values of a list parameter. */
const VALUES_MAX = 1_000

/** Maximum results of a query, because their ids are sorted and paged in memory. */
const RESULTS_MAX = 100_000
/** Maximum characters of results that stay in memory. Further results are read again when they are sent. */
const KEPT_CHARACTERS_MAX = 1_048_576

/** A result of a query. `stored` is null if it must be read again. */
interface QueryResult {
  readonly id: string
  readonly keys: readonly SortValue[]
  readonly stored: StoredResource | null
}

/** Parameters of a query: strings or lists of strings. */
export type ParameterTexts = Readonly<Record<string, unknown>>

/**
 * Runs a query. Returns the selected resources that the caller may read and that match the filter in `filterQuery`.
 * Errors: PARAMETER_INVALID, FilterError.
 */
export async function runQuery(
  guard: Guard,
  query: NamedQuery,
  parameters: ParameterTexts,
  filterQuery: ParameterTexts,
): Promise<Listing> {
  const { where, order, limit, offset, ...shown } = resourceFilter(
    filterQuery,
    guard.definition.model,
    query.type,
  )
  const kept: QueryResult[] = []
  let characters = 0
  const keep = (stored: StoredResource) => {
    const resource = where === null && order.length === 0 ? {} : parseStored(stored.text)
    if (where !== null && !matches(where, resource)) return
    const { id, text } = stored
    const isKept = characters + text.length <= KEPT_CHARACTERS_MAX
    if (isKept) characters += text.length
    kept.push({ id, keys: toSortValues(order, resource), stored: isKept ? stored : null })
  }
  for await (const page of selectedPages(guard, query, parameters)) page.splice(0).forEach(keep)
  if (order.length > 0) kept.sort((one, other) => compareByOrder(order, one.keys, other.keys))
  const from = offset ?? 0
  const cut = kept.slice(from, limit === null ? undefined : from + limit)
  return { total: kept.length, pages: presentedPages(readAgain(guard, query, cut), shown, guard) }
}

/** Yields each of `results`, as a page. Leaves out results that were deleted meanwhile. */
async function* readAgain(
  guard: Guard,
  { type }: NamedQuery,
  results: readonly QueryResult[],
): AsyncGenerator<StoredResource[]> {
  const read = async (id: string) => [(await guard.read({ type: type.qualifiedName, id })) ?? []]
  for (const { id, stored } of results) yield stored === null ? (await read(id)).flat() : [stored]
}

/** Converts parameters to strings, as in a URL. null and objects become empty strings. */
export function parameterTexts(parameters: JsonObject): Record<string, string | string[]> {
  const text = (value: Json) => (value === null || typeof value === 'object' ? '' : String(value))
  const texts = Object.entries(parameters).map(
    ([name, value]) => [name, Array.isArray(value) ? value.map(text) : text(value)] as const,
  )
  return Object.fromEntries(texts)
}

/**
 * Yields the resources that `query` selects and that the caller may read, in the order of the query, page by page.
 * `request` contains the parameters as strings. Errors: PARAMETER_INVALID.
 */
export async function* selectedPages(
  guard: Guard,
  query: NamedQuery,
  request: ParameterTexts,
): AsyncGenerator<StoredResource[]> {
  const { type, order } = query
  const { model } = guard.definition
  const given = requireArguments(query, request, model)
  const { where, holds } = toPredicate(query.where, type, model, given)
  let skip = toRowCount(query.skip, given) ?? 0
  let left = toRowCount(query.limit, given) ?? Number.POSITIVE_INFINITY
  let found = 0
  const isSelected = ({ text }: StoredResource) => {
    if (left <= 0 || (query.where !== null && !holds(parseStored(text)))) return false
    found += 1
    if (found > RESULTS_MAX) {
      const message = `the query finds more than ${RESULTS_MAX} resources: add a condition`
      throw new NetworkError('PARAMETER_INVALID', message)
    }
    if (skip > 0) {
      skip -= 1
      return false
    }
    left -= 1
    return true
  }
  for await (const page of guard.select({ type, where, order, limit: null, offset: 0 })) {
    yield page.splice(0).filter(isSelected)
    if (left <= 0) return
  }
}

/**
 * Returns the parameters of `query` in a query string, where each may be written as `name[]`. As in Composer, other
 * members, such as the `_` of jQuery, are ignored.
 */
export function pickParameters(queryString: ParameterTexts, query: NamedQuery): ParameterTexts {
  const given = [...query.parameters.keys()].flatMap((name) =>
    [name, `${name}[]`]
      .filter((key) => Object.hasOwn(queryString, key))
      .slice(0, 1)
      .map((key) => [name, queryString[key]] as const),
  )
  return Object.fromEntries(given)
}

function requireArguments(
  { parameters }: NamedQuery,
  request: ParameterTexts,
  model: Model,
): Arguments {
  const given = new Map<string, readonly string[]>()
  const problems: Problem[] = []
  for (const [name, type] of parameters) {
    const value = Object.hasOwn(request, name) ? request[name] : undefined
    // A parameter of CONTAINS can be a list. Then the property, an array, must contain all values of the list.
    const isList = Array.isArray(value) && type !== 'count' && type.array
    const texts: unknown[] = isList ? value : [value]
    const fits = (text: unknown) =>
      typeof text === 'string' && parseParameter(text, type, model) !== undefined
    if (texts.length <= VALUES_MAX && texts.every(fits)) {
      given.set(name, texts.map(String))
      continue
    }
    const code = value === undefined ? 'MISSING' : 'WRONG_TYPE'
    const message = `the query needs the parameter ${name}, a ${formatParameterType(type)}`
    problems.push({ path: pointer('', name), code, message })
  }
  for (const name of Object.keys(request)) {
    if (problems.length >= PROBLEMS_MAX) break
    if (parameters.has(name)) continue
    const message = `the query has no parameter ${name.slice(0, 64)}`
    problems.push({ path: pointer('', name), code: 'UNKNOWN_PROPERTY', message })
  }
  if (problems.length === 0) return given
  const message = problems.map((problem) => problem.message).join('; ')
  throw new NetworkError('PARAMETER_INVALID', message, { problems })
}

function toRowCount(bound: RowLimit | null, given: Arguments): number | null {
  if (bound === null) return null
  return Number(bound.kind === 'parameter' ? given.get(bound.name)?.[0] : bound.value)
}
