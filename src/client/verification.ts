import type { JsonObject } from '../base/json.ts'
import {
  type Checkpoint,
  isBefore,
  isOfLog,
  keyAlgorithm,
  openHead,
  type Position,
  ProofError,
  type ProvenEntry,
  parsePolicy,
  parseVerifierKey,
  quorumPolicy,
  type VerifierKey,
  VerifyingReader,
  type VerifySignature,
  type WitnessPolicy,
  webVerifySignature,
} from '../chain/portable.ts'
import { ClientError, VerificationError } from './error.ts'
import type { Read, Revision, Stored } from './item.ts'
import { readJson, readText } from './reply.ts'
import type { Call, RequestOptions, Transport, VerifiedReadsOptions } from './transport.ts'

/** Codes with which a node denies that an item exists. `VerifyingReader` compares such a reply with its own state. */
const DENIALS: ReadonlySet<string> = new Set([
  ...['ITEM_NOT_FOUND', 'DATABASE_NOT_FOUND', 'POSITION_INVALID'],
  ...['SERVERID_UNKNOWN', 'SIZE_UNKNOWN'],
])

/** Reads with proofs. Throws VerificationError. */
export class VerifiedReads {
  readonly serverId: number
  readonly #transport: Transport
  readonly #options: VerifiedReadsOptions
  readonly #verifySignature: VerifySignature
  readonly #policy: WitnessPolicy | null
  readonly #key: VerifierKey
  #reader: Promise<VerifyingReader> | null = null

