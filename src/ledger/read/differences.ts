import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { turn } from '../../base/turn.ts'
import { findItemId, packPosition, parseEntryHead } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
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

/** An item that may differ. */
type Candidate = readonly [Pair, string]

/** A database name, with the creation position of the database that had it in each state, or null. */
interface Pair {
  readonly db: string
  readonly from: number | null
  readonly to: number | null
}

/** Work after which other requests get a turn: characters of parsed entries, and ENTRY_WORK for each entry. */
const PIECE_WORK = 65_536
const ENTRY_WORK = 512
/** Maximum items of a piece. */
const PIECE_ITEMS = PIECE_WORK / ENTRY_WORK
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
    const databases =
      db === null
        ? await store.databasesBefore(before)
        : [(await store.databaseBefore(db, before)) ?? []].flat()
    return new Map(databases.map(({ name, created }) => [name, created]))
  }
  const [old, now] = [await named(from), await named(to)]
  return [...new Set([...old.keys(), ...now.keys()])]
    .filter(isSelected)
    .map((name) => ({ db: name, from: old.get(name) ?? null, to: now.get(name) ?? null }))
}

async function* pages(
  store: StoreReader,
  pairs: readonly Pair[],
  query: DifferenceQuery,
): AsyncGenerator<ItemDifference[]> {
  const isSame = ({ from, to }: Pair) => from === to
  const same = new Map(pairs.filter(isSame).map((pair) => [pair.db, pair]))
  if (same.size > 0) yield* compared(store, changedItems(store, same, query), query)
  for (const pair of pairs) {
    if (!isSame(pair)) yield* compared(store, allItems(store, pair, query), query)
  }
}

/** Yields the items that entries between the two states changed, each once. A piece may be empty. */
async function* changedItems(
  store: StoreReader,
  same: ReadonlyMap<string, Pair>,
  { from, to }: DifferenceQuery,
): AsyncGenerator<Candidate[]> {
  const range = { offset: from.height + 1, limit: to.height - from.height }
  if (range.limit === 0) return
  for await (const blocks of blockPages(store, range)) {
    for (let block = blocks.shift(); block !== undefined; block = blocks.shift()) {
      const { height } = block
      const count = block.entries.length
      let [found, work]: [Candidate[], number] = [[], 0]
      for (let index = 0; index < count; index += 1) {
        const text = block.entries[index] ?? ''
        const pair = same.get(parseEntryHead(text)?.db ?? '')
        const id = pair === undefined ? null : (findItemId(text) ?? deletedId(parseJson(text)))
        work += ENTRY_WORK + (pair === undefined ? 0 : text.length)
        if (pair !== undefined && id !== null) {
          const position = packPosition(height, index)
          const isFirst = !(await store.isRevised(pair.to ?? -1, id, from.before, position))
          if (isFirst) found.push([pair, id])
        }
        if (work < PIECE_WORK || index === count - 1) continue
        yield found
        ;[found, work] = [[], 0]
      }
      // While the client reads the last items, the block, which may have 10 MB, is not kept.
      block = undefined
      yield found
    }
  }
}

/** Returns the id in an entry without an item if the entry deletes an item; attachments and erasures change no item. */
function deletedId(entry: Json): string | null {
  if (!isJsonObject(entry)) return null
  const { method, id } = entry
  return method === 'delete_item' && typeof id === 'string' ? id : null
}

/** Yields all items of the former database, and then those that only the later database has. */
async function* allItems(
  store: StoreReader,
  pair: Pair,
  { from, to }: DifferenceQuery,
): AsyncGenerator<Candidate[]> {
  for await (const ids of idPieces(store, pair.from, from)) {
    yield ids.map((id) => [pair, id])
  }
  for await (const ids of idPieces(store, pair.to, to)) {
    const found: Candidate[] = []
    for (const id of ids) {
      const isOld =
        pair.from !== null && (await store.createdBefore(pair.from, id, from.before)) !== null
      if (!isOld) found.push([pair, id])
    }
    yield found
  }
}

async function* idPieces(
  store: StoreReader,
  database: number | null,
  asOf: AsOf,
): AsyncGenerator<string[]> {
  if (database === null) return
  for await (const page of (await searchPages(store, database, ALL_ITEMS, asOf)).pages) {
    while (page.length > 0) yield page.splice(0, PIECE_ITEMS).map(({ id }) => id)
  }
}

/** An item that existed in at least one state, with the positions of its creation, or null. */
interface Row {
  readonly pair: Pair
  readonly id: string
  readonly before: number | null
  readonly after: number | null
}

/**
 * Yields the differences of `candidates`, with a turn for other requests after each piece. Pages may be empty, so that
 * a reply whose client has left ends.
 */
async function* compared(
  store: StoreReader,
  candidates: AsyncIterable<Candidate[]>,
  query: DifferenceQuery,
): AsyncGenerator<ItemDifference[]> {
  const { from, to, docs } = query
  for await (const some of candidates) {
    let rows: Row[] = []
    for (const [pair, id] of some) {
      const before = await findCreation(store, pair.from, id, from)
      const after = await findCreation(store, pair.to, id, to)
      if (before !== null || after !== null) rows.push({ pair, id, before, after })
    }
    while (docs && rows.length > 0) {
      const page = await readPage(store, rows, query)
      rows = rows.slice(page.length)
      yield page
      await turn()
    }
    yield rows.map((row) => difference(row, null, null))
    await turn()
  }
}

async function findCreation(
  store: StoreReader,
  database: number | null,
  id: string,
  { before }: AsOf,
): Promise<number | null> {
  return database === null ? null : store.createdBefore(database, id, before)
}

/** Reads the items of the first rows, at least of one. An erased item has only its `id`. */
async function readPage(
  store: StoreReader,
  rows: readonly Row[],
  { from, to }: DifferenceQuery,
): Promise<ItemDifference[]> {
  const olds = rows.map(({ pair, before }) => [pair.from, before] as const)
  const news = rows.map(({ pair, after }) => [pair.to, after] as const)
  const [old, now] = [await readTexts(store, olds, from), await readTexts(store, news, to)]
  const end = rows.findIndex(({ before, after }) => !(old.has(before) && now.has(after)))
  return rows
    .slice(0, end === -1 ? rows.length : Math.max(1, end))
    .map((row) => difference(row, old.get(row.before) ?? null, now.get(row.after) ?? null))
}

/** Reads the texts of the first items, at least of one, by the positions of their creations. */
async function readTexts(
  store: StoreReader,
  items: readonly (readonly [database: number | null, created: number | null])[],
  { before }: AsOf,
): Promise<Map<number | null, string | null>> {
  const texts = new Map<number | null, string | null>([[null, null]])
  for (const [database, own] of Map.groupBy(items, ([database]) => database)) {
    const positions = own.flatMap(([, created]) => created ?? [])
    if (database === null || positions.length === 0) continue
    for (const { created, text } of await store.itemsBefore(database, positions, before)) {
      texts.set(created, text)
    }
  }
  return texts
}

function difference(
  { pair: { db }, id, before: old, after: now }: Row,
  before: string | null,
  after: string | null,
): ItemDifference {
  const change = old === null ? 'created' : now === null ? 'deleted' : 'updated'
  return { db, id, change, before, after }
}
