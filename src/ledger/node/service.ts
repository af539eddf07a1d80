import type { Clock } from '../../base/clock.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { UuidGenerator } from '../../base/uuid.ts'
import {
  type Block,
  ENTRIES_MAX,
  type Entry,
  entryOf,
  packPosition,
  parsePosition,
  unpackPosition,
} from '../../chain/index.ts'
import type { Where } from '../../filter/index.ts'
import {
  type DiskUsage,
  type StoredItem,
  StoreError,
  type StoreLocation,
  type StoreReader,
  storedJson,
  type Turns,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { ChangeFeed } from '../feed/feed.ts'
import type { LedgerLog } from '../log/service.ts'
import type { LogWitness } from '../log/witness.ts'
import type { Witnesses } from '../log/witnesses.ts'
import type { Mirrors } from '../peers/mirrors.ts'
import type { AggregationQuery } from '../read/aggregation.ts'
import { ItemHistory } from '../read/item-history.ts'
import {
  type AggregationResult,
  type ItemQuery,
  LedgerQueries,
  type QueryResult,
  withFirst,
} from '../read/queries.ts'
import {
  blockPages,
  ChainCount,
  type ChainSize,
  itemPages,
  LedgerReader,
  type ListRange,
  requireDatabase,
} from '../read/reads.ts'
import type { AttachmentService } from '../write/attachments.ts'
import type { NewBlocks } from '../write/head-follower.ts'
import { itemText } from '../write/item.ts'
import type { CommittedBlock } from '../write/messages.ts'
import { checkDatabaseName } from '../write/names.ts'
import type { RequestConditions } from '../write/request-conditions.ts'
import {
  type Change,
  checkPath,
  creationOf,
  type EarlierRequest,
  type Operation,
  type OwnDatabase,
  operationOf,
  refuseTooMany,
  type UnitOfWork,
  type Written,
} from '../write/unit-of-work.ts'
import { type LedgerWriter, positionOf } from '../write/writer.ts'
import type { ScheduledVerification } from './scheduled-verification.ts'

/** Result of recorded changes. `ids` has the item id of each change, or null for a change of a database. */
interface ChangeResult<Id = string | null> extends Written {
  readonly ids: readonly Id[]
}

export interface ErasureResult {
  /** Packed position of the `erase_item` entry. */
  readonly position: number
  /** Positions (`<height>.<index>`) of the erased entries. */
  readonly positions: readonly string[]
}

export interface ItemListRange extends ListRange {
  /** Only items that were created after the item with this id, or after this packed position. */
  readonly after: string | number | null
}

/** An item of a list: its id, and the packed position of its creation. */
export type ListedId = Pick<StoredItem, 'id' | 'created'>

/** Maximum ids or items per page of a list. */
const IDS_PER_PAGE = 1_000
const ITEMS_PER_PAGE = 256

export interface LedgerParts {
  readonly location: StoreLocation
  /** The change feed of this node's chain. */
  readonly feed: ChangeFeed
  readonly attachments: AttachmentService
  /** Called with new blocks of the chain, written by this or another process. */
  readonly blockListeners: Set<(blocks: NewBlocks) => void>
  /** Number of blocks reported to `blockListeners`; null if no other process can append to the chain. */
  readonly knownBlocks: () => number | null
  /** Reports all committed blocks to `blockListeners` before the promise resolves. Errors: StoreError. */
  readonly catchUp: () => Promise<void>
  /** Opens the turns of a database; null if no other process can append to the chain. */
  readonly turnsOf: ((db: string) => Turns) | null
  /** The Merkle tree over the chain, with its proofs and checkpoints. */
  readonly log: LedgerLog
  /** The witnesses that cosign the checkpoints of `log`. */
  readonly witnesses: Witnesses
  /** Cosigns the checkpoints of other logs. */
  readonly witness: LogWitness
  /** Copies of other nodes' chains. */
  readonly mirrors: Mirrors
  /** Verifies the store at intervals; null if this is not configured. */
  readonly verification: ScheduledVerification | null
}

/**
 * The ledger database. It is independent of HTTP and of the storage engine.
 *
 * All methods that record changes accept `conditions`. With conditions, the errors include PRECONDITION_FAILED and
 * IDEMPOTENCY_KEY_REUSED, and a repeated request returns its original result.
 */
export class LedgerService
  implements
    Omit<LedgerParts, 'location' | 'blockListeners' | 'knownBlocks' | 'catchUp' | 'turnsOf'>
{
  readonly serverId: number
  readonly feed: ChangeFeed
  readonly attachments: AttachmentService
  readonly log: LedgerLog
  readonly witnesses: Witnesses
  readonly witness: LogWitness
  readonly mirrors: Mirrors
  readonly verification: ScheduledVerification | null
  readonly history: ItemHistory
  readonly queries: LedgerQueries
  /** Reader for networks. Their threads open further readers of the same store. */
  readonly reader: LedgerReader
  readonly #store: StoreReader
  readonly #blockListeners: LedgerParts['blockListeners']
  readonly #known: () => number | null
  readonly #catchUp: () => Promise<void>
  readonly #turnsOf: LedgerParts['turnsOf']
  readonly #writer: LedgerWriter
  readonly #newId: () => string
  readonly #count: ChainCount

  constructor(store: StoreReader, writer: LedgerWriter, clock: Clock, parts: LedgerParts) {
    this.serverId = store.serverId
    this.feed = parts.feed
    this.attachments = parts.attachments
    this.log = parts.log
    this.witnesses = parts.witnesses
    this.witness = parts.witness
    this.mirrors = parts.mirrors
    this.verification = parts.verification
    this.history = new ItemHistory(store)
    this.queries = new LedgerQueries(store, writer, clock)
    this.reader = new LedgerReader(parts.location, store)
    this.#store = store
    this.#blockListeners = parts.blockListeners
    this.#known = parts.knownBlocks
    this.#catchUp = parts.catchUp
    this.#turnsOf = parts.turnsOf
    this.#writer = writer
    const uuids = new UuidGenerator()
    this.#newId = () => uuids.next(clock.now())
    this.#count = new ChainCount(store)
  }

  /**
   * The reason why changes are rejected, or null:
   * - WRITER_STOPPED, STORE_ROLLED_BACK, CHAIN_DOUBTED;
   * - STORE_FULL, until a change is stored again or the disk has free space;
   * - STORE_DAMAGED, until a change is stored again;
   * - STORE_UNAVAILABLE, OUTCOME_UNKNOWN, until the database server answers again.
   */
  get writesRefused(): LedgerError | null {
    return this.#writer.failure
  }

  /** The error of the last read, or null if it succeeded. */
  get readFailure(): StoreError | null {
    return this.#store.readFailure()
  }

  /** Returns the reason why the networks of this node cannot follow the changes of other processes, or null. */
  followFailure: () => LedgerError | StoreError | null = () => null

  /** The reason why the node cannot write or read, or null. */
  get notReady(): LedgerError | StoreError | null {
    return this.writesRefused ?? this.readFailure ?? this.followFailure()
  }

  /** Number and bytes of the units of work that are queued or in flight. */
  get queue(): { readonly units: number; readonly bytes: number } {
    return { units: this.#writer.depth, bytes: this.#writer.queueBytes }
  }

  /** Sets the function that is called after each stored block. */
  onStored(observe: (block: CommittedBlock) => void): void {
    this.#writer.onStored = observe
  }

  /** Whether other processes can append to the chain. */
  get isShared(): boolean {
    return this.#known() !== null
  }

  /** Number of blocks reported to the listeners of `onBlocks`; null if no other process can append to the chain. */
  get knownBlocks(): number | null {
    return this.#known()
  }

  /** Reports all committed blocks to the listeners of `onBlocks` before the promise resolves. Errors: StoreError. */
  catchUp(): Promise<void> {
    return this.#catchUp()
  }

  /** Calls `listener` with new blocks of this and other processes. The returned function removes `listener`. */
  onBlocks(listener: (blocks: NewBlocks) => void): () => void {
    this.#blockListeners.add(listener)
    return () => this.#blockListeners.delete(listener)
  }

  chainSize(): Promise<ChainSize> {
    return this.#count.size()
  }

  /** Returns the time of the newest block in milliseconds since 1970, or null if there is no block. */
  async newestBlockMs(): Promise<number | null> {
    return (await this.#store.head(this.#store.serverId))?.timestamp ?? null
  }

  diskUsage(): Promise<DiskUsage> {
    return this.#store.diskUsage()
  }

  /** Counts the erasures whose content may still be in free parts of the files of the store and of the mirrors. */
  async unfinishedErasures(): Promise<number> {
    const stores = [this.#store, ...this.mirrors.readers()]
    const lists = await Promise.all(stores.map((store) => store.uncompacted()))
    return lists.flat().length
  }

  /** Lists the names of all databases, in creation order. */
  async databases(): Promise<string[]> {
    return (await this.#store.databases()).map(({ name }) => name)
  }

  /**
   * Counts the items of each database for whose name `isSelected` returns true, in creation order. `signal` interrupts
   * the count. Errors: StoreError (SEARCH_TOO_LARGE, SEARCH_INTERRUPTED).
   */
  async itemCounts(
    isSelected: (db: string) => boolean,
    signal: AbortSignal,
  ): Promise<{ readonly db: string; readonly count: number }[]> {
    const databases = (await this.#store.databases()).filter(({ name }) => isSelected(name))
    const positions = databases.map(({ created }) => created)
    const counts = await this.queries.count(positions, null, signal)
    return databases.map(({ name }, at) => ({ db: name, count: counts[at] ?? 0 }))
  }

  /** Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED, DATABASE_EXISTS. */
  async createDatabase(db: string, conditions?: RequestConditions): Promise<Written> {
    checkDatabaseName(db)
    return this.#record([{ kind: 'create_db', db }], conditions)
  }

  /**
   * Deletes the database with all its items. The ledger keeps every entry.
   * Errors: DATABASE_NOT_FOUND, DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED.
   */
  async deleteDatabase(db: string, conditions?: RequestConditions): Promise<Written> {
    checkDatabaseName(db)
    return this.#record([{ kind: 'delete_db', db }], conditions)
  }

  /**
   * Creates an item. Generates an id if `item` has none.
   * Errors: DATABASE_NOT_FOUND, ITEM_ID_INVALID, ITEM_EXISTS, ITEM_TOO_LARGE.
   */
  createItem(
    db: string,
    item: JsonObject,
    conditions?: RequestConditions,
  ): Promise<ChangeResult<string>> {
    return this.#create([creationOf(db, item, this.#newId)], conditions)
  }

  /** Creates all `items` in one block, or none of them. Errors: as for `createItem`; UNIT_EMPTY, UNIT_TOO_LARGE. */
  createItems(
    db: string,
    items: readonly Json[],
    conditions?: RequestConditions,
  ): Promise<ChangeResult<string>> {
    refuseTooMany(items)
    const operations = items.map((item) => creationOf(db, item, this.#newId))
    return this.#create(operations, conditions)
  }

  #create(operations: UnitOfWork, conditions?: RequestConditions): Promise<ChangeResult<string>> {
    // Every operation creates an item, so every result has an id.
    return this.#record(operations, conditions) as Promise<ChangeResult<string>>
  }

  /**
   * Replaces an item by `item`, whose `id` is optional. With `If-None-Match: *`, creates the item.
   * Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ITEM_ID_MISMATCH, ITEM_TOO_LARGE.
   */
  async updateItem(
    db: string,
    id: string,
    item: JsonObject,
    conditions?: RequestConditions,
  ): Promise<Written> {
    checkPath(db, id)
    refuseOtherId(id, item)
    const text = itemText(item, id)
    const operation: Operation =
      conditions?.precondition?.noneMatch === '*'
        ? { kind: 'create_item', db, id, text, assigned: false }
        : { kind: 'update_item', db, id, text }
    return this.#record([operation], conditions)
  }

  /** Changes an item by an RFC 7396 merge patch. Errors: as for `updateItem`. */
  async patchItem(
    db: string,
    id: string,
    patch: JsonObject,
    conditions?: RequestConditions,
  ): Promise<Written> {
    checkPath(db, id)
    refuseOtherId(id, patch)
    const text = itemText(patch)
    const currentBytes = (await this.#store.itemBytes(db, id)) ?? 0
    return this.#record([{ kind: 'patch_item', db, id, text, currentBytes }], conditions)
  }

  /** Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND. */
  async deleteItem(db: string, id: string, conditions?: RequestConditions): Promise<Written> {
    checkPath(db, id)
    return this.#record([{ kind: 'delete_item', db, id }], conditions)
  }

  /** Records all `changes` in one block, or none. Errors: as for each change alone; UNIT_EMPTY, UNIT_TOO_LARGE. */
  recordChanges(changes: readonly Change[], conditions?: RequestConditions): Promise<ChangeResult> {
    refuseTooMany(changes)
    const unit = changes.map((change) => operationOf(change, this.#newId))
    return this.#record(unit, conditions)
  }

  /** Records `unit` in one block, or nothing. Errors: as for each change alone; UNIT_EMPTY, UNIT_TOO_LARGE. */
  recordUnit(unit: UnitOfWork, conditions: RequestConditions): Promise<Written> {
    return this.#record(unit, conditions)
  }

  /**
   * Records `unit`. Not async, because a suspended async function would keep all texts of `unit` in memory.
   */
  #record(unit: UnitOfWork, conditions?: RequestConditions): Promise<ChangeResult> {
    const ids = unit.map((operation) => ('id' in operation ? operation.id : null))
    return this.#writer.record(unit, conditions).then((recorded) => {
      if ('entries' in recorded) return this.#earlierResult(recorded)
      const { height, index, blockId } = recorded
      return { position: packPosition(height, index), height, blockId, ids }
    })
  }

  /** Rebuilds the result of an earlier request from the entries that the request recorded. */
  async #earlierResult({ position, entries }: EarlierRequest): Promise<ChangeResult> {
    const { height, index } = unpackPosition(position)
    const { id: blockId, entries: texts } = await this.#block(height)
    const ids = texts.slice(index, index + entries).map((text) => {
      const entry = entryIn(text)
      if ('item' in entry) return entry.item.id
      return 'id' in entry ? entry.id : null
    })
    return { position, height, blockId, ids }
  }

  /**
   * Permanently erases former revisions of an item and its attachments: the revisions at `positions`
   * (`<height>.<index>`), or all former revisions if `positions` is null.
   *
   * When the promise resolves, blobs to which no entry refers any more are removed too. Soon after, the store removes
   * copies of erased texts from free parts of its file. If the process crashes, either nothing is erased, or the next
   * start completes the erasure, because the store records that its file must be rewritten.
   * Errors: DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, REVISION_NEEDED, NOTHING_TO_ERASE,
   * UNIT_TOO_LARGE, IDEMPOTENCY_KEY_REUSED; STORE_FAILED if a blob cannot be removed.
   */
  async eraseRevisions(
    db: string,
    id: string,
    positions: readonly string[] | null,
    conditions?: RequestConditions,
  ): Promise<ErasureResult> {
    checkPath(db, id)
    if (positions !== null && positions.length > ENTRIES_MAX) {
      throw new LedgerError(
        'UNIT_TOO_LARGE',
        `one request may erase at most ${ENTRIES_MAX} revisions`,
      )
    }
    const packed = positions?.map(packedPosition) ?? null
    const operation = { kind: 'erase_item', db, of: id, positions: packed } as const
    const position = await this.attachments.erasing(async () => {
      const recorded = await this.#writer.record([operation], conditions)
      if ('entries' in recorded) return { result: recorded.position, freed: [] }
      this.feed.erased()
      return { result: positionOf(recorded), freed: recorded.freed ?? [] }
    })
    const { height, index } = unpackPosition(position)
    const entry = entryIn((await this.#block(height)).entries[index] ?? '{}')
    return { position, positions: entry.method === 'erase_item' ? entry.positions : [] }
  }

  /**
   * Reserves `db`, which need not exist yet, for the returned object. All other changes of `db` in this process are then
   * rejected with OWNED_BY_NETWORK. Once the network is recorded, all processes reject them.
   */
  ownDatabase(db: string): OwnDatabase {
    checkDatabaseName(db)
    this.#writer.owned.add(db)
    return {
      turns: this.#turnsOf?.(db) ?? null,
      record: async (unit, known = null) => {
        const network = { db, since: known }
        const conditions = { precondition: null, idempotency: null, network } as const
        const { index, ...block } = await this.#writer.record(unit, conditions)
        return { position: packPosition(block.height, index), ...block }
      },
    }
  }

  /** Reverts `ownDatabase`. Allowed only before the owner has recorded a change. */
  disownDatabase(db: string): void {
    this.#writer.owned.delete(db)
  }

  /** Returns the item, or null if it does not exist. Errors: DATABASE_NOT_FOUND. */
  async readItem(db: string, id: string): Promise<StoredItem | null> {
    const item = await this.#store.item(db, id)
    if (item === null) await requireDatabase(this.#store, db)
    return item
  }

  /**
   * Lists the ids of a database in creation order, page by page.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND for an unknown `after`.
   */
  async listIds(db: string, range: ItemListRange): Promise<AsyncIterable<ListedId[]>> {
    const { database, after } = await this.#startOf(db, range)
    return withFirst(
      itemPages(range, IDS_PER_PAGE, after, (from) => this.#store.listIds(database, from)),
    )
  }

  /** Lists the items of a database as canonical texts. Order and errors: as for `listIds`. */
  async listItems(db: string, range: ItemListRange): Promise<AsyncIterable<StoredItem[]>> {
    const { database, after } = await this.#startOf(db, range)
    return withFirst(
      itemPages(range, ITEMS_PER_PAGE, after, (from) => this.#store.listItems(database, from)),
    )
  }

  /** Finds items by a filter. Errors: as for `listIds` and `LedgerQueries.find`. */
  async findItems(
    db: string,
    query: Omit<ItemQuery, 'after'> & Pick<ItemListRange, 'after'>,
  ): Promise<QueryResult> {
    const { database, after } = await this.#startOf(db, query)
    return this.queries.find(database, { ...query, after: after === -1 ? null : after })
  }

  /** Counts items. Errors: DATABASE_NOT_FOUND; as for `LedgerQueries.count`. */
  async countItems(db: string, where: Where | null, signal: AbortSignal): Promise<number> {
    const database = await requireDatabase(this.#store, db)
    const [count = 0] = await this.queries.count([database], where, signal)
    return count
  }

  /** Aggregates items. Errors: DATABASE_NOT_FOUND; as for `LedgerQueries.aggregate`. */
  async aggregate(
    db: string,
    query: AggregationQuery,
    signal: AbortSignal,
  ): Promise<AggregationResult> {
    return this.queries.aggregate(() => requireDatabase(this.#store, db), query, signal)
  }

  /** Lists the blocks of a chain from height `offset` on. Errors: SERVERID_UNKNOWN. */
  async listBlocks(serverId: number, range: ListRange): Promise<AsyncIterable<Block[]>> {
    const store =
      serverId === this.serverId ? this.#store : (this.mirrors.mirrorOf(serverId)?.reader ?? null)
    if (store !== null) return blockPages(store, range)
    throw new LedgerError('SERVERID_UNKNOWN', `this node has no chain of server id ${serverId}`)
  }

  /**
   * Returns the log of the chain of `serverId`, which is text from the path of a request. Errors: SERVERID_UNKNOWN.
   */
  logOf(serverId: string): LedgerLog {
    const log =
      serverId === `${this.serverId}`
        ? this.log
        : (this.mirrors.mirrorOf(Number(serverId))?.log ?? null)
    if (log !== null) return log
    throw new LedgerError('SERVERID_UNKNOWN', 'this node has no log of this server id')
  }

  /** Returns the feed of the chain of `serverId`. Errors: SERVERID_UNKNOWN. */
  feedOf(serverId: number): ChangeFeed {
    if (serverId === this.serverId) return this.feed
    throw new LedgerError(
      'SERVERID_UNKNOWN',
      `this node has no change feed of server id ${serverId}`,
    )
  }

  async #block(height: number): Promise<Block> {
    const [block] = await this.#store.blocks(this.serverId, height, 1)
    if (block?.height === height) return block
    throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
  }

  async #startOf(db: string, { after }: Pick<ItemListRange, 'after'>) {
    const item = typeof after === 'string' ? await this.readItem(db, after) : null
    const database = await requireDatabase(this.#store, db)
    if (typeof after !== 'string') return { database, after: after ?? -1 }
    // An item that was created before the database belongs to an earlier database of this name.
    if (item !== null && item.created > database) return { database, after: item.created }
    throw new LedgerError(
      'ITEM_NOT_FOUND',
      `there is no item ${after} in ${db}, so no list can start after it`,
    )
  }
}

function refuseOtherId(id: string, item: JsonObject): void {
  if (item.id === undefined || item.id === id) return
  throw new LedgerError(
    'ITEM_ID_MISMATCH',
    `the id in the body differs from the id in the path, ${id}`,
  )
}

function packedPosition(text: string): number {
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position must be a height and an index, like 12.0')
}

function entryIn(text: string): Entry {
  const entry = entryOf(storedJson(text))
  if (entry !== null) return entry
  throw new StoreError('STORE_DAMAGED', 'a block contains something that is not an entry')
}
