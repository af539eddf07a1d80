import { fromBase64 } from '../../base/base64.ts'
import { isJsonObject, type Json, type JsonObject, parseJson } from '../../base/json.ts'
import { type Checkpoint, openCheckpoint } from './checkpoint.ts'
import { ProofError } from './errors.ts'
import { equalBytes } from './hashes.ts'
import type { Crypto, VerifierKey } from './note.ts'
import { noteOf, type ProvenEntry, verifyProofFile } from './proof-file.ts'
import { verifyConsistency } from './proofs.ts'

/** Items whose newest position is remembered; the one asked for longest ago is forgotten first. */
const ITEMS_MAX = 10_000

/** Asks the server for `path`; resolves with status and body, whatever the status. */
export type Fetch = (
  path: string,
  signal?: AbortSignal,
) => Promise<{ readonly status: number; readonly text: string }>

/** What a reader needs. */
export interface VerifyingReaderOptions {
  readonly crypto: Crypto
  /** The key that the node is trusted by; never taken from the node itself. */
  readonly key: VerifierKey
  readonly fetch: Fetch
  /** The head that an earlier reader has seen, or null. */
  readonly checkpoint: Checkpoint | null
  /** Keeps the signed note of a head that was verified, before anything under it is believed. */
  readonly keep?: (note: string) => Promise<void>
}

/** The place of an entry in the chain. */
export interface Place {
  readonly height: number
  readonly index: number
}

/** What was last seen of an item; a deletion counts as well. */
interface Seen extends Place {
  readonly isDeleted: boolean
}

/** An item with the place of its revision. */
export interface ProvenItem extends Place {
  readonly item: JsonObject
}

/** What was known when a request was sent; a reply must not be behind it. */
interface Known {
  readonly checkpoint: Checkpoint | null
  readonly signal: AbortSignal | undefined
}

/**
 * Reads items and believes nothing: what the server says must follow from a head that its key has
 * signed, and every head must continue the one before. It keeps the last head and, of the items it
 * has read, the position of their revision, and throws on a server that takes either back. Reads may
 * run beside each other: a reply is held against what was known when it was asked for.
 *
 * What it cannot see: a newer revision that the server has never shown it. That takes reading all
 * entries since (an audit of the log), because the log says what was recorded, not what is current.
 */
export class VerifyingReader {
  readonly #options: VerifyingReaderOptions
  #checkpoint: Checkpoint | null
  /** Heads are compared one after the other, or two that were never compared could both be believed. */
  #turn: Promise<unknown> = Promise.resolve()
  readonly #seen = new Map<string, Seen>()

  constructor(options: VerifyingReaderOptions) {
    this.#options = options
    this.#checkpoint = options.checkpoint
  }

  /** The last head that was verified. */
  get checkpoint(): Checkpoint | null {
    return this.#checkpoint
  }

  /**
   * The item as its proof shows it, or null when there is none: of an item that was seen its deletion
   * is proven, of any other it is the word of the server.
   * Errors: ProofError, with the code of what does not hold; those of `fetch`.
   */
  async readItem(db: string, id: string, signal?: AbortSignal): Promise<ProvenItem | null> {
    const seen = this.#seen.get(nameOf(db, id))
    const known = this.#known(signal)
    const path = `${pathOf(db, id)}/proof`
    const { status, text } = await this.#options.fetch(path, signal)
    if (status === 404) {
      if (seen !== undefined && !seen.isDeleted) await this.#expectDeleted(db, id, seen, signal)
      return null
    }
    if (status !== 200) throw failed(path, status)
    const proven = await this.#verify(text, known)
    const item = itemOf(proven, db, id)
    if (seen !== undefined) expectNotBefore(proven, seen)
    this.note(db, id, proven, false)
    const { height, index } = proven
    return { item, height, index }
  }

  /**
   * The entry at `<height>.<index>`, which is one of this item; of an erased one only its place is
   * proven. Errors: as for `readItem`.
   */
  async readEntry(
    db: string,
    id: string,
    position: string,
    signal?: AbortSignal,
  ): Promise<ProvenEntry> {
    const known = this.#known(signal)
    const path = `${pathOf(db, id)}/proof?position=${encodeURIComponent(position)}`
    const { status, text } = await this.#options.fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    const proven = await this.#verify(text, known)
    const isThere = `${proven.height}.${proven.index}` === position
    if (isThere && (proven.entry === null || isOfItem(proven.entry, db, id))) return proven
    throw new ProofError('ITEM_OTHER', `the proof is not of the entry ${position} of item ${id}`)
  }

