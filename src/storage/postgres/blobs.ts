import { createHash, randomUUID } from 'node:crypto'
import type { BlobInventory, BlobStore, OpenBlob, RecordOutcome } from '../blobs/blob-store.ts'
import { BlobTasks } from '../blobs/blob-tasks.ts'
import { StoreError } from '../port/errors.ts'
import type { StoredBlob } from '../port/store.ts'
import { integer, type Row, readBinary, readInteger, text } from '../sql/rows.ts'
import { Connection, type Parameter, type Queries } from './connection.ts'
import { ConnectionLost, toStoreError } from './errors.ts'
import { ReadPool } from './reads.ts'
import { retrying } from './retry.ts'

/** Maximum bytes of a chunk, which is one row. Each running upload has two chunks in memory. */
const CHUNK_BYTES = 512 * 1024
/**
 * Time, on the server's clock, after which an upload that has not renewed its row counts as abandoned. A process that
 * is suspended for longer between placing a blob and recording it reports an error, because the blob may be gone.
 */
const LEASE = "interval '1 hour'"
const LEASE_MS = 3_600_000
/** Interval at which an upload renews its row. */
const RENEWAL_MS = LEASE_MS / 4
/** Maximum number of blobs without an entry that one statement returns. */
const UNNAMED_ROWS = 500

/** Condition that an entry refers to blob `b`. True before the first block, because a copy may then be adding blobs. */
const IS_NAMED = `(EXISTS (SELECT 1 FROM attachments AS a WHERE a.sha256 = b.sha256)
  OR NOT EXISTS (SELECT 1 FROM blocks))`
const IS_HELD = `EXISTS (SELECT 1 FROM blob_uploads AS u
  WHERE u.sha256 = b.sha256 AND NOT u.parts AND u.expires > clock_timestamp())`
const BYTES_OF = (upload: string) =>
  `coalesce((SELECT sum(octet_length(c.bytes)) FROM blob_chunks AS c WHERE c.upload = ${upload}), 0)::int8`

const SQL = {
  begin: `INSERT INTO blob_uploads (upload, sha256, parts, expires)
    VALUES ($1, $2, $3, clock_timestamp() + ${LEASE}) ON CONFLICT DO NOTHING`,
  renew: `UPDATE blob_uploads SET expires = clock_timestamp() + ${LEASE} WHERE upload = $1`,
  // The statement may run again after the server's reply was lost, so the row may exist.
  addChunk: `INSERT INTO blob_chunks (upload, start, bytes) VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING`,
  hold: `UPDATE blob_uploads SET sha256 = $2, parts = false, expires = clock_timestamp() + ${LEASE}
    WHERE upload = $1 RETURNING 1`,
  lock: 'SELECT upload FROM blobs WHERE sha256 = $1 FOR UPDATE',
  place: 'INSERT INTO blobs (sha256, upload) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1',
  replace: 'UPDATE blobs SET upload = $2 WHERE sha256 = $1',
  removeChunks: 'DELETE FROM blob_chunks WHERE upload = $1',
  discard: `WITH discarded AS (DELETE FROM blob_uploads WHERE upload = $1)
    DELETE FROM blob_chunks AS c
    WHERE c.upload = $1 AND NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.upload = c.upload)`,
  removeUnnamed: `WITH removed AS
      (DELETE FROM blobs AS b WHERE b.sha256 = $1 AND NOT ${IS_NAMED} AND NOT ${IS_HELD}
        RETURNING b.upload)
    DELETE FROM blob_chunks AS c USING removed WHERE c.upload = removed.upload`,
  removeUnnamedParts: `WITH removed AS
      (DELETE FROM blob_uploads AS b WHERE b.sha256 = $1 AND b.parts AND NOT ${IS_NAMED}
        RETURNING b.upload)
    DELETE FROM blob_chunks AS c USING removed WHERE c.upload = removed.upload`,
  removeExpired: `WITH removed AS
      (DELETE FROM blob_uploads WHERE expires < clock_timestamp() RETURNING upload)
    DELETE FROM blob_chunks AS c USING removed WHERE c.upload = removed.upload
      AND NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.upload = c.upload)`,
  unnamed: `SELECT b.sha256 FROM blobs AS b
    WHERE b.sha256 > $1 AND NOT ${IS_NAMED} ORDER BY b.sha256 LIMIT ${UNNAMED_ROWS}`,
  unsettled: 'SELECT 1 FROM blob_uploads WHERE sha256 = $1 OR sha256 IS NULL LIMIT 1',
  open: `SELECT ${BYTES_OF('b.upload')} FROM blobs AS b WHERE b.sha256 = $1`,
  // Selects by SHA-256 instead of upload id, because another upload may replace the blob during the read.
  read: `SELECT c.start, substring(c.bytes FROM greatest($2::int8 - c.start, 0)::int4 + 1 FOR $3::int4)
    FROM blobs AS b JOIN blob_chunks AS c ON c.upload = b.upload
    WHERE b.sha256 = $1 AND c.start > $2::int8 - ${CHUNK_BYTES} AND c.start < $2::int8 + $3::int4
    ORDER BY c.start`,
  parts: `SELECT u.upload, ${BYTES_OF('u.upload')} FROM blob_uploads AS u
    WHERE u.sha256 = $1 AND u.parts`,
  lockParts: 'SELECT upload FROM blob_uploads WHERE sha256 = $1 AND parts FOR UPDATE',
  readUpload:
    'SELECT bytes FROM blob_chunks WHERE upload = $1 AND start >= $2 ORDER BY start LIMIT 1',
} as const

