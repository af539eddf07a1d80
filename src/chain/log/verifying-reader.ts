import { fromBase64 } from '../../base/base64.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { ENTRIES_MAX, type Position, unpackPosition } from '../entry.ts'
import { equalBytes } from '../hashes.ts'
import {
  type Checkpoint,
  ProofError,
  type VerifierKey,
  type VerifySignature,
} from './checkpoint.ts'
import { openCosigned, type WitnessPolicy } from './cosignatures.ts'
import { extractNote, type ProvenEntry, verifyProofFile } from './proof-file.ts'
import { HASHES_MAX, verifyConsistency } from './proofs.ts'
import type { SignedState } from './state.ts'
import { verifyStateList } from './state-list.ts'
import { type ProvenState, verifyStateProof } from './state-proof.ts'

/**
 * Maximum number of items, and of databases, whose latest position is remembered. If there are more, the reader forgets
 * the one whose position was noted least recently.
 */
const NAMES_MAX = 10_000

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
  /** Whether `readItem` also requires a proof that a revision is the newest, or that there is no item; default: false. */
  readonly current?: boolean
  readonly fetch: Fetch
  /** The last checkpoint of an earlier reader, or null. */
  readonly checkpoint: Checkpoint | null
  /**
   * Stores the signed note of a verified checkpoint or state of `size` blocks. Until the promise resolves, the reader does not
   * trust the checkpoint. Returns the stored checkpoint instead, and keeps it, if it covers as many blocks or more,
   * because another reader shares the storage.
   */
  readonly keep?: (
    note: string,
    size: number,
    signal: AbortSignal | undefined,
  ) => Promise<Checkpoint | null>
}

interface Seen extends Position {
  readonly isDeleted: boolean
}

export interface ProvenItem extends Position {
  readonly item: JsonObject
}

/** A reply that an item does not exist; see `requireMissing`. */
interface Denial {
  readonly seen: Seen | null
  readonly at?: number
  /** The signed state that shows no such item, if the reply has one. */
  readonly state?: Pick<ProvenState, 'state' | 'database' | 'revision'>
  readonly signal: AbortSignal | undefined
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
 * The log proves that a revision was recorded, not that it is current. So the reader detects that the server withholds a
 * newer revision only with `current`, which requires a proof by the signed state of the log.
 */
export class VerifyingReader {
  readonly #options: VerifyingReaderOptions
  #checkpoint: Checkpoint | null
  /** The last verified state. */
  #state: SignedState | null = null
  /** Number of blocks of the largest checkpoint that meets the policy. The stored checkpoint may meet none. */
  #cosigned = 0
  /**
   * The comparison that runs last. Comparisons are serialized, because two at once could accept contradicting
   * checkpoints.
   */
  #comparing: Promise<unknown> = Promise.resolve()
  readonly #seen = new Map<string, Seen & { readonly db: string; readonly id: string }>()
  /** Position of the last entry that created or deleted a database. Older items do not exist in this database. */
  readonly #databases = new Map<string, Position>()
  #newest: Position = { height: -1, index: 0 }

  constructor(options: VerifyingReaderOptions) {
    this.#options = options
    this.#checkpoint = options.checkpoint
  }

  /** Position of the newest entry that the reader has seen, of any item. */
  get newest(): Position {
    return this.#newest
  }

  get checkpoint(): Checkpoint | null {
    return this.#checkpoint
  }

  /**
   * Returns the proven item, or null if the server replies that the item does not exist. If this reader has read the
   * item before, null is proven (by the deletion of the item); otherwise null is not proven. Errors: ProofError; as for
   * `fetch`.
   */
  async readItem(db: string, id: string, signal?: AbortSignal): Promise<ProvenItem | null> {
    if (this.#options.current === true) return this.#readCurrent(db, id, signal)
    const seen = this.seen(db, id)
    const known = this.#known(signal)
    const path = `${itemPath(db, id)}/proof`
    const { status, text } = await this.#options.fetch(path, signal)
    if (status === 404) return this.requireMissing(db, id, { seen, signal })
    if (status !== 200) throw failed(path, status)
    const proven = await this.#verify(text, known)
    const item = requireItem(proven, db, id)
    if (seen !== null) requireNotBefore(proven, seen)
    return this.#noteItem(db, id, item, proven)
  }

  async #readCurrent(db: string, id: string, signal?: AbortSignal): Promise<ProvenItem | null> {
    const seen = this.seen(db, id)
    const state = await this.#proveState(db, id, signal)
    const { revision } = state
    if (revision === null) return this.requireMissing(db, id, { seen, signal, state })
    const position = unpackPosition(revision.position)
    // The node may have signed a wrong state.
    if (seen !== null) requireNotBefore(position, seen)
    return this.#noteItem(db, id, revision.item, position)
  }

