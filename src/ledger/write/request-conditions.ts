import type { Authorship } from '../../chain/index.ts'

/** Entity tags of a request without their quotes. `*` matches every tag. */
export type EntityTags = '*' | readonly string[]

/**
 * The required state of an item or attachment. If both conditions are given, both must hold.
 * Source: RFC 9110 section 13.1.
 */
export interface Precondition {
  /** The current tag must be one of these. */
  readonly match: EntityTags | null
  /** The current tag must not be one of these. */
  readonly noneMatch: EntityTags | null
}

/** Identifies a request that must take effect only once, even if the client repeats it. */
export interface IdempotencyKey {
  /** Hash of the sender and the header `Idempotency-Key`, 64 hex digits. */
  readonly key: string
  /** Hash of method, path, query and body, 64 hex digits. */
  readonly fingerprint: string
}

/** Conditions under which the changes of a request are recorded, and who makes them. */
export interface RequestConditions extends Authorship {
  readonly precondition: Precondition | null
  readonly idempotency: IdempotencyKey | null
  /**
   * Present if the request comes from the network of database `db`. `since` requires that no block from this height on
   * has an entry of `db`. `all` is for a restore, which copies the databases of all networks.
   */
  readonly network?: { readonly db: string; readonly since: number | null } | 'all'
}

/**
 * Conditions of an upload before its body has arrived. They contain no fingerprint yet, because it depends on the body.
 */
export interface UploadConditions extends Authorship {
  readonly precondition: Precondition | null
  readonly keyed: KeyedRequest | null
}

/** A request with an idempotency key whose body may still be arriving. */
export interface KeyedRequest {
  /** See `IdempotencyKey`. */
  readonly key: string
  /** Returns the key with the fingerprint of the request. `body` is canonical JSON, or null without a body. */
  with(body: string | null): IdempotencyKey
}

/**
 * Returns whether a precondition holds for a resource with the entity tag `tag`, which is null if the resource does not
 * exist.
 */
export function holds({ match, noneMatch }: Precondition, tag: string | null): boolean {
  return (
    (match === null || includes(match, tag)) && !(noneMatch !== null && includes(noneMatch, tag))
  )
}

function includes(tags: EntityTags, tag: string | null): boolean {
  return tag !== null && (tags === '*' || tags.includes(tag))
}
