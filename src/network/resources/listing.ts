import { type Filter, filterOf, projected } from '../../filter/index.ts'
import type { Model, TypeDeclaration } from '../model/model.ts'
import type { Selection, StoredResource } from './database.ts'
import { fieldTypesOf } from './field-types.ts'
import type { Guard, Source } from './guard.ts'
import { objectIn } from './item.ts'
import { Resolver } from './resolve.ts'

/** A list that is being read. */
export interface Listing {
  /** How many there are without `limit` and `offset`. */
  readonly total: number
  /** The resources as JSON texts, page by page. */
  readonly pages: AsyncIterable<string[]>
}

/** Resources that access rules are asked about at once. */
const READ_AT_ONCE = 256

/** A filter that asks for everything. */
const NO_FILTER: Filter = {
  where: null,
  order: [],
  limit: null,
  offset: null,
  fields: null,
  resolve: false,
}

/** The filter in the query of a request for instances of `type`. Errors: FilterError. */
export function resourceFilter(
  query: Readonly<Record<string, unknown>>,
  model: Model,
  type: TypeDeclaration,
): Filter {
  const filter = filterOf(query, { typeOf: fieldTypesOf(model, type), mayResolve: true })
  if (filter === null) return NO_FILTER
  // `where={}` asks for everything, which is counted and listed without looking at resources.
  const { where } = filter
  return where?.kind === 'all' && where.of.length === 0 ? { ...filter, where: null } : filter
}

/** The resources of `type` that `filter` asks for and that the caller may read. */
export async function listResources(
  source: Source,
  type: TypeDeclaration,
  filter: Filter,
): Promise<Listing> {
  const { where, order, limit, offset } = filter
  const selection = { type, where, order, limit, offset: offset ?? 0 }
  const { total, pages } = await readable(source, selection)
  return { total, pages: presented(source, pages, filter) }
}

/** The part of a selection that may be read: pages count what is readable, not what is there. */
async function readable(
  { database, guard }: Source,
  selection: Selection,
): Promise<{ total: number; pages: AsyncIterable<StoredResource[]> }> {
  const type = selection.type.qualifiedName
  switch (guard.readsAll(type)) {
    case false:
      return { total: 0, pages: paged([]) }
    case true:
      return { total: await database.count(selection), pages: database.select(selection) }
    case null: {
      const { limit, offset } = selection
      const all = () =>
        readablePages(guard, type, database.select({ ...selection, limit: null, offset: 0 }))
      let total = 0
      for await (const page of all()) total += page.length
      return { total, pages: sliced(all(), offset, limit) }
    }
  }
}

async function* paged<Row>(rows: Row[]): AsyncGenerator<Row[]> {
  if (rows.length > 0) yield rows
}

async function* readablePages(
  guard: Guard,
  type: string,
  pages: AsyncIterable<StoredResource[]>,
): AsyncGenerator<StoredResource[]> {
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += READ_AT_ONCE) {
      yield await guard.readable(type, page.slice(at, at + READ_AT_ONCE))
    }
  }
}

/** What is left after passing over `offset` rows, `limit` of them at most. */
async function* sliced<Row>(
  pages: AsyncIterable<Row[]>,
  offset: number,
  limit: number | null,
): AsyncGenerator<Row[]> {
  let skip = offset
  let left = limit ?? Number.POSITIVE_INFINITY
  for await (const page of pages) {
    const rows = page.slice(skip, skip + left)
    skip -= Math.min(skip, page.length)
    left -= rows.length
    if (rows.length > 0) yield rows
    if (left === 0) return
  }
}

/** A resource as it is sent: with the requested fields, and relationships resolved. */
export async function presentedText(
  text: string,
  { fields, resolve }: Pick<Filter, 'fields' | 'resolve'>,
  resolver: Resolver,
): Promise<string> {
  if (fields === null && !resolve) return text
  const whole = objectIn(text)
  const shown = fields === null ? whole : projected(whole, fields)
  return JSON.stringify(resolve ? await resolver.resolved(shown, whole) : shown)
}

async function* presented(
  source: Source,
  pages: AsyncIterable<StoredResource[]>,
  filter: Filter,
): AsyncGenerator<string[]> {
  const resolver = new Resolver(source)
  for await (const page of pages) {
    const texts: string[] = []
    for (const { text } of page) texts.push(await presentedText(text, filter, resolver))
    yield texts
  }
}
