import {
  HASH_BYTES,
  hashAt,
  packPosition,
  unpackHeight,
  unpackPosition,
} from '../../chain/index.ts'
import type { Effect } from '../port/effect.ts'
import { erasedEntryText, erasedItemText } from '../port/erasure.ts'
import { inapplicable } from '../port/errors.ts'
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
  hasDropped: 'SELECT 1 FROM dropped LIMIT 1',
  // Rows of a deleted database are removed later, but the erased content must be removed now.
  eraseDropped: `UPDATE items SET item = $1
    WHERE db IN (SELECT created FROM deleted_databases WHERE name = $2) AND id = $3 AND revision = $4`,
  updateBlock: 'UPDATE blocks SET body = $2, blinds = $3 WHERE height = $1',
  addErasure: 'INSERT INTO erasures (position, eraser) VALUES ($1, $2)',
  addUncompacted: 'INSERT INTO uncompacted (position) VALUES ($1)',
  records: `SELECT position, key, fingerprint, entries, timestamp, digest FROM answers
    WHERE position >= $1 AND position < $2 ORDER BY position`,
  updateRecord: `UPDATE answers SET fingerprint = $2, digest = $3 WHERE position = $1`,
} as const

export type Erasure = Extract<Effect, { kind: 'erase_item' }>

/** An engine, as far as it differs for erasures. */
interface ErasureOptions {
  /** The form in which the engine stores the entries of a block. */
  readonly toBody?: (entries: readonly string[]) => Value
  /** Whether to send the statements for a block without waiting for each reply. */
  readonly isPipelined?: boolean
  /** Called before the work for an erasure. */
  readonly onErasure?: (erasure: Erasure) => void
}

/** A position to erase, with the erasure that names it. */
interface ErasedPosition {
  readonly position: number
  readonly erasure: Erasure
}

/**
 * Applies successive `erase_item` entries of a block, inside its transaction. Each block with erased entries is read and
 * written once, because the entries of many items are often in the same block. Returns whether any entry had content;
 * those of a mirrored or restored chain were erased before. Parts of the content remain in the files of the store until
 * the engine rewrites them. Errors: EFFECT_IMPOSSIBLE if a position does not belong to a former revision of the item, or
 * to one of its attachments. An attachment may look current in a mirror: the entry that ended it may have arrived erased,
 * without the name of the attachment.
 */
export async function eraseEntries(
  queries: SqlRows,
  erasures: readonly Erasure[],
  { toBody = formatBody, isPipelined = false, onErasure = () => {} }: ErasureOptions = {},
): Promise<boolean> {
  const all = erasures.flatMap((erasure) =>
    erasure.positions.map((position) => ({ position, erasure })),
  )
  const withContent = new Set<number>()
  const hasDropped = (await queries.rows(SQL.hasDropped, [])).length > 0
  for (const [height, erased] of Map.groupBy(all, ({ position }) => unpackHeight(position))) {
    const [first] = erased
    if (first === undefined) continue
    onErasure(first.erasure)
    const [row] = await queries.rows(SQL.block, [height])
    if (row === undefined) throw inapplicable(first.erasure)
    const blinds = Uint8Array.from(readBinary(row, 'blinds'))
    const entries = parseBody(row[1])
    for (const { position, erasure } of erased) {
      onErasure(erasure)
      const { index } = unpackPosition(position)
      const text = erasedEntryText(entries[index] ?? '', erasure.db, erasure.of)
      if (text === null) throw inapplicable(erasure)
      if (text !== entries[index]) withContent.add(erasure.position)
      entries[index] = text
      hashAt(blinds, index).fill(0, 0, HASH_BYTES)
    }
    for (const work of [requireFormer, eraseRows]) {
      // Each call sends all its statements at once, so that none is sent after one before it has failed.
      const run = (one: ErasedPosition) => {
        onErasure(one.erasure)
        const text = entries[unpackPosition(one.position).index] ?? ''
        return work(queries, one, { hasDropped, isAttachment: text.includes('"attachment":') })
      }
      if (isPipelined) await Promise.all(erased.map(run))
      else for (const one of erased) await run(one)
    }
    await eraseFingerprints(
      queries,
      erased.map(({ position }) => position),
    )
    await queries.rows(SQL.updateBlock, [height, toBody(entries), blinds])
  }
  for (const eraser of withContent) await queries.rows(SQL.addUncompacted, [eraser])
  return withContent.size > 0
}

/** Errors: EFFECT_IMPOSSIBLE for a current revision. */
async function requireFormer(
  queries: SqlRows,
  { position, erasure }: ErasedPosition,
): Promise<void> {
  const { db, of } = erasure
  if ((await queries.rows(SQL.isCurrent, [db, of, position])).length > 0)
    throw inapplicable(erasure)
}

/** `hasDropped`: whether deleted databases still have items; `isAttachment`: whether the entry is about an attachment. */
async function eraseRows(
  queries: SqlRows,
  { position, erasure }: ErasedPosition,
  { hasDropped, isAttachment }: { readonly hasDropped: boolean; readonly isAttachment: boolean },
): Promise<void> {
  const { db, of } = erasure
  await Promise.all([
    queries.rows(SQL.addErasure, [position, erasure.position]),
    hasDropped && queries.rows(SQL.eraseDropped, [erasedItemText(of), db, of, position]),
    isAttachment && queries.rows(SQL.removeAttachment, [position]),
  ])
}

/** Erases the fingerprints of the requests that made the entries at `positions`, which are of one block. */
async function eraseFingerprints(queries: SqlRows, positions: readonly number[]): Promise<void> {
  const height = unpackHeight(positions[0] ?? 0)
  const range = [packPosition(height, 0), packPosition(height + 1, 0)]
  for (const row of await queries.rows(SQL.records, range)) {
    const record = readIdempotencyRecord(row)
    const end = record.position + record.entries
    if (!positions.some((position) => position >= record.position && position < end)) continue
    const digest = idempotencyDigest({ ...record, fingerprint: ERASED_FINGERPRINT })
    await queries.rows(SQL.updateRecord, [record.position, ERASED_FINGERPRINT, digest])
  }
}
