import { hash } from 'node:crypto'
import type { Attachment, Block, Head, Header, TreeNode } from '../chain/index.ts'
import type { OrderTerm, Where } from '../filter/index.ts'
import type { Effect } from './effect.ts'
import type { StoreError } from './errors.ts'

// The port: what an engine must provide. Positions are packed (`chain/position.ts`), so that they sort
// like the chain.

export interface StoredItem {
  readonly id: string
  /** Position of its creation; items are listed in this order. */
  readonly created: number
  /** Position of its last change. */
  readonly revision: number
  /** The whole item in canonical JSON, with its id. */
  readonly text: string
}

/** An item with the creation position of its database. */
export interface PlacedItem extends StoredItem {
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

/** A page of a database, in creation order. */
export interface ItemRange {
  /** Only items created after this position. */
  readonly after?: number
  /** Number of items to skip. */
  readonly offset?: number
  /** A page may be shorter because of its size; it is empty only at the end. */
  readonly limit: number
}

/** An item after one entry; `text` is null if the entry deleted it or was erased. */
export interface StoredRevision {
  readonly position: number
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly kind: 'create_item' | 'update_item' | 'delete_item'
  readonly text: string | null
}

/** A page of an item's history. */
export interface RevisionRange {
  readonly newestFirst: boolean
  /** Only revisions beyond this position, in that order. */
  readonly after?: number
  /** As in `ItemRange`. */
  readonly limit: number
}

export interface ItemSearch {
  /** Null for all items. */
  readonly where: Where | null
  /** Empty for creation order, which also decides ties; in reverse after a descending term. */
  readonly order: readonly OrderTerm[]
  /** Only items created after this position; null for all. */
  readonly after: number | null
  readonly offset: number
  readonly limit: number | null
  /** Whether to return the items, or their ids and positions only. */
  readonly text: boolean
}

/** `text` is null if the search did not ask for it. */
export type FoundItem = Omit<StoredItem, 'text'> & { readonly text: string | null }

export interface FoundItems {
  /** The path of the index used, or null for a scan. */
  readonly index: string | null
  /** Pieces may be empty; between pieces the reader should yield to the event loop. */
  readonly pieces: AsyncIterable<FoundItem[]>
}

/** A declared index. */
export interface StoredIndex {
  readonly db: string
  /** Member names with dots between them. */
  readonly path: string
  /** Whether it has all items; until then it is not used. */
  readonly isReady: boolean
  /** Number of blocks indexed, of those since the database was created. */
  readonly done: number
  readonly total: number
}

/** Result of adding or removing an index. */
export type IndexOutcome = 'done' | 'exists' | 'missing' | 'no-database' | 'too-many'

export const INDEXES_PER_DATABASE = 16
/** Maximum items that a search sorts without an index. */
export const SORTED_ITEMS_MAX = 50_000
/** A page ends with the item or block that reaches this many characters. */
export const PAGE_CHARACTERS = 1_048_576

/** An attachment after one entry. */
export interface StoredAttachment extends Attachment {
  /** The entry that created it. */
  readonly position: number
}

/** A name of an attachment of an item, through all its versions. */
export interface PlacedName {
  /** Creation position of the database. */
  readonly database: number
  /** The item's id. */
  readonly id: string
  readonly name: string
}

/** An attachment with its item. */
export interface PlacedAttachment extends StoredAttachment, PlacedName {
  /** The next entry about an attachment of this name of this item, or null. */
  readonly ended: number | null
}

/** Bytes that attachments name, stored once under their SHA-256. */
export interface StoredBlob {
  readonly sha256: string
  readonly length: number
}

/** A page of the attachments of an item, by name. */
export interface AttachmentRange {
  /** Only names that sort after this one, bytewise. */
  readonly after?: string
  /** Number of attachments to skip. */
  readonly offset?: number
  readonly limit: number
}

/**
 * Reads attachments. There is one row per `create_attachment` entry that is not erased, also if it was
 * replaced or deleted since, because the chain refers to the blob: it is kept while a row names it.
 */
export interface AttachmentReader {
  current(db: string, id: string, name: string): Promise<StoredAttachment | null>
  /** A page of the current attachments of an item; empty if it does not exist. */
  list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]>
  /** A page of all rows after `position`, in that order. */
  byPosition(after: number, limit: number): Promise<PlacedAttachment[]>
  /** The newest row of this name before `position`, ended or not. */
  before(name: PlacedName, position: number): Promise<PlacedAttachment | null>
  /** A page of the blobs that rows name, each once, ordered by SHA-256. */
  blobs(after: string, limit: number): Promise<StoredBlob[]>
  countBlobs(): Promise<{ blobs: number; bytes: number }>
  /** The first entry that names this blob, or null. */
  namedAt(sha256: string): Promise<number | null>
  /** The row of the entry at `position`, or null. */
  at(position: number): Promise<PlacedAttachment | null>
  /** At most `limit` rows of an item, in no order. */
  ofItem(database: number, id: string, limit: number): Promise<PlacedAttachment[]>
  /** The position of the row of this blob that the entry at `position` ended, or null. */
  endedBy(position: number, sha256: string): Promise<number | null>
}

