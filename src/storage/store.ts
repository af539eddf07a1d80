import type { Block, Head, Header, TreeNode } from '../chain/index.ts'
import type { OrderTerm, Where } from '../filter/index.ts'
import type { AttachmentReader } from './attachments.ts'
import type { Effect } from './effect.ts'
import type { StoreError } from './errors.ts'
import type { IdempotencyRecord, NewIdempotencyRecord } from './idempotency-record.ts'

/** An item as a store keeps it. Positions are packed: they sort as the chain does. */
export interface StoredItem {
  readonly id: string
  /** Where it was created: items are listed in this order. */
  readonly created: number
  /** Where its content was last set. */
  readonly revision: number
  /** The whole item in canonical JSON, with its id. */
  readonly text: string
}

/** An item with the database that it is in: the packed position that created that. */
export interface PlacedItem extends StoredItem {
  readonly database: number
}

/** How many items were created in one database. */
export interface Creations {
  readonly db: string
  /** Where the rows say that the database was created, packed. */
  readonly database: number
  readonly count: number
}

/** A database: its name, and the packed position of the entry that created it. */
export interface StoredDatabase {
  readonly name: string
  readonly created: number
}

/** Which part of a database to list, in creation order. */
export interface ItemRange {
  /** Only items created after this packed position; from the first one when absent. */
  readonly after?: number
  /** How many to pass over first. */
  readonly offset?: number
  /** How many at most; a page may be shorter for its size, and is empty only at the end. */
  readonly limit: number
}

/** An item as one entry left it; `text` is null where the entry deleted it, and where it was erased. */
export interface StoredRevision {
  /** Packed. */
  readonly position: number
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly kind: 'create_item' | 'update_item' | 'delete_item'
  readonly text: string | null
}

/** Which part of an item's history to list. */
export interface RevisionRange {
  readonly newestFirst: boolean
  /** Only what comes behind this packed position, in that order; from the first one when absent. */
  readonly after?: number
  /** How many at most; a page may be shorter for its size, and is empty only at the end. */
  readonly limit: number
}

/** Which items of a database are wanted. */
export interface ItemSearch {
  /** Null for all of them. */
  readonly where: Where | null
  /** Empty for the order of creation, which also decides ties; backwards behind a descending term. */
  readonly order: readonly OrderTerm[]
  /** Only items created after this packed position; null from the first one. */
  readonly after: number | null
  readonly offset: number
  /** Null for no limit. */
  readonly limit: number | null
  /** Whether the items themselves are wanted, or their ids and positions only. */
  readonly text: boolean
}

/** An item that a search gave; `text` is null where it was not wanted. */
export type FoundItem = Omit<StoredItem, 'text'> & { readonly text: string | null }

/** What a search gives. */
export interface FoundItems {
  /** The path of the index that was used, or null when all items are gone through. */
  readonly index: string | null
  /** The items piece by piece; pieces may be empty. Whoever reads them lets others run in between. */
  readonly pieces: AsyncIterable<FoundItem[]>
}

/** A declared index. */
export interface StoredIndex {
  readonly db: string
  /** Members with dots between them. */
  readonly path: string
  /** Whether it has all items; until then it is not used. */
  readonly isReady: boolean
  /** Blocks gone through, of those since the database was created. */
  readonly done: number
  readonly total: number
}

/** What became of a wish to change the indexes. */
export type IndexOutcome = 'done' | 'exists' | 'missing' | 'no-database' | 'too-many'

/** Indexes of one database. */
export const INDEXES_PER_DATABASE = 16
/** Items that a search sorts itself, where no index has them in the order that is wanted. */
export const SORTED_ITEMS_MAX = 50_000

/** A page never holds much more text than this many characters, however many are asked for. */
export const PAGE_CHARACTERS = 1_048_576

/**
 * Reads one node's chain and databases. Sees every append that had resolved when the read was made,
 * or, where the writer is another thread, when `refresh` was last called.
 */
