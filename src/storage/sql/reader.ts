import {
  type Block,
  HASH_BYTES,
  type Head,
  type Header,
  nodePlace,
  packPosition,
  type TreeNode,
} from '../../chain/index.ts'
import type { Where } from '../../filter/index.ts'
import { createItemParts } from '../port/effect.ts'
import { StoreError } from '../port/errors.ts'
import {
  type CountedItems,
  type Creations,
  type DeletedDatabase,
  type DeletedItem,
  type DiskUsage,
  type FoundItem,
  type FoundItems,
  type IdempotencyRecord,
  type ItemLife,
  type ItemRange,
  type ItemRow,
  type ItemSearch,
  PAGE_CHARACTERS,
  type PositionRange,
  type RevisionRange,
  type StoredDatabase,
  type StoredIndex,
  type StoredItem,
  type StoredRevision,
  type StoreReader,
} from '../port/store.ts'
import { countFormerItems, countItems, searchFormerItems, searchItems } from '../search/search.ts'
import { SqlAttachments } from './attachments.ts'
import type { Dialect, SqlReads, Value } from './dialect.ts'
import { SqlFormerItems } from './former-items.ts'
import { readerStatements } from './reader-statements.ts'
import { SqlRevisions } from './revisions.ts'
import {
  integer,
  type Row,
  readBinary,
  readBlockRow,
  readCreations,
  readDatabaseRow,
  readDeletedDatabase,
  readDeletedItem,
  readHeaderRow,
  readHeadRow,
  readIdempotencyRecord,
  readInteger,
  readItemLife,
  readItemPositions,
  readItemRow,
  readLastTime,
  readStoredIndex,
  readStoredItem,
  text,
} from './rows.ts'
import { SqlSearchRows } from './search-rows.ts'

const toCount = (row: Row): number => readInteger(row, 'count')
const toCreated = (row: Row): number => readInteger(row, 'created')
const toPosition = (row: Row): number => readInteger(row, 'position')
const toHashes = (row: Row): Uint8Array => readBinary(row, 'hashes')
const toCharacters = ({ text }: StoredItem): number => text.length

/** The reads that the engines have in common. An engine adds its `SqlReads`, its `Dialect` and its own checks. */
export abstract class SqlReader implements StoreReader {
  readonly serverId: number
  readonly attachments: SqlAttachments
  readonly #sql
  readonly #reads: SqlReads
  readonly #searchRows: SqlSearchRows
  readonly #revisions: SqlRevisions
  readonly #formerItems: SqlFormerItems
  readonly #createItemParts

  constructor(serverId: number, reads: SqlReads, dialect: Dialect) {
    this.serverId = serverId
    this.attachments = new SqlAttachments(reads, dialect)
    this.#sql = readerStatements(dialect)
    this.#reads = reads
    this.#searchRows = new SqlSearchRows(reads, dialect)
    this.#revisions = new SqlRevisions(reads, dialect)
    this.#formerItems = new SqlFormerItems(reads, dialect, this.#revisions, this.#searchRows)
    this.#createItemParts = createItemParts(serverId)
  }

  abstract fileDamage(): Promise<string | null>
  abstract damage(): Promise<string | null>
  abstract diskUsage(): Promise<DiskUsage>
  abstract readFailure(): StoreError | null
  abstract refresh(): void
  abstract readonly timeline: number
  abstract requireTimeline(timeline: number): void
  abstract close(): Promise<void>

  databases(): Promise<StoredDatabase[]> {
    return this.#reads.all(this.#sql.databases, [], readDatabaseRow)
  }

  database(name: string): Promise<StoredDatabase | null> {
    return this.#reads.first(this.#sql.database, [name], readDatabaseRow)
  }

  item(db: string, id: string): Promise<StoredItem | null> {
    return this.#reads.first(this.#sql.item, [db, id], readStoredItem)
  }

