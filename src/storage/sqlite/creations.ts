import type { DatabaseSync } from 'node:sqlite'
import { entryText, packPosition } from '../../chain/index.ts'
import type { Creations, PlacedItem } from '../store.ts'
import { integer, page, placedItemOf, type Row, text } from './rows.ts'
import { LIMIT, Query } from './statements.ts'

/**
 * What the rows are that were created at one height, all at once: the entries that would have made them
 * are put together here, so that no row has to be read one by one. What their texts take is bounded by
 * what the entries take, before any is read.
 */
const ROWS = `SELECT count(*), min(i.created), max(i.created), min(i.created = i.revision),
    min(i.db), max(i.db), min(d.name), group_concat(i.id, char(10)),
    group_concat(?1 || d.name || ?2 || i.item || ?3, char(10)) = (SELECT body FROM blocks WHERE height = ?4)
  FROM items AS i CROSS JOIN databases AS d ON d.created = i.db
  WHERE i.created >= ?5 AND i.created < ?6
    AND (SELECT sum(octet_length(id) + octet_length(item)) FROM items WHERE created >= ?5 AND created < ?6)
      <= (SELECT octet_length(body) FROM blocks WHERE height = ?4)`

/** The same rows by database. */
const COUNTS = `SELECT d.name, d.created, count(*)
  FROM items AS i CROSS JOIN databases AS d ON d.created = i.db
  WHERE i.created >= ? AND i.created < ? GROUP BY d.created`

const PAGE = `SELECT id, created, revision, item, db FROM items
  WHERE created > ? ORDER BY created ${LIMIT}`

/** Reads items by where they were created, of all databases. */
export class CreationReader {
  readonly #parts: readonly [string, string, string]
  readonly #page: Query
  readonly #rows: Query
  readonly #counts: Query

  constructor(connection: DatabaseSync, serverId: number) {
    const [beforeName = '', beforeItem = '', end = ''] = entryText
      .item('create_item', serverId, MARK, MARK)
      .split(MARK)
    this.#parts = [beforeName, beforeItem, end]
    this.#page = new Query(connection, PAGE)
    this.#rows = new Query(connection, ROWS)
    this.#counts = new Query(connection, COUNTS)
  }

  /** As `StoreReader.itemsByCreation`. */
  page(after: number, limit: number): PlacedItem[] {
    return page(this.#page.iterate(after, limit), placedItemOf, (item) => item.text.length)
  }

  /** As `StoreReader.plainCreations`. */
  plain(height: number, ids: readonly string[]): Creations[] | null {
    const range = [packPosition(height, 0), packPosition(height + 1, 0)] as const
    const row = this.#rows.get(...this.#parts, height, ...range)
    const [count, first, last, unchanged, database, other, name, stored, same] = row ?? []
    // As many rows as entries from the first one's place to the last one's: one in each.
    const isInPlace =
      count === ids.length && first === range[0] && last === packPosition(height, ids.length - 1)
    // No id and no entry has a line feed: texts of as many lines are equal when each line is.
    if (!isInPlace || unchanged !== 1 || same !== 1 || stored !== ids.join('\n')) return null
    if (database !== other) return this.#counts.all(...range).map(creationsOf)
    return [creationsOf([name, database, count])]
  }
}

/** Stands for a part of an entry; no text that is escaped has it. */
const MARK = '\u007f'

function creationsOf([name, database, count]: Row): Creations {
  return {
    db: text(name, 'name'),
    database: integer(database, 'created'),
    count: integer(count, 'count'),
  }
}
