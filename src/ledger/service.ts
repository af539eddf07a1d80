import type { Clock } from '../base/clock.ts'
import type { Json, JsonObject } from '../base/json.ts'
import { UuidGenerator } from '../base/uuid.ts'
import { type Block, entryOf, packPosition, unpackPosition } from '../chain/index.ts'
import { type StoredItem, StoreError, type StoreReader, storedJson } from '../storage/index.ts'
import type { AttachmentService } from './attachments/service.ts'
import { ChainCount, type ChainSize } from './chain-count.ts'
import { EntryIterator, type PlacedEntry } from './changes/entry-iterator.ts'
import type { ChangeFeed, ChangesStart } from './changes/feed.ts'
import { databaseFilter } from './changes/page-cache.ts'
import { Erasure } from './erasure/erasure.ts'
import { LedgerError } from './errors.ts'
import { ItemHistory } from './history/item-history.ts'
import { itemText } from './item.ts'
import type { LedgerLog } from './log/service.ts'
import { checkDatabaseName } from './names.ts'
import { checkPath, creationOf, operationOf, refuseTooMany } from './operations.ts'
import { blockPages, type ListRange, mapPages, pagesOf } from './pages.ts'
import type { Mirrors } from './peers/mirrors.ts'
import { type Found, type ItemQuery, LedgerQueries } from './queries/queries.ts'
import { LedgerReader } from './reader.ts'
import type { RequestConditions } from './request-conditions.ts'
import type {
  Change,
  Earlier,
  Operation,
  OwnDatabase,
  UnitOfWork,
  Written,
} from './unit-of-work.ts'
import type { CommittedBlock } from './writer/messages.ts'
import type { LedgerWriter } from './writer/writer.ts'

/** Where changes were recorded, and the id of each one's item; null for a database. */
interface Recorded<Id = string | null> extends Written {
  readonly ids: readonly Id[]
}

/** Part of a database. */
export interface ItemListRange extends ListRange {
  /** Only what was created after the item with this id. */
  readonly after: string | null
}

/** Which entries to follow. */
export interface ChangesRange {
  /** Default: `now`. */
  readonly after?: ChangesStart
  /** Names of databases; all when there is none. */
  readonly db?: readonly string[]
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

/** Ids, or items, read from the store at a time while a list is sent. */
const IDS_PER_PAGE = 1_000
const ITEMS_PER_PAGE = 256

/** What a ledger has beside its items. */
export interface LedgerParts {
  /** The data folder. */
  readonly folder: string
  readonly feed: ChangeFeed
  readonly attachments: AttachmentService
  readonly log: LedgerLog
  readonly mirrors: Mirrors
}

/**
 * What the ledger database does: it decides, and knows neither HTTP nor an engine.
 *
 * A change may be given `terms`. Then its errors are also PRECONDITION_FAILED and
 * IDEMPOTENCY_KEY_REUSED, and where the same request was recorded before, the result is what it was.
 */
export class LedgerService {
  /** The id of this node. */
  readonly serverId: number
  /** Whoever follows the entries of this node's chain. */
  readonly feed: ChangeFeed
  /** What items have attached to them. */
  readonly attachments: AttachmentService
  /** What goes for good. */
  readonly erasure: Erasure
  /** What proves the chain to others. */
  readonly log: LedgerLog
  /** Chains of other nodes that are kept here. */
  readonly mirrors: Mirrors
  /** What items were. */
  readonly history: ItemHistory
  /** Declared indexes. */
  readonly queries: LedgerQueries
  /** What networks read; their threads open another one of the same folder. */
  readonly reader: LedgerReader
  readonly #store: StoreReader
  readonly #writer: LedgerWriter
  readonly #newId: () => string
  readonly #count: ChainCount

  constructor(store: StoreReader, writer: LedgerWriter, clock: Clock, parts: LedgerParts) {
    this.serverId = store.serverId
    this.feed = parts.feed
    this.attachments = parts.attachments
    this.erasure = new Erasure(store, writer, parts)
    this.log = parts.log
    this.mirrors = parts.mirrors
    this.history = new ItemHistory(store)
    this.#store = store
    this.#writer = writer
    const uuids = new UuidGenerator()
    this.#newId = () => uuids.next(clock.now())
    this.reader = new LedgerReader(parts.folder, store)
    this.#count = new ChainCount(store)
    this.queries = new LedgerQueries(store, writer)
  }

  /** WRITER_STOPPED or, until a change is stored again, STORE_FULL or STORE_DAMAGED; null when all is well. */
  get writesRefused(): LedgerError | null {
    return this.#writer.failure
  }

  /** Why a part of the store could not be read, as long as that is so; null when all is well. */
  get readFailure(): StoreError | null {
    return this.#store.readFailure()
  }

