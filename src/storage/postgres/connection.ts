import { Socket } from 'node:net'
import pg from 'pg'
import { StoreError } from '../port/errors.ts'
import type { Value } from '../sql/dialect.ts'
import type { Row } from '../sql/rows.ts'
import { ConnectionLost, innerMessage, toStoreError } from './errors.ts'
import { behindPooler, GUARD_QUERY, guarded, LOCK_MS_MAX, type ServerState } from './guards.ts'
import { retrying } from './retry.ts'

export type Parameter = Value | boolean | readonly string[]

export interface Statement {
  readonly text: string
  readonly values: readonly Parameter[]
}

/** Runs statements on one connection, or on any connection of a pool. */
export interface Queries {
  /** Returns the rows of a statement. `text` must be constant, because each text is prepared once per connection. */
  rows(text: string, values: readonly Parameter[]): Promise<Row[]>
  /** Runs statements without values, separated by semicolons, in one transaction; returns the rows of each. */
  script(text: string): Promise<Row[][]>
}

export interface ConnectionOptions {
  /** `postgres://user:password@host:port,host:port/database?parameters`. */
  readonly url: string
  /** False for a temporary store, for which an unsafe server is accepted. */
  readonly durable: boolean
  /** Minimum timeline of the server. A server with a lower timeline is a former primary, and is not used. */
  readonly timelineMin?: number
  /** Maximum duration of a statement. */
  readonly deadlineMs?: number
  /** True if transactions may be idle while the caller processes their rows. */
  readonly mayIdleInTransaction?: boolean
}

const CONNECT_MS_MAX = 3_000
/** Maximum time until the server has closed a connection, because a server that hangs never does. */
const CLOSE_MS_MAX = 2_000
/**
 * Maximum duration of a statement. Measured in this process, because the server's own timeout does not end a wait for a
 * standby.
 */
const DEADLINE_MS = 10_000
/** Maximum idle time in a transaction. Frees the locks of a process that was suspended or has lost its network. */
const IDLE_IN_TRANSACTION_MS_MAX = 5_000
/**
 * Query for the timeline of the server, which is the start of the name of a log file. Fails on a standby, and on a
 * server without PostgreSQL's log.
 */
const TIMELINE_QUERY = 'SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)'
/**
 * Settings on which correctness depends, because the database or the user may have others. At other isolation levels, a
 * statement does not see the commits made during a wait for a lock. The server reports a cancelled wait for a standby as
 * a warning. Durations are measured in this process. With quoted names, the schema looks changed. Parameters are arrays
 * with NULL.
 */
const SESSION = `SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning';
  SET quote_all_identifiers = off; SET array_nulls = on; SET statement_timeout = 0;
  SET idle_in_transaction_session_timeout =`
/** Available since PostgreSQL 17. */
const NO_TIMEOUT = 'SET transaction_timeout = 0'
/**
 * Makes the server use indexes, because every statement here has an index for its rows. Otherwise a prepared statement
 * keeps the plan that was best when its tables were empty, until the server analyzes them. With this setting, a scan of
 * a table with one row has such a high estimated cost that the server would compile each statement, which takes 20 ms.
 * So compilation is off too.
 *
 * Generic plans, because planning a read for its values takes longer than the read, and the plans are the same.
 *
 * Pages cost nothing, so that the server chooses the index with the fewest rows. Otherwise it reads all items in the order
 * of the primary key, whose pages follow each other, to find those of a small database.
 */
const PLANS = `SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan;
  SET seq_page_cost = 0; SET random_page_cost = 0`
/** Makes the server detect that its client has disconnected. Not available on every platform. */
const CHECK_CLIENT = "SET client_connection_check_interval = '1s'"
/**
 * Makes the server detect within about 15 seconds that its client has vanished without closing the connection, also
 * while it waits for the rest of a request, for which no other timeout exists. Not available on every platform.
 */
const PROBE_CLIENT = `SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;
  SET tcp_user_timeout = 15000`
/** Maximum prepared statements per connection. Texts are constant and few, so only a defect can reach this limit. */
const PREPARED_MAX = 500

const OID = { int8: 20, int4: 23 } as const

