import type { StoreError } from '../port/errors.ts'
import { type DiskUsage, PAGE_CHARACTERS, type StoreReader } from '../port/store.ts'
import type { Dialect } from '../sql/dialect.ts'
import { derivedDamage } from '../sql/index-damage.ts'
import { SqlReader } from '../sql/reader.ts'
import { readInteger } from '../sql/rows.ts'
import { Connection, type Queries } from './connection.ts'
import { physicalDamage } from './damage.ts'
import { toStoreError } from './errors.ts'
import { indexRows } from './indexes.ts'
import { FrozenQueries, ReadPool, Reads } from './reads.ts'
import { retrying } from './retry.ts'
import { requireStore } from './schema.ts'

const POSTGRES: Dialect = {
  statement: (sql) => sql,
  // A row is included if the rows before it are together shorter than a page.
  page: (source, size, order, max = `${PAGE_CHARACTERS}`) => `SELECT * FROM (
      SELECT *, sum(${size}) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - ${size} AS bytes_before
      FROM (${source}) AS found) AS page
    WHERE bytes_before < ${max} ORDER BY ${order}`,
  elements: (parameter) => `(SELECT value::int8 AS value, number
    FROM jsonb_array_elements_text(${parameter}::jsonb) WITH ORDINALITY AS e (value, number)) AS n`,
  texts: (parameter) => `SELECT jsonb_array_elements_text(${parameter}::jsonb) COLLATE "C"`,
  lines: (text, order) => `string_agg(${text}, E'\\n' ORDER BY ${order})`,
  lastLine: (column) => `split_part(${column}, E'\\n', -1)`,
  itemsById: 'items AS i',
  // An item may change between two statements, so the caller checks all items.
  condition: () => ({ text: '1', values: [], isExact: false }),
}

const DATABASE_SIZE = 'SELECT pg_database_size(current_database())'
/** Maximum duration of a statement of a verification, which may count all rows of a table. */
const FROZEN_MS_MAX = 3_600_000

/** Reads a database. Every call sees one state, except that the blocks of a page of revisions are read after it. */
export class PostgresReader extends SqlReader {
  readonly #queries: Queries
  readonly #reads: Reads
  readonly #close: () => Promise<void>

  constructor(serverId: number, queries: Queries, close: () => Promise<void>) {
    const reads = new Reads(queries)
    super(serverId, reads, POSTGRES)
    this.#queries = queries
    this.#reads = reads
    this.#close = close
  }

  async fileDamage(): Promise<string | null> {
    return this.#check(physicalDamage)
  }

  async damage(): Promise<string | null> {
    return this.#check(
      async (queries) => (await physicalDamage(queries)) ?? derivedDamage(indexRows(queries)),
    )
  }

  async #check(check: (queries: Queries) => Promise<string | null>): Promise<string | null> {
    try {
      return await check(this.#queries)
    } catch (error) {
      throw toStoreError(error)
    }
  }

  async diskUsage(): Promise<DiskUsage> {
    // `walBytes` is 0, because the write-ahead log belongs to the server, not to this database.
    const fileBytes = await this.#reads.first(DATABASE_SIZE, [], (row) => readInteger(row, 'size'))
    return { fileBytes: fileBytes ?? 0, walBytes: 0, freeBytes: null }
  }

  readFailure(): StoreError | null {
    return this.#reads.failure()
  }

  /** Does nothing, because every statement sees the data that is committed when it begins. */
  refresh(): void {}

  get timeline(): number {
    return this.#queries instanceof ReadPool ? this.#queries.timeline : 0
  }

  requireTimeline(timeline: number): void {
    if (this.#queries instanceof ReadPool) this.#queries.requireTimeline(timeline)
  }

  close(): Promise<void> {
    return this.#close()
  }
}

export interface PostgresReaderOptions {
  readonly url: string
  /** If true, every read sees the state at the first read. */
  readonly frozen: boolean
}

/**
 * Opens a database for reading, even while other processes write it.
 * Errors: STORE_NOT_FOUND, STORE_FORMAT, STORE_UNAVAILABLE.
 */
export async function openPostgresReader(options: PostgresReaderOptions): Promise<StoreReader> {
  const { url, frozen } = options
  // Reads are correct even on an unsafe server.
  const connecting = {
    ...{ url, durable: false, mayIdleInTransaction: frozen },
    ...(frozen ? { deadlineMs: FROZEN_MS_MAX } : {}),
  }
  let connection: Connection | null = null
  try {
    const first = await retrying(() => Connection.open(connecting))
    connection = first
    const serverId = await requireStore(first)
    if (frozen) {
      await first.execute('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      return new PostgresReader(serverId, new FrozenQueries(first), () => first.close())
    }
    const pool = new ReadPool(connecting, first)
    return new PostgresReader(serverId, pool, () => pool.close())
  } catch (error) {
    await connection?.close()
    throw toStoreError(error)
  }
}
