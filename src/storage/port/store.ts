import { hash } from 'node:crypto'
import type { Attachment, Authorship, Block, Head, Header, TreeNode } from '../../chain/index.ts'
import type { OrderTerm, Where } from '../../filter/index.ts'
import type { Effect } from './effect.ts'
import type { StoreError } from './errors.ts'

// The port: the operations that an engine must provide. Positions are packed (`packPosition` in
// `chain/entry.ts`), so that they sort like the chain.

export interface StoredItem {
  readonly id: string
  /** Position of the entry that created the item. Items are listed in this order. */
  readonly created: number
  /** Position of the entry that changed the item last. */
  readonly revision: number
  /** The whole item in canonical JSON, with its id. */
  readonly text: string
}

export interface ItemRow extends StoredItem {
  readonly database: number
}

/** Number of items created in one database. */
export interface Creations {
  readonly db: string
  /** Creation position of the database, according to the rows. */
  readonly database: number
  readonly count: number
}

/** A database: its name, and the position of the entry that created it. */
export interface StoredDatabase {
  readonly name: string
  readonly created: number
}

/** `deleted` is the position of the entry that deleted the database. */
export interface DeletedDatabase extends StoredDatabase {
  readonly deleted: number
}

/** An item that was deleted by the entry at position `deleted`, also together with its database. */
export interface DeletedItem {
  readonly id: string
  readonly created: number
  readonly deleted: number
}

/** The time from an item's creation to its deletion, or until now. */
export interface ItemLife {
  readonly id: string
  /** Position of the entry that created the item. */
  readonly created: number
  /** Position of the entry that deleted the item, also together with its database; null if the item exists. */
  readonly deleted: number | null
  /** Position of the entry that changed the item last. */
  readonly revision: number
  /** False if all former revisions and attachments are erased. */
  readonly hasFormerContent: boolean
}

/** Selects a page of the items of a database, in creation order. */
export interface ItemRange {
  /** Only items created after this position. */
  readonly after?: number
  readonly offset?: number
  /** Maximum number of items. A page may be shorter because of its size; it is empty only at the end. */
  readonly limit: number
}

/** An item as of one entry. `text` is null if the entry deleted the item or was erased. */
export interface StoredRevision extends Authorship {
  readonly position: number
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly kind: 'create_item' | 'update_item' | 'delete_item'
  readonly text: string | null
}

export interface RevisionRange {
  readonly newestFirst: boolean
  /** Only revisions after this position, in the requested order. */
  readonly after?: number
  /** See `ItemRange`. */
  readonly limit: number
}

export interface PositionRange {
  readonly from: number
  readonly to: number
  readonly limit: number
}

export interface ItemSearch {
  /** Null matches all items. */
  readonly where: Where | null
  /** Empty for creation order. Ties are in creation order, or newest first if the last term is descending. */
  readonly order: readonly OrderTerm[]
  /** Only items created after this position; null for all. */
  readonly after: number | null
  readonly offset: number
  readonly limit: number | null
  /** Whether to return whole items instead of only their ids and positions. */
  readonly text: boolean
}

/** `text` is null if the search did not request it. */
export type FoundItem = Omit<StoredItem, 'text'> & { readonly text: string | null }

export interface FoundItems {
  /** The path of the index used, or null for a scan. */
  readonly index: string | null
  /** The items in pieces, which may be empty. Between pieces, the reader should yield to the event loop. */
  readonly pieces: AsyncIterable<FoundItem[]>
}

/** The number of matches, in pieces. */
export interface CountedItems {
  /** See `FoundItems`. */
  readonly index: string | null
  /** Numbers whose sum is the count. Between numbers, the reader should yield to the event loop. */
  readonly pieces: AsyncIterable<number>
}

export interface StoredIndex {
  readonly db: string
  /** Member names, separated by dots. */
  readonly path: string
  /** False while the index is being built. Searches do not use an index that is not ready. */
  readonly isReady: boolean
  /** Number of indexed blocks, counted from the creation of the database. */
  readonly done: number
  readonly total: number
}

