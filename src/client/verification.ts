import {
  algorithmOf,
  isBefore,
  isOfLog,
  openCheckpoint,
  type Position,
  ProofError,
  type ProvenEntry,
  policyOf,
  quorumPolicy,
  VerifyingReader,
  type VerifySignature,
  verifierKeyOf,
  type WitnessPolicy,
  webVerifySignature,
} from '../chain/portable.ts'
import { ClientError, VerificationError } from './error.ts'
import type { Revision, Stored } from './item.ts'
import { textOf } from './reply.ts'
import type { RequestOptions, Transport, VerifyOptions } from './transport.ts'

/** A revision of an item that the node has proven. */
export interface ProvenRevision {
  readonly item: Readonly<Record<string, unknown>>
  readonly position: string
}

/** Codes with which a node denies that an item exists. `VerifyingReader` compares such a reply with its own state. */
const DENIALS: ReadonlySet<string> = new Set([
  ...['ITEM_NOT_FOUND', 'DATABASE_NOT_FOUND', 'POSITION_INVALID'],
  ...['SERVERID_UNKNOWN', 'SIZE_UNKNOWN'],
])

/** Reads with proofs. Throws VerificationError. */
export class Verification {
  readonly serverId: number
  readonly #transport: Transport
  readonly #options: VerifyOptions
  readonly #verifySignature: VerifySignature
  readonly #policy: WitnessPolicy | null
  #reader: Promise<VerifyingReader> | null = null

  /** Errors: TypeError if `options.key` is not the key of a node, or the policy is malformed. */
  constructor(transport: Transport, options: VerifyOptions) {
    this.#transport = transport
    this.#options = options
    this.#verifySignature = checking(options.verifySignature)
    this.#policy = policyIn(options)
    this.serverId = serverIdIn(options.key)
  }

  /** Returns the current revision, or null; see `VerifyingReader.readItem`. */
  async read(db: string, id: string, { signal }: RequestOptions): Promise<ProvenRevision | null> {
    return this.#proving(async (reader) => {
      const read = await reader.readItem(db, id, signal)
      return read && { item: read.item, position: `${read.height}.${read.index}` }
    })
  }

  /** Returns the revision at `position`, which according to the node was current at height `at`. */
  async readAt(
    db: string,
    id: string,
    at: number,
    position: string,
    { signal }: RequestOptions,
  ): Promise<ProvenRevision> {
    return this.#proving(async (reader) => {
      const seen = reader.seen(db, id)
      const { height, index, entry } = await reader.readEntry(db, id, position, signal)
      if (height > at) throw new ProofError('ITEM_OTHER', `${position} is later than block ${at}`)
      if (seen !== null && seen.height <= at && isBefore({ height, index }, seen)) {
        throw new ProofError('ITEM_STALE', `a later revision than ${position} was read before`)
      }
      return { item: itemIn(entry, position), position }
    })
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
    const seen = (await this.#opened()).seen(db, id)
    let last: Position = { height: -1, index: 0 }
    for await (const { position, timestamp, method } of listed) {
      const proven = await this.#proving((reader) => reader.readEntry(db, id, position, signal))
      if (!isBefore(last, proven)) {
        throw new VerificationError('ITEM_STALE', `the history is out of order at ${position}`)
      }
      last = proven
      yield proven.entry === null
        ? { position, timestamp, method, erased: true }
        : revisionOf(proven.entry, position, proven.timestamp ?? timestamp)
    }
    if (seen === null || !isBefore(last, seen)) return
    throw new VerificationError(
      'ITEM_STALE',
      'the history lacks a revision that this client has already read or written',
    )
  }

  /** Remembers a change by this client, so that older revisions are rejected from now on. */
  async written(db: string, id: string, position: string, isDeleted: boolean): Promise<void> {
    const [height = Number.NaN, index = Number.NaN] = position.split('.').map(Number)
    if (!Number.isSafeInteger(height) || !Number.isSafeInteger(index)) return
    const reader = await this.#opened()
    reader.note(db, id, { height, index }, isDeleted)
  }

  /** Forgets the items of a deleted database. */
  async databaseDeleted(db: string): Promise<void> {
    const reader = await this.#opened()
    reader.forgetDatabase(db)
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
    const { checkpoint: checkpointStore } = this.#options
    const key = verifierKeyOf(this.#options.key)
    const storedNote = (await checkpointStore.get()) ?? null
    return new VerifyingReader({
      verifySignature: this.#verifySignature,
      key,
      policy: this.#policy,
      checkpoint:
        storedNote === null ? null : await openCheckpoint(this.#verifySignature, key, storedNote),
      keep: async (note) => checkpointStore.set(note),
      fetch: (path, signal) => this.#fetch(path, signal),
    })
  }

  async #fetch(path: string, signal: AbortSignal | undefined) {
    try {
      return await this.#transport.read(
        { method: 'GET', path, signal, isProven: true },
        async (reply) => ({ status: reply.status, text: await textOf(reply) }),
      )
    } catch (error) {
      if (!(error instanceof ClientError) || !DENIALS.has(error.code)) throw error
      return { status: error.status, text: '' }
    }
  }
}

