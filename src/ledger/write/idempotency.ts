import { packPosition } from '../../chain/index.ts'
import {
  ERASED_FINGERPRINT,
  IDEMPOTENCY_RECORDS_KEPT_MS,
  type NewIdempotencyRecord,
  type StoreReader,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { IdempotencyKey } from './request-conditions.ts'
import type { EarlierRequest } from './unit-of-work.ts'

/**
 * Idempotency records during a batch: the records in the store, and the records of earlier requests in the same batch.
 * One thread plans the whole batch, so if two requests with the same key arrive together, the second request finds the
 * record of the first request.
 *
 * Records are stored in the transaction of their block. After a crash, either the change and its record are stored, or
 * neither is and a repeated request is executed as new.
 */
export class IdempotencyRecords {
  readonly #store: StoreReader
  readonly #height: number
  readonly #nowMs: number
  readonly #added = new Map<string, NewIdempotencyRecord>()

  constructor(store: StoreReader, height: number, nowMs: number) {
    this.#store = store
    this.#height = height
    this.#nowMs = nowMs
  }

  get added(): NewIdempotencyRecord[] {
    return [...this.#added.values()]
  }

  /**
   * Returns the position of the earlier request, or null if the request is new or its record has expired.
   * Errors: IDEMPOTENCY_KEY_REUSED if another request used the key.
   */
  async find({ key, fingerprint }: IdempotencyKey): Promise<EarlierRequest | null> {
    const earlier = this.#inBatch(key) ?? (await this.#stored(key))
    if (earlier === null) return null
    const { position, entries } = earlier
    if (earlier.fingerprint === fingerprint) return { position, entries }
    const message =
      earlier.fingerprint === ERASED_FINGERPRINT
        ? 'the content of the request with this key was erased'
        : 'this Idempotency-Key was used for another request; use a new key'
    throw new LedgerError('IDEMPOTENCY_KEY_REUSED', message)
  }

  /** Adds the record of a request with `entries` entries from `index` on. */
  add({ key, fingerprint }: IdempotencyKey, index: number, entries: number): void {
    this.#added.set(key, { key, fingerprint, index, entries })
  }

  #inBatch(key: string): (EarlierRequest & { fingerprint: string }) | null {
    const record = this.#added.get(key)
    if (record === undefined) return null
    return { ...record, position: packPosition(this.#height, record.index) }
  }

  async #stored(key: string): Promise<(EarlierRequest & { fingerprint: string }) | null> {
    const record = await this.#store.idempotencyRecord(key)
    const isLive = record !== null && this.#nowMs - record.timestamp < IDEMPOTENCY_RECORDS_KEPT_MS
    return isLive ? record : null
  }
}