export type IndexOutcome = 'done' | 'exists' | 'missing' | 'no-database' | 'too-many'

export const INDEXES_PER_DATABASE = 16
/** Maximum items that a search sorts without an index. */
export const SORTED_ITEMS_MAX = 50_000
/** Size of a page in characters. The item or block that reaches this size is the last of its page. */
export const PAGE_CHARACTERS = 1_048_576

/** An attachment as of one entry. */
export interface StoredAttachment extends Attachment {
  /** Position of the entry that created it. */
  readonly position: number
}

/** Identifies an attachment, across all its versions. */
export interface AttachmentKey {
  /** Creation position of the database. */
  readonly database: number
  readonly id: string
  readonly name: string
}

export interface AttachmentRow extends StoredAttachment, AttachmentKey {
  /** Position of the next entry about the attachment of this name of this item, or null. */
  readonly ended: number | null
}

/** A blob: the SHA-256 under which it is stored once, and its length in bytes. */
export interface StoredBlob {
  readonly sha256: string
  readonly length: number
}

export interface AttachmentRange {
  /** Only names that sort after this name, bytewise. */
  readonly after?: string
  readonly offset?: number
  readonly limit: number
}

/** An item that was created at `created`, and existed before the entry at `before`. */
export interface FormerItem {
  /** Creation position of the database. */
  readonly database: number
  readonly id: string
  readonly created: number
  readonly before: number
}

/** Selects the attachments that an item created at `created` no longer has. */
export interface FormerAttachments extends PositionRange {
  readonly created: number
}

/**
 * Reads attachments. There is one row per `create_attachment` entry that is not erased. The row stays when the
 * attachment is replaced or deleted, because the chain still refers to the blob. A blob is kept while a row refers to
 * it.
 */
export interface AttachmentReader {
  current(db: string, id: string, name: string): Promise<StoredAttachment | null>
  /** Lists the current attachments of an item, by name; empty if the item does not exist. */
  list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]>
  /** Like `current`, for the item of this database that existed before a position. */
  currentBefore(item: FormerItem, name: string): Promise<StoredAttachment | null>
  /** Like `list`, for the item of this database that existed before a position. */
  listBefore(item: FormerItem, range: AttachmentRange): Promise<StoredAttachment[]>
  /** Lists all rows after `position`, by ascending position. */
  byPosition(after: number, limit: number): Promise<AttachmentRow[]>
  /** Returns the newest row of this attachment before `position`, current or not. */
  before(name: AttachmentKey, position: number): Promise<AttachmentRow | null>
  /** Lists the blobs to which rows refer, each once, ordered by SHA-256. */
  blobs(after: string, limit: number): Promise<StoredBlob[]>
  countBlobs(): Promise<{ blobs: number; bytes: number }>
  /** Returns the position of the first entry that refers to this blob, or null. */
  namedAt(sha256: string): Promise<number | null>
  /** Returns the row of the entry at `position`, or null. */
  at(position: number): Promise<AttachmentRow | null>
  /** Returns the first rows of an item, from `from` to before `to`, that have ended or are before `created`. */
  formerOfItem(database: number, id: string, range: FormerAttachments): Promise<AttachmentRow[]>
  /** Returns the position of the row that refers to this blob and that the entry at `position` ended, or null. */
  endedBy(position: number, sha256: string): Promise<number | null>
}

/** Lifetime of an idempotency record, measured by the timestamps of the chain. */
export const IDEMPOTENCY_RECORDS_KEPT_MS = 24 * 60 * 60 * 1000

/**
 * Fingerprint of a request whose content was erased. The real fingerprint would allow others to guess the
 * content (docs/decisions/0018-erasure.md).
 */
export const ERASED_FINGERPRINT = '0'.repeat(64)

export interface NewIdempotencyRecord {
  /** Identifies the request among all requests of its sender, 64 hex digits. */
  readonly key: string
  /** Identifies the content of the request, 64 hex digits. */
  readonly fingerprint: string
  /** Index of the request's first entry in the block. */
  readonly index: number
  readonly entries: number
}

