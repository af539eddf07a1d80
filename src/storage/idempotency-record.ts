import { hash } from 'node:crypto'

/** How long answers are kept for requests that are sent again, by the timestamps of the chain. */
export const IDEMPOTENCY_RECORDS_KEPT_MS = 24 * 60 * 60 * 1000

/**
 * The fingerprint of a request whose content was erased: that of none. What it was would let others
 * find the content by guessing (docs/decisions/0018-erasure.md).
 */
export const ERASED_FINGERPRINT = '0'.repeat(64)

/** What is kept of an answered request that asked to be done once, however often it is sent. */
export interface NewIdempotencyRecord {
  /** Names the request among those of its sender: 64 hex digits. */
  readonly key: string
  /** What the request asked for: 64 hex digits. */
  readonly fingerprint: string
  /** Where its entries stand in the block. */
  readonly index: number
  /** How many they are. */
  readonly entries: number
}

/**
 * A kept answer. The chain holds what was answered: the entries at `position`. Answers belong to the
 * node, not to its chain, so no block speaks for them; `digest` is over all the rest.
 */
export interface IdempotencyRecord extends Omit<NewIdempotencyRecord, 'index'> {
  /** Packed, of the first entry. */
  readonly position: number
  /** That of the entry. */
  readonly timestamp: number
  readonly digest: string
}

/** The digest that `answer` must have. */
export function idempotencyDigest(answer: Omit<IdempotencyRecord, 'digest'>): string {
  const { position, key, fingerprint, entries, timestamp } = answer
  return hash('sha256', `${position} ${key} ${fingerprint} ${entries} ${timestamp}`, 'hex')
}
