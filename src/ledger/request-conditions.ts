/** Entity tags of a request, without their quotes; `*` is any. */
export type EntityTags = '*' | readonly string[]

/**
 * The required state of an item or attachment. Both conditions must hold if both are given. RFC 9110
 * section 13.1.
 */
export interface Precondition {
  /** One of these tags must be current. */
  readonly match: EntityTags | null
  /** None of these tags may be current. */
  readonly noneMatch: EntityTags | null
}

/** Identifies a request that must take effect once, even if it is repeated. */
export interface IdempotencyKey {
  /** Hash of the sender and its key, 64 hex digits. */
  readonly key: string
  /** Hash of method, path, query and body, 64 hex digits. */
  readonly fingerprint: string
}

/** Conditions of a request besides its changes. */
export interface RequestConditions {
  readonly precondition: Precondition | null
  readonly idempotency: IdempotencyKey | null
  /** No block from height `since` on has an entry of database `db`. */
  readonly unchanged?: { readonly db: string; readonly since: number }
}

/** Conditions of an upload. Its fingerprint is unknown until the body has arrived. */
export interface UploadConditions {
  readonly precondition: Precondition | null
  readonly keyed: KeyedRequest | null
}

/** A request with an idempotency key whose body may still be arriving. */
export interface KeyedRequest {
  /** See `IdempotencyKey`. */
  readonly key: string
  /** Adds the fingerprint; `body` is canonical JSON, or null without a body. */
  with(body: string | null): IdempotencyKey
}

/** Returns whether `precondition` holds for a resource with the entity tag `tag`; null for an absent resource. */
export function holds({ match, noneMatch }: Precondition, tag: string | null): boolean {
  return (
    (match === null || includes(match, tag)) && !(noneMatch !== null && includes(noneMatch, tag))
  )
}

function includes(tags: EntityTags, tag: string | null): boolean {
  return tag !== null && (tags === '*' || tags.includes(tag))
}
