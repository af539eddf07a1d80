import { fromBase64 } from '../../base/base64.ts'
import { isJsonObject, type JsonObject, parseJsonOrNull } from '../../base/json.ts'
import type { Position } from '../entry.ts'
import { equalBytes } from '../hashes.ts'
import {
  type Checkpoint,
  ProofError,
  type VerifierKey,
  type VerifySignature,
} from './checkpoint.ts'
import { openCosigned, type WitnessPolicy } from './cosignatures.ts'
import { noteOf, type ProvenEntry, verifyProofFile } from './proof-file.ts'
import { HASHES_MAX, verifyConsistency } from './proofs.ts'

/**
 * Maximum number of items whose latest position is remembered. If there are more, the reader forgets the item whose
 * position was noted least recently.
 */
const ITEMS_MAX = 10_000

/** Sends a GET request for `path`; resolves for any status. */
export type Fetch = (
  path: string,
  signal?: AbortSignal,
) => Promise<{ readonly status: number; readonly text: string }>

export interface VerifyingReaderOptions {
  readonly verifySignature: VerifySignature
  /** The trusted key of the node. It must not come from the node itself. */
  readonly key: VerifierKey
  /** Witnesses that must have cosigned every checkpoint; default: none. */
  readonly policy?: WitnessPolicy | null
  readonly fetch: Fetch
  /** The last checkpoint of an earlier reader, or null. */
  readonly checkpoint: Checkpoint | null
  /**
   * Stores the signed note of a verified checkpoint. Until the promise resolves, the reader does not trust the
   * checkpoint.
   */
  readonly keep?: (note: string) => Promise<void>
}

interface Seen extends Position {
  readonly isDeleted: boolean
}

/** An item with the position of its revision. */
export interface ProvenItem extends Position {
  readonly item: JsonObject
}

/** The reader's state when a request was sent. A reply that is older than this state is rejected. */
interface Known {
  readonly checkpoint: Checkpoint | null
  readonly signal: AbortSignal | undefined
}

/**
 * Reads items without trusting the server: every reply must be proven under a checkpoint that the key has signed, and
 * every checkpoint must continue the previous checkpoint. The reader keeps the last checkpoint and the positions of the
 * revisions that it has read, and throws if a reply is older than this checkpoint or position. Reads may run
 * concurrently: each reply is compared with the state when its request was sent.
 *
 * The reader does not detect that the server withholds a newer revision, because the log proves that a revision was
 * recorded, not that it is current. Only an audit of the log detects that.
 */
export class VerifyingReader {
  readonly #options: VerifyingReaderOptions
  #checkpoint: Checkpoint | null
  /**
   * The comparison that runs last. Comparisons are serialized, because two at once could accept contradicting
   * checkpoints.
   */
  #comparing: Promise<unknown> = Promise.resolve()
  readonly #seen = new Map<string, Seen>()

  constructor(options: VerifyingReaderOptions) {
    this.#options = options
    this.#checkpoint = options.checkpoint
  }

  /** The last verified checkpoint. */
  get checkpoint(): Checkpoint | null {
    return this.#checkpoint
  }

