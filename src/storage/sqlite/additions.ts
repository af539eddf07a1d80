import type { DatabaseSync } from 'node:sqlite'
import type { Addition } from './addition.ts'
import { ATTACHMENT_TABLES } from './attachments.ts'
import { ERASURES } from './erasures.ts'
import { SUPERSEDED } from './history.ts'
import { ANSWERS } from './idempotency.ts'
import { INDEX_TABLES } from './indexes.ts'
import { blockOf } from './rows.ts'
import { Query } from './statements.ts'
import { TREE } from './tree-rows.ts'

/** What format 2 has beside the tables of format 1. */
const ADDITIONS: readonly Addition[] = [
  { tables: ATTACHMENT_TABLES },
  SUPERSEDED,
  ANSWERS,
  INDEX_TABLES,
  TREE,
  ERASURES,
]

/** The statements that make the added tables. */
export function additionTables(): string {
  return ADDITIONS.map(({ tables }) => tables).join('\n')
}

/** Fills the added tables from the chain of `serverId`, block by block. */
export function fillAdditions(database: DatabaseSync, serverId: number): void {
  const fillers = ADDITIONS.flatMap(({ filler }) => (filler ? [filler(database)] : []))
  const rows = new Query(
    database,
    `SELECT height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
      FROM blocks ORDER BY height`,
  )
  for (const row of rows.iterate()) {
    const block = blockOf(row, serverId)
    for (const fill of fillers) fill(block)
  }
}
