import type { Clock } from '../../base/clock.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { UuidGenerator } from '../../base/uuid.ts'
import {
  type Block,
  decodeEntry,
  ENTRIES_MAX,
  type Entry,
  packPosition,
  parsePosition,
  unpackPosition,
} from '../../chain/index.ts'
import { parsePath } from '../../filter/index.ts'
import { StoreError, type StoreReader, storedJson, type Turns } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { AttachmentService } from './attachments.ts'
import { type ErasureProgress, type ErasureQuery, eraseItems } from './erasures.ts'
import { itemText } from './item.ts'
import { requireDatabaseName } from './names.ts'
import type { RequestConditions } from './request-conditions.ts'
import {
  type Change,
  type EarlierRequest,
  type Operation,
  type OwnDatabase,
  requireFewChanges,
  requireItemPath,
  toCreation,
  toOperation,
  type UnitOfWork,
  type Written,
} from './unit-of-work.ts'
import { firstPosition, type LedgerWriter } from './writer.ts'

/** Result of recorded changes. `ids` has the item id of each change, or null for a change of a database. */
interface ChangeResult<Id = string | null> extends Written {
  readonly ids: readonly Id[]
}

/** An index on the members at `path` of the items of `db`. */
export interface IndexName {
  readonly db: string
  readonly path: string
}

interface ErasureResult {
  /** Packed position of the `erase_item` entry. */
  readonly position: number
  /** Positions (`<height>.<index>`) of the erased entries. */
  readonly positions: readonly string[]
}

interface LedgerWritesDeps {
  readonly store: StoreReader
  readonly writer: LedgerWriter
  readonly clock: Clock
  readonly attachments: AttachmentService
  /** Called after an erasure is durable. */
  readonly onErased: () => void
  /** Opens the turns of a database; null if no other process can append to the chain. */
  readonly turnsOf: ((db: string) => Turns) | null
}

/**
 * Records changes of databases and items.
 *
 * With conditions, the errors include PRECONDITION_FAILED and IDEMPOTENCY_KEY_REUSED, and a repeated request returns
 * its original result.
 */
export class LedgerWrites {
  readonly #deps: LedgerWritesDeps
  readonly #newId: () => string

  constructor(deps: LedgerWritesDeps) {
    this.#deps = deps
    const uuids = new UuidGenerator()
    this.#newId = () => uuids.next(deps.clock.now())
  }

  /** Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED, DATABASE_EXISTS. */
  async createDatabase(db: string, conditions?: RequestConditions): Promise<Written> {
    return this.recordChanges([{ method: 'create_db', db }], conditions)
  }

  /**
   * Deletes the database with all its items. The ledger keeps every entry.
   * Errors: DATABASE_NOT_FOUND, DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED.
   */
  async deleteDatabase(db: string, conditions?: RequestConditions): Promise<Written> {
    return this.recordChanges([{ method: 'delete_db', db }], conditions)
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
    return this.createItems(db, [item], conditions)
  }

  /** Creates all `items` in one block, or none of them. Errors: as for `createItem`; UNIT_EMPTY, UNIT_TOO_LARGE. */
  createItems(
    db: string,
    items: readonly Json[],
    conditions?: RequestConditions,
  ): Promise<ChangeResult<string>> {
    requireFewChanges(items)
    const unit = items.map((item) => toCreation(db, item, this.#newId))
    // Every operation creates an item, so every result has an id.
    return this.#record(unit, conditions) as Promise<ChangeResult<string>>
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
    requireItemPath(db, id)
    requireSameId(id, item)
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
    requireItemPath(db, id)
    requireSameId(id, patch)
    return this.recordChanges([{ method: 'patch_item', db, item: { ...patch, id } }], conditions)
  }

  /** Errors: DATABASE_NOT_FOUND, ITEM_NOT_FOUND. */
  async deleteItem(db: string, id: string, conditions?: RequestConditions): Promise<Written> {
    return this.recordChanges([{ method: 'delete_item', db, id }], conditions)
  }

  /** Records all `changes` in one block, or none. Errors: as for each change alone; UNIT_EMPTY, UNIT_TOO_LARGE. */
  recordChanges(changes: readonly Change[], conditions?: RequestConditions): Promise<ChangeResult> {
    requireFewChanges(changes)
    const unit = changes.map((change) => toOperation(change, this.#newId))
    if (!unit.some(({ kind }) => kind === 'patch_item')) return this.#record(unit, conditions)
    return this.#measured(unit).then((measured) => this.#record(measured, conditions))
  }

  /** Returns `unit` with the current sizes of the items that it patches. */
  async #measured(unit: UnitOfWork): Promise<UnitOfWork> {
    const measured: Operation[] = []
    for (const operation of unit) {
      if (operation.kind !== 'patch_item') measured.push(operation)
      else {
        const currentBytes = await this.#deps.store.itemBytes(operation.db, operation.id)
        measured.push({ ...operation, currentBytes: currentBytes ?? 0 })
      }
    }
    return measured
  }

  /** Records `unit` in one block, or nothing. Errors: as for each change alone; UNIT_EMPTY, UNIT_TOO_LARGE. */
  recordUnit(unit: UnitOfWork, conditions: RequestConditions): Promise<Written> {
    return this.#record(unit, conditions)
  }

  /** Not async, because a suspended async function would keep all texts of `unit` in memory. */
  #record(unit: UnitOfWork, conditions?: RequestConditions): Promise<ChangeResult> {
    const ids = unit.map((operation) => ('id' in operation ? operation.id : null))
    return this.#deps.writer.record(unit, conditions).then((recorded) => {
      if ('entries' in recorded) return this.#readEarlier(recorded)
      const { height, index, blockId } = recorded
      return { position: packPosition(height, index), height, blockId, ids }
    })
  }