/** Converts a proven entry. As for every read, the caller declares the type of the item. */
function revisionOf<Item>(
  { method, item }: NonNullable<ProvenEntry['entry']>,
  position: string,
  timestamp: number,
): Revision<Item> {
  const revision = { position, timestamp, method: String(method) }
  return item === undefined ? revision : { ...revision, item: item as unknown as Stored<Item> }
}

/** Returns the item of an entry that creates or changes an item. Errors: ProofError. */
function itemIn(entry: ProvenEntry['entry'], position: string): ProvenRevision['item'] {
  if (entry === null) throw new ProofError('ITEM_ERASED', `the revision ${position} was erased`)
  const { item, method } = entry
  const isSet = method === 'create_item' || method === 'update_item'
  if (isSet && typeof item === 'object' && item !== null && !Array.isArray(item)) return item
  throw new ProofError('ITEM_OTHER', `the entry ${position} has no item`)
}

/** Returns the policy for witnesses, or null. Errors: TypeError. */
function policyIn({ key, witnesses, quorum, policy }: VerifyOptions): WitnessPolicy | null {
  const isQuorum = witnesses !== undefined || quorum !== undefined
  if (isQuorum && policy !== undefined) {
    throw new TypeError(
      'verify has a policy and also witnesses or a quorum; use only one of these forms',
    )
  }
  try {
    if (isQuorum) return quorumPolicy(witnesses ?? [], quorum)
    const parsed = policy === undefined ? null : policyOf(policy)
    if (parsed === null || isOfLog(parsed, verifierKeyOf(key))) return parsed
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    throw new TypeError(`verify: ${error.message}`, { cause: error })
  }
  throw new TypeError('verify.policy does not list the log of verify.key')
}

function serverIdIn(key: string): number {
  try {
    const { name } = verifierKeyOf(key)
    const [, serverId = ''] = /^daicho\/([1-9]\d{0,15})$/.exec(name) ?? []
    if (serverId !== '') return Number(serverId)
  } catch (error) {
    throw new TypeError('verify.key is not a verifier key', { cause: error })
  }
  throw new TypeError('verify.key is not the key of a node')
}

/**
 * Returns a function that uses `verifyEd25519` for Ed25519 keys and Web Crypto for other keys. If the platform cannot
 * check a signature, the function throws a ClientError, not a VerificationError, because the reply may be genuine.
 */
function checking(verifyEd25519: VerifySignature = webVerifySignature): VerifySignature {
  return async (publicKey, message, signature) => {
    const algorithm = algorithmOf(publicKey)
    const verify = algorithm === 'Ed25519' ? verifyEd25519 : webVerifySignature
    try {
      return await verify(publicKey, message, signature)
    } catch (error) {
      const what = `this platform cannot verify ${algorithm}`
      throw new ClientError('SIGNATURES_UNSUPPORTED', 0, what, { cause: error })
    }
  }
}