  /** Requests with changes that wait or are being written, and their bytes. */
  get queue(): { readonly units: number; readonly bytes: number } {
    return { units: this.#writer.depth, bytes: this.#writer.queueBytes }
  }

  /** Sets the function that is called with each block that was stored. */
  onStored(observe: (block: CommittedBlock) => void): void {
    this.#writer.onStored = observe
  }

  /** How long the chain is. */
  chainSize(): Promise<ChainSize> {
    return this.#count.size()
  }

  /** The room that the store takes, bytes. */
  diskUsage(): Promise<{ readonly fileBytes: number; readonly walBytes: number }> {
    return this.#store.diskUsage()
  }

  /** The names of all databases, in the order they were created. */
  async databases(): Promise<string[]> {
    return (await this.#store.databases()).map(({ name }) => name)
  }

  /** Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED, DATABASE_EXISTS. */
  async createDatabase(db: string, terms?: RequestConditions): Promise<Written> {
    checkDatabaseName(db)
    return this.#record([{ kind: 'create_db', db }], terms)
  }

  /**
   * Deletes the database with all its items; the ledger keeps every entry.
   * Errors: DATABASE_NOT_FOUND, DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED.
   */
  async deleteDatabase(db: string, terms?: RequestConditions): Promise<Written> {
    checkDatabaseName(db)
    return this.#record([{ kind: 'delete_db', db }], terms)
  }

  /**
   * Creates an item; `item` may be given an `id` here, which is returned.
   * Errors: DATABASE_NOT_FOUND, ITEM_ID_INVALID, ITEM_EXISTS, ITEM_TOO_LARGE.
   */
  createItem(db: string, item: JsonObject, terms?: RequestConditions): Promise<Recorded<string>> {
    return this.#create([creationOf(db, item, this.#newId)], terms)
  }

  /** Creates all `items` in one block, or none of them. Errors: as for `createItem`; UNIT_…. */
  createItems(
    db: string,
    items: readonly Json[],
    terms?: RequestConditions,
  ): Promise<Recorded<string>> {
    refuseTooMany(items)
    const operations = items.map((item) => creationOf(db, item, this.#newId))
    return this.#create(operations, terms)
  }

  #create(operations: UnitOfWork, terms?: RequestConditions): Promise<Recorded<string>> {
    // What creates items has no database among it, so each has an id.
    return this.#record(operations, terms) as Promise<Recorded<string>>
  }

  /**
   * Replaces an item by `item`, whose `id` may be left out. On the term that there is none, creates it.
   * Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND, ITEM_ID_MISMATCH, ITEM_TOO_LARGE.
   */
  async updateItem(
    db: string,
    id: string,
    item: JsonObject,
    terms?: RequestConditions,
  ): Promise<Written> {
    checkPath(db, id)
    refuseOtherId(id, item)
    const text = itemText(item, id)
    const operation: Operation =
      terms?.precondition?.noneMatch === '*'
        ? { kind: 'create_item', db, id, text, assigned: false }
        : { kind: 'update_item', db, id, text }
    return this.#record([operation], terms)
  }

  /** Changes an item by an RFC 7396 merge patch. Errors: as for `updateItem`. */
  async patchItem(
    db: string,
    id: string,
    patch: JsonObject,
    terms?: RequestConditions,
  ): Promise<Written> {
    checkPath(db, id)
    refuseOtherId(id, patch)
    const text = itemText(patch)
    return this.#record([{ kind: 'patch_item', db, id, text }], terms)
  }

  /** Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND. */
  async deleteItem(db: string, id: string, terms?: RequestConditions): Promise<Written> {
    checkPath(db, id)
    return this.#record([{ kind: 'delete_item', db, id }], terms)
  }

  /** Records all `changes` in one block, or none of them. Errors: as for each of them; UNIT_…. */
  recordChanges(changes: readonly Change[], terms?: RequestConditions): Promise<Recorded> {
    refuseTooMany(changes)
    const unit = changes.map((change) => operationOf(change, this.#newId))
    return this.#record(unit, terms)
  }

  /**
   * Records `unit`; `ids` has one for each operation, null for a database. An async function that waits
   * would hold `unit` with all of its texts.
   */
  #record(unit: UnitOfWork, terms?: RequestConditions): Promise<Recorded> {
    const ids = unit.map((operation) => ('id' in operation ? operation.id : null))
    return this.#writer.record(unit, terms).then((recorded) => {
      if ('entries' in recorded) return earlierAnswer(this.#store, recorded)
      const { height, index, blockId } = recorded
      return { position: packPosition(height, index), height, blockId, ids }
    })
  }

  /**
   * Makes `db`, which need not exist yet, somebody's own: from now on only what this returns changes
   * it, and everyone else is refused with OWNED_BY_NETWORK.
   */
  ownDatabase(db: string): OwnDatabase {
    checkDatabaseName(db)
    this.#writer.owned.add(db)
    return {
      record: async (unit) => {
        const { index, ...block } = await this.#writer.record(unit, undefined, true)
        return { position: packPosition(block.height, index), ...block }
      },
    }
  }

  /** Ends what `ownDatabase` began, of which nothing came: `db` is everybody's again. */
  disownDatabase(db: string): void {
    this.#writer.owned.delete(db)
  }

  /** The item, or null when the database holds none of this id. Errors: DATABASE_NOT_FOUND. */
  async readItem(db: string, id: string): Promise<StoredItem | null> {
    const item = await this.#store.item(db, id)
    if (item === null) await this.#database(db)
    return item
  }

  /**
   * The ids of a database in the order of creation, page by page as the reader takes them.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND for an unknown `after`.
   */
  async listIds(db: string, range: ItemListRange): Promise<AsyncIterable<string[]>> {
    const { database, after } = await this.#startOf(db, range)
    const pages = pagesOf(range, IDS_PER_PAGE, after, (from) => this.#store.listIds(database, from))
    return mapPages(pages, ({ id }) => id)
  }

  /** The items of a database as canonical texts, likewise. */
  async listItems(db: string, range: ItemListRange): Promise<AsyncIterable<StoredItem[]>> {
    const { database, after } = await this.#startOf(db, range)
    return pagesOf(range, ITEMS_PER_PAGE, after, (from) => this.#store.listItems(database, from))
  }

  /**
   * The items of a database that a filter asks for. Errors: DATABASE_NOT_FOUND; ITEM_NOT_FOUND for
   * `after`; those of `LedgerQueries.find`.
   */
  async findItems(
    db: string,
    query: Omit<ItemQuery, 'after'> & { after: string | null },
  ): Promise<Found> {
    const { database, after } = await this.#startOf(db, query)
    return this.queries.find(database, { ...query, after: after === -1 ? null : after })
  }

  /** The blocks of a chain from height `offset` on. Errors: SERVERID_UNKNOWN. */
  async listBlocks(serverId: number, range: ListRange): Promise<AsyncIterable<Block[]>> {
    const store = serverId === this.serverId ? this.#store : this.mirrors.readerOf(serverId)
    if (store !== null) return blockPages(store, range)
    throw new LedgerError('SERVERID_UNKNOWN', `no chain of server id ${serverId} is kept here`)
  }

  /** The log of the chain of `serverId`, as a path spells it. Errors: SERVERID_UNKNOWN. */
  logOf(serverId: string): LedgerLog {
    const log = serverId === `${this.serverId}` ? this.log : this.mirrors.logOf(Number(serverId))
    if (log !== null) return log
    throw new LedgerError('SERVERID_UNKNOWN', 'no log of this server id is kept here')
  }

  /** The feed of the chain of `serverId`. Errors: SERVERID_UNKNOWN. */
  feedOf(serverId: number): ChangeFeed {
    if (serverId === this.serverId) return this.feed
    throw new LedgerError(
      'SERVERID_UNKNOWN',
      `no chain of server id ${serverId} can be followed here`,
    )
  }

  /**
   * The entries of this node's chain, each once and in order, also those to come. Nothing recorded
   * after the promise has resolved is missed. Iterate, or abort the signal: else the seat stays taken.
   * Errors: POSITION_UNKNOWN, DATABASE_NAME_…, FEED_UNAVAILABLE.
   */
  async changes(range: ChangesRange = {}): Promise<AsyncIterableIterator<PlacedEntry>> {
    const entries = new EntryIterator(databaseFilter(range.db ?? []))
    entries.open(await this.feed.subscribe(entries, range.after ?? 'now'), range.signal)
    return entries
  }

  async #startOf(db: string, { after }: Pick<ItemListRange, 'after'>) {
    const database = await this.#database(db)
    if (after === null) return { database, after: -1 }
    const item = await this.readItem(db, after)
    if (item !== null) return { database, after: item.created }
    throw new LedgerError('ITEM_NOT_FOUND', `there is no item ${after} in ${db} to list after`)
  }

  async #database(db: string): Promise<number> {
    const database = await this.#store.database(db)
    if (database !== null) return database.created
    throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
  }
}

function refuseOtherId(id: string, item: JsonObject): void {
  if (item.id === undefined || item.id === id) return
  throw new LedgerError('ITEM_ID_MISMATCH', `the body names another id than the path, ${id}`)
}

/**
 * What was answered when `earlier` was recorded: its block, and the id that each entry names (null for
 * a database). The chain holds it, so an answer that is given again is made of what was given first.
 */
async function earlierAnswer(
  store: StoreReader,
  { position, entries }: Earlier,
): Promise<{ position: number; height: number; blockId: string; ids: (string | null)[] }> {
  const { height, index } = unpackPosition(position)
  const [block] = await store.blocks(store.serverId, height, 1)
  if (block?.height !== height) {
    throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
  }
  const ids = block.entries.slice(index, index + entries).map(idIn)
  return { position, height, blockId: block.id, ids }
}

function idIn(text: string): string | null {
  const entry = entryOf(storedJson(text))
  if (entry === null) throw new StoreError('STORE_DAMAGED', 'a block holds what is not an entry')
  if ('item' in entry) return entry.item.id
  return 'id' in entry ? entry.id : null
}
