import type { Head } from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'
import { type Row, readHeadRow, text } from '../sql/rows.ts'
import {
  Connection,
  type ConnectionOptions,
  type Parameter,
  type Queries,
  type Statement,
} from './connection.ts'
import { ConnectionLost, isMissingTable, isRefusal, isTransient } from './errors.ts'
import { retrying } from './retry.ts'

const BLOCK = 'SELECT id FROM blocks WHERE height = $1'

const BEGIN = toStatements('BEGIN')
// A separate statement reads the head, so that it sees the commits made during the wait for the lock.
const LOCK = toStatements(
  'SELECT indexes FROM node FOR UPDATE',
  `SELECT height, id, split_part(timestamps, E'\\n', -1) FROM blocks ORDER BY height DESC LIMIT 1`,
)
const COMMIT = toStatements('COMMIT')

/** The state of the store at the beginning of a transaction. */
export interface Locked {
  readonly head: Head | null
  /** Digest of the declared indexes. */
  readonly indexes: string
}

/** Thrown if the reply to a COMMIT was lost, or reports that a standby may lack the commit. */
export class CommitUnknown extends ConnectionLost {}

/**
 * The connection with which a store writes. Each transaction locks the store. An error ends the transaction; later
 * reads run outside a transaction.
 */
export class WriteSession implements Queries {
  readonly #options: ConnectionOptions
  #connection: Connection | null
  #isInTransaction = false
  #expected: Locked | null = null
  /** The last block acknowledged to a caller. Every new connection must contain it. */
  #pin: Pick<Head, 'height' | 'id'> | null = null
  /** The newest block that this process has read or signed. Every new connection must contain it. */
  #seen: Pick<Head, 'height' | 'id'> | null = null
  /** Whether the current server has `#seen`, as far as this process knows. */
  #hasSeen = false
  /** Timeline of the last server. */
  #timeline: number

  constructor(options: ConnectionOptions, connection: Connection) {
    this.#options = options
    this.#connection = connection
    this.#timeline = connection.timeline
  }

  get isInTransaction(): boolean {
    return this.#isInTransaction
  }

  /** Whether `expect` was called and no transaction has begun. */
  get isExpecting(): boolean {
    return this.#expected !== null
  }

  pin(head: Pick<Head, 'height' | 'id'>): void {
    this.#pin = head
    this.noteSeen(head)
    this.#hasSeen = true
  }