  /** What is known of an item from elsewhere, such as a change that was made: never older than this. */
  note(db: string, id: string, { height, index }: Place, isDeleted: boolean): void {
    const name = nameOf(db, id)
    const last = this.#seen.get(name)
    if (last !== undefined && isBefore({ height, index }, last)) return
    this.#seen.delete(name)
    this.#seen.set(name, { height, index, isDeleted })
    if (this.#seen.size <= ITEMS_MAX) return
    const [oldest] = this.#seen.keys()
    if (oldest !== undefined) this.#seen.delete(oldest)
  }

  /** The last entry of an item that was seen, or null. */
  seen(db: string, id: string): Place | null {
    return this.#seen.get(nameOf(db, id)) ?? null
  }

  /** After the deletion of a database: no item of it need be there any more. */
  forgetDatabase(db: string): void {
    const beginning = `${JSON.stringify([db]).slice(0, -1)},`
    for (const name of this.#seen.keys()) if (name.startsWith(beginning)) this.#seen.delete(name)
  }

  /** Asks for the head and verifies that it continues the last one. Errors: ProofError. */
  async refresh(signal?: AbortSignal): Promise<Checkpoint> {
    const { crypto, key, fetch } = this.#options
    const known = this.#known(signal)
    const path = `/api/ledgers/${serverIdIn(key)}/checkpoint`
    const { status, text } = await fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    const checkpoint = await openCheckpoint(crypto, key, text)
    await this.#follow(checkpoint, text, known)
    return checkpoint
  }

  #known(signal: AbortSignal | undefined): Known {
    return { checkpoint: this.#checkpoint, signal }
  }

  async #verify(file: string, known: Known): Promise<ProvenEntry> {
    const { crypto, key } = this.#options
    const proven = await verifyProofFile(crypto, key, file)
    await this.#follow(proven.checkpoint, noteOf(file), known)
    return proven
  }

  /** An item that was seen is denied: it must have been deleted since, and perhaps created again. */
  async #expectDeleted(
    db: string,
    id: string,
    seen: Seen,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const path = `${pathOf(db, id)}/history?order=newest&limit=2`
    const { status, text } = await this.#options.fetch(path, signal)
    const position = status === 200 ? deletionIn(text) : null
    const proven = position === null ? null : await this.readEntry(db, id, position, signal)
    if (proven?.entry?.method !== 'delete_item' || isBefore(proven, seen)) {
      throw new ProofError(
        'ITEM_STALE',
        `item ${id} of ${db} is denied; it was seen, and no deletion of it is proven`,
      )
    }
    this.note(db, id, proven, true)
  }

  #follow(next: Checkpoint, note: string, known: Known): Promise<void> {
    const followed = this.#turn.then(() => this.#compare(next, note, known))
    this.#turn = followed.catch(() => {})
    return followed
  }

  async #compare(next: Checkpoint, note: string, known: Known): Promise<void> {
    const before = known.checkpoint?.size ?? 0
    if (next.size < before) {
      throw new ProofError(
        'LOG_ROLLED_BACK',
        `the log has ${next.size} blocks, and had ${before} before`,
      )
    }
    const last = this.#checkpoint
    if (next.size === last?.size) {
      if (equalBytes(next.root, last.root)) return
      throw new ProofError('LOG_FORKED', `there are two logs of ${next.size} blocks`)
    }
    // A head that was sent earlier may come later than one that continues it.
    if (last !== null && next.size < last.size) {
      await this.#expectContinued(next, last, known.signal)
      return
    }
    if (last !== null) await this.#expectContinued(last, next, known.signal)
    await this.#options.keep?.(note)
    this.#checkpoint = next
  }

  async #expectContinued(
    last: Checkpoint,
    next: Checkpoint,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { crypto, key, fetch } = this.#options
    const path = `/api/ledgers/${serverIdIn(key)}/consistency?from=${last.size}&to=${next.size}`
    const { status, text } = await fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    if (verifyConsistency(crypto.sha256, last, next, consistencyOf(text))) return
    throw new ProofError(
      'LOG_FORKED',
      `the log of ${next.size} blocks does not continue the one of ${last.size}`,
    )
  }
}

function nameOf(db: string, id: string): string {
  return JSON.stringify([db, id])
}

function pathOf(db: string, id: string): string {
  return `/api/${encodeURIComponent(db)}/${encodeURIComponent(id)}`
}

/** Whether `one` was recorded before `other`. */
export function isBefore(one: Place, other: Place): boolean {
  return one.height < other.height || (one.height === other.height && one.index < other.index)
}

function expectNotBefore(found: Place, seen: Place): void {
  if (!isBefore(found, seen)) return
  throw new ProofError(
    'ITEM_STALE',
    `this revision is of ${found.height}.${found.index}; one of ${seen.height}.${seen.index} was seen`,
  )
}

function isOfItem(entry: JsonObject, db: string, id: string): boolean {
  if (entry.db !== db) return false
  return entry.id === id || (isJsonObject(entry.item) && entry.item.id === id)
}

function itemOf({ entry }: ProvenEntry, db: string, id: string): JsonObject {
  const item = entry?.item
  const isSet = entry?.method === 'create_item' || entry?.method === 'update_item'
  if (isSet && entry.db === db && isJsonObject(item) && item.id === id) return item
  throw new ProofError('ITEM_OTHER', `the proof is not of item ${id} in ${db}`)
}

function parsed(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

/** The position of the deletion in a page of a history, or null. */
function deletionIn(text: string): string | null {
  const reply = parsed(text)
  const history = isJsonObject(reply) ? reply.history : null
  if (!Array.isArray(history)) return null
  const deletion = history.find((one) => isJsonObject(one) && one.method === 'delete_item')
  const position = isJsonObject(deletion) ? deletion.position : null
  return typeof position === 'string' ? position : null
}

function consistencyOf(text: string): Uint8Array[] {
  const reply = parsed(text)
  const proof = isJsonObject(reply) ? reply.proof : null
  const hashes = Array.isArray(proof)
    ? proof.map((hash) => (typeof hash === 'string' ? fromBase64(hash) : null))
    : [null]
  const whole = hashes.filter((hash) => hash !== null)
  if (whole.length === hashes.length) return whole
  throw new ProofError('PROOF_MALFORMED', 'this is not a consistency proof')
}

/** Logs are named `daicho/<serverid>`. */
function serverIdIn({ name }: VerifierKey): string {
  return name.slice(name.indexOf('/') + 1)
}

function failed(path: string, status: number): ProofError {
  return new ProofError('SERVER_FAILED', `${path} answered ${status}`)
}