export interface PostgresBlobsOptions {
  readonly url: string
  /** False for a temporary store, for which an unsafe server is accepted. */
  readonly durable: boolean
}

/** Opens the blobs of a database whose tables exist. Errors: STORE_UNAVAILABLE, STORE_UNSAFE. */
export async function openPostgresBlobs(options: PostgresBlobsOptions): Promise<PostgresBlobs> {
  try {
    const connection = await retrying(() => Connection.open(options))
    return new PostgresBlobs(options, connection)
  } catch (error) {
    throw toStoreError(error)
  }
}

/**
 * Blobs in rows of a database that several processes use.
 *
 * An upload has a row in `blob_uploads`, and its bytes in `blob_chunks`. When all bytes have arrived, a row in `blobs`
 * makes the upload the blob with its SHA-256. The row in `blob_uploads` protects the blob until its entry is recorded,
 * and is then removed.
 *
 * A crash during `add` leaves
 * - while bytes arrive: the upload, which any process removes with `recover` after the upload has expired;
 * - before the entry is durable: a blob to which no entry refers, which is removed in the same way;
 * - after the entry is durable: the whole blob and its entry.
 * So no entry ever refers to a missing blob.
 *
 * A removal locks the row of the blob first and then checks, in one statement, that neither an entry nor an upload
 * refers to the blob. An upload that is placed at the same time waits for that lock, and places the blob again.
 *
 * Each statement and transaction is harmless to repeat, and is repeated after transient failures.
 */
class PostgresBlobs implements BlobStore, BlobInventory {
  readonly #options: PostgresBlobsOptions
  readonly #pool: ReadPool
  /** The connection for transactions, which run one at a time. */
  #session: Connection | null = null
  #lastTransaction: Promise<unknown> = Promise.resolve()
  readonly #tasks = new BlobTasks()
  #removedExpiredMs = 0

  constructor(options: PostgresBlobsOptions, connection: Connection) {
    this.#options = options
    this.#pool = new ReadPool(options, connection)
  }

  async recover(): Promise<void> {
    this.#removedExpiredMs = performance.now()
    for await (const { sha256 } of this.list()) await this.#removeUnlessNamed(sha256)
    // Removes expired uploads last, because verification accepts blobs without an entry while uploads exist.
    await this.#rows(SQL.removeExpired, [])
  }

  /** Removes only expired uploads, because other processes may be adding blobs. */
  async recoverWithoutRows(): Promise<void> {
    await this.#rows(SQL.removeExpired, [])
  }

