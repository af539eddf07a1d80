import type { Json, JsonObject } from '../../base/json.ts'
import { matches } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import type { Bound } from '../language/query-parser.ts'
import type { Model } from '../model/model.ts'
import { type Problem, pointer } from '../model/validation.ts'
import type { NamedQuery } from '../queries/check.ts'
import {
  type Arguments,
  parameterTypeText,
  parameterValue,
  predicateOf,
} from '../queries/predicate.ts'
import { objectIn, type StoredResource } from './database.ts'
import type { Guard } from './guard.ts'
import { type Listing, presented, Resolver, resourceFilter } from './listing.ts'
import { ordered } from './overlay.ts'

/** Maximum values of a list parameter. */
const VALUES_MAX = 1_000

/** Maximum results of a query, because results are sorted and paged in memory. */
const RESULTS_MAX = 100_000

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
  const found = await selectedResources(guard, query, parameters)
  const isKept = ({ text }: StoredResource) => where === null || matches(where, objectIn(text))
  const kept = ordered(found.filter(isKept), order)
  const from = offset ?? 0
  const cut = kept.slice(from, limit === null ? undefined : from + limit)
  const resolver = new Resolver(guard)
  async function* pages(): AsyncGenerator<string[]> {
    for (const { text } of cut) yield [await presented(text, shown, resolver)]
  }
  return { total: kept.length, pages: pages() }
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
 * Returns the resources that `query` selects and that the caller may read, in the order of the query. `request`
 * contains the parameters as strings. Errors: PARAMETER_INVALID.
 */
export async function selectedResources(
  guard: Guard,
  query: NamedQuery,
  request: ParameterTexts,
): Promise<StoredResource[]> {
  const { type, order } = query
  const { model } = guard.definition
  const given = argumentsOf(query, request, model)
  const { where, holds } = predicateOf(query.where, type, model, given)
  const found: StoredResource[] = []
  for await (const page of guard.select({ type, where, order, limit: null, offset: 0 })) {
    for (const resource of page) if (holds(objectIn(resource.text))) found.push(resource)
    if (found.length > RESULTS_MAX) {
      const message = `the query finds more than ${RESULTS_MAX} resources: add a condition`
      throw new NetworkError('PARAMETER_INVALID', message)
    }
  }
  const skip = countOf(query.skip, given) ?? 0
  const limit = countOf(query.limit, given)
  return found.slice(skip, limit === null ? undefined : skip + limit)
}

function argumentsOf({ parameters }: NamedQuery, request: ParameterTexts, model: Model): Arguments {
  const given = new Map<string, readonly string[]>()
  const problems: Problem[] = []
  for (const [name, type] of parameters) {
    const value = Object.hasOwn(request, name) ? request[name] : undefined
    // A parameter of CONTAINS can be a list. Then the property, an array, must contain all values of the list.
    const isList = Array.isArray(value) && type !== 'count' && type.array
    const texts: unknown[] = isList ? value : [value]
    const fits = (text: unknown) =>
      typeof text === 'string' && parameterValue(text, type, model) !== undefined
    if (texts.length <= VALUES_MAX && texts.every(fits)) {
      given.set(name, texts.map(String))
      continue
    }
    const code = value === undefined ? 'MISSING' : 'WRONG_TYPE'
    const message = `the query needs the parameter ${name}, a ${parameterTypeText(type)}`
    problems.push({ path: pointer('', name), code, message })
  }
  for (const name of Object.keys(request)) {
    if (parameters.has(name) || name === 'filter' || name.startsWith('filter[')) continue
    const message = `the query has no parameter ${name.slice(0, 64)}`
    problems.push({ path: pointer('', name), code: 'UNKNOWN_PROPERTY', message })
  }
  if (problems.length === 0) return given
  const message = problems.map((problem) => problem.message).join('; ')
  throw new NetworkError('PARAMETER_INVALID', message, { problems })
}

function countOf(bound: Bound | null, given: Arguments): number | null {
  if (bound === null) return null
  return Number(bound.kind === 'parameter' ? given.get(bound.name)?.[0] : bound.value)
}
