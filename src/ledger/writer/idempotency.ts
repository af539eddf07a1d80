import { packPosition } from '../../chain/index.ts'
import {
  ERASED_FINGERPRINT,
  IDEMPOTENCY_RECORDS_KEPT_MS,
  type NewIdempotencyRecord,
  type StoreReader,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Once } from '../request-conditions.ts'
import type { Earlier } from '../unit-of-work.ts'

/**
 * The answers that a batch meets and adds: those that the store keeps, and over them those of the
 * requests that stand before in the same batch. All of a batch is decided in one thread, so of two
 * requests with one key that arrive together the second finds the first.
 *
 * What a crash leaves: answers are stored in the transaction of their block, so either the change is
 * there and a repeated request finds its answer, or neither is and it is done as if it were new.
 */
export class KeptAnswers {
  /** To be stored with the block. */
  readonly added: NewIdempotencyRecord[] = []
  readonly #store: StoreReader
  readonly #height: number
  readonly #nowMs: number
  readonly #byKey = new Map<string, NewIdempotencyRecord>()

  constructor(store: StoreReader, height: number, nowMs: number) {
    this.#store = store
    this.#height = height
    this.#nowMs = nowMs
  }

  /**
   * Where the request was recorded before, or null when it is new or its answer is too old.
   * Errors: IDEMPOTENCY_KEY_REUSED when its key was that of another request.
   */
  async find({ key, fingerprint }: Once): Promise<Earlier | null> {
    const earlier = this.#inBatch(key) ?? (await this.#stored(key))
    if (earlier === null) return null
    const { position, entries } = earlier
    if (earlier.fingerprint === fingerprint) return { position, entries }
    if (earlier.fingerprint === ERASED_FINGERPRINT) {
      throw new LedgerError(
        'IDEMPOTENCY_KEY_REUSED',
        'what was sent with this key was erased since',
      )
    }
    throw new LedgerError(
      'IDEMPOTENCY_KEY_REUSED',
      'this Idempotency-Key was that of another request; a new request needs a new one',
    )
  }

  /** The request was done by `entries` entries from `index` on. */
  add({ key, fingerprint }: Once, index: number, entries: number): void {
    const answer = { key, fingerprint, index, entries }
    this.added.push(answer)
    this.#byKey.set(key, answer)
  }

  #inBatch(key: string): (Earlier & { fingerprint: string }) | null {
    const answer = this.#byKey.get(key)
    return answer === undefined
      ? null
      : { ...answer, position: packPosition(this.#height, answer.index) }
  }

  async #stored(key: string): Promise<(Earlier & { fingerprint: string }) | null> {
    const answer = await this.#store.idempotencyRecord(key)
    if (answer === null || this.#nowMs - answer.timestamp >= IDEMPOTENCY_RECORDS_KEPT_MS)
      return null
    return answer
  }
}