  add<Result>(
    chunks: AsyncIterable<Uint8Array>,
    record: (blob: StoredBlob) => Promise<Result>,
    { mayBeRecorded, isRecorded }: RecordOutcome<Result>,
  ): Promise<Result> {
    return this.#tasks.run(async () => {
      await this.#recoverIfDue()
      const upload = randomUUID()
      const blob = await this.#receive(upload, chunks)
      const { sha256 } = blob
      try {
        await this.#place(upload, sha256)
        const result = await record(blob)
        const isStored = await this.#finish(upload, sha256)
        if (isStored || !isRecorded(result)) return result
        throw new StoreError('STORE_FAILED', `blob ${sha256} was removed before it was recorded`)
      } catch (error) {
        if (!mayBeRecorded(error)) await this.#finish(upload, sha256)
        throw error
      }
    })
  }

  async progress({ sha256, length }: StoredBlob): Promise<{ isComplete: boolean; bytes: number }> {
    const [row] = await this.#rows(SQL.open, [sha256])
    if (row !== undefined && readInteger(row, 'bytes') === length) {
      return { isComplete: true, bytes: length }
    }
    const [part] = await this.#rows(SQL.parts, [sha256])
    return { isComplete: false, bytes: part === undefined ? 0 : integer(part[1], 'bytes') }
  }

  addPart(blob: StoredBlob, from: number, bytes: Uint8Array): Promise<number> {
    const { sha256, length } = blob
    return this.#tasks.run(() =>
      this.#tasks.inOrder(sha256, async () => {
        if ((await this.progress(blob)).isComplete) return length
        const { upload, arrived } = await this.#addToParts(blob, from, bytes)
        if (arrived < length) return arrived
        if (arrived > length || (await this.#hashUpload(upload)) !== sha256) {
          await this.#rows(SQL.discard, [upload])
          const message = `the received bytes do not have the SHA-256 ${sha256}`
          throw new StoreError('CONTENT_DIFFERS', message)
        }
        await this.#place(upload, sha256)
        await this.#finish(upload, sha256)
        return arrived
      }),
    )
  }

  eraseRows<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
    mayBeRecorded: (error: unknown) => boolean,
  ): Promise<Result> {
    return this.#tasks.run(async () => {
      await this.#recoverIfDue()
      // After a crash during the erasure, a blob may have no entry. Verifications accept this while there is this upload.
      const mark = randomUUID()
      await this.#rows(SQL.begin, [mark, null, false])
      const { result, freed } = await erase().catch(async (error: unknown) => {
        if (!mayBeRecorded(error)) await this.#rows(SQL.discard, [mark]).catch(() => {})
        throw error
      })
      for (const sha256 of freed) await this.#removeUnlessNamed(sha256)
      // If this fails, the upload `mark` expires later.
      await this.#rows(SQL.discard, [mark]).catch(() => {})
      return result
    })
  }

  async read({ sha256, length }: StoredBlob): Promise<OpenBlob | null> {
    const blob = await this.open(sha256)
    return blob?.length === length ? blob : null
  }

  async open(sha256: string): Promise<OpenBlob | null> {
    const [row] = await this.#rows(SQL.open, [sha256])
    if (row === undefined) return null
    return {
      length: readInteger(row, 'bytes'),
      read: (target, at) => this.#read(sha256, target, at),
      close: async () => {},
    }
  }

  async *list(): AsyncGenerator<{ readonly sha256: string }> {
    for (let after = ''; ; ) {
      const page = await this.#rows(SQL.unnamed, [after])
      for (const [sha256] of page) {
        after = text(sha256, 'sha256')
        yield { sha256: after }
      }
      if (page.length < UNNAMED_ROWS) return
    }
  }

  async mayBeUnnamed(sha256: string): Promise<boolean> {
    return (await this.#rows(SQL.unsettled, [sha256])).length > 0
  }

  async close(): Promise<void> {
    await this.#tasks.ended()
    await this.#lastTransaction.catch(() => {})
    await this.#session?.close()
    await this.#pool.close()
  }

  async #receive(upload: string, chunks: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const writer = new ChunkWriter(upload, (statement, values) => this.#rows(statement, values))
    const hash = createHash('sha256')
    let length = 0
    try {
      await this.#rows(SQL.begin, [upload, null, false])
      for await (const chunk of chunks) {
        hash.update(chunk)
        length += chunk.length
        await writer.write(chunk)
      }
      await writer.end()
    } catch (error) {
      await writer.settled()
      // If this fails, the upload expires.
      await this.#rows(SQL.discard, [upload]).catch(() => {})
      throw error
    }
    return { sha256: hash.digest('hex'), length }
  }

  /** Makes the bytes of an upload a blob, which the upload protects. Errors: STORE_FAILED if the upload has expired. */
  #place(upload: string, sha256: string): Promise<void> {
    return this.#transaction(async (queries) => {
      const [row] = await queries.rows(SQL.lock, [sha256])
      const before = row === undefined ? null : text(row[0], 'upload')
      if (before === null) {
        const isPlaced = (await queries.rows(SQL.place, [sha256, upload])).length > 0
        if (!isPlaced) throw new ConnectionLost('another upload is storing the same blob')
      } else if (before !== upload) {
        // Replaces an existing blob, which repairs a damaged blob.
        await queries.rows(SQL.replace, [sha256, upload])
        await queries.rows(SQL.removeChunks, [before])
      }
      if ((await queries.rows(SQL.hold, [upload, sha256])).length > 0) return
      throw new StoreError('STORE_FAILED', 'the upload took too long and was removed')
    })
  }

  /**
   * Removes an upload, and its blob unless an entry refers to the blob. Returns false if the blob did not exist any
   * more. Returns true if the blob existed, or if the statements failed, in which case the upload expires later.
   *
   * Locks the blob first, because an erasure after the recording leaves the removal of the blob to this upload.
   */
  async #finish(upload: string, sha256: string): Promise<boolean> {
    try {
      const [locked] = await this.#statements([
        [SQL.lock, [sha256]],
        [SQL.discard, [upload]],
        [SQL.removeUnnamed, [sha256]],
      ])
      return locked === undefined || locked.length > 0
    } catch {
      return true
    }
  }

  async #removeUnlessNamed(sha256: string): Promise<void> {
    // The lock is a separate statement, so that the next statements see all commits made during the wait for the lock.
    await this.#statements([
      [SQL.lock, [sha256]],
      [SQL.removeUnnamed, [sha256]],
      [SQL.removeUnnamedParts, [sha256]],
    ])
  }

  /** Stores a part if it starts where the stored parts end; `arrived` is the end of the stored parts afterwards. */
  #addToParts(
    { sha256, length }: StoredBlob,
    from: number,
    bytes: Uint8Array,
  ): Promise<{ upload: string; arrived: number }> {
    return this.#transaction(async (queries) => {
      await queries.rows(SQL.begin, [randomUUID(), sha256, true])
      const [locked] = await queries.rows(SQL.lockParts, [sha256])
      // A separate statement sees all parts that were stored before the lock was acquired.
      const [row = []] = await queries.rows(SQL.parts, [sha256])
      const upload = text(locked?.[0], 'upload')
      let arrived = integer(row[1], 'bytes')
      if (arrived !== from || arrived + bytes.length > length) return { upload, arrived }
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
        const chunk = bytes.subarray(at, at + CHUNK_BYTES)
        await queries.rows(SQL.addChunk, [upload, arrived, chunk])
        arrived += chunk.length
      }
      await queries.rows(SQL.renew, [upload])
      return { upload, arrived }
    })
  }

  async #hashUpload(upload: string): Promise<string> {
    const hash = createHash('sha256')
    for (let at = 0; ; ) {
      const [row] = await this.#rows(SQL.readUpload, [upload, at])
      if (row === undefined) return hash.digest('hex')
      const bytes = readBinary(row, 'bytes')
      hash.update(bytes)
      at += bytes.length
    }
  }

  async #read(sha256: string, target: Uint8Array, at: number): Promise<number> {
    let filled = 0
    for (const row of await this.#rows(SQL.read, [sha256, at, target.length])) {
      const start = Math.max(integer(row[0], 'start'), at)
      const bytes = readBinary([row[1]], 'bytes')
      // Stops if a row is missing, so that the result is too short instead of wrong.
      if (start !== at + filled) break
      const count = Math.min(bytes.length, target.length - filled)
      target.set(bytes.subarray(0, count), filled)
      filled += count
    }
    return filled
  }

  /** Removes the leftovers of other processes periodically, because this process may run for months. */
  async #recoverIfDue(): Promise<void> {
    if (performance.now() - this.#removedExpiredMs < LEASE_MS) return
    await this.recover()
  }

  async #rows(statement: string, values: readonly Parameter[]): Promise<Row[]> {
    try {
      return await this.#pool.rows(statement, values)
    } catch (error) {
      throw toStoreError(error)
    }
  }

  #transaction<Result>(work: (queries: Queries) => Promise<Result>): Promise<Result> {
    const run = () => retrying(() => this.#runTransaction(work))
    const result = this.#lastTransaction.then(run, run).catch((error: unknown) => {
      throw toStoreError(error)
    })
    this.#lastTransaction = result.catch(() => {})
    return result
  }

  /** Runs a transaction of statements that are sent together. */
  #statements(statements: readonly (readonly [string, readonly Parameter[]])[]): Promise<Row[][]> {
    return this.#transaction(async (queries) => {
      const sent = statements.map(([statement, values]) => queries.rows(statement, values))
      const settled = await Promise.allSettled(sent)
      return settled.map((result) => {
        if (result.status === 'fulfilled') return result.value
        throw result.reason
      })
    })
  }

  async #runTransaction<Result>(work: (queries: Queries) => Promise<Result>): Promise<Result> {
    if (this.#session?.isOpen !== true) this.#session = await Connection.open(this.#options)
    const session = this.#session
    try {
      await session.execute('BEGIN')
      const result = await work(session)
      session.takeWarning()
      const [commit] = await session.batch([{ text: 'COMMIT', values: [] }])
      // A warning means that the server gave up waiting for a standby, so the transaction is repeated.
      if (commit?.command === 'COMMIT' && session.takeWarning() === null) return result
      throw new ConnectionLost('the outcome of a commit is unknown')
    } catch (error) {
      await session.execute('ROLLBACK').catch(() => {})
      throw error
    }
  }
}

