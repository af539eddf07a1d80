import type { Block, Head } from '../chain/index.ts'
import type { AttachmentReader } from './attachments.ts'
import type { Effect } from './effect.ts'
import type { KeptAnswer, NewAnswer } from './kept-answer.ts'

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

/** An item as one entry left it; `text` is null where the entry deleted it. */
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
  /** A page of the items of all databases created after `after`, in that order; bounded likewise. */
  itemsByCreation(after: number, limit: number): Promise<PlacedItem[]>
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
  /** The answer kept under `key`, also one that is older than ANSWERS_KEPT_MS, or null. */
  keptAnswer(key: string): Promise<KeptAnswer | null>
  /** A page of the answers to what was recorded after `after`, in that order. */
  keptAnswers(after: number, limit: number): Promise<KeptAnswer[]>
  /** How many items the database created at `database` holds. */
  countItems(database: number): Promise<number>
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
  room(): Promise<{ readonly fileBytes: number; readonly logBytes: number }>
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
   * Adds `block` at the end of the node's own chain, applies `effects` and keeps `answers`: all, or
   * nothing.
   *
   * When the promise resolves, the change survives a power cut. Rejects, having changed nothing,
   * with HEAD_MOVED unless the block follows the current head, with EFFECT_IMPOSSIBLE when an
   * effect does not fit (creating what is there, changing what is not), with STORE_FULL when there
   * is no room. STORE_FAILED means that the engine cannot tell: open the store anew.
   */
  append(block: Block, effects: readonly Effect[], answers?: readonly NewAnswer[]): Promise<void>

  /**
   * Runs `appends`, which calls `append` as often as it likes: all those blocks become durable
   * together when it has ended, or none of them when it rejects. Nothing else is asked of the store
   * meanwhile. For chains that are read in, thousands of blocks at a time.
   */
  together(appends: () => Promise<void>): Promise<void>

  /**
   * Does a bounded piece of upkeep between appends (space of deleted databases, answers that need
   * not be kept any more, the engine's own log) and tells whether more is waiting. Never needed for
   * correctness.
   */
  tidy(): Promise<boolean>
}