  #noteItem(db: string, id: string, item: JsonObject, { height, index }: Position): ProvenItem {
    this.note(db, id, { height, index }, false)
    return { item, height, index }
  }

  /** Returns the state of an item in a signed state that has all blocks that this reader has seen. */
  async #proveState(db: string, id: string, signal?: AbortSignal): Promise<ProvenState> {
    const { verifySignature, key } = this.#options
    const [known, newest] = [this.#known(signal), this.#newest]
    const path = `${itemPath(db, id)}/proof?current=1`
    const { status, text } = await this.#options.fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    const proven = await verifyStateProof(verifySignature, key, text)
    if (proven.db !== db || proven.id !== id) {
      throw new ProofError('ITEM_OTHER', `the proof is for another item than ${id} in ${db}`)
    }
    await this.#requireNewest({ ...proven.state, note: extractNote(text) }, newest, known)
    return proven
  }

  /**
   * Returns the ids of all items of a database, proven by the signed state; null if there is no such database. Requires a
   * proof for each item that this reader has seen and the list lacks, as for `readItem`, because the node may have signed a wrong state. Errors: ProofError; as for `fetch`.
   */
  async readIds(db: string, signal?: AbortSignal): Promise<readonly string[] | null> {
    const { verifySignature, key } = this.#options
    const [known, newest] = [this.#known(signal), this.#newest]
    const before = this.#seenItems(db)
    const path = `/api/${encodeURIComponent(db)}?proof=1`
    const { status, text } = await this.#options.fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    const proven = await verifyStateList(verifySignature, key, text.split('\n'))
    if (proven.db !== db) {
      throw new ProofError('ITEM_OTHER', `the proof is for another database than ${db}`)
    }
    await this.#requireNewest({ ...proven.state, note: extractNote(text) }, newest, known)
    for (const { id, position } of proven.items ?? []) {
      requireNotBefore(unpackPosition(position), before.get(id) ?? { height: -1, index: 0 })
      before.delete(id)
    }
    const state = { ...proven, revision: null }
    for (const [id, seen] of before) {
      if (this.seen(db, id)?.isDeleted) continue
      await this.requireMissing(db, id, { seen, state, signal })
    }
    return proven.items?.map(({ id }) => id) ?? null
  }

  /** Returns the last entry that the reader has seen of each item of a database. */
  #seenItems(db: string): Map<string, Seen> {
    const items = new Map<string, Seen>()
    for (const each of this.#seen.values()) {
      const seen = each.db === db ? this.seen(db, each.id) : null
      if (seen !== null) items.set(each.id, seen)
    }
    return items
  }