  /**
   * Returns the proven item, or null if the server replies that the item does not exist. If this reader has read the
   * item before, null is proven (by the deletion of the item); otherwise null is not proven. Errors: ProofError; as for
   * `fetch`.
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
   * Returns the entry at `<height>.<index>`, which must concern item `id` of `db`. If the entry is erased, only its
   * position is proven. Errors: as for `readItem`.
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
    throw new ProofError(
      'ITEM_OTHER',
      `the proof is for another entry than ${position} of item ${id}`,
    )
  }

  /** Remembers the position of an item's entry, for example of an entry that the caller has recorded. */
  note(db: string, id: string, { height, index }: Position, isDeleted: boolean): void {
    const name = nameOf(db, id)
    const last = this.#seen.get(name)
    if (last !== undefined && isBefore({ height, index }, last)) return
    this.#seen.delete(name)
    this.#seen.set(name, { height, index, isDeleted })
    if (this.#seen.size <= ITEMS_MAX) return
    const [oldest] = this.#seen.keys()
    if (oldest !== undefined) this.#seen.delete(oldest)
  }

  /** Returns the position of the last entry of an item that the reader has seen, or null. */
  seen(db: string, id: string): Position | null {
    return this.#seen.get(nameOf(db, id)) ?? null
  }

  forgetDatabase(db: string): void {
    const prefix = `${JSON.stringify([db]).slice(0, -1)},`
    for (const name of this.#seen.keys()) if (name.startsWith(prefix)) this.#seen.delete(name)
  }

  /** Fetches the checkpoint and verifies that it continues the last checkpoint. Errors: ProofError. */
  async refresh(signal?: AbortSignal): Promise<Checkpoint> {
    const { verifySignature, key, fetch } = this.#options
    const known = this.#known(signal)
    const path = `/api/ledgers/${serverIdIn(key)}/checkpoint`
    const { status, text } = await fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    const checkpoint = await openCosigned(verifySignature, this.#options, text)
    await this.#acceptCheckpoint(checkpoint, text, known)
    return checkpoint
  }

  #known(signal: AbortSignal | undefined): Known {
    return { checkpoint: this.#checkpoint, signal }
  }

  async #verify(file: string, known: Known): Promise<ProvenEntry> {
    const { verifySignature, key, policy = null } = this.#options
    const proven = await verifyProofFile(verifySignature, key, file, policy)
    await this.#acceptCheckpoint(proven.checkpoint, noteOf(file), known)
    return proven
  }

  /** Verifies the deletion of an item that was read before, after a reply with status 404. */
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
        `the server reports item ${id} of ${db} as missing without a proof of its deletion, but this client has read the item before`,
      )
    }
    this.note(db, id, proven, true)
  }

  #acceptCheckpoint(next: Checkpoint, note: string, known: Known): Promise<void> {
    const accepted = this.#comparing.then(() => this.#compare(next, note, known))
    this.#comparing = accepted.catch(() => {})
    return accepted
  }

  async #compare(next: Checkpoint, note: string, known: Known): Promise<void> {
    const before = known.checkpoint?.size ?? 0
    if (next.size < before) {
      throw new ProofError(
        'LOG_ROLLED_BACK',
        `the log has ${next.size} blocks, but had ${before} before`,
      )
    }
    const last = this.#checkpoint
    if (next.size === last?.size) {
      if (equalBytes(next.root, last.root)) return
      throw new ProofError(
        'LOG_FORKED',
        `the node has signed two different logs of ${next.size} blocks`,
      )
    }
    // Replies can arrive out of order, so `next` can be older than the last checkpoint, which must then continue
    // `next`.
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
    const { key, fetch } = this.#options
    const path = `/api/ledgers/${serverIdIn(key)}/consistency?from=${last.size}&to=${next.size}`
    const { status, text } = await fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    if (verifyConsistency(last, next, consistencyProofIn(text))) return
    throw new ProofError(
      'LOG_FORKED',
      `the log of ${next.size} blocks does not continue the log of ${last.size} blocks`,
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
export function isBefore(one: Position, other: Position): boolean {
  return one.height < other.height || (one.height === other.height && one.index < other.index)
}

function expectNotBefore(found: Position, seen: Position): void {
  if (!isBefore(found, seen)) return
  throw new ProofError(
    'ITEM_STALE',
    `revision ${found.height}.${found.index} is older than ${seen.height}.${seen.index}, which was read before`,
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
  throw new ProofError('ITEM_OTHER', `the proof is for another item than ${id} in ${db}`)
}

/** The position of the deletion in a history page, or null. */
function deletionIn(text: string): string | null {
  const reply = parseJsonOrNull(text)
  const history = isJsonObject(reply) && Array.isArray(reply.history) ? reply.history : []
  const deletion = history.filter(isJsonObject).find(({ method }) => method === 'delete_item')
  return typeof deletion?.position === 'string' ? deletion.position : null
}

function consistencyProofIn(text: string): Uint8Array[] {
  const reply = parseJsonOrNull(text)
  const hashes = isJsonObject(reply) && Array.isArray(reply.proof) ? reply.proof : [null]
  const proof = hashes
    .slice(0, HASHES_MAX)
    .map((hash) => (typeof hash === 'string' ? fromBase64(hash) : null))
    .filter((hash) => hash !== null)
  if (proof.length === hashes.length) return proof
  throw new ProofError('PROOF_MALFORMED', 'the reply is not a consistency proof')
}

/** Returns the server id from the name of a log, `daicho/<serverid>`. */
function serverIdIn({ name }: VerifierKey): string {
  return name.slice(name.indexOf('/') + 1)
}

function failed(path: string, status: number): ProofError {
  return new ProofError('SERVER_FAILED', `${path} answered ${status}`)
}