/** A stored idempotency record, which belongs to the node and not to the chain. `digest` covers all other members. */
export interface IdempotencyRecord extends Omit<NewIdempotencyRecord, 'index'> {
  /** Packed position of the first entry. */
  readonly position: number
  /** Timestamp of the first entry. */
  readonly timestamp: number
  readonly digest: string
}

/** Computes the digest that `record` must have. */
export function idempotencyDigest(record: Omit<IdempotencyRecord, 'digest'>): string {
  const { position, key, fingerprint, entries, timestamp } = record
  return hash('sha256', `${position} ${key} ${fingerprint} ${entries} ${timestamp}`, 'hex')
}

/**
 * Reads the chain and databases of one node. A read sees every append that had resolved when the read began or, if the
 * writer is another thread, when `refresh` was last called.
 */
export interface StoreReader {
  readonly serverId: number
  /** Lists all databases, in creation order. */
  databases(): Promise<StoredDatabase[]>
  database(name: string): Promise<StoredDatabase | null>
  item(db: string, id: string): Promise<StoredItem | null>
  /** Returns those of `ids` that are ids of items of `db`, in any order. */
  existingIds(db: string, ids: readonly string[]): Promise<string[]>
  /** Returns the bytes of an item, without reading its text, or null. */
  itemBytes(db: string, id: string): Promise<number | null>
  /** Lists items of the database created at `database`, without texts. */
  listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]>
  /** Lists items with texts; bounded by PAGE_CHARACTERS. */
  listItems(database: number, range: ItemRange): Promise<StoredItem[]>
  /**
   * Searches the database created at `database`; `filter/matches.ts` defines matches and order. Each
   * piece is bounded work on the current state.
   * With `before`, searches the items as they were before the entry at this position, without indexes; the database may
   * be deleted. An erased revision has only its `id`.
   * Errors, while reading pieces: SEARCH_TOO_LARGE, SEARCH_INTERRUPTED.
   */
  search(database: number, query: ItemSearch, before?: number): Promise<FoundItems>
  /**
   * Counts the items that match `where` (null: all items) in the database created at `database`, from an
   * index alone if all its entries match. Each piece is bounded work on the current state. For `before`, see `search`.
   * Errors, while reading pieces: SEARCH_INTERRUPTED.
   */
  count(database: number, where: Where | null, before?: number): Promise<CountedItems>
  /** Lists the databases that existed before the entry at position `before`, in creation order. */
  databasesBefore(before: number): Promise<StoredDatabase[]>
  /** Returns the database that had this name before the entry at position `before`, or null. */
  databaseBefore(name: string, before: number): Promise<StoredDatabase | null>
  /** Returns the position that created the item `id` which existed before the entry at position `before`, or null. */
  createdBefore(database: number, id: string, before: number): Promise<number | null>
  /**
   * Returns the items of the database that were created at `positions`, as they were before the entry at `before`, in
   * this order; bounded by PAGE_CHARACTERS, but at least one. An erased revision has only its `id`.
   */
  itemsBefore(database: number, positions: readonly number[], before: number): Promise<FoundItem[]>
  /** Returns the timestamp of the last entry of the block at `height`, or null. */
  blockTime(height: number): Promise<number | null>
  /** Lists the declared indexes, ordered by database. */
  indexes(): Promise<StoredIndex[]>
  /** Lists the items of all databases created after position `after`, in creation order; bounded by PAGE_CHARACTERS. */
  itemsByCreation(after: number, limit: number): Promise<ItemRow[]>
  /**
   * Checks whether the block of height `height` only created items with these `ids`, one per entry in this order, and
   * whether each item is still stored as its entry created it (position and text). `body` has the entries without
   * authors, one per line. If so, returns the number of items per database, otherwise null. Ids must not contain line
   * feeds.
   */
  plainCreations(height: number, ids: readonly string[], body: string): Promise<Creations[] | null>
  readonly attachments: AttachmentReader
  /**
   * Lists an item's history, including deletions. A page ends with the revision for which the blocks that were read for
   * the page reach PAGE_CHARACTERS.
   */
  revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]>
  /**
   * Returns the revisions at these positions, each of the item `id`. See `revisions` for the end of a page, in which
   * revisions of one block are together.
   */
  revisionsAt(wanted: readonly { id: string; position: number }[]): Promise<StoredRevision[]>
  /**
   * Lists the positions from `from` (inclusive) to `to` (exclusive) at which the item had another content, in ascending
   * order, without erased revisions and deletions. In a deleted database, the last revision is among them.
   */
  unerasedRevisions(database: number, id: string, range: PositionRange): Promise<number[]>
  /** Lists the lives that began after position `after`, in creation order, of the database created at `database`. */
  lives(database: number, after: number, limit: number): Promise<ItemLife[]>
  /** Returns whether the entry at `position` is recorded as a revision of `id`, former or current. */
  hasRevision(database: number, id: string, position: number): Promise<boolean>
  /** Returns whether an entry from position `from` (inclusive) to `to` (exclusive) is a former revision of `id`. */
  isRevised(database: number, id: string, from: number, to: number): Promise<boolean>
  /** Counts the former revisions in the database created at `database`. Those in `items` are not counted. */
  countSuperseded(database: number): Promise<number>
  /** Returns the record of `key`, even an expired record, or null. */
  idempotencyRecord(key: string): Promise<IdempotencyRecord | null>
  /** Lists the records after position `after`, by ascending position. */
  idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]>
  countItems(database: number): Promise<number>
  /** Counts the items with ids from `from` (inclusive) to `to` (exclusive), by code points. */
  countIds(database: number, from: string, to: string): Promise<number>
  /** Lists the creation positions of deleted databases that still have items, which maintenance moves to the history. */
  droppedDatabases(): Promise<number[]>
  /** Lists all deleted databases, in creation order. Their histories are kept. */
  deletedDatabases(): Promise<DeletedDatabase[]>
  /** Returns the item whose life in the database created at `database` began at `created`, if it was deleted. */
  deletedItem(database: number, created: number): Promise<DeletedItem | null>
  /** Returns the item `id` of this database that the entry at `deleted` deleted, or null. */
  itemDeletedBy(database: number, id: string, deleted: number): Promise<DeletedItem | null>
  /** Counts the deleted items of this database, and those of them that the entry at `deleted` deleted. */
  countDeleted(database: number, deleted: number): Promise<{ all: number; by: number }>
  /** Lists the creation positions of the deleted databases with this name, in ascending order. */
  formerDatabases(name: string): Promise<number[]>
  /** Runs the engine's check of its own tables and indexes; returns a description of the damage, or null. */
  fileDamage(): Promise<string | null>
  /** Like `fileDamage`, and then compares the declared indexes with the items. */
  damage(): Promise<string | null>
  /** Returns the last block of the chain of `serverId`, or null if the chain is empty. */
  head(serverId: number): Promise<Head | null>
  /** Returns at most `limit` blocks from height `from`; bounded by PAGE_CHARACTERS, but at least one. */
  blocks(serverId: number, from: number, limit: number): Promise<Block[]>
  /** Counts the entries in the blocks from height `from` (inclusive) to `to` (exclusive). */
  countEntries(serverId: number, from: number, to: number): Promise<number>
  diskUsage(): Promise<DiskUsage>
  /** Returns at most `limit` headers from height `from`. */
  headers(serverId: number, from: number, limit: number): Promise<Header[]>
  /** Returns the hashes of complete nodes of the Merkle log. Errors: STORE_DAMAGED. */
  treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]>
  /**
   * Returns one element for each of at most `limit` leaves, starting with leaf `from`: the concatenated hashes of the
   * nodes that the leaf completes (see `grown`).
   */
  treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]>
  /** Returns the position of the entry that erased the entry at `position`, or null. */
  eraser(position: number): Promise<number | null>
  countErased(): Promise<number>
  /** Returns the position of the last entry that erased an entry, or null. */
  lastEraser(): Promise<number | null>
  /** Lists erasing entries whose erased content may still be in free parts of the files. */
  uncompacted(): Promise<number[]>
  /**
   * Repeats the last failed read (STORE_DAMAGED, STORE_FAILED). Returns the new failure, or null if the read succeeds
   * or no read has failed.
   */
  readFailure(): StoreError | null
  /**
   * Makes later reads see all acknowledged appends. Call after the writer has acknowledged an append, and before
   * clients are notified.
   */
  refresh(): void
  /**
   * Timeline of the last server: a number that increases with each promotion of a standby. A server with a lower number
   * is a former primary. 0 for files.
   */
  readonly timeline: number
  /** Makes later reads use only servers of at least this timeline. */
  requireTimeline(timeline: number): void
  close(): Promise<void>
}

