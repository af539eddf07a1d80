import type { DatabaseSync } from 'node:sqlite'
import { packPosition } from '../../chain/index.ts'
import { effectAt } from '../sql/revisions.ts'
import { blockOf } from '../sql/rows.ts'
import { queriesOf } from './statements.ts'
import { TreeRows } from './tree-rows.ts'

/**
 * Query for the earlier variant of format 1, which has the same format number: `blocks` has a column `serverid`, and
 * `items` is clustered by id.
 */
const IS_EARLY_VARIANT = `SELECT count(*) AS n FROM pragma_table_info('blocks') WHERE name = 'serverid'`

const RENAME_EARLY_TABLES = `
  ALTER TABLE blocks RENAME TO early_blocks;
  ALTER TABLE items RENAME TO early_items;
  DROP INDEX items_in_order;
`

/** Copies all blocks, because the early table contained only the node's own chain. */
const COPY_EARLY_TABLES = `
  INSERT INTO blocks (height, id, prev_id, nonce, root, body, timestamps, blinds, commitments)
    SELECT height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
    FROM early_blocks ORDER BY height;
  INSERT INTO items (created, db, id, revision, item)
    SELECT created, db, id, revision, item FROM early_items ORDER BY created;
  DROP TABLE early_blocks;
  DROP TABLE early_items;
`

const SQL = {
  blocks: `SELECT height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
    FROM blocks ORDER BY height`,
  superseded: `INSERT INTO superseded (db, id, position) SELECT ?1, ?2, ?3
    WHERE NOT EXISTS (SELECT 1 FROM items WHERE db = ?1 AND id = ?2 AND revision = ?3)`,
  deleted: 'INSERT INTO deleted_databases (created, name) VALUES (?, ?)',
} as const

/**
 * Upgrades format 1 to format 2. Call inside a transaction. Computes the histories and the Merkle log from the chain.
 * `added` is the SQL that creates the tables that are new in format 2. `blocksAndItems` is the SQL that creates the
 * tables `blocks` and `items`, for stores of the earlier variant.
 */
export function upgradeFormat1(
  database: DatabaseSync,
  serverId: number,
  {
    blocksAndItems,
    added: addedTables,
  }: { readonly blocksAndItems: string; readonly added: string },
): void {
  if (database.prepare(IS_EARLY_VARIANT).get()?.n !== 0) {
    database.exec(RENAME_EARLY_TABLES)
    database.exec(blocksAndItems)
    database.exec(COPY_EARLY_TABLES)
  }
  database.exec(addedTables)
  const sql = queriesOf(database, SQL)
  const tree = new TreeRows(database)
  const databases = new Map<string, number>()
  for (const row of sql.blocks.iterate()) {
    const block = blockOf(row, serverId)
    for (const [index, text] of block.entries.entries()) {
      const effect = effectAt(text, packPosition(block.height, index))
      const created = databases.get(effect.db) ?? -1
      if (effect.kind === 'create_db') databases.set(effect.db, effect.position)
      if (effect.kind === 'delete_db') sql.deleted.run(created, effect.db)
      if ('id' in effect) sql.superseded.run(created, effect.id, effect.position)
    }
    tree.add(block)
  }
}
