import type { DatabaseSync } from 'node:sqlite'

/**
 * Of format 1 there was a layout before the one that became it: `blocks` named its node in every row,
 * and `items` was clustered by id. The number of the format does not tell them apart, a column does.
 */
const EARLY = `SELECT count(*) AS n FROM pragma_table_info('blocks') WHERE name = 'serverid'`

/** Empties the names for the tables of today, keeping the rows beside. */
const ASIDE = `
  ALTER TABLE blocks RENAME TO early_blocks;
  ALTER TABLE items RENAME TO early_items;
  DROP INDEX items_in_order;
`

/** Of several chains in one table only the node's own was ever written. */
const BACK = `
  INSERT INTO blocks (height, id, prev_id, nonce, root, body, timestamps, blinds, commitments)
    SELECT height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
    FROM early_blocks ORDER BY height;
  INSERT INTO items (created, db, id, revision, item)
    SELECT created, db, id, revision, item FROM early_items ORDER BY created;
  DROP TABLE early_blocks;
  DROP TABLE early_items;
`

/**
 * Brings a file of the early layout to that of format 1, whose tables `tables` makes; leaves any other
 * alone. Call inside a transaction: a crash leaves the file as it was.
 */
export function settleEarlyLayout(database: DatabaseSync, tables: string): void {
  if (database.prepare(EARLY).get()?.n === 0) return
  database.exec(ASIDE)
  database.exec(tables)
  database.exec(BACK)
}