  /** Errors: TypeError if `options.key` is not the key of a node, or the policy is malformed. */
  constructor(transport: Transport, options: VerifiedReadsOptions) {
    this.#transport = transport
    this.#options = options
    this.#verifySignature = toVerifier(options.verifySignature)
    this.#key = requireKey(options.key)
    this.serverId = requireServerId(this.#key)
    this.#policy = requirePolicy(options, this.#key)
  }

  /** Returns the current revision, or null; see `VerifyingReader.readItem`. */
  async read<Item>(db: string, id: string, { signal }: RequestOptions): Promise<Read<Item> | null> {
    return this.#proving(async (reader) => {
      const read = await reader.readItem(db, id, signal)
      return read && toRead<Item>(read.item, `${read.height}.${read.index}`)
    })
  }

  /** Whether each read is proven to be the newest, and a whole list to be complete. */
  get isCurrent(): boolean {
    return this.#options.current === true
  }

  /** Returns the ids of all items of a database, or null; see `VerifyingReader.readIds`. */
  async readIds(db: string, { signal }: RequestOptions): Promise<readonly string[] | null> {
    return this.#proving((reader) => reader.readIds(db, signal))
  }

  /** Returns the revision at `position`, which according to the node was current at height `at`. */
  async readAt<Item>(
    db: string,
    id: string,
    at: number,
    position: string,
    { signal }: RequestOptions,
  ): Promise<Read<Item>> {
    return this.#proving(async (reader) => {
      const seen = reader.seen(db, id)
      const { height, index, entry } = await reader.readEntry(db, id, position, signal)
      if (height > at) throw new ProofError('ITEM_OTHER', `${position} is later than block ${at}`)
      if (seen !== null && seen.height <= at && isBefore({ height, index }, seen)) {
        throw new ProofError('ITEM_STALE', `a later revision than ${position} was read before`)
      }
      const item = requireItem(entry, position)
      reader.note(db, id, { height, index }, false)
      return toRead<Item>(item, position)
    })
  }

  /** Verifies a reply that the item did not exist at height `at`; see `VerifyingReader.requireMissing`. */
  async requireMissing(
    db: string,
    id: string,
    at: number,
    { signal }: RequestOptions,
  ): Promise<void> {
    await this.#proving((reader) =>
      reader.requireMissing(db, id, { seen: reader.seen(db, id), at, signal }),
    )
  }

  /**
   * Verifies each of the `listed` revisions, their order, and that they include the latest revision that this client
   * has read or written before. Does not detect that the node omits an earlier revision.
   */
  async *history<Item>(
    db: string,
    id: string,
    listed: AsyncIterable<Revision<Item>>,
    { signal }: RequestOptions,
  ): AsyncGenerator<Revision<Item>> {
    const reader = await this.#opened()
    const seen = reader.seen(db, id)
    let last: Position = { height: -1, index: 0 }
    for await (const { position, timestamp, method } of listed) {
      const proven = await this.#proving((reader) => reader.readEntry(db, id, position, signal))
      if (!isBefore(last, proven)) {
        throw new VerificationError('ITEM_STALE', `the history is out of order at ${position}`)
      }
      last = proven
      reader.note(db, id, proven, proven.entry?.method === 'delete_item')
      yield proven.entry === null
        ? { position, timestamp, method, erased: true }
        : toRevision(proven.entry, position, proven.timestamp ?? timestamp)
    }
    if (seen === null || !isBefore(last, seen)) return
    throw new VerificationError(
      'ITEM_STALE',
      'the history lacks a revision that this client has already read or written',
    )
  }

  /**
   * Sends a change, and remembers its position, so that older revisions are rejected from now on. The reply is not
   * proven, but a change cannot be older than the verified checkpoint or the revisions that were seen before.
   */
  async write<Result>(call: Call, convert: (reply: Response) => Promise<Result>): Promise<Result> {
    // Opened before the request, because a failure afterwards would report a recorded change as failed.
    const reader = await this.#opened()
    const before = { size: reader.checkpoint?.size ?? 0, newest: reader.newest }
    return this.#transport.write(call, async (reply) => {
      if (!isOfItems(call)) return convert(reply)
      const copy = reply.clone()
      const result = await convert(reply)
      const changes = toRecorded(call, await readJson(copy))
      const { height, index } = this.#readPosition(reply)
      if (height < before.size || !isBefore(before.newest, { height, index })) {
        const what = `${height}.${index} is the position of an older change`
        throw new VerificationError('ITEM_STALE', what)
      }
      for (const [at, { db, id, isDeleted }] of changes.entries()) {
        // The entries of one request are next to each other in one block.
        const position = { height, index: index + at }
        if (id === null) reader.noteDatabase(db, position)
        else reader.note(db, id, position, isDeleted)
      }
      return result
    })
  }

  /** Returns the position of the first entry of a change. Errors: ITEM_OTHER if it is not of this server. */
  #readPosition({ headers }: Response): Position {
    const place = headers.get('ledger-position') ?? ''
    const [, serverId, height, index] =
      /^(\d+)\/(\d{1,15})\.(\d{1,5})$/.exec(place)?.map(Number) ?? []
    if (serverId === this.serverId && height !== undefined && index !== undefined) {
      return { height, index }
    }
    const what = `the position “${place}” of a change is not of server ${this.serverId}`
    throw new VerificationError('ITEM_OTHER', what)
  }

  async #proving<Result>(read: (reader: VerifyingReader) => Promise<Result>): Promise<Result> {
    try {
      return await read(await this.#opened())
    } catch (error) {
      if (!(error instanceof ProofError)) throw error
      throw new VerificationError(error.code, error.message, { cause: error })
    }
  }

  /** Returns the reader, which starts with the stored checkpoint. Errors: VerificationError if it is not signed. */
  #opened(): Promise<VerifyingReader> {
    this.#reader ??= this.#open().catch((error) => {
      this.#reader = null
      if (!(error instanceof ProofError)) throw error
      throw new VerificationError(error.code, `the stored checkpoint: ${error.message}`, {
        cause: error,
      })
    })
    return this.#reader
  }

  async #open(): Promise<VerifyingReader> {
    return new VerifyingReader({
      verifySignature: this.#verifySignature,
      key: this.#key,
      policy: this.#policy,
      current: this.#options.current === true,
      checkpoint: await this.#stored(),
      keep: (note, size, signal) => this.#keep(note, size, signal),
      fetch: (path, signal) => this.#fetch(path, signal),
    })
  }

  async #stored(): Promise<Checkpoint | null> {
    const note = (await this.#options.checkpoint.get()) ?? null
    return note === null ? null : openHead(this.#verifySignature, this.#key, note)
  }

  /** See `VerifyingReaderOptions.keep`. */
  #keep(note: string, size: number, signal: AbortSignal | undefined): Promise<Checkpoint | null> {
    return exclusively(`daicho/${this.serverId}`, signal, async () => {
      const stored = await this.#stored()
      if (stored !== null && stored.size >= size) return stored
      await this.#options.checkpoint.set(note)
      return null
    })
  }

  async #fetch(path: string, signal: AbortSignal | undefined) {
    try {
      return await this.#transport.read(
        { method: 'GET', path, options: { signal }, isProven: true },
        async (reply) => ({ status: reply.status, text: await readText(reply) }),
      )
    } catch (error) {
      if (!(error instanceof ClientError) || !DENIALS.has(error.code)) throw error
      return { status: error.status, text: '' }
    }
  }
}

/** A recorded change. `id` is null if it created or deleted the database. */
interface Recorded {
  readonly db: string
  readonly id: string | null
  readonly isDeleted: boolean
}

/** The parts of `/api/{db}` or `/api/{db}/{id}`. */
const ITEMS = /^\/api\/([^/]+)(?:\/([^/]+))?$/

