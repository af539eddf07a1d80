import { type Block, blockLeaf, type Frontier, grown, packPosition } from '../../chain/index.ts'
import type { Effect } from '../port/effect.ts'
import { idempotencyDigest, type NewIdempotencyRecord } from '../port/store.ts'
import { REMOVED } from '../search/declared-indexes.ts'
import { formatBody } from '../sql/body.ts'
import { type Erasure, eraseEntries } from '../sql/erasure.ts'
import { type Index, setBuilt, withoutDatabases } from '../sql/indexes.ts'
import { Changes, type Known, type RowEffect } from './changes.ts'
import type { Statement } from './connection.ts'
import type { WriteSession } from './transaction.ts'

const SQL = {
  // Locks the store. Without a height, the server rejects the row, and the whole transaction. If another process has
  // appended during the wait for the lock, this statement does not see its block, but the height exists already.
  addBlock: `WITH leaf AS (INSERT INTO tree (height, hashes) VALUES ($1, $2))
    INSERT INTO blocks (height, id, prev_id, nonce, root, body, timestamps, blinds, commitments)
    VALUES (CASE WHEN (SELECT indexes FROM node FOR UPDATE) = $11
        AND (SELECT id FROM blocks ORDER BY height DESC LIMIT 1) IS NOT DISTINCT FROM $4
      THEN $1::int8 END, $3, $4, $5, $6, $7, $8, $9, $10)`,
  // Reusing an expired key replaces the old record.
  addRecords: `INSERT INTO answers (position, key, fingerprint, entries, timestamp, digest)
    SELECT * FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::text[])
    ON CONFLICT (key) DO UPDATE SET position = excluded.position,
      fingerprint = excluded.fingerprint, entries = excluded.entries,
      timestamp = excluded.timestamp, digest = excluded.digest`,
} as const

/** A block to append, with everything that is stored with it. */
export interface Appended {
  readonly block: Block
  readonly effects: readonly Effect[]
  readonly records: readonly NewIdempotencyRecord[]
}

/** The state of the store before the block. */
export interface Before {
  readonly frontier: Frontier
  readonly databases: ReadonlyMap<string, number | null>
  readonly items: Known['items']
  readonly indexes: readonly Index[]
  /** Digest of `indexes`. */
  readonly digest: string
}

/**
 * Returns the statements that store a block, and the frontier of the log with this block. The effects before an erasure
 * are written at once, in the transaction of `session`, because the erasure reads their rows. For `careful`, see
 * `Changes.of`.
 * Errors: EFFECT_IMPOSSIBLE.
 */
export async function blockStatements(
  session: WriteSession,
  { block, effects, records }: Appended,
  before: Before,
  careful: boolean,
): Promise<{ readonly statements: Statement[]; readonly frontier: Frontier }> {
  const { frontier, nodes } = grown(before.frontier, blockLeaf(block))
  const statements: Statement[] = [blockStatement(block, Buffer.concat(nodes), before.digest)]
  const databases = new Map(before.databases)
  let { items } = before
  const indexes = before.indexes.filter(({ built }) => built !== REMOVED)
  const dropped: number[] = []
  const write = async (segment: readonly RowEffect[]) => {
    const known = { databases, items, indexes }
    const changes = await Changes.of(segment, { queries: session, known, careful })
    statements.push(...changes.statements())
    for (const [name, created] of changes.databases) databases.set(name, created)
    dropped.push(...changes.dropped)
  }
  let segment: RowEffect[] = []
  let erasures: Erasure[] = []
  const erase = async () => {
    if (erasures.length === 0) return
    items = new Map()
    await session.run(statements.splice(0))
    await eraseEntries(session, erasures, { isPipelined: true })
    erasures = []
  }
  for (const effect of effects) {
    if (effect.kind === 'erased_attachment') continue
    if (effect.kind === 'erase_item') {
      // An erasure must read the rows as the effects before it have changed them.
      await write(segment)
      segment = []
      erasures.push(effect)
    } else {
      await erase()
      segment.push(effect)
    }
  }
  await erase()
  await write(segment)
  statements.push(...dropIndexes(before.indexes, dropped), ...recordStatements(block, records))
  return { statements, frontier }
}

/**
 * Returns the statement that locks the store and stores a block, if the block follows the head and the indexes have the
 * digest `indexes`. `leaf` contains the hashes of the log's nodes that the block completes.
 */
function blockStatement(block: Block, leaf: Uint8Array, indexes: string): Statement {
  const { height, id, prevId, nonce, root, entries, timestamps, blinds, commitments } = block
  const texts = [formatBody(entries), timestamps.join('\n')]
  const values = [height, leaf, id, prevId, nonce, root, ...texts, blinds, commitments, indexes]
  return { text: SQL.addBlock, values }
}

/** Returns the statements that mark the indexes of deleted databases as removed. */
function dropIndexes(all: readonly Index[], databases: readonly number[]): Statement[] {
  const left = withoutDatabases(all, databases)
  const changed = left.filter((index, at) => index !== all[at])
  return changed.length === 0 ? [] : setBuilt(changed, left)
}

function recordStatements(block: Block, records: readonly NewIdempotencyRecord[]): Statement[] {
  if (records.length === 0) return []
  const rows = records.map(({ key, fingerprint, index, entries }) => {
    const position = packPosition(block.height, index)
    const record = { position, key, fingerprint, entries, timestamp: block.timestamps[index] ?? 0 }
    return { ...record, digest: idempotencyDigest(record) }
  })
  const values = [
    `{${rows.map(({ position }) => position).join(',')}}`,
    rows.map(({ key }) => key),
    rows.map(({ fingerprint }) => fingerprint),
    `{${rows.map(({ entries }) => entries).join(',')}}`,
    `{${rows.map(({ timestamp }) => timestamp).join(',')}}`,
    rows.map(({ digest }) => digest),
  ]
  return [{ text: SQL.addRecords, values }]
}
