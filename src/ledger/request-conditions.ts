/** Entity tags that a request names: any (`*`), or these, without their quotes. */
export type EntityTags = '*' | readonly string[]

/** The required state of an item or attachment; both must hold where both are given. RFC 9110 section 13.1. */
export interface Precondition {
  /** One of these must be current. */
  readonly match: EntityTags | null
  /** None of these may be current. */
  readonly noneMatch: EntityTags | null
}

/** Identifies a request that must take effect once, however often it is sent. */
export interface Once {
  /** 64 hex digits, of the sender and the key that it chose. */
  readonly key: string
  /** 64 hex digits, of the method, path, query and body. */
  readonly fingerprint: string
}

/** What a request asks of its unit of work beside the changes. */
export interface RequestConditions {
  readonly precondition: Precondition | null
  readonly once: Once | null
}

/** The conditions of an upload. Its fingerprint is known only when the body has arrived. */
export interface UploadConditions {
  readonly precondition: Precondition | null
  /** Null without an idempotency key. */
  readonly keyed: KeyedRequest | null
}

/** A request with an idempotency key whose body may still be arriving. */
export interface KeyedRequest {
  /** As in `Once`. */
  readonly key: string
  /** Completes the key with the body as canonical JSON; null without a body. */
  with(body: string | null): Once
}

/** Whether `precondition` holds for a resource with the entity tag `tag`; null for an absent one. */
export function holds({ match, noneMatch }: Precondition, tag: string | null): boolean {
  return (
    (match === null || includes(match, tag)) && !(noneMatch !== null && includes(noneMatch, tag))
  )
}

function includes(tags: EntityTags, tag: string | null): boolean {
  return tag !== null && (tags === '*' || tags.includes(tag))
}
