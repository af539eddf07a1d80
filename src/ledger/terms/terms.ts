/** Entity tags that a request names: any (`*`), or these, without their quotes. */
export type EntityTags = '*' | readonly string[]

/** The state that an item or attachment must be in; both must hold where both are named. RFC 9110 section 13.1. */
export interface Precondition {
  /** One of these must be current. */
  readonly match: EntityTags | null
  /** None of these may be current. */
  readonly noneMatch: EntityTags | null
}

/** Names a request that is to be done once, however often it is sent. */
export interface Once {
  /** 64 hex digits, of the sender and the key that it chose. */
  readonly key: string
  /** 64 hex digits, of what it asks for. */
  readonly fingerprint: string
}

/** What a request asks of its unit of work beside the changes. */
export interface Terms {
  readonly precondition: Precondition | null
  readonly once: Once | null
}