  existingIds(db: string, ids: readonly string[]): Promise<string[]> {
    return this.#reads.all(this.#sql.existingIds, [db, JSON.stringify(ids)], ([id]) =>
      text(id, 'id'),
    )
  }

  itemBytes(db: string, id: string): Promise<number | null> {
    return this.#reads.first(this.#sql.itemBytes, [db, id], (row) => readInteger(row, 'item'))
  }

  listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]> {
    return this.#reads.all(this.#sql.ids, rangeValues(database, range), readItemPositions)
  }

  listItems(database: number, range: ItemRange): Promise<StoredItem[]> {
    return this.#reads.page(
      this.#sql.items,
      rangeValues(database, range),
      readStoredItem,
      toCharacters,
    )
  }

  async search(database: number, query: ItemSearch, before?: number): Promise<FoundItems> {
    if (before === undefined) return searchItems(this.#searchRows, database, query)
    return searchFormerItems(this.#formerItems.before(database, before), query)
  }

  async count(database: number, where: Where | null, before?: number): Promise<CountedItems> {
    if (before === undefined) return countItems(this.#searchRows, database, where)
    return countFormerItems(this.#formerItems.before(database, before), where)
  }

  databasesBefore(before: number): Promise<StoredDatabase[]> {
    return this.#reads.all(this.#sql.databasesBefore, [before], readDatabaseRow)
  }

  databaseBefore(name: string, before: number): Promise<StoredDatabase | null> {
    return this.#reads.first(this.#sql.databaseBefore, [before, name], readDatabaseRow)
  }

  createdBefore(database: number, id: string, before: number): Promise<number | null> {
    return this.#reads.first(this.#sql.createdBefore, [database, id, before], toCreated)
  }

  itemsBefore(
    database: number,
    positions: readonly number[],
    before: number,
  ): Promise<FoundItem[]> {
    const options = { text: true, charactersMax: PAGE_CHARACTERS }
    return this.#formerItems.before(database, before).items(positions, options)
  }

  blockTime(height: number): Promise<number | null> {
    return this.#reads.first(this.#sql.blockTime, [height], readLastTime)
  }

  indexes(): Promise<StoredIndex[]> {
    return this.#reads.all(this.#sql.indexes, [], readStoredIndex)
  }

  itemsByCreation(after: number, limit: number): Promise<ItemRow[]> {
    return this.#reads.page(this.#sql.itemsByCreation, [after, limit], readItemRow, toCharacters)
  }

  async plainCreations(
    height: number,
    ids: readonly string[],
    body: string,
  ): Promise<Creations[] | null> {
    const range = [packPosition(height, 0), packPosition(height + 1, 0)]
    const values = [...this.#createItemParts, body, ...range]
    const row = await this.#reads.first(this.#sql.plainCreations, values, (row) => row)
    const [count, first, last, database, other, name, storedIds, isSame] = row ?? []
    // Every position has a row if the range has as many rows as positions.
    const isComplete =
      count === ids.length && first === range[0] && last === packPosition(height, ids.length - 1)
    // No id and no entry contains a line feed, so joined texts are equal exactly if all lines are.
    if (!isComplete || isSame !== 1 || storedIds !== ids.join('\n')) return null
    if (database === other) return [readCreations([name, database, count])]
    return this.#reads.all(this.#sql.creations, range, readCreations)
  }

  async revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]> {
    const { newestFirst, limit } = range
    const after = range.after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : -1)
    const sql = newestFirst ? this.#sql.newestFirst : this.#sql.oldestFirst
    const positions = await this.#reads.all(sql, [database, id, after, limit], toPosition)
    return this.revisionsAt(positions.map((position) => ({ id, position })))
  }

  revisionsAt(wanted: readonly { id: string; position: number }[]): Promise<StoredRevision[]> {
    return this.#revisions.at(wanted)
  }

  unerasedRevisions(
    database: number,
    id: string,
    { from, to, limit }: PositionRange,
  ): Promise<number[]> {
    const values = [database, id, from, to, limit]
    return this.#reads.all(this.#sql.unerasedRevisions, values, toPosition)
  }

  lives(database: number, after: number, limit: number): Promise<ItemLife[]> {
    return this.#reads.all(this.#sql.lives, [database, after, limit], readItemLife)
  }

  async hasRevision(database: number, id: string, position: number): Promise<boolean> {
    const values = [database, id, position]
    return (await this.#reads.first(this.#sql.hasRevision, values, () => true)) ?? false
  }

  async isRevised(database: number, id: string, from: number, to: number): Promise<boolean> {
    const values = [database, id, from, to]
    return (await this.#reads.first(this.#sql.isRevised, values, () => true)) ?? false
  }

  countSuperseded(database: number): Promise<number> {
    return this.#count(this.#sql.countSuperseded, [database])
  }

  idempotencyRecord(key: string): Promise<IdempotencyRecord | null> {
    return this.#reads.first(this.#sql.idempotencyRecord, [key], readIdempotencyRecord)
  }

  idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]> {
    return this.#reads.all(this.#sql.idempotencyRecords, [after, limit], readIdempotencyRecord)
  }

  countItems(database: number): Promise<number> {
    return this.#count(this.#sql.countItems, [database])
  }

  countIds(database: number, from: string, to: string): Promise<number> {
    return this.#count(this.#sql.countIds, [database, from, to])
  }

  droppedDatabases(): Promise<number[]> {
    return this.#reads.all(this.#sql.dropped, [], (row) => readInteger(row, 'db'))
  }

  deletedDatabases(): Promise<DeletedDatabase[]> {
    return this.#reads.all(this.#sql.deleted, [], readDeletedDatabase)
  }

  deletedItem(database: number, created: number): Promise<DeletedItem | null> {
    return this.#reads.first(this.#sql.deletedItem, [database, created], readDeletedItem)
  }

  itemDeletedBy(database: number, id: string, deleted: number): Promise<DeletedItem | null> {
    return this.#reads.first(this.#sql.itemDeletedBy, [database, id, deleted], readDeletedItem)
  }

  async countDeleted(database: number, deleted: number): Promise<{ all: number; by: number }> {
    const counts = await this.#reads.first(
      this.#sql.countDeleted,
      [database, deleted],
      ([all, by]) => ({ all: integer(all, 'count'), by: integer(by, 'count') }),
    )
    return counts ?? { all: 0, by: 0 }
  }

  formerDatabases(name: string): Promise<number[]> {
    return this.#reads.all(this.#sql.former, [name], toCreated)
  }

  async head(serverId: number): Promise<Head | null> {
    if (serverId !== this.serverId) return null
    return this.#reads.first(this.#sql.head, [], readHeadRow)
  }

  async blocks(serverId: number, from: number, limit: number): Promise<Block[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.page(
      this.#sql.blocks,
      [from, limit],
      (row) => readBlockRow(row, serverId),
      ({ entries }) => entries.reduce((sum, { length }) => sum + length, 0),
    )
  }

  async countEntries(serverId: number, from: number, to: number): Promise<number> {
    return serverId === this.serverId ? this.#count(this.#sql.countEntries, [from, to]) : 0
  }

  async headers(serverId: number, from: number, limit: number): Promise<Header[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.all(this.#sql.headers, [from, limit], (row) => readHeaderRow(row, serverId))
  }

  async treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]> {
    const places = nodes.map(nodePlace)
    const leaves = serverId === this.serverId ? new Set(places.map(({ leaf }) => leaf)) : []
    const rows = await this.#reads.all(
      this.#sql.treeNodes,
      [JSON.stringify([...leaves])],
      ([height, hashes]): [unknown, unknown] => [height, hashes],
    )
    const hashesOfLeaf = new Map(rows)
    return nodes.map(({ level, index }, number) => {
      const { leaf = 0, at = 0 } = places[number] ?? {}
      const hashes = hashesOfLeaf.get(leaf)
      if (hashes instanceof Uint8Array && hashes.length >= at + HASH_BYTES) {
        return hashes.subarray(at, at + HASH_BYTES)
      }
      const where = `level ${level}, index ${index}`
      throw new StoreError('STORE_DAMAGED', `a node of the log is missing: ${where}`)
    })
  }

  async treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.all(this.#sql.treeLeaves, [from, limit], toHashes)
  }

  eraser(position: number): Promise<number | null> {
    return this.#reads.first(this.#sql.eraser, [position], (row) => readInteger(row, 'eraser'))
  }

  countErased(): Promise<number> {
    return this.#count(this.#sql.countErased, [])
  }

  lastEraser(): Promise<number | null> {
    return this.#revisions.lastEraser()
  }

  uncompacted(): Promise<number[]> {
    return this.#reads.all(this.#sql.uncompacted, [], toPosition)
  }

  async #count(sql: string, values: readonly Value[]): Promise<number> {
    return (await this.#reads.first(sql, values, toCount)) ?? 0
  }
}

function rangeValues(database: number, { after = -1, offset = 0, limit }: ItemRange): Value[] {
  return [database, after, limit, offset]
}
