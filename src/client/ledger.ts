import {
  type ChangesOptions,
  type FeedEntry,
  followChanges,
  readChainSize,
  type SizeOptions,
} from './changes.ts'
import { DatabaseClient } from './database.ts'
import {
  describeValue,
  requireArray,
  requireHeightOrTime,
  requireObject,
  requireText,
  valueInvalid,
} from './json-body.ts'
import type { Operations } from './operations.ts'
import { jsonWithLists, jsonWithNumbers, readDeclared, readJson, requireNextPage } from './reply.ts'
import {
  type ClientOptions,
  formatPath,
  type PastOptions,
  type QueryParameters,
  type RequestOptions,
  requireName,
  requireOptions,
  Transport,
  type WriteOptions,
} from './transport.ts'
import { VerifiedReads } from './verification.ts'

/** A change for `record`. */
export type ChangeInput = Operations['POST /api/ledgers']['input']['body']['entries'][number]

export type RecordResult = Operations['POST /api/ledgers']['reply']

type Databases = Operations['GET /api/dbs']['reply']

const LOG = 'GET /api/ledgers/{serverid}/changes'

type LogPage = Operations[typeof LOG]['reply']

/** A change that `log` yields. */
export type LoggedChange = LogPage['changes'][number]

/** Selects changes for `log`. */
export interface LogOptions extends Pick<ChangesOptions, 'databases' | 'signal'> {
  /** The author (the subject). */
  readonly by?: string
  /** The issuer of the author; an empty text for the tokens of the node. */
  readonly iss?: string
  readonly from?: string
  readonly to?: string
}

/** A client of one node. Errors of all methods: ClientError. */
export class LedgerClient {
  readonly #transport: Transport
  readonly #verification: VerifiedReads | null
  #serverId: number | null = null

  /** Errors: TypeError if `url` is not a URL, or `verify.key` is not the key of a node. */
  constructor(url: string | URL, options: ClientOptions = {}) {
    this.#transport = new Transport(url, options)
    const { verify } = options
    this.#verification = verify === undefined ? null : new VerifiedReads(this.#transport, verify)
  }

  /** Returns the server id of the node. A verifying client takes the id from the key. */
  async serverId(options: RequestOptions = {}): Promise<number> {
    if (this.#verification !== null) return this.#verification.serverId
    const convert = jsonWithNumbers<Operations['GET /api/serverid']['reply']>('serverid')
    this.#serverId ??= (await this.#send('GET /api/serverid', {}, options, convert)).serverid
    return this.#serverId
  }

  /** Returns the names of the databases; with tokens, only the databases that the token can read. */
  async databases({ at, ...options }: PastOptions = {}): Promise<readonly string[]> {
    const query = { at: requireHeightOrTime(at, 'at') }
    const call = { method: 'GET', path: '/api/dbs', query, options }
    return (await this.#transport.read(call, jsonWithLists<Databases>('dbs'))).dbs
  }

  /** Returns the database `name`, whose items have the type `Item`. Sends no request. */
  database<Item extends object = Record<string, unknown>>(name: string): DatabaseClient<Item> {
    return new DatabaseClient(this.#transport, this.#verification, name)
  }

  /** Creates a database. */
  async createDatabase(name: string, options: WriteOptions = {}): Promise<void> {
    await this.#send('POST /api/{db}', { path: { db: name } }, options, readJson)
  }

  /** Deletes a database with its items. The ledger keeps every entry. */
  async deleteDatabase(name: string, options: WriteOptions = {}): Promise<void> {
    await this.#send('DELETE /api/{db}', { path: { db: name } }, options, readJson)
  }

  /** Applies all `changes`, even of different databases, in one block, or none of them. */
  async record(changes: readonly ChangeInput[], options: WriteOptions = {}): Promise<RecordResult> {
    const body = { entries: requireArray(changes, 'changes') }
    const convert = jsonWithLists<RecordResult>('results')
    const { block, results } = await this.#send('POST /api/ledgers', { body }, options, convert)
    return { block, results }
  }

  /** Yields past and future changes of the node's own chain. The stream is resumed after failures. */
  async *changes(options: ChangesOptions = {}): AsyncGenerator<FeedEntry> {
    const serverId = await this.serverId({ signal: options.signal })
    yield* followChanges(this.#transport, serverId, options)
  }

  /**
   * Yields the changes so far from `from` (inclusive) to `to` (exclusive), which are heights or times such as
   * `2026-03-01`, oldest first.
   */
  async *log(options: LogOptions = {}): AsyncGenerator<LoggedChange> {
    const { signal, databases = [], from: start = '0', iss, ...texts } = options
    const db = requireArray(databases, 'databases').map((name) => requireName(name, 'databases'))
    requireOptions(texts, ['by', 'to'])
    for (const [name, text] of Object.entries(texts)) requireText(text, name)
    const query = { ...texts, ...(iss === undefined ? {} : { iss }), db }
    const path = { serverid: `${await this.serverId({ signal })}` }
    for (let from = requireText(start, 'from'); ; ) {
      const input = { path, query: { ...query, from } }
      const page = await this.#send(LOG, input, { signal }, jsonWithLists<LogPage>('changes'))
      yield* page.changes
      if (page.next === null) return
      from = requireNextPage(`${page.next}`, from)
    }
  }

  /** Returns the number of blocks of the node's own chain, also of blocks that no checkpoint covers yet. */
  async size(options: SizeOptions = {}): Promise<number> {
    requireOptions(options, ['db', 'signal'])
    const serverId = await this.serverId({ signal: options.signal })
    return readChainSize(this.#transport, serverId, options)
  }

  /**
   * Calls any operation of the API by its method and path, with the types that the node declares. Replies are JSON or
   * text; use `changes` and `attachments` for streams.
   */
  async request<Key extends keyof Operations>(
    operation: Key,
    input: Operations[Key]['input'],
    options: WriteOptions = {},
  ): Promise<Operations[Key]['reply']> {
    return this.#send(operation, input, options, readDeclared)
  }

  async #send<Key extends keyof Operations>(
    operation: Key,
    input: Operations[Key]['input'],
    options: WriteOptions,
    convert: (reply: Response) => Promise<Operations[Key]['reply']>,
  ): Promise<Operations[Key]['reply']> {
    const [, method = '', template = ''] = /^([A-Z]+) (\/\S*)$/.exec(String(operation)) ?? []
    if (method === '')
      throw valueInvalid(`operation is ${describeValue(operation)}; use one like GET /api/dbs`)
    const { path = {}, query = {}, body } = requireInput(input)
    const call = { method, path: formatPath(template, path), query, body, options }
    return method === 'GET'
      ? this.#transport.read(call, convert)
      : (this.#verification ?? this.#transport).write(call, convert)
  }
}

/**
 * Returns the input of an operation. Errors: ClientError, VALUE_INVALID for a body or a member of it that is undefined:
 * an operation without body, or without the member, does something else.
 */
function requireInput(input: Input): Input {
  const { body } = requireObject(input, 'input')
  requireOptions(input, ['path', 'query', 'body'])
  const isMissing = Object.hasOwn(input, 'body') && body === undefined
  const members = Object.entries(Object(body)).filter(([, member]) => member === undefined)
  if (!isMissing && members.length === 0) return input
  throw valueInvalid(`body${members.map(([name]) => `/${name}`).join()} is undefined; leave it out`)
}

/** The common type of the inputs of all operations. */
interface Input {
  readonly path?: Readonly<Record<string, string>>
  readonly query?: QueryParameters
  readonly body?: unknown
}