/** Whether a call changes items or databases, and not attachments, former revisions or settings. */
function isOfItems({ path }: Call): boolean {
  return ITEMS.test(path) && !path.startsWith('/api/config/') && !/^\/api\/ledgers\/./.test(path)
}

/** Returns the changes of a call that `isOfItems`, in the order of their entries. The node has checked the body. */
function toRecorded({ method, path, body }: Call, reply: JsonObject): Recorded[] {
  const [db = '', id] = (ITEMS.exec(path) ?? [])
    .slice(1)
    .map((part) => decodeURIComponent(part ?? ''))
  const text = (value: unknown) => (typeof value === 'string' ? value : null)
  const created = (of: unknown): Recorded => ({ db, id: text(of), isDeleted: false })
  if (db === 'ledgers') {
    const results: readonly unknown[] = Array.isArray(reply.results) ? reply.results : []
    const entries: readonly unknown[] = Object(body).entries
    return entries.map((entry, at) => ({
      db: String(Object(entry).db),
      id: text(Object(results[at]).id),
      isDeleted: Object(entry).method === 'delete_item',
    }))
  }
  if (id !== '' && id !== undefined) return [{ db, id, isDeleted: method === 'DELETE' }]
  if (Array.isArray(reply.ids)) return reply.ids.map(created)
  return [created(reply.id)]
}

/** Runs `work` while no other page or worker of this origin does, if the platform has locks. */
async function exclusively<Result>(
  name: string,
  signal: AbortSignal | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  const { locks } = globalThis.navigator ?? {}
  if (locks === undefined) return work()
  return locks.request(name, signal === undefined ? {} : { signal }, work)
}

/** Converts a proven item. As for every read, the caller declares the type of the item. */
function toRead<Item>(item: object, position: string): Read<Item> {
  return { item: item as Stored<Item>, position, etag: `"${position}"` }
}

/** Converts a proven entry. As for every read, the caller declares the type of the item. */
function toRevision<Item>(
  { method, item }: NonNullable<ProvenEntry['entry']>,
  position: string,
  timestamp: number,
): Revision<Item> {
  const revision = { position, timestamp, method: String(method) }
  return item === undefined ? revision : { ...revision, item: item as unknown as Stored<Item> }
}

/** Returns the item of an entry that creates or changes an item. Errors: ProofError. */
function requireItem(entry: ProvenEntry['entry'], position: string): JsonObject {
  if (entry === null) throw new ProofError('ITEM_ERASED', `the revision ${position} was erased`)
  const { item, method } = entry
  const isSet = method === 'create_item' || method === 'update_item'
  if (isSet && typeof item === 'object' && item !== null && !Array.isArray(item)) return item
  throw new ProofError('ITEM_OTHER', `the entry ${position} has no item`)
}

/** Returns the policy for witnesses, or null. Errors: TypeError. */
function requirePolicy(
  { witnesses, quorum, policy }: VerifiedReadsOptions,
  key: VerifierKey,
): WitnessPolicy | null {
  const isQuorum = witnesses !== undefined || quorum !== undefined
  if (isQuorum && policy !== undefined) {
    throw new TypeError(
      'verify has a policy and also witnesses or a quorum; use only one of these forms',
    )
  }
  try {
    if (isQuorum) return quorumPolicy(witnesses ?? [], quorum)
    const parsed = policy === undefined ? null : parsePolicy(policy)
    if (parsed === null || isOfLog(parsed, key)) return parsed
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    throw new TypeError(`verify: ${error.message}`, { cause: error })
  }
  throw new TypeError('verify.policy does not list the log of verify.key')
}

function requireKey(text: string): VerifierKey {
  try {
    return parseVerifierKey(text)
  } catch (error) {
    throw new TypeError('verify.key is not a verifier key', { cause: error })
  }
}

function requireServerId({ name }: VerifierKey): number {
  const [, serverId] = /^daicho\/([1-9]\d{0,15})$/.exec(name) ?? []
  if (serverId !== undefined) return Number(serverId)
  throw new TypeError('verify.key is not the key of a node')
}

/**
 * Returns a function that uses `verifyEd25519` for Ed25519 keys and Web Crypto for other keys. If the platform cannot
 * check a signature, the function throws a ClientError, not a VerificationError, because the reply may be genuine.
 */
function toVerifier(verifyEd25519: VerifySignature = webVerifySignature): VerifySignature {
  return async (publicKey, message, signature) => {
    const algorithm = keyAlgorithm(publicKey)
    const verify = algorithm === 'Ed25519' ? verifyEd25519 : webVerifySignature
    try {
      return await verify(publicKey, message, signature)
    } catch (error) {
      const what = `this platform cannot verify ${algorithm}`
      throw new ClientError('SIGNATURES_UNSUPPORTED', 0, what, { cause: error })
    }
  }
}
