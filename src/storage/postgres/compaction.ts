import { setTimeout as sleep } from 'node:timers/promises'
import { packPosition } from '../../chain/index.ts'
import { REMOVED } from '../search/declared-indexes.ts'
import { openPostgresBlobs } from './blobs.ts'
import { Connection, type ConnectionOptions, type Queries } from './connection.ts'

// VACUUM removes old rows, but leaves their bytes in free parts of the files, so only a rewritten file lacks erased
// content. Copies in the write-ahead log, its archive and backups remain: docs/how-to/postgres.md.

/** Tables that contain content, or hashes of content. */
const TABLES = ['blocks', 'items', 'index_entries', 'attachments', 'answers'] as const
/** Tables that are rewritten only after the erasure of an attachment, because they may be large. */
const BLOB_TABLES = ['blobs', 'blob_chunks', 'blob_uploads'] as const

/** Maximum wait for the lock of a table. Meanwhile, all other statements wait for the table too. */
const LOCK_WAIT = "SET lock_timeout = '200ms'"
/** Maximum duration of the rewriting of one table. */
const REWRITE_MS_MAX = 3_600_000
/** Pause after a compaction, as a multiple of its duration, because it locks the tables. */
const PAUSE_FACTOR = 4

/** Attempts, so that short transactions of a busy server can end. */
const PROBE_TRIES = 5
const PROBE_DELAY_MS = 200

const ROOM = packPosition(1, 0)
const SQL = {
  // Ends with the connection, so another process continues the compaction of a process that was killed.
  lock: `SELECT pg_try_advisory_lock(hashtextextended('daicho compaction ' || current_schema(), 0))`,
  uncompacted: 'SELECT position FROM uncompacted ORDER BY position',
  // Entries of removed indexes and items of deleted databases are removed by the maintenance, and are then old rows too.
  unpurged: `SELECT 1 FROM dropped UNION ALL SELECT 1 FROM indexes WHERE built = ${REMOVED} LIMIT 1`,
  // Canonical texts of entries about attachments, and no others, start with this member.
  attachments: `SELECT 1 FROM uncompacted AS u JOIN erasures AS e ON e.eraser = u.position
    JOIN blocks AS b ON b.height = e.position / ${ROOM}
    WHERE split_part(b.body, E'\\n', (e.position % ${ROOM})::int4 + 1) LIKE '{"attachment":%' LIMIT 1`,
  addProbe: 'INSERT INTO vacuum_probe (number) VALUES (0)',
  removeProbes: 'DELETE FROM vacuum_probe',
  probeBytes: `SELECT pg_relation_size('vacuum_probe')`,
  compacted: 'DELETE FROM uncompacted WHERE position = ANY($1::int8[])',
} as const

/**
 * Removes erased content from the files of the server, by rewriting the tables with VACUUM FULL. Runs on a connection of
 * its own, because nothing else may wait for it. A rewriting locks its table.
 *
 * After a crash, the rows in `uncompacted` remain, so the next process that calls `start` compacts again.
 */
export class Compaction {
  readonly #options: ConnectionOptions
  #running: Promise<void> | null = null
  #connection: Connection | null = null
  #isClosed = false
  #pausedUntilMs = 0
  /** Tables that were rewritten since the erasures at `#erasers`. */
  readonly #rewritten = new Set<string>()
  #erasers = ''

  constructor(options: ConnectionOptions) {
    this.#options = options
  }

  /**
   * Starts a compaction, unless one is running or has just ended. If the compaction cannot be completed, for example
   * because a table is locked, a later call continues it. Returns a promise for the end of the compaction, or null if
   * none was started. The promise never rejects.
   */
  start(): Promise<void> | null {
    const isBusy = this.#running !== null || performance.now() < this.#pausedUntilMs
    if (isBusy || this.#isClosed) return null
    const startedMs = performance.now()
    // After any failure, the erasures stay listed as uncompacted, and a later call tries again.
    this.#running = this.#run()
      .catch(() => {})
      .finally(() => {
        const nowMs = performance.now()
        this.#pausedUntilMs = nowMs + PAUSE_FACTOR * (nowMs - startedMs)
        this.#running = null
      })
    return this.#running
  }

  /** Aborts a running compaction. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#connection?.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const connection = await Connection.open({ ...this.#options, deadlineMs: REWRITE_MS_MAX })
    this.#connection = connection
    try {
      if (!this.#isClosed) await this.#compact(connection)
    } finally {
      this.#connection = null
      connection.abort()
    }
  }

  async #compact(connection: Connection): Promise<void> {
    await connection.execute(LOCK_WAIT)
    const [lock] = await connection.rows(SQL.lock, [])
    if (lock?.[0] !== true) return
    const rows = await connection.rows(SQL.uncompacted, [])
    const erasers = `{${rows.map(([position]) => position).join(',')}}`
    if (rows.length === 0 || (await isFound(connection, SQL.unpurged))) return
    if (erasers !== this.#erasers) this.#rewritten.clear()
    this.#erasers = erasers
    const hasAttachments = await isFound(connection, SQL.attachments)
    if (hasAttachments && (await this.#hasUnnamedBlobs())) return
    if (await isOldStateVisible(connection)) return
    for (const table of hasAttachments ? [...TABLES, ...BLOB_TABLES] : TABLES) {
      if (!this.#rewritten.has(table)) await connection.execute(`VACUUM (FULL) ${table}`)
      this.#rewritten.add(table)
    }
    await connection.rows(SQL.compacted, [erasers])
  }

  /** Returns whether a blob of an erased attachment may not be removed yet. */
  async #hasUnnamedBlobs(): Promise<boolean> {
    const blobs = await openPostgresBlobs(this.#options)
    try {
      await blobs.recover()
      for await (const _ of blobs.list()) return true
      return false
    } finally {
      await blobs.close()
    }
  }
}

async function isFound(queries: Queries, sql: string): Promise<boolean> {
  return (await queries.rows(sql, [])).length > 0
}

/**
 * Returns whether a transaction, a replication slot or a standby can still see rows as of an earlier time. Rewriting a
 * table keeps such rows. So this function deletes a row, rewrites the table, and looks whether the
 * row is gone. This needs no right to see the transactions of other users.
 */
async function isOldStateVisible(connection: Connection): Promise<boolean> {
  await connection.rows(SQL.addProbe, [])
  await connection.rows(SQL.removeProbes, [])
  for (let tries = 0; tries < PROBE_TRIES; tries += 1) {
    await sleep(tries === 0 ? 0 : PROBE_DELAY_MS)
    await connection.execute('VACUUM (FULL) vacuum_probe')
    const [size] = await connection.rows(SQL.probeBytes, [])
    if (size?.[0] === 0) return false
  }
  return true
}