/** Disk usage in bytes. */
export interface DiskUsage {
  readonly fileBytes: number
  /** Durable changes that are still in the engine's log. */
  readonly walBytes: number
  /** Free space on the disk of the store; null if the disk belongs to a database server. */
  readonly freeBytes: number | null
}

/** The right of one process to decide on changes while no other process of the node does. */
export interface Turn {
  /** See `StoreReader.timeline`. */
  readonly timeline: number
  /** Resolves if no other process had a turn since this one began. Errors: StoreError. */
  confirm(): Promise<void>
  /** Gives the turn to the next process. Never rejects. */
  end(): Promise<void>
}

/** The turns of the processes of one node, in the order of their requests. */
export interface Turns {
  /**
   * Waits for a turn at a server of at least the timeline `timelineMin`. The previous turn of this process must have
   * ended. Errors: StoreError.
   */
  take(timelineMin: number): Promise<Turn>
  close(): void
}

/**
 * The durable store of one node's chain and databases.
 *
 * A process opens a store at most once for writing, and any number of times for reading. The tests in
 * `store-contract.ts` specify the guarantees of every engine.
 */
export interface Store extends StoreReader {
  /** Whether other processes may write the store too. `maintain` then also continues work that they have left. */
  readonly isShared: boolean
  /**
   * Appends `block` to the node's own chain and its Merkle log, applies `effects` and stores `records`, atomically.
   *
   * When the promise resolves, the change survives a power cut. The promise rejects without any change: with HEAD_MOVED
   * unless the block follows the current head, with EFFECT_IMPOSSIBLE if an effect does not apply (creating an existing
   * item, changing a missing item), with STORE_FULL if the disk is full, with DamageError if the change needs an
   * unreadable part of the store. STORE_FAILED means that the outcome is unknown: reopen the store.
   */
  append(
    block: Block,
    effects: readonly Effect[],
    records?: readonly NewIdempotencyRecord[],
  ): Promise<void>

