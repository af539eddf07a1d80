import { HASH_BYTES, hashAt, unpackPosition } from '../../chain/index.ts'
import type { Effect } from '../port/effect.ts'
import { erasedEntryText, erasedItemText } from '../port/erasure.ts'
import { ERASED_FINGERPRINT, idempotencyDigest } from '../port/store.ts'
import { formatBody, parseBody } from './body.ts'
import type { Value } from './dialect.ts'
import type { SqlRows } from './queries.ts'
import { readBinary, readIdempotencyRecord } from './rows.ts'

const SQL = {
  block: 'SELECT blinds, body FROM blocks WHERE height = $1',
  isCurrent: `SELECT 1 FROM databases AS d JOIN items AS i ON i.db = d.created
      WHERE d.name = $1 AND i.id = $2 AND i.revision = $3`,
  removeAttachment: 'DELETE FROM attachments WHERE position = $1',
  // Rows of a deleted database are removed later, but the erased content must be removed now.
  eraseDropped: `UPDATE items SET item = $1
    WHERE db IN (SELECT created FROM deleted_databases WHERE name = $2) AND id = $3 AND revision = $4`,
  updateBlock: 'UPDATE blocks SET body = $2, blinds = $3 WHERE height = $1',
  addErasure: 'INSERT INTO erasures (position, eraser) VALUES ($1, $2)',
  addUncompacted: 'INSERT INTO uncompacted (position) VALUES ($1)',
  recordUpTo: `SELECT position, key, fingerprint, entries, timestamp, digest FROM answers
    WHERE position <= $1 ORDER BY position DESC LIMIT 1`,
  updateRecord: `UPDATE answers SET fingerprint = $2, digest = $3 WHERE position = $1`,
} as const

/** What an erasure found. `nothing`: the entries of a mirrored or restored chain were erased before. */
export type ErasureOutcome = 'impossible' | 'nothing' | 'content'

/**
 * Applies an `erase_item` entry, inside the transaction of its block. It is impossible if a position does not belong to
 * a former revision of the item, or to one of its attachments. An attachment may look current in a mirror: the entry that
 * ended it may have arrived erased, without the name of the attachment. Parts of the content remain in the files of the store until the
 * engine rewrites them. `toBody` is the form in which the engine stores the entries of a block.
 */
export async function eraseEntries(
  queries: SqlRows,
  { position: eraser, db, of, positions }: Extract<Effect, { kind: 'erase_item' }>,
  toBody: (entries: readonly string[]) => Value = formatBody,
): Promise<ErasureOutcome> {
  let hadContent = false
  const byHeight = Map.groupBy(positions, (position) => unpackPosition(position).height)
  for (const [height, positionsInBlock] of byHeight) {
    const [row] = await queries.rows(SQL.block, [height])
    if (row === undefined) return 'impossible'
    const blinds = Uint8Array.from(readBinary(row, 'blinds'))
    const entries = parseBody(row[1])
    for (const position of positionsInBlock) {
      const { index } = unpackPosition(position)
      const erased = erasedEntryText(entries[index] ?? '', db, of)
      if (erased === null) return 'impossible'
      if ((await queries.rows(SQL.isCurrent, [db, of, position])).length > 0) return 'impossible'
      hadContent ||= erased !== entries[index]
      entries[index] = erased
      hashAt(blinds, index).fill(0, 0, HASH_BYTES)
      await queries.rows(SQL.addErasure, [position, eraser])
      await queries.rows(SQL.eraseDropped, [erasedItemText(of), db, of, position])
      await queries.rows(SQL.removeAttachment, [position])
      await eraseFingerprint(queries, position)
    }
    await queries.rows(SQL.updateBlock, [height, toBody(entries), blinds])
  }
  if (hadContent) await queries.rows(SQL.addUncompacted, [eraser])
  return hadContent ? 'content' : 'nothing'
}

/** Erases the fingerprint of the request that made the entry at `position`. */
async function eraseFingerprint(queries: SqlRows, position: number): Promise<void> {
  const [row] = await queries.rows(SQL.recordUpTo, [position])
  const record = row === undefined ? null : readIdempotencyRecord(row)
  if (record === null || record.position + record.entries <= position) return
  const digest = idempotencyDigest({ ...record, fingerprint: ERASED_FINGERPRINT })
  await queries.rows(SQL.updateRecord, [record.position, ERASED_FINGERPRINT, digest])
}