  noteSeen(head: Pick<Head, 'height' | 'id'>): void {
    if (head.height <= (this.#seen?.height ?? -1)) return
    this.#seen = head
    this.#hasSeen = false
  }

  async rows(text: string, values: readonly Parameter[]): Promise<Row[]> {
    if (this.#expected !== null) return this.#beginExpected([{ text, values }])
    if (!this.#isInTransaction) {
      return retrying(async () => (await this.#connected()).rows(text, values))
    }
    try {
      return await this.#current().rows(text, values)
    } catch (error) {
      await this.rollback()
      throw error
    }
  }

  async script(text: string): Promise<Row[][]> {
    return (await this.#connected()).script(text)
  }

  /**
   * Begins a transaction and locks the store, in one round trip. Errors: STORE_ROLLED_BACK; errors of the server.
   */
  async begin(): Promise<Locked> {
    return (await this.#begin(await this.#connected(), [])).locked
  }

  /**
   * Expects the store to be in the state `expected`, in which this session has left it. Then the next read begins the
   * transaction in the same round trip, and a commit without a read before it needs no separate transaction. Returns
   * false without effect if the store certainly has another state.
   */
  expect(expected: Locked): boolean {
    const isSame = this.#hasSeen && this.#seen?.id === expected.head?.id
    if (!isSame || this.#connection?.isOpen !== true) return false
    this.#expected = expected
    return true
  }

  /** Requires that the store is in the expected state, if `expect` was called and no read has begun the transaction. */
  async confirm(): Promise<void> {
    if (this.#expected !== null) await this.#beginExpected([])
  }

  /** Begins a transaction with a read. Errors: HEAD_MOVED if the store is not in the expected state. */
  async #beginExpected(reads: readonly Statement[]): Promise<Row[]> {
    const expected = this.#expected
    this.#expected = null
    try {
      const { locked, rows } = await this.#begin(this.#current(), reads)
      if (locked.head?.id === expected?.head?.id && locked.indexes === expected?.indexes)
        return rows
    } catch (error) {
      if (!isTransient(error)) throw error
    }
    await this.rollback()
    throw new StoreError('HEAD_MOVED', 'the store is not in the state in which it was left')
  }

  async #begin(
    connection: Connection,
    reads: readonly Statement[],
  ): Promise<{ locked: Locked; rows: Row[] }> {
    this.#isInTransaction = true
    try {
      const [, lock, heads, read] = await connection.batch([...BEGIN, ...LOCK, ...reads])
      const [[locked] = [], [head] = []] = [lock?.rows, heads?.rows]
      if (locked === undefined) throw new StoreError('STORE_DAMAGED', 'the table `node` is empty')
      const state = {
        head: head === undefined ? null : readHeadRow(head),
        indexes: text(locked[0], 'indexes'),
      }
      await this.#requireSeen(connection, state.head)
      return { locked: state, rows: read?.rows ?? [] }
    } catch (error) {
      await this.rollback()
      // The next connection may lead to a server that has the block.
      if (error instanceof StoreError) await this.#drop()
      throw error
    }
  }

  /** Runs statements in the transaction, in one round trip. */
  async run(statements: readonly Statement[]): Promise<void> {
    await this.confirm()
    try {
      await this.#current().batch(statements)
    } catch (error) {
      await this.rollback()
      throw error
    }
  }

  /**
   * Runs statements and commits, in one round trip. Without a transaction, the first statement must lock the store and
   * require the expected state. Errors: errors of the server, after which nothing is committed, and the caller must roll
   * back; CommitUnknown.
   */
  async commit(statements: readonly Statement[] = []): Promise<void> {
    const connection = this.#current()
    const begin = this.#isInTransaction ? [] : BEGIN
    if (begin === BEGIN && this.#expected === null)
      throw new ConnectionLost('the server rolled back')
    this.#isInTransaction = true
    connection.takeWarning()
    try {
      // BEGIN is explicit, because a proxy might not treat statements that are sent together as one transaction.
      const results = await connection.batch([...begin, ...statements, ...COMMIT])
      if (results.at(-1)?.command !== 'COMMIT') throw new ConnectionLost('the server rolled back')
    } catch (error) {
      if (isRefusal(error)) throw error
      await this.#drop()
      throw new CommitUnknown('the outcome of a commit is unknown', { cause: error })
    }
    this.#isInTransaction = false
    this.#expected = null
    // If the wait for a standby is cancelled, COMMIT succeeds with a warning.
    const warning = connection.takeWarning()
    if (warning === null) return
    await this.#drop()
    throw new CommitUnknown(warning)
  }

  async rollback(): Promise<void> {
    this.#expected = null
    if (!this.#isInTransaction) return
    this.#isInTransaction = false
    try {
      await this.#connection?.execute('ROLLBACK')
    } catch {
      await this.#drop()
    }
  }

  async blockId(height: number): Promise<string | null> {
    const [row] = await this.rows(BLOCK, [height])
    return row === undefined ? null : text(row[0], 'id')
  }

  async close(): Promise<void> {
    await this.#connection?.close()
  }

  #current(): Connection {
    if (this.#connection?.isOpen === true) return this.#connection
    throw new ConnectionLost('the connection ended during a transaction')
  }

  async #connected(): Promise<Connection> {
    if (this.#connection?.isOpen === true) return this.#connection
    const connection = await Connection.open({ ...this.#options, timelineMin: this.#timeline })
    await this.#requirePin(connection)
    this.#timeline = connection.timeline
    this.#connection = connection
    return connection
  }

  /**
   * Checks that the server has the last acknowledged block, which a failover to a standby that lags behind may lose.
   * Errors: STORE_ROLLED_BACK.
   */
  async #requirePin(connection: Connection): Promise<void> {
    const pin = this.#pin
    const found = pin === null ? null : await storedId(connection, pin.height)
    if (pin !== null && found !== pin.id) {
      await connection.close()
      const difference = found === null ? 'is missing' : 'differs'
      throw new StoreError(
        'STORE_ROLLED_BACK',
        `block ${pin.height} (${pin.id.slice(0, 16)}…) was acknowledged, but ${difference} in the database`,
      )
    }
    this.#hasSeen = false
  }

  /**
   * Checks that the server, which has the given head, has the newest block seen. A former primary may lack it, so its
   * absence is temporary here; `HeadFollower` decides when it is final. Errors: STORE_UNAVAILABLE.
   */
  async #requireSeen(connection: Connection, head: Head | null): Promise<void> {
    const seen = this.#seen
    if (seen !== null && !this.#hasSeen) {
      const id = head?.height === seen.height ? head.id : await storedId(connection, seen.height)
      if (id !== seen.id) throw lacking(seen)
    }
    if (head !== null) this.noteSeen(head)
    this.#hasSeen = true
  }

  async #drop(): Promise<void> {
    this.#isInTransaction = false
    const connection = this.#connection
    this.#connection = null
    await connection?.close()
  }
}

/** Returns the id of the block, or null if there is no such block. */
async function storedId(connection: Connection, height: number): Promise<string | null> {
  const [row] = await connection.rows(BLOCK, [height]).catch((error: unknown) => {
    if (isMissingTable(error)) return []
    throw error
  })
  return row === undefined ? null : text(row[0], 'id')
}

function lacking({ height, id }: Pick<Head, 'height' | 'id'>): StoreError {
  const block = `block ${height} (${id.slice(0, 16)}…)`
  const message = `the database lacks ${block}, which this process has read; nothing was written`
  return new StoreError('STORE_UNAVAILABLE', message)
}

function toStatements(...texts: readonly string[]): readonly Statement[] {
  return texts.map((each) => ({ text: each, values: [] }))
}