  /**
   * Runs `work` with the current head, null for an empty chain. `work` may read this store, and call `append` once, as
   * its last use of the store. Calls must not overlap. No other process appends between the begin and the end. A shared
   * store may first assume that it is alone; if another process has appended after all, rejects with HEAD_MOVED, without
   * any change.
   */
  exclusive<Result>(work: (head: Head | null) => Promise<Result>): Promise<Result>

  /**
   * Runs `appends`, which may call `append` any number of times. All these blocks become durable together, or none of
   * them if `appends` rejects. No other call is allowed until then. Imports use this method.
   */
  transaction(appends: () => Promise<void>): Promise<void>

  /**
   * Notes a block that this process has read or signed. While the database lacks the block, for example after a
   * failover, changes are rejected with STORE_UNAVAILABLE.
   */
  noteSeen(head: Pick<Head, 'height' | 'id'>): void

  /**
   * Declares an index on the member at `path` of the items of `db`. `maintain` builds the index; from then on, every
   * append updates it. An index belongs to the store, not to the chain.
   */
  addIndex(db: string, path: string): Promise<IndexOutcome>
  removeIndex(db: string, path: string): Promise<IndexOutcome>

  /**
   * Does one step of maintenance between appends and returns whether more is due. Maintenance builds indexes, frees the
   * space of deleted databases, removes expired idempotency records, and checkpoints the engine's log. After an
   * erasure, maintenance rewrites the files, which may contain erased bytes until then. Each step is bounded, except
   * for the rewriting of a store that is not shared. A shared store is rewritten in the background.
   */
  maintain(): Promise<boolean>
}
