import type { DatabaseSync } from 'node:sqlite'
import { packPosition } from '../../chain/index.ts'
import { createItemParts } from '../port/effect.ts'
import type { Creations, ItemRow } from '../port/store.ts'
import { creationsOf, itemRowOf, page } from '../sql/rows.ts'
import { LIMIT, queriesOf } from './statements.ts'

const SQL = {
  page: `SELECT id, created, revision, item, db FROM items
    WHERE created > ? ORDER BY created ${LIMIT}`,
  // Composes, from all rows created at one height, the entries that would have created these rows, and compares the
  // entries with the block. Compares the sizes first, so that the composed text is not much longer than the block.
  rows: `SELECT count(*), min(i.created), max(i.created), min(i.created = i.revision),
      min(i.db), max(i.db), min(d.name), group_concat(i.id, char(10)),
      group_concat(?1 || d.name || ?2 || i.item || ?3, char(10)) = (SELECT body FROM blocks WHERE height = ?4)
    FROM items AS i CROSS JOIN databases AS d ON d.created = i.db
    WHERE i.created >= ?5 AND i.created < ?6
      AND (SELECT sum(octet_length(id) + octet_length(item)) FROM items WHERE created >= ?5 AND created < ?6)
        <= (SELECT octet_length(body) FROM blocks WHERE height = ?4)`,
  counts: `SELECT d.name, d.created, count(*)
    FROM items AS i CROSS JOIN databases AS d ON d.created = i.db
    WHERE i.created >= ? AND i.created < ? GROUP BY d.created`,
} as const

/** Reads the items of all databases by their creation. */
export class CreationReader {
  readonly #entryParts
  readonly #sql

  constructor(connection: DatabaseSync, serverId: number) {
    this.#entryParts = createItemParts(serverId)
    this.#sql = queriesOf(connection, SQL)
  }

  /** See `StoreReader.itemsByCreation`. */
  page(after: number, limit: number): ItemRow[] {
    return page(this.#sql.page.iterate(after, limit), itemRowOf, (item) => item.text.length)
  }

  /** See `StoreReader.plainCreations`. */
  plain(height: number, ids: readonly string[]): Creations[] | null {
    const range = [packPosition(height, 0), packPosition(height + 1, 0)] as const
    const row = this.#sql.rows.get(...this.#entryParts, height, ...range)
    const [count, first, last, isUnchanged, database, other, name, storedIds, isSame] = row ?? []
    // Every position has a row if the range has as many rows as positions.
    const isComplete =
      count === ids.length && first === range[0] && last === packPosition(height, ids.length - 1)
    // No id and no entry contains a line feed, so joined texts are equal exactly if all lines are.
    if (!isComplete || isUnchanged !== 1 || isSame !== 1 || storedIds !== ids.join('\n'))
      return null
    if (database !== other) return this.#sql.counts.all(...range).map(creationsOf)
    return [creationsOf([name, database, count])]
  }
}