type Run = (statement: string, values: readonly Parameter[]) => Promise<unknown>

/** Stores bytes as rows of CHUNK_BYTES: one row is sent while the next is filled. */
class ChunkWriter {
  readonly #upload: string
  readonly #run: Run
  #chunk = Buffer.alloc(0)
  #other = Buffer.alloc(0)
  #filled = 0
  #start = 0
  #sending: Promise<unknown> = Promise.resolve()
  #renewedMs = performance.now()

  constructor(upload: string, run: Run) {
    this.#upload = upload
    this.#run = run
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      this.#reserve(bytes.length - at)
      const count = Math.min(bytes.length - at, this.#chunk.length - this.#filled)
      this.#chunk.set(bytes.subarray(at, at + count), this.#filled)
      this.#filled += count
      at += count
      if (this.#filled === CHUNK_BYTES) await this.#send()
    }
    if (performance.now() - this.#renewedMs < RENEWAL_MS) return
    this.#renewedMs = performance.now()
    await this.#run(SQL.renew, [this.#upload])
  }

  async end(): Promise<void> {
    if (this.#filled > 0) await this.#send()
    await this.#sending
  }

  /** Waits until nothing is being sent. */
  async settled(): Promise<void> {
    await this.#sending.catch(() => {})
  }

  /** Enlarges the buffer if needed, because a small blob needs no buffer of CHUNK_BYTES. */
  #reserve(bytes: number): void {
    const needed = Math.min(CHUNK_BYTES, this.#filled + bytes)
    if (this.#chunk.length >= needed) return
    const larger = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(needed, 2 * this.#filled)))
    larger.set(this.#chunk.subarray(0, this.#filled))
    this.#chunk = larger
  }

  async #send(): Promise<void> {
    await this.#sending
    const bytes = this.#chunk.subarray(0, this.#filled)
    this.#sending = this.#run(SQL.addChunk, [this.#upload, this.#start, bytes])
    // Prevents an unhandled rejection; the next `await` throws the error.
    this.#sending.catch(() => {})
    this.#start += this.#filled
    this.#filled = 0
    ;[this.#chunk, this.#other] = [this.#other, this.#chunk]
  }
}
