import { closeSync, openSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { errorMessage, isDiskFull } from '../../base/errors.ts'
import { inheritOwner } from '../../base/files/durable-files.ts'
import { diskFull, isDamage, StoreError } from '../port/errors.ts'
import { REMOVED } from '../search/declared-indexes.ts'
import { readHeadRow, readInteger } from '../sql/rows.ts'
import { connectReadOnly } from './reader.ts'
import { readOwner, requireFormat } from './schema.ts'
import { Query } from './statements.ts'

const COMPACT = `
  DELETE FROM index_entries WHERE number IN (SELECT number FROM indexes WHERE built = ${REMOVED});
  DELETE FROM uncompacted;
  VACUUM`

/** Number of pages (4 MiB) that one step copies, outside the main thread. */
const PAGES_PER_STEP = 1_024

export interface Snapshot {
  readonly serverId: number
  readonly blocks: number
  readonly headId: string | null
}

/**
 * Copies one state of the store in the file `from` to the file `to`, even while a process writes the store. The writer
 * does not wait, but its WAL cannot restart until the copy is complete. The copy is one file without a WAL, synced.
 * Errors: STORE_NOT_FOUND, STORE_FOREIGN, STORE_FORMAT, STORE_DAMAGED, STORE_FULL, STORE_FAILED.
 */
export async function snapshotSqlite(
  from: string,
  to: string,
  progress: (share: number) => void,
): Promise<Snapshot> {
  let source: DatabaseSync | null = null
  try {
    source = connectReadOnly(from)
    requireFormat(source, from)
    // Without a read transaction, the copy would restart with every commit.
    source.exec('BEGIN')
    const row = new Query(
      source,
      'SELECT height, id, timestamps FROM blocks ORDER BY height DESC LIMIT 1',
    ).get()
    const head = row === undefined ? null : readHeadRow(row)
    requireSpaceFor(source, dirname(to))
    closeSync(openSync(to, 'w', 0o600))
    inheritOwner(to)
    await backup(source, to, {
      rate: PAGES_PER_STEP,
      progress: ({ totalPages, remainingPages }) => progress(1 - remainingPages / totalPages),
    })
    finishCopy(to)
    const blocks = head === null ? 0 : head.height + 1
    return { serverId: readOwner(source), blocks, headId: head?.id ?? null }
  } catch (error) {
    if (error instanceof StoreError) throw error
    throw copyError(error, from)
  } finally {
    source?.close()
  }
}

/** Throws STORE_FULL if `folder` has too little space for the copy. */
function requireSpaceFor(source: DatabaseSync, folder: string): void {
  const one = (name: string) => readInteger(new Query(source, `PRAGMA ${name}`).get() ?? [], name)
  const needed = one('page_count') * one('page_size')
  const { bavail, bsize } = statfsSync(folder)
  if (needed <= bavail * bsize) return
  throw new StoreError(
    'STORE_FULL',
    `the copy needs ${needed} bytes, but ${folder} has ${bavail * bsize} bytes free`,
  )
}

/**
 * Makes the copy a single file that can be read even on a read-only disk. A node that opens the copy creates a WAL.
 * Rewrites the copy if its free parts may contain erased content.
 */
function finishCopy(path: string): void {
  const copy = new DatabaseSync(path)
  try {
    copy.exec('PRAGMA synchronous = FULL')
    copy.exec('PRAGMA journal_mode = DELETE')
    if (new Query(copy, 'SELECT 1 FROM uncompacted').get() !== undefined) {
      copy.exec(`PRAGMA temp_store_directory = '${dirname(path).replaceAll("'", "''")}'`)
      copy.exec(COMPACT)
    }
  } finally {
    copy.close()
  }
}

function copyError(error: unknown, path: string): StoreError {
  const reason = errorMessage(error)
  if (isDiskFull(error)) return diskFull(error, 'the disk is full: the copy is incomplete')
  const kind = isDamage(error) ? 'STORE_DAMAGED' : 'STORE_FAILED'
  return new StoreError(kind, `${path} cannot be copied: ${reason}`, { cause: error })
}