/** By the timestamps of the chain. */
export const IDEMPOTENCY_RECORDS_KEPT_MS = 24 * 60 * 60 * 1000

/**
 * Fingerprint of a request whose content was erased. The real one would let others find the content by
 * guessing (docs/decisions/0018-erasure.md).
 */
export const ERASED_FINGERPRINT = '0'.repeat(64)

/** The record of a request with an idempotency key. */
export interface NewIdempotencyRecord {
  /** Identifies the request among those of its sender: 64 hex digits. */
  readonly key: string
  /** Identifies its content: 64 hex digits. */
  readonly fingerprint: string
  /** Index of its first entry in the block. */
  readonly index: number
  /** Number of its entries. */
  readonly entries: number
}

/** A stored record. It belongs to the node, not to the chain; `digest` covers all other members. */
export interface IdempotencyRecord extends Omit<NewIdempotencyRecord, 'index'> {
  /** Of the first entry. */
  readonly position: number
  /** Of the first entry. */
  readonly timestamp: number
  readonly digest: string
}

/** Computes the digest that `record` must have. */
export function idempotencyDigest(record: Omit<IdempotencyRecord, 'digest'>): string {
  const { position, key, fingerprint, entries, timestamp } = record
  return hash('sha256', `${position} ${key} ${fingerprint} ${entries} ${timestamp}`, 'hex')
}

/**
 * Reads the chain and databases of one node. Sees every append that had resolved when the read began or,
 * if the writer is another thread, when `refresh` was last called.
 */