/**
 * A socket that is destroyed if a reply cannot be parsed. Without it, the driver's error would be an uncaught exception,
 * which ends the process.
 */
class ServerSocket extends Socket {
  override emit(event: string | symbol, ...values: unknown[]): boolean {
    if (event !== 'data') return super.emit(event, ...values)
    try {
      return super.emit(event, ...values)
    } catch (cause) {
      this.destroy(new Error('the server sent an invalid reply', { cause }))
      return true
    }
  }
}

type Parser = (value: string) => unknown

/** A statement that a connection has prepared, or will prepare. */
interface Prepared {
  readonly name: string
  /** The parsers of the columns; null until the server has certainly prepared the statement. */
  parsers: readonly Parser[] | null
}

/** The rows of a statement, and the server's name of the executed command. */
export interface StatementResult {
  readonly rows: Row[]
  readonly command: string
}

type PreparedStatement = Statement & { readonly prepared: Prepared }
type BatchReply = (error: Error | null, results: StatementResult[]) => void

/**
 * Statements that are sent in one packet, with one `Sync` at the end. So the server sends one reply, and after an error
 * skips the other statements. A statement is described only when it is prepared. The driver calls the methods.
 */
class Batch extends pg.Query {
  declare callback: BatchReply
  readonly #statements: readonly PreparedStatement[]
  readonly #parsers: (readonly Parser[] | null)[]
  readonly #results: StatementResult[] = []
  #rows: Row[] = []
  #failure: Error | null = null

  constructor(statements: readonly PreparedStatement[], reply: BatchReply) {
    super('')
    this.#statements = statements
    this.#parsers = statements.map(({ prepared }) => prepared.parsers)
    this.callback = reply
  }

  override submit = (connection: pg.Connection): void => {
    connection.stream.cork()
    for (const [at, { prepared, text, values }] of this.#statements.entries()) {
      const { name } = prepared
      if (this.#parsers[at] === null) {
        // A failed batch may have prepared the statement. Closing a statement that does not exist has no effect.
        connection.close({ type: 'S', name }, true)
        connection.parse({ name, text, types: [] }, true)
      }
      connection.bind({ statement: name, values: values.map(encodeParameter) }, true)
      if (this.#parsers[at] === null) connection.describe({ type: 'P', name: '' }, true)
      connection.execute({}, true)
    }
    connection.sync()
    connection.stream.uncork()
  }

  handleRowDescription({ fields }: { readonly fields: readonly pg.FieldDef[] }): void {
    const parsers = fields.map(({ dataTypeID }) => getTypeParser(dataTypeID))
    this.#parsers[this.#results.length] = parsers
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const parsers = this.#parsers[this.#results.length] ?? []
    try {
      this.#rows.push(fields.map((value, at) => (value === null ? null : parsers[at]?.(value))))
    } catch (error) {
      this.#failure ??= error instanceof Error ? error : new Error(String(error))
    }
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const [command = ''] = text.split(' ', 1)
    this.#results.push({ rows: this.#rows, command })
    this.#rows = []
  }

  handleError(error: Error): void {
    this.callback(error, [])
  }

  handleReadyForQuery(): void {
    for (const [at, { prepared }] of this.#statements.entries()) {
      prepared.parsers = this.#parsers[at] ?? []
    }
    this.callback(this.#failure, this.#results)
  }
}

function encodeParameter(value: Parameter): Buffer | string | null {
  if (value === null || typeof value === 'string') return value
  if (value instanceof Uint8Array) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  }
  if (typeof value !== 'object') return String(value)
  return `{${value.map((text) => `"${text.replace(/["\\]/g, '\\$&')}"`).join(',')}}`
}

/** A connection to the primary server. Batches are pipelined: each is sent without waiting for earlier replies. */
export class Connection implements Queries {
  /** A number that increases with each promotion of a standby; 0 if the server does not report it. */
  readonly timeline: number
  readonly #client: pg.Client
  readonly #socket: Socket
  /** Statements by their texts. */
  readonly #statements = new Map<string, Prepared>()
  #isOpen = true
  #pending = 0
  #server: ServerState
  #warning: string | null = null

