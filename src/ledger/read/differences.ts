import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { turn } from '../../base/turn.ts'
import { packPosition } from '../../chain/index.ts'
import { erasedItemText, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { type AsOf, blockPages, searchPages } from './pages.ts'

/** The difference of an item between two states. */
export interface ItemDifference {
  readonly db: string
  readonly id: string
  readonly change: 'created' | 'updated' | 'deleted'
  /** The item in each state; null if it did not exist, or if the texts were not requested. */
  readonly before: string | null
  readonly after: string | null
}

export interface DifferenceQuery {
  readonly from: AsOf
  readonly to: AsOf
  /** Only this database; null for all that `isSelected`. */
  readonly db: string | null
  readonly isSelected: (db: string) => boolean
  /** Whether to read the items before and after. */
  readonly docs: boolean
}

/** A database name, with the creation position of the database that had it in each state, or null. */
interface Pair {
  readonly db: string
  readonly from: number | null
  readonly to: number | null
}

/** Characters of items after which a page of differences ends. */
const PAGE_CHARACTERS = 65_536
const ALL_ITEMS = {
  filter: { where: null, order: [], limit: null, offset: null, fields: null, resolve: false },
  after: null,
  docs: false,
} as const

/**
 * Yields the items that differ between two states, page by page. An item is updated if another entry was its last
 * change, even if the contents are equal. The items of databases that existed all the time are in the order of their
 * first change. They are followed by those of databases that were created, deleted or created again.
 * Errors, before the first page: DATABASE_NOT_FOUND if `db` existed in neither state.
 */
export async function differences(
  store: StoreReader,
  query: DifferenceQuery,
): Promise<AsyncGenerator<ItemDifference[]>> {
  const { db, from, to } = query
  const pairs = await readPairs(store, query)
  if (db !== null && pairs.length === 0) {
    const message = `there was no database ${db} at height ${from.height} and at height ${to.height}`
    throw new LedgerError('DATABASE_NOT_FOUND', message)
  }
  return pages(store, pairs, query)
}

async function readPairs(
  store: StoreReader,
  { db, from, to, isSelected }: DifferenceQuery,
): Promise<Pair[]> {
  const named = async ({ before }: AsOf) => {
    const databases = await store.databasesBefore(before)
    return new Map(databases.map(({ name, created }) => [name, created]))
  }
  const [old, now] = [await named(from), await named(to)]
  return [...new Set([...old.keys(), ...now.keys()])]
    .filter((name) => (db === null || name === db) && isSelected(name))
    .map((name) => ({ db: name, from: old.get(name) ?? null, to: now.get(name) ?? null }))
}

async function* pages(
  store: StoreReader,
  pairs: readonly Pair[],
  query: DifferenceQuery,
): AsyncGenerator<ItemDifference[]> {
  const isSame = ({ from, to }: Pair) => from === to
  const same = new Map(pairs.filter(isSame).map((pair) => [pair.db, pair]))
  const compare = (pair: Pair, id: string) => difference(store, pair, id, query)
  if (same.size > 0) yield* grouped(changedIds(store, same, query), compare)
  for (const pair of pairs) if (!isSame(pair)) yield* grouped(allIds(store, pair, query), compare)
}

/** Yields the ids of items that entries between the two states changed, each once. */
async function* changedIds(
  store: StoreReader,
  same: ReadonlyMap<string, Pair>,
  { from, to }: DifferenceQuery,
): AsyncGenerator<(readonly [Pair, string])[]> {
  const range = { offset: from.height + 1, limit: to.height - from.height }
  if (range.limit === 0) return
  for await (const blocks of blockPages(store, range)) {
    for (const { height, entries } of blocks.splice(0)) {
      const found: [Pair, string][] = []
      for (const [index, text] of entries.entries()) {
        const changed = changedItem(parseJson(text))
        const pair = changed === null ? undefined : same.get(changed.db)
        if (changed === null || pair === undefined) continue
        const { id } = changed
        const position = packPosition(height, index)
        const isFirst = !(await store.isRevised(pair.to ?? -1, id, from.before, position))
        if (isFirst) found.push([pair, id])
      }
      yield found
    }
  }
}

/** Returns the item that an entry changes, or null. */
function changedItem(entry: Json): { db: string; id: string } | null {
  if (!isJsonObject(entry)) return null
  const { method, db, item } = entry
  const isChange = method === 'create_item' || method === 'update_item' || method === 'delete_item'
  const id = isJsonObject(item) ? item.id : entry.id
  return isChange && typeof db === 'string' && typeof id === 'string' ? { db, id } : null
}

/** Yields the ids of all items of the former database, and then those that only the later database has. */
async function* allIds(
  store: StoreReader,
  pair: Pair,
  { from, to }: DifferenceQuery,
): AsyncGenerator<(readonly [Pair, string])[]> {
  if (pair.from !== null) {
    for await (const page of (await searchPages(store, pair.from, ALL_ITEMS, from)).pages) {
      yield page.map(({ id }) => [pair, id])
    }
  }
  if (pair.to === null) return
  for await (const page of (await searchPages(store, pair.to, ALL_ITEMS, to)).pages) {
    const found: [Pair, string][] = []
    for (const { id } of page) {
      const isOld =
        pair.from !== null && (await store.createdBefore(pair.from, id, from.before)) !== null
      if (!isOld) found.push([pair, id])
    }
    yield found
  }
}

async function* grouped(
  ids: AsyncIterable<(readonly [Pair, string])[]>,
  compare: (pair: Pair, id: string) => Promise<ItemDifference | null>,
): AsyncGenerator<ItemDifference[]> {
  let page: ItemDifference[] = []
  let characters = 0
  for await (const some of ids) {
    for (const [pair, id] of some) {
      const found = await compare(pair, id)
      if (found === null) continue
      page.push(found)
      characters += id.length + (found.before?.length ?? 0) + (found.after?.length ?? 0)
      if (characters < PAGE_CHARACTERS) continue
      yield page
      page = []
      characters = 0
      await turn()
    }
    await turn()
  }
  yield page
}

async function difference(
  store: StoreReader,
  { db, from: old, to: now }: Pair,
  id: string,
  { from, to, docs }: DifferenceQuery,
): Promise<ItemDifference | null> {
  const [before, after] = await Promise.all([
    readState(store, old, id, from, docs),
    readState(store, now, id, to, docs),
  ])
  if (before === null && after === null) return null
  const change = before === null ? 'created' : after === null ? 'deleted' : 'updated'
  return { db, id, change, before: before?.text ?? null, after: after?.text ?? null }
}

/** Returns an item with its text, if requested, or null if it did not exist. An erased item has only its `id`. */
async function readState(
  store: StoreReader,
  database: number | null,
  id: string,
  { before }: AsOf,
  docs: boolean,
): Promise<{ text: string | null } | null> {
  if (database === null) return null
  if ((await store.createdBefore(database, id, before)) === null) return null
  if (!docs) return { text: null }
  const [last] = await store.revisions(database, id, { newestFirst: true, after: before, limit: 1 })
  return { text: last?.text ?? erasedItemText(id) }
}