export interface StoreReader {
  /** The server id of the node. */
  readonly serverId: number
  /** In creation order. */
  databases(): Promise<StoredDatabase[]>
  database(name: string): Promise<StoredDatabase | null>
  item(db: string, id: string): Promise<StoredItem | null>
  /** A page of the database created at `database`, without texts. */
  listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]>
  /** Likewise with texts; bounded by PAGE_CHARACTERS. */
  listItems(database: number, range: ItemRange): Promise<StoredItem[]>
  /**
   * Searches the database created at `database`; `filter/matches.ts` defines matches and order. Each
   * piece is bounded work on the current state.
   * Errors, while reading pieces: SEARCH_TOO_LARGE, SEARCH_INTERRUPTED.
   */
  search(database: number, query: ItemSearch): Promise<FoundItems>
  /** The declared indexes, ordered by database. */
  indexes(): Promise<StoredIndex[]>
  /** A page of the items of all databases created after `after`, in that order; bounded likewise. */
  itemsByCreation(after: number, limit: number): Promise<PlacedItem[]>
  /**
   * If the block of height `height` only created items with these `ids`, one per entry in this order,
   * and each is stored as it was created, at its position and with the text of its entry: how many per
   * database. Otherwise null. Ids must not contain line feeds.
   */
  plainCreations(height: number, ids: readonly string[]): Promise<Creations[] | null>
  readonly attachments: AttachmentReader
  /** A page of an item's history, including deletions; bounded by the characters that were read. */
  revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]>
  /** Whether the entry at `position` is recorded as a former revision of `id`. */
  isSuperseded(database: number, id: string, position: number): Promise<boolean>
  /** Number of former revisions in the database created at `database`. */
  countSuperseded(database: number): Promise<number>
  /** The record of `key`, also an expired one, or null. */
  idempotencyRecord(key: string): Promise<IdempotencyRecord | null>
  /** A page of the records after position `after`, in that order. */
  idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]>
  countItems(database: number): Promise<number>
  /** Number of items with ids from `from` (included) to `to` (excluded), by code points. */
  countIds(database: number, from: string, to: string): Promise<number>
  /** Creation positions of deleted databases that still take space. */
  droppedDatabases(): Promise<number[]>
  /** What the engine finds wrong with its own file, for example a corrupt index, or null. */
  damage(): Promise<string | null>
  /** The last block of the chain of `serverId`, or null if it is empty. */
  head(serverId: number): Promise<Head | null>
  /** Blocks from height `from`, at most `limit`; bounded by PAGE_CHARACTERS, but at least one. */
  blocks(serverId: number, from: number, limit: number): Promise<Block[]>
  /** Number of entries in the blocks from height `from` (included) to `to` (excluded). */
  countEntries(serverId: number, from: number, to: number): Promise<number>
  /** Bytes on disk: of the data, and of durable changes that are not in it yet. */
  diskUsage(): Promise<{ readonly fileBytes: number; readonly walBytes: number }>
  /** Headers from height `from`, at most `limit`. */
  headers(serverId: number, from: number, limit: number): Promise<Header[]>
  /** The hashes of complete nodes of the Merkle log. Errors: STORE_DAMAGED. */
  treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]>
  /** The hashes that each leaf completed (`grown`), concatenated, from leaf `from`. */
  treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]>
  /** The entry that erased the one at `position`, or null. */
  eraser(position: number): Promise<number | null>
  countErased(): Promise<number>
  /** Erasing entries whose erased content may still be in free parts of the files. */
  uncompacted(): Promise<number[]>
  /**
   * Repeats the first read that failed (STORE_DAMAGED, STORE_FAILED), if there is one; returns its
   * failure, or null once it succeeds.
   */
  readFailure(): StoreError | null
  /** Call after the writer has acknowledged an append, before clients are notified. */
  refresh(): void
  close(): Promise<void>
}

/**
 * The durable store of one node's chain and databases.
 *
 * One process at a time opens a store, once for writing, with any number of readers. The guarantees of
 * every engine are written as tests in `store-contract.ts`.
 */
export interface Store extends StoreReader {
  /**
   * Adds `block` to the end of the node's own chain and its Merkle log, applies `effects` and stores
   * `records`: all of it, or nothing.
   *
   * When the promise resolves, the change survives a power cut. Rejects, having changed nothing,
   * with HEAD_MOVED unless the block follows the current head, with EFFECT_IMPOSSIBLE when an
   * effect does not apply (creating an existing item, changing a missing one), with STORE_FULL when
   * the disk is full, with DamageError when it needs a part of the store that cannot be read.
   * STORE_FAILED means that the outcome is unknown: reopen the store.
   */
  append(
    block: Block,
    effects: readonly Effect[],
    records?: readonly NewIdempotencyRecord[],
  ): Promise<void>

  /**
   * Runs `appends`, which may call `append` any number of times: all those blocks become durable
   * together, or none of them if it rejects. No other call is allowed meanwhile. For imports.
   */
  transaction(appends: () => Promise<void>): Promise<void>

  /**
   * Declares an index on the member at `path` of the items of `db`. `maintain` builds it; from then on
   * it follows every append. It belongs to the store, not to the chain.
   */
  addIndex(db: string, path: string): Promise<IndexOutcome>
  removeIndex(db: string, path: string): Promise<IndexOutcome>

  /**
   * Does some maintenance between appends and returns whether more is due: builds indexes, frees the
   * space of deleted databases, removes expired idempotency records, maintains the engine's log. After an
   * erasure it rewrites the files; until then erased bytes may remain in them. Bounded, except for that.
   */
  maintain(): Promise<boolean>
}