  /** Requires a state that is not older than `newest` and `known`, from before the request. Remembers the state. */
  async #requireNewest(
    { size, root, log, note }: SignedState & { readonly note: string },
    newest: Position,
    known: Known,
  ): Promise<void> {
    const { policy = null, key } = this.#options
    if (size <= newest.height) {
      const what = `the signed state has ${size} blocks, but block ${newest.height} was seen before`
      throw new ProofError('ITEM_STALE', what)
    }
    // Witnesses cosign no states, but checkpoints of the same log.
    if (policy !== null && size > this.#cosigned) {
      const cosigned = await this.refresh(known.signal)
      if (cosigned.size < size) {
        const what = `the signed state has ${size} blocks, but the witnesses have cosigned ${cosigned.size}`
        throw new ProofError('QUORUM_MISSED', what)
      }
    }
    await this.#serialized(async () => {
      await this.#compare({ origin: key.name, size, root: log }, note, known)
      if (this.#state?.size === size && !equalBytes(this.#state.root, root)) {
        const what = `the node has signed two different states of ${size} blocks`
        throw new ProofError('LOG_FORKED', what)
      }
      this.#state = { size, root, log }
    })
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
    const path = `${itemPath(db, id)}/proof?position=${encodeURIComponent(position)}`
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
    noteLatest(this.#seen, itemName(db, id), { db, id, height, index, isDeleted })
    if (isBefore(this.#newest, { height, index })) this.#newest = { height, index }
  }

  /** Remembers the position of an entry that creates or deletes a database, which has none of its older items then. */
  noteDatabase(db: string, position: Position): void {
    noteLatest(this.#databases, db, position)
    if (isBefore(this.#newest, position)) this.#newest = position
  }

  /** Returns the last entry of an item that the reader has seen, or null. */
  seen(db: string, id: string): Seen | null {
    const item = this.#seen.get(itemName(db, id)) ?? null
    const database = this.#databases.get(db)
    if (database === undefined || (item !== null && !isBefore(item, database))) return item
    return { ...database, isDeleted: true }
  }

  /** Fetches the checkpoint and verifies that it continues the last checkpoint. Errors: ProofError. */
  async refresh(signal?: AbortSignal): Promise<Checkpoint> {
    const { verifySignature, key, fetch } = this.#options
    const known = this.#known(signal)
    const path = `/api/ledgers/${logServerId(key)}/checkpoint`
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
    await this.#acceptCheckpoint(proven.checkpoint, extractNote(file), known)
    return proven
  }

  /**
   * Verifies a reply that the item does not exist, or with `at`, that it did not exist after the block of this height:
   * if the item existed when it was `seen`, its deletion must be proven, with `state` in the blocks of this state. Without
   * `at`, the signed state may also show that there is no such item, because an erased deletion and the deletion of a
   * database have no proof. If the database has existed since then, there must be an erased deletion, because the node may
   * have signed a wrong state. Returns null, or the item if it was created again after the reply.
   */
  async requireMissing(db: string, id: string, denial: Denial): Promise<ProvenItem | null> {
    const { seen, at, signal } = denial
    if (seen === null || seen.isDeleted || (at !== undefined && seen.height > at)) return null
    const end = at === undefined ? denial.state?.state.size : at + 1
    const before = end === undefined ? '' : `&cursor=${end}.0`
    const path = `${itemPath(db, id)}/history?order=newest&limit=2${before}`
    const { status, text } = await this.#options.fetch(path, signal)
    const position = status === 200 ? findDeletion(text) : null
    const found = position === null ? null : await this.readEntry(db, id, position, signal)
    const isInTime = end === undefined || (found !== null && found.height < end)
    const deletion = found !== null && !isBefore(found, seen) && isInTime ? found : null
    if (deletion?.entry?.method === 'delete_item') {
      this.note(db, id, deletion, true)
      return null
    }
    if (deletion?.entry === null && at !== undefined) {
      throw new ProofError('ITEM_ERASED', `the deletion of item ${id} of ${db} was erased`)
    }
    const state =
      denial.state ?? (at === undefined ? await this.#stateUnlessRefused(db, id, signal) : null)
    const revision = state?.revision ?? null
    if (revision !== null && isBefore(seen, unpackPosition(revision.position))) {
      return this.#noteItem(db, id, revision.item, unpackPosition(revision.position))
    }
    const database = state?.database ?? null
    const created = database === null ? null : unpackPosition(database)
    const hasStayed = created !== null && isBefore(created, seen)
    if (state === null || revision !== null || (hasStayed && deletion === null)) {
      const what = `the server reports item ${id} of ${db} as missing without a proof of its deletion`
      throw new ProofError('ITEM_STALE', `${what}, but this client has read the item before`)
    }
    if (deletion?.entry === null) this.note(db, id, deletion, true)
    const last = { height: state.state.size - 1, index: ENTRIES_MAX }
    this.noteDatabase(db, created ?? last)
    return null
  }

  /** Like `#proveState`, but null if the server refuses the proof. */
  async #stateUnlessRefused(db: string, id: string, signal: AbortSignal | undefined) {
    try {
      return await this.#proveState(db, id, signal)
    } catch (error) {
      if (error instanceof ProofError && error.code === 'SERVER_FAILED') return null
      throw error
    }
  }

  async #acceptCheckpoint(next: Checkpoint, note: string, known: Known): Promise<void> {
    await this.#serialized(() => this.#compare(next, note, known))
    this.#cosigned = Math.max(this.#cosigned, next.size)
  }

  #serialized(compare: () => Promise<unknown>): Promise<void> {
    const accepted = this.#comparing.then(compare)
    this.#comparing = accepted.catch(() => {})
    return accepted.then(() => {})
  }

  async #compare(next: Checkpoint, note: string, known: Known): Promise<void> {
    if (!(await this.#requireAccepted(next, known))) return
    const stored = (await this.#options.keep?.(note, next.size, known.signal)) ?? null
    if (stored !== null) await this.#requireContinued(next, stored, known.signal)
    this.#checkpoint = stored ?? next
  }

  /** Requires that `next` and the last checkpoint are of one history. Returns whether `next` is newer. */
  async #requireAccepted(next: Checkpoint, known: Known): Promise<boolean> {
    const before = known.checkpoint?.size ?? 0
    if (next.size < before) {
      throw new ProofError(
        'LOG_ROLLED_BACK',
        `the log has ${next.size} blocks, but had ${before} before`,
      )
    }
    const last = this.#checkpoint
    // Replies can arrive out of order, so `next` can be older than the last checkpoint, which must then continue
    // `next`.
    if (last !== null && next.size <= last.size) {
      await this.#requireContinued(next, last, known.signal)
      return false
    }
    if (last !== null) await this.#requireContinued(last, next, known.signal)
    return true
  }

  async #requireContinued(
    last: Checkpoint,
    next: Checkpoint,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (last.size === next.size) {
      if (equalBytes(last.root, next.root)) return
      const what = `the node has signed two different logs of ${next.size} blocks`
      throw new ProofError('LOG_FORKED', what)
    }
    const { key, fetch } = this.#options
    const path = `/api/ledgers/${logServerId(key)}/consistency?from=${last.size}&to=${next.size}`
    const { status, text } = await fetch(path, signal)
    if (status !== 200) throw failed(path, status)
    if (verifyConsistency(last, next, requireConsistencyProof(text))) return
    throw new ProofError(
      'LOG_FORKED',
      `the log of ${next.size} blocks does not continue the log of ${last.size} blocks`,
    )
  }
}

function itemName(db: string, id: string): string {
  return JSON.stringify([db, id])
}

function itemPath(db: string, id: string): string {
  return `/api/${encodeURIComponent(db)}/${encodeURIComponent(id)}`
}

/** Remembers the latest position for `name`, and forgets the name that was noted least recently. */
function noteLatest<Noted extends Position>(
  latest: Map<string, Noted>,
  name: string,
  position: Noted,
): void {
  const last = latest.get(name)
  if (last !== undefined && isBefore(position, last)) return
  latest.delete(name)
  latest.set(name, position)
  if (latest.size <= NAMES_MAX) return
  const [oldest] = latest.keys()
  if (oldest !== undefined) latest.delete(oldest)
}

export function isBefore(one: Position, other: Position): boolean {
  return one.height < other.height || (one.height === other.height && one.index < other.index)
}

function requireNotBefore(found: Position, seen: Position): void {
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

function requireItem({ entry }: ProvenEntry, db: string, id: string): JsonObject {
  const item = entry?.item
  const isSet = entry?.method === 'create_item' || entry?.method === 'update_item'
  if (isSet && entry.db === db && isJsonObject(item) && item.id === id) return item
  throw new ProofError('ITEM_OTHER', `the proof is for another item than ${id} in ${db}`)
}

/** The position of the deletion in a history page, or null. */
function findDeletion(text: string): string | null {
  const reply = parseForeignJsonOrNull(text)
  const history = isJsonObject(reply) && Array.isArray(reply.history) ? reply.history : []
  const deletion = history.filter(isJsonObject).find(({ method }) => method === 'delete_item')
  return typeof deletion?.position === 'string' ? deletion.position : null
}

function requireConsistencyProof(text: string): Uint8Array[] {
  const reply = parseForeignJsonOrNull(text)
  const hashes = isJsonObject(reply) && Array.isArray(reply.proof) ? reply.proof : [null]
  const proof = hashes
    .slice(0, HASHES_MAX)
    .map((hash) => (typeof hash === 'string' ? fromBase64(hash) : null))
    .filter((hash) => hash !== null)
  if (proof.length === hashes.length) return proof
  throw new ProofError('PROOF_MALFORMED', 'the reply is not a consistency proof')
}

/** Returns the server id from the name of a log, `daicho/<serverid>`. */
function logServerId({ name }: VerifierKey): string {
  return name.slice(name.indexOf('/') + 1)
}

function failed(path: string, status: number): ProofError {
  return new ProofError('SERVER_FAILED', `${path} answered ${status}`)
}
