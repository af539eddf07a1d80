import type { Attachment } from '../chain/index.ts'

/** An attachment as one entry left it; positions are packed. */
export interface StoredAttachment extends Attachment {
  /** The entry that created it. */
  readonly position: number
}

/** The same with what it belongs to, and how it ended. */
export interface PlacedAttachment extends StoredAttachment {
  /** The packed position that created the database. */
  readonly database: number
  /** The item's id. */
  readonly id: string
  /** The next entry about an attachment of this name of this item, or null while there is none. */
  readonly ended: number | null
}

/** Bytes that entries name: each content is kept once, under its SHA-256. */
export interface StoredBlob {
  readonly sha256: string
  readonly length: number
}

/** Which attachments of an item to list, by their names. */
export interface AttachmentRange {
  /** Only names that sort after this one, bytewise; from the first one when absent. */
  readonly after?: string
  /** How many to pass over first. */
  readonly offset?: number
  /** How many at most. */
  readonly limit: number
}

/**
 * Reads attachments. There is one row for each `create_attachment` entry that is not erased, also of
 * those that were replaced or deleted since, because the chain refers to their bytes: content is kept
 * while a row names it.
 */
export interface AttachmentReader {
  /** What the item holds under `name` now, or null. */
  current(db: string, id: string, name: string): Promise<StoredAttachment | null>
  /** A page of what the item holds now, by name; empty when it is not there. */
  list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]>
  /** A page of all rows after `position`, in that order. */
  byPosition(after: number, limit: number): Promise<PlacedAttachment[]>
  /** The newest row before `position` of this name of this item, alive or not. */
  before(place: PlacedName, position: number): Promise<PlacedAttachment | null>
  /** A page of the contents that rows name, each once, those after `sha256` in order. */
  blobs(after: string, limit: number): Promise<StoredBlob[]>
  /** How many contents rows name, and how many bytes they are together. */
  countBlobs(): Promise<{ blobs: number; bytes: number }>
  /** The packed position of the first entry that names this content, or null when none does. */
  namedAt(sha256: string): Promise<number | null>
  /** The row of the entry at the packed `position`, or null. */
  at(position: number): Promise<PlacedAttachment | null>
  /** All that was ever attached to an item of the database created at `database`, at most `limit`, in no order. */
  ofItem(database: number, id: string, limit: number): Promise<PlacedAttachment[]>
  /** The position of the row of this content that the entry at `position` ended, or null. */
  endedBy(position: number, sha256: string): Promise<number | null>
}

/** What an attachment of one name of one item is found by, through all its lives. */
export interface PlacedName {
  /** The packed position that created the database. */
  readonly database: number
  readonly id: string
  readonly name: string
}
