import { parseJson } from '../../base/json.ts'
import {
  compareByOrder,
  matches,
  type OrderTerm,
  type SortValue,
  sortValuesOf,
  stepsOf,
} from '../../filter/index.ts'
import { StoreError } from '../errors.ts'
import { type FoundItem, type ItemSearch, PAGE_CHARACTERS, SORTED_ITEMS_MAX } from '../store.ts'
import type { Reads } from './reads.ts'
import { itemOf, positionsOf } from './rows.ts'
import { chooseSource } from './search-plan.ts'
import type { Source } from './search-source.ts'
import type { StatementCache } from './statements.ts'

/** What a search runs on. */
export interface SearchGround {
  readonly statements: StatementCache
  readonly reads: Reads
}

const ROWS = `SELECT i.id, i.created, i.revision, i.item
  FROM json_each(?) AS c CROSS JOIN items AS i ON i.created = c.value`
const IDS = `SELECT i.id, i.created, i.revision
  FROM json_each(?) AS c CROSS JOIN items AS i ON i.created = c.value`

/** What it costs to parse a character of an item, in steps of a pattern. */
const JUDGING_STEPS = 1

/**
 * One search: a source of positions, and the items at them. It goes in pieces that are bounded, each
 * on a view of its own, so that neither the event loop nor the log of the writer waits for a search.
 */
export class Search {
  readonly #ground: SearchGround
  readonly #query: ItemSearch
  readonly #source: Source
  /** Whether items must be held against the predicate once more. */
  readonly #judges: boolean
  /** What that costs for a character of an item, in steps. */
  readonly #steps: number

  constructor(ground: SearchGround, database: number, query: ItemSearch) {
    this.#ground = ground
    this.#query = query
    this.#source = ground.reads.run(() => chooseSource(ground.statements, database, query))
    this.#judges = query.where !== null && !this.#source.isExact
    this.#steps = query.where === null ? 0 : stepsOf(query.where)
  }

  /** The path of the index that is used, or null for a scan. */
  get index(): string | null {
    return this.#source.index
  }

  /** The items, piece by piece; pieces may be empty. Errors: SEARCH_TOO_LARGE, SEARCH_INTERRUPTED. */
  async *pieces(): AsyncGenerator<FoundItem[]> {
    const { order, offset, limit } = this.#query
    let skip = offset
    let left = limit ?? Number.POSITIVE_INFINITY
    const ordered = order.length === 0 || this.#source.isOrdered
    const positions = ordered ? this.#positions() : this.#sorted(order)
    for await (const piece of positions) {
      // Where nothing is judged, what is passed over, or beyond the limit, need not be read.
      const unread = this.#judges ? 0 : Math.min(skip, piece.length)
      skip -= unread
      const wanted = piece.slice(unread, this.#judges ? undefined : unread + left)
      for await (const items of this.#read(wanted)) {
        const passed = Math.min(skip, items.length)
        skip -= passed
        const page = items.slice(passed, passed + left)
        left -= page.length
        yield page
        if (left <= 0) return
      }
      yield []
    }
  }

  async *#positions(): AsyncGenerator<readonly number[]> {
    for (;;) {
      const { positions, isEnd } = this.#ground.reads.run(() => this.#source.next())
      yield positions
      if (isEnd) return
    }
  }

  /** All positions in `order`; of ties, those created first, or last where the last term descends. */
  async *#sorted(order: readonly OrderTerm[]): AsyncGenerator<readonly number[]> {
    const { limit, offset } = this.#query
    const wanted = limit === null ? Number.POSITIVE_INFINITY : limit + offset
    const ties = order.at(-1)?.descending === true ? -1 : 1
    let found: { values: SortValue[]; created: number }[] = []
    const sort = () => {
      found.sort((one, other) => {
        const compared = compareByOrder(order, one.values, other.values)
        return compared === 0 ? (one.created - other.created) * ties : compared
      })
      if (found.length > wanted) found = found.slice(0, wanted)
    }
    for await (const positions of this.#positions()) {
      for await (const items of this.#read(positions, true)) {
        for (const { text, created } of items) {
          found.push({ values: sortValuesOf(order, parseJson(text ?? '{}')), created })
        }
        if (found.length > 2 * wanted + 1_000) sort()
        if (found.length > SORTED_ITEMS_MAX) {
          throw new StoreError(
            'SEARCH_TOO_LARGE',
            `more than ${SORTED_ITEMS_MAX} items to sort: declare an index on ${order[0]?.path.join('.')}, or give a smaller limit`,
          )
        }
        yield []
      }
    }
    sort()
    const positions = found.map(({ created }) => created)
    for (let at = 0; at < positions.length; at += 1_000) yield positions.slice(at, at + 1_000)
  }

  /** The items at `positions` that are still there and still match, a bounded piece at a time. */
  async *#read(positions: readonly number[], text = this.#query.text): AsyncGenerator<FoundItem[]> {
    const { where } = this.#query
    const withText = text || this.#judges
    const statement = this.#ground.statements.get(withText ? ROWS : IDS)
    let rest = positions
    while (rest.length > 0) {
      const list = JSON.stringify(rest)
      const { items, last, work } = this.#ground.reads.run(() => {
        const items: FoundItem[] = []
        let work = 0
        let last: number | null = null
        // Taking all at once costs half, and is bounded where only ids are read.
        for (const row of withText ? statement.iterate(list) : statement.all(list)) {
          const item = withText ? itemOf(row) : { ...positionsOf(row), text: null }
          last = item.created
          const characters = item.text?.length ?? 0
          work += this.#judges ? characters * (JUDGING_STEPS + this.#steps) : characters
          const isFound =
            !this.#judges || (where !== null && matches(where, parseJson(item.text ?? '{}')))
          if (isFound) items.push(text ? item : { ...item, text: null })
          if (work >= PAGE_CHARACTERS) break
        }
        return { items, last, work }
      })
      yield items
      if (last === null || work < PAGE_CHARACTERS) return
      rest = rest.slice(rest.indexOf(last) + 1)
    }
  }
}