export interface StoreReader {
  /** The server id of the node whose databases these are. */
  readonly serverId: number
  /** The databases in the order they were created. */
  databases(): Promise<StoredDatabase[]>
  /** The database called `name`, or null. */
  database(name: string): Promise<StoredDatabase | null>
  /** One item, or null when the item or its database is not there. */
  item(db: string, id: string): Promise<StoredItem | null>
  /** A page of the database that was created at `database`, ids and positions only. */
  listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]>
  /** The same with the items; also bounded by PAGE_CHARACTERS. */
  listItems(database: number, range: ItemRange): Promise<StoredItem[]>
  /**
   * The items of the database created at `database` that `query` asks for; `filter/matches.ts`
   * says which and in which order. Each piece is bounded work on the store as it is
   * then. Errors, while reading pieces: SEARCH_TOO_LARGE, SEARCH_INTERRUPTED.
   */
  search(database: number, query: ItemSearch): Promise<FoundItems>
  /** The declared indexes, in the order of their databases. */
  indexes(): Promise<StoredIndex[]>
  /** A page of the items of all databases created after `after`, in that order; bounded likewise. */
  itemsByCreation(after: number, limit: number): Promise<PlacedItem[]>
  /**
   * What the block of height `height` created, when all that it did was to create items with these `ids`,
   * one for each entry and in their order, and each still stands as it was created: in place, and with
   * the text of its entry; else null. Ids with line feeds are not told from others.
   */
  plainCreations(height: number, ids: readonly string[]): Promise<Creations[] | null>
  /** What items have attached to them. */
  readonly attachments: AttachmentReader
  /**
   * A page of all that became of `id` in the database created at `database`, deletions included; a
   * page is bounded by the characters that had to be read for it.
   */
  revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]>
  /** Whether the entry at `position` is noted as a revision of `id` that is no longer current. */
  isSuperseded(database: number, id: string, position: number): Promise<boolean>
  /** How many revisions of the database created at `database` are no longer current. */
  countSuperseded(database: number): Promise<number>
  /** The answer kept under `key`, also one that is older than IDEMPOTENCY_RECORDS_KEPT_MS, or null. */
  idempotencyRecord(key: string): Promise<IdempotencyRecord | null>
  /** A page of the answers to what was recorded after `after`, in that order. */
  idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]>
  /** How many items the database created at `database` holds. */
  countItems(database: number): Promise<number>
  /** How many of them have ids from `from` on, up to but without `to`, by code points. */
  countIds(database: number, from: string, to: string): Promise<number>
  /** Creation positions of deleted databases whose space is not free yet. */
  droppedDatabases(): Promise<number[]>
  /** What the engine finds wrong with its own file (an index that lost a row, say), or null. */
  damage(): Promise<string | null>
  /** The last block of the chain of `serverId`, or null when there is none. */
  head(serverId: number): Promise<Head | null>
  /** Blocks from height `from` upwards, at most `limit`, bounded by PAGE_CHARACTERS but at least one. */
  blocks(serverId: number, from: number, limit: number): Promise<Block[]>
  /** How many entries the blocks of height `from` up to, but not with, `to` hold together. */
  countEntries(serverId: number, from: number, to: number): Promise<number>
  /** Room that the store takes now, bytes: of its data, and of what is durable but not yet there. */
  diskUsage(): Promise<{ readonly fileBytes: number; readonly walBytes: number }>
  /** The headers of blocks from height `from` upwards, at most `limit`. */
  headers(serverId: number, from: number, limit: number): Promise<Header[]>
  /** The hashes of `nodes` of the chain's log, all of them complete. Errors: STORE_DAMAGED. */
  treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]>
  /** What each leaf of the log completed (`grown`), hashes back to back, from leaf `from` upwards. */
  treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]>
  /** The packed position of the entry that erased the one at `position`, or null. */
  eraser(position: number): Promise<number | null>
  /** How many entries are noted as erased. */
  countErased(): Promise<number>
  /** Erasing entries after which what was erased may still be in the free parts of the files. */
  uncompacted(): Promise<number[]>
  /**
   * The failure of a read (STORE_DAMAGED, STORE_FAILED) that is still not possible, or null: the first
   * one that failed is repeated. It is forgotten when it succeeds.
   */
  readFailure(): StoreError | null
  /** To be called when an append has been acknowledged by the writer, before anyone is told. */
  refresh(): void
  close(): Promise<void>
}

/**
 * The durable home of one node's chain and databases.
 *
 * One process opens a store at a time, for writing once; any number of readers beside it. What an
 * engine must guarantee is written once, as tests, in `store-contract.ts`, and every engine runs it.
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
   * Runs `appends`, which calls `append` as often as it likes: all those blocks become durable
   * together when it has ended, or none of them when it rejects. Nothing else is asked of the store
   * meanwhile. For chains that are read in, thousands of blocks at a time.
   */
  transaction(appends: () => Promise<void>): Promise<void>

  /**
   * Declares an index on the member at `path` of the items of `db`. `tidy` builds it; from then on it
   * follows every append. It belongs to the store, not to the chain. Removing is the same backwards.
   */
  addIndex(db: string, path: string): Promise<IndexOutcome>
  removeIndex(db: string, path: string): Promise<IndexOutcome>

  /**
   * Does a piece of upkeep between appends (indexes, space of deleted databases, answers that need not be kept
   * any more, the engine's own log; after an erasure it writes the files anew, and only then no byte of
   * what was erased is in them) and tells whether more is waiting. Bounded, but for the last.
   */
  maintain(): Promise<boolean>
}
