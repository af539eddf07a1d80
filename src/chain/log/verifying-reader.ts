import { fromBase64 } from '../../base/base64.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { type Checkpoint, openCheckpoint } from './checkpoint.ts'
import { ProofError } from './errors.ts'
import { equalBytes } from './hashes.ts'
import type { Crypto, VerifierKey } from './note.ts'
import { type ProvenEntry, verifyProofFile } from './proof-file.ts'
import { verifyConsistency } from './proofs.ts'

/** Items whose newest position is remembered; the one asked for longest ago is forgotten first. */
const ITEMS_MAX = 10_000

/** Asks the server for `path`; resolves with status and body, whatever the status. */
export type Fetch = (path: string) => Promise<{ readonly status: number; readonly text: string }>

/** What a reader needs. */
export interface VerifyingReaderOptions {
  readonly crypto: Crypto
  /** The key that the node is trusted by; never taken from the node itself. */
  readonly key: VerifierKey
  readonly fetch: Fetch
  /** The head that an earlier reader has seen, or null. */
  readonly checkpoint: Checkpoint | null
}

/**
 * Reads items and believes nothing: what the server says must follow from a head that its key has
 * signed, and every head must continue the one before. It keeps the last head and, of the items it
 * has read, the position of their revision, and throws on a server that takes either back.
 *
 * What it cannot see: a newer revision that the server has never shown it. That takes reading all
 * entries since (an audit of the log), because the log says what was recorded, not what is current.
 */
export class VerifyingReader {
  readonly #options: VerifyingReaderOptions
  #checkpoint: Checkpoint | null
  readonly #seen = new Map<string, { height: number; index: number }>()

  constructor(options: VerifyingReaderOptions) {
    this.#options = options
    this.#checkpoint = options.checkpoint
  }

  /** The last head that was verified; worth keeping for the next reader. */
  get checkpoint(): Checkpoint | null {
    return this.#checkpoint
  }

  /**
   * The item as its proof shows it, or null when the server says that there is none.
   * Errors: ProofError, with the code of what does not hold.
   */
  async readItem(db: string, id: string): Promise<JsonObject | null> {
    const path = `/api/${encodeURIComponent(db)}/${encodeURIComponent(id)}/proof`
    const { status, text } = await this.#options.fetch(path)
    const name = JSON.stringify([db, id])
    if (status === 404) {
      if (!this.#seen.has(name)) return null
      throw new ProofError('ITEM_STALE', `item ${id} of ${db} is denied, and was seen`)
    }
    if (status !== 200) throw failed(path, status)
    const proven = await this.verifyProof(text)
    const item = itemOf(proven, db, id)
    this.#remember(name, proven)
    return item
  }

  /**
   * Verifies a proof file that this server has just given, with its head against the last one.
   * Errors: ProofError.
   */
  async verifyProof(file: string): Promise<ProvenEntry> {
    const { crypto, key } = this.#options
    const proven = await verifyProofFile(crypto, key, file)
    await this.#follow(proven.checkpoint)
    return proven
  }

  /** Asks for the head and verifies that it continues the last one. Errors: ProofError. */
  async refresh(): Promise<Checkpoint> {
    const { crypto, key, fetch } = this.#options
    const path = `/api/ledgers/${serverIdIn(key)}/checkpoint`
    const { status, text } = await fetch(path)
    if (status !== 200) throw failed(path, status)
    const checkpoint = await openCheckpoint(crypto, key, text)
    await this.#follow(checkpoint)
    return checkpoint
  }

  /** After a deletion that is known of: the item may be gone now. */
  forget(db: string, id: string): void {
    this.#seen.delete(JSON.stringify([db, id]))
  }

  async #follow(next: Checkpoint): Promise<void> {
    const last = this.#checkpoint
    if (last === null) {
      this.#checkpoint = next
      return
    }
    if (next.size < last.size) {
      throw new ProofError(
        'LOG_ROLLED_BACK',
        `the log has ${next.size} blocks, and had ${last.size} before`,
      )
    }
    if (next.size === last.size) {
      if (equalBytes(next.root, last.root)) return
      throw new ProofError('LOG_FORKED', `there are two logs of ${next.size} blocks`)
    }
    await this.#expectContinued(last, next)
    // Another read may have followed a longer head meanwhile.
    if (next.size > (this.#checkpoint?.size ?? 0)) this.#checkpoint = next
  }

  async #expectContinued(last: Checkpoint, next: Checkpoint): Promise<void> {
    const { crypto, key, fetch } = this.#options
    const path = `/api/ledgers/${serverIdIn(key)}/consistency?from=${last.size}&to=${next.size}`
    const { status, text } = await fetch(path)
    if (status !== 200) throw failed(path, status)
    if (verifyConsistency(crypto.sha256, last, next, consistencyOf(text))) return
    throw new ProofError(
      'LOG_FORKED',
      `the log of ${next.size} blocks does not continue the one of ${last.size}`,
    )
  }

  #remember(name: string, { height, index }: ProvenEntry): void {
    const seen = this.#seen.get(name)
    if (
      seen !== undefined &&
      (height < seen.height || (height === seen.height && index < seen.index))
    ) {
      throw new ProofError(
        'ITEM_STALE',
        `this revision is of ${height}.${index}; one of ${seen.height}.${seen.index} was seen`,
      )
    }
    this.#seen.delete(name)
    this.#seen.set(name, { height, index })
    if (this.#seen.size <= ITEMS_MAX) return
    const [oldest] = this.#seen.keys()
    if (oldest !== undefined) this.#seen.delete(oldest)
  }
}

function itemOf({ entry }: ProvenEntry, db: string, id: string): JsonObject {
  const item = entry?.item
  const isSet = entry?.method === 'create_item' || entry?.method === 'update_item'
  if (isSet && entry.db === db && isJsonObject(item) && item.id === id) return item
  throw new ProofError('ITEM_OTHER', `the proof is not of item ${id} in ${db}`)
}

function consistencyOf(text: string): Uint8Array[] {
  let reply: Json
  try {
    reply = JSON.parse(text)
  } catch {
    reply = null
  }
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