  /** Rebuilds the result of an earlier request from the entries that the request recorded. */
  async #readEarlier({ position, entries }: EarlierRequest): Promise<ChangeResult> {
    const { height, index } = unpackPosition(position)
    const { id: blockId, entries: texts } = await this.#readBlock(height)
    const ids = texts.slice(index, index + entries).map((text) => {
      const entry = parseStoredEntry(text)
      if ('item' in entry) return entry.item.id
      return 'id' in entry ? entry.id : null
    })
    return { position, height, blockId, ids }
  }

  async #readBlock(height: number): Promise<Block> {
    const { store } = this.#deps
    const [block] = await store.blocks(store.serverId, height, 1)
    if (block?.height === height) return block
    throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
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
    requireItemPath(db, id)
    if (positions !== null && positions.length > ENTRIES_MAX) {
      throw new LedgerError(
        'UNIT_TOO_LARGE',
        `one request may erase at most ${ENTRIES_MAX} revisions`,
      )
    }
    const { attachments, writer, onErased } = this.#deps
    const packed = positions?.map(requirePosition) ?? null
    const operation = { kind: 'erase_item', db, of: id, positions: packed } as const
    const position = await attachments.erasing(async () => {
      const recorded = await writer.record([operation], conditions)
      if ('entries' in recorded) return { result: recorded.position, freed: [] }
      onErased()
      return { result: firstPosition(recorded), freed: recorded.freed ?? [] }
    })
    const { height, index } = unpackPosition(position)
    const entry = parseStoredEntry((await this.#readBlock(height)).entries[index] ?? '{}')
    return { position, positions: entry.method === 'erase_item' ? entry.positions : [] }
  }

  /** See `eraseItems`. */
  eraseItems(query: ErasureQuery, conditions: RequestConditions): Promise<ErasureProgress> {
    return eraseItems(this.#deps, query, conditions)
  }

  /**
   * Declares or removes an index. Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED, DATABASE_NOT_FOUND,
   * INDEX_PATH_INVALID, INDEX_EXISTS, INDEXES_TOO_MANY, INDEX_NOT_FOUND.
   */
  async changeIndex(action: 'add' | 'remove', { db, path }: IndexName): Promise<void> {
    requireDatabaseName(db)
    if (parsePath(path) === null) {
      throw new LedgerError(
        'INDEX_PATH_INVALID',
        'a path must be 1 to 8 member names, separated by dots',
      )
    }
    const outcome = await this.#deps.writer.changeIndex(action, { db, path })
    switch (outcome) {
      case 'done':
        return
      case 'exists':
        throw new LedgerError('INDEX_EXISTS', `there is already an index on ${path} of ${db}`)
      case 'missing':
        throw new LedgerError('INDEX_NOT_FOUND', `there is no index on ${path} of ${db}`)
      case 'no-database':
        throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
      case 'too-many':
        throw new LedgerError('INDEXES_TOO_MANY', `${db} already has the maximum number of indexes`)
    }
  }

  /**
   * Reserves `db`, which need not exist yet, for the returned object. All other changes of `db` in this process are then
   * rejected with OWNED_BY_NETWORK. Once the network is recorded, all processes reject them.
   */
  ownDatabase(db: string): OwnDatabase {
    requireDatabaseName(db)
    const { writer, turnsOf } = this.#deps
    writer.owned.add(db)
    return {
      turns: turnsOf?.(db) ?? null,
      record: async (unit, known = null) => {
        const network = { db, since: known }
        const conditions = { precondition: null, idempotency: null, network } as const
        const { index, ...block } = await writer.record(unit, conditions)
        return { position: packPosition(block.height, index), ...block }
      },
    }
  }

  /** Reverts `ownDatabase`. Allowed only before the owner has recorded a change. */
  disownDatabase(db: string): void {
    this.#deps.writer.owned.delete(db)
  }
}

function requireSameId(id: string, item: JsonObject): void {
  if (item.id === undefined || item.id === id) return
  throw new LedgerError(
    'ITEM_ID_MISMATCH',
    `the id in the body differs from the id in the path, ${id}`,
  )
}

function requirePosition(text: string): number {
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position must be a height and an index, like 12.0')
}

function parseStoredEntry(text: string): Entry {
  const entry = decodeEntry(storedJson(text))
  if (entry !== null) return entry
  throw new StoreError('STORE_DAMAGED', 'a block contains something that is not an entry')
}