  private constructor(client: pg.Client, socket: Socket, server: ServerState, timeline: number) {
    this.#client = client
    this.#socket = socket
    this.#server = server
    this.timeline = timeline
    // The severity is in the language of the server. The code of a message that is no warning is 00000.
    client.on('notice', ({ code, message }) => {
      if (code !== '00000') this.#warning = message ?? ''
    })
    client.on('error', () => {
      this.#isOpen = false
    })
    client.on('end', () => {
      this.#isOpen = false
    })
  }

  /**
   * Connects to the first host that is a primary. Errors: ConnectionLost, errors of the server,
   * STORE_UNSAFE.
   */
  static async open(options: ConnectionOptions): Promise<Connection> {
    let failure: unknown = null
    for (const url of splitHosts(options.url)) {
      try {
        return await Connection.#openAt(url, options)
      } catch (error) {
        // A StoreError, for example an unsafe primary, ends the search. After any other error, another host may be the
        // primary.
        if (error instanceof StoreError) throw error
        failure ??= error
      }
    }
    throw failure
  }

  static async #openAt(url: string, options: ConnectionOptions): Promise<Connection> {
    const idle = options.mayIdleInTransaction ? 0 : IDLE_IN_TRANSACTION_MS_MAX
    const socket = new ServerSocket()
    const client = newClient({
      stream: () => socket,
      connectionString: url,
      application_name: 'daicho',
      pipeline: true,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      query_timeout: options.deadlineMs ?? DEADLINE_MS,
      lock_timeout: LOCK_MS_MAX,
      types: { getTypeParser },
    })
    // Without a listener, an error of the socket would end the process.
    client.on('error', () => {})
    try {
      await client.connect()
      const session = client.query(`${SESSION} ${idle}`)
      session.catch(() => {})
      client.query(NO_TIMEOUT).catch(() => {})
      client.query(CHECK_CLIENT).catch(() => {})
      client.query(PROBE_CLIENT).catch(() => {})
      client.query(PLANS).catch(() => {})
      const timeline = client.query({ text: TIMELINE_QUERY, rowMode: 'array' }).then(
        ({ rows }) => Number.parseInt(rows[0]?.[0], 16),
        () => 0,
      )
      const { rows } = await client.query({ text: GUARD_QUERY, rowMode: 'array' })
      const server = guarded(rows[0] ?? [], options.durable)
      await session
      const connection = new Connection(client, socket, server, await timeline)
      if (connection.timeline >= (options.timelineMin ?? 0)) return connection
      throw new ConnectionLost('the server is a former primary')
    } catch (error) {
      void client.end().catch(() => {})
      if (innerMessage(error).includes('unsupported startup parameter')) throw behindPooler()
      // Replaces the driver's message, which does not explain the problem.
      if (innerMessage(error).includes('client password must be a string')) throw passwordMissing()
      throw asLost(error)
    }
  }

  /** False once the connection has ended. Statements then reject with ConnectionLost. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Number of statements without an answer. */
  get pending(): number {
    return this.#pending
  }

  /** The state of the server when the connection began. */
  get server(): ServerState {
    return this.#server
  }

  /** Returns the last warning of the server since the previous call, or null. */
  takeWarning(): string | null {
    const warning = this.#warning
    this.#warning = null
    return warning
  }

  async rows(text: string, values: readonly Parameter[]): Promise<Row[]> {
    const [result] = await this.batch([{ text, values }])
    return result?.rows ?? []
  }

  /** Runs statements in one round trip. After an error, the server skips the other statements. */
  async batch(statements: readonly Statement[]): Promise<StatementResult[]> {
    if (this.#pending > 0) this.#delaySending()
    this.#pending += 1
    try {
      const { promise, resolve, reject } = Promise.withResolvers<StatementResult[]>()
      const reply: BatchReply = (error, results) => (error ? reject(error) : resolve(results))
      const sent = statements.map((each) => ({ ...each, prepared: this.#prepared(each.text) }))
      this.#client.query(new Batch(sent, reply))
      return await promise
    } catch (error) {
      throw asLost(error)
    } finally {
      this.#pending -= 1
    }
  }

  /** Sends the batches of this event-loop iteration in one packet. The server is busy with earlier batches anyway. */
  #delaySending(): void {
    if (this.#socket.writableCorked > 0) return
    this.#socket.cork()
    setImmediate(() => this.#socket.uncork())
  }

  /** The server sends one reply for all statements, and skips the remaining statements after an error. */
  async script(text: string): Promise<Row[][]> {
    try {
      const results: unknown = await this.#client.query({ text, rowMode: 'array' })
      return Array.isArray(results) ? results.map(({ rows }) => rows) : []
    } catch (error) {
      throw asLost(error)
    }
  }

  /** Runs a statement without preparing it, because it cannot be prepared or runs only once. */
  async execute(text: string): Promise<void> {
    try {
      await this.#client.query(text)
    } catch (error) {
      throw asLost(error)
    }
  }

  /** Closes the connection without waiting for replies. The server aborts a running statement within a second. */
  abort(): void {
    this.#isOpen = false
    this.#socket.destroy()
  }

  /** Ends the connection after its pending statements. Never rejects. */
  async close(): Promise<void> {
    this.#isOpen = false
    const timer = setTimeout(() => this.#socket.destroy(), CLOSE_MS_MAX)
    await this.#client.end().catch(() => {})
    clearTimeout(timer)
  }

  /** Ends the connection at once. Pending statements reject with ConnectionLost. */
  destroy(): void {
    this.#isOpen = false
    this.#socket.destroy()
  }

  #prepared(text: string): Prepared {
    let prepared = this.#statements.get(text)
    if (prepared === undefined) {
      const { size } = this.#statements
      if (size === PREPARED_MAX) throw new RangeError(`too many statements: ${text}`)
      prepared = { name: `d${size}`, parsers: null }
      this.#statements.set(text, prepared)
    }
    return prepared
  }
}

/**
 * Returns the reason why the settings of a server could lose acknowledged writes in a failover, or null.
 * Errors: STORE_UNSAFE, STORE_UNAVAILABLE.
 */
export async function serverWarning(url: string): Promise<string | null> {
  try {
    const connection = await retrying(() => Connection.open({ url, durable: true }))
    await connection.close()
    return connection.server.warning
  } catch (error) {
    throw toStoreError(error)
  }
}

function newClient(config: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(config)
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw invalidUrl()
    // The driver reads the files that `sslrootcert`, `sslcert` and `sslkey` name.
    const message = `a file of the store's URL cannot be read: ${error.message}`
    throw new StoreError('STORE_UNAVAILABLE', message, { cause: error })
  }
}

/**
 * Returns the error for an invalid URL. The message quotes neither the URL, which may contain a password, nor the
 * driver's error.
 */
function invalidUrl(): StoreError {
  const message =
    'the URL of the store is not valid; #, /, ? and % in a password must be percent-encoded, or set PGPASSWORD'
  return new StoreError('STORE_UNAVAILABLE', message)
}

function passwordMissing(): StoreError {
  const message =
    'the database requires a password: set PGPASSWORD or PGPASSFILE, or use STORE_FILE'
  return new StoreError('STORE_UNAVAILABLE', message)
}

/**
 * Returns a URL for each host of `url`, because the driver supports only one host. The driver verifies the server for
 * each mode that encrypts, but prints a warning for modes other than `verify-full`, and takes `system` for a file.
 */
function splitHosts(url: string): string[] {
  const parts = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^/?#]*)(.*)$/.exec(url)
  if (parts === null) throw invalidUrl()
  const [, start, hosts = '', tail = ''] = parts
  const rest = tail
    .replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full')
    .replace(/([?&])sslrootcert=system(?=&|$)/, '$1')
  return hosts.split(',').map((host) => `${start}${host}${rest}`)
}

/** Converts each error that the server did not send, and that therefore concerns the connection, to ConnectionLost. */
function asLost(error: unknown): unknown {
  if (error instanceof pg.DatabaseError || error instanceof StoreError) return error
  return new ConnectionLost(innerMessage(error), { cause: error })
}

function getTypeParser(oid: number, format?: 'text' | 'binary'): Parser {
  if (format !== 'binary' && (oid === OID.int8 || oid === OID.int4)) return parseInteger
  return pg.types.getTypeParser(oid, format)
}

function parseInteger(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new StoreError('STORE_DAMAGED', `the store holds ${text}, which is too large`)
}
