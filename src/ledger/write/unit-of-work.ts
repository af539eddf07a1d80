import type { Author } from '../../base/author.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import {
  type Authorship,
  ENTRIES_BYTES_MAX,
  ENTRIES_MAX,
  isReason,
  pickAuthorship,
  REASON_BYTES_MAX,
} from '../../chain/index.ts'
import type { Turns } from '../../storage/index.ts'
import { LedgerError, type LedgerErrorCode } from '../errors.ts'
import { itemText, requireItem, requireItemBytes } from './item.ts'
import { requireDatabaseName, requireItemId } from './names.ts'

/**
 * A change as in the body of `POST /api/ledgers`: an entry without the server id and the author; or, as `patch_item`, an
 * RFC 7396 merge patch with the id of the item.
 */
export type Change = Pick<Authorship, 'reason'> &
  (
    | { readonly method: 'create_db' | 'delete_db'; readonly db: string }
    | {
        readonly method: 'create_item' | 'update_item' | 'patch_item'
        readonly db: string
        readonly item: JsonObject
      }
    | { readonly method: 'delete_item'; readonly db: string; readonly id: string }
  )

/** A change by the owner of a database, who knows the canonical text of the item. */
export type OwnChange =
  | Change
  | Extract<Operation, { kind: 'create_item' }>
  | Extract<Operation, { kind: 'update_item' }>

export interface Written {
  readonly position: number
  readonly height: number
  readonly blockId: string
}

export interface OwnDatabase {
  /** The turns in which the processes of this node may change the database; null if there is only one process. */
  readonly turns: Turns | null
  /**
   * Records `unit` in one block. Errors: the errors of the writer, and those that depend on the stored state;
   * DATABASE_CHANGED if a block from height `known` on has an entry of this database.
   */
  record(unit: UnitOfWork, known?: number | null): Promise<Written>
}

/**
 * Former revisions of an item of which an erasure takes the oldest ones: those from `from` (inclusive) to `to`
 * (exclusive). Attachments before `from` are erased too, because attachments of one name must be erased oldest first.
 */
export interface FormerRange {
  /** Packed position of the entry that created the database; null for all databases of the name. */
  readonly database: number | null
  readonly from: number
  readonly to: number
}

/**
 * One validated change. Its names are checked, and its text is canonical JSON.
 *
 * `create_item.assigned`: the id was just generated, so the writer does not check whether the item exists.
 * `patch_item.text`: an RFC 7396 merge patch; the writer records an `update_item` with the whole result.
 */
export type Operation = Authorship &
  (
    | { readonly kind: 'create_db' | 'delete_db'; readonly db: string }
    | {
        readonly kind: 'create_item'
        readonly db: string
        readonly id: string
        readonly text: string
        readonly assigned: boolean
      }
    | {
        readonly kind: 'update_item'
        readonly db: string
        readonly id: string
        readonly text: string
      }
    | {
        readonly kind: 'patch_item'
        readonly db: string
        readonly id: string
        readonly text: string
        /** Bytes of the item when the request arrived; 0 if there was none. Only for estimates. */
        readonly currentBytes: number
      }
    | {
        readonly kind: 'create_attachment'
        readonly db: string
        readonly id: string
        /** The metadata of the attachment, whose bytes are already durable. */
        readonly text: string
      }
    | { readonly kind: 'delete_item'; readonly db: string; readonly id: string }
    | {
        readonly kind: 'delete_attachment'
        readonly db: string
        readonly id: string
        readonly name: string
      }
    | {
        readonly kind: 'erase_item'
        readonly db: string
        /** The item's id. Not called `id`, because the item does not change. */
        readonly of: string
        /** Packed positions of the revisions to erase; null for all former revisions, or those in `range`. */
        readonly positions: readonly number[] | null
        readonly range?: FormerRange
      }
  )

/** Operations that are recorded together in one block, or not at all. */
export type UnitOfWork = readonly Operation[]

/** Maximum bytes of an entry without its texts, names, author and reason. */
const OPERATION_OVERHEAD_BYTES = 128

/** The entries that an earlier request with the same idempotency key has recorded. */
export interface EarlierRequest {
  /** Packed position of the first entry. */
  readonly position: number
  readonly entries: number
}

/** The erasures of a unit. */
export interface Erased {
  /** Number of entries. */
  readonly erased: number
  /** SHA-256 of each blob to which an erased entry referred. Other entries may refer to the same blob. */
  readonly freed: readonly string[]
  /** Packed position after which the next erasure of the same range may start; null if nothing is left. */
  readonly last: number | null
}

export type UnitOutcome =
  | ({
      /** Index of the first entry in the block. */
      readonly index: number
    } & Partial<Erased>)
  | EarlierRequest
  | { readonly code: LedgerErrorCode; readonly message: string }

/** Estimates the bytes of the entries of `unit`. Only those of patches and erasures can be more. */
function estimateBytes(unit: UnitOfWork): number {
  let bytes = 0
  for (const operation of unit) {
    bytes += OPERATION_OVERHEAD_BYTES + Buffer.byteLength(operation.db)
    if ('text' in operation) bytes += Buffer.byteLength(operation.text)
    // A quote or a backslash of an id becomes two bytes.
    else if ('id' in operation) bytes += 2 * Buffer.byteLength(operation.id)
    if (operation.kind === 'patch_item') bytes += operation.currentBytes
    if ('of' in operation) bytes += 16 * (operation.positions?.length ?? 0)
    const { by, reason = '' } = operation
    if (by !== undefined) bytes += Buffer.byteLength(by.sub) + Buffer.byteLength(by.iss ?? '')
    bytes += Buffer.byteLength(reason)
  }
  return bytes
}

/** Returns the estimated bytes of `unit`. Errors: UNIT_EMPTY, UNIT_TOO_LARGE. */
export function requireUnitBytes(unit: UnitOfWork): number {
  if (unit.length === 0) throw new LedgerError('UNIT_EMPTY', 'the list of changes is empty')
  const bytes = estimateBytes(unit)
  if (unit.length > ENTRIES_MAX || bytes > ENTRIES_BYTES_MAX) throw unitTooLarge()
  return bytes
}

export function unitTooLarge(): LedgerError {
  const most = `${ENTRIES_MAX} changes with ${ENTRIES_BYTES_MAX} bytes in total`
  return new LedgerError('UNIT_TOO_LARGE', `one request may make at most ${most}`)
}

/**
 * Builds the unit of work for `changes`. Each created item must have an id. Throws all errors of `recordChanges` that
 * do not depend on the stored state, also those after the author `by` is added.
 */
export function toUnit(changes: readonly OwnChange[], by: Author): UnitOfWork {
  requireFewChanges(changes)
  const unit = changes.map((change) => {
    if ('method' in change) return toOperation(change, noId)
    requireItemPath(change.db, change.id)
    requireItemBytes(change.text)
    return change
  })
  requireUnitBytes(withAuthorship(unit, { by }))
  return unit
}

function noId(): never {
  throw new LedgerError('ITEM_ID_INVALID', 'each created item must have an id')
}

/**
 * Builds the operation for `change`. `newId` generates a missing id. Errors: DATABASE_NAME_…, ITEM_…, REASON_INVALID.
 */
export function toOperation(change: Change, newId: () => string): Operation {
  const operation = plainOperation(change, newId)
  const { reason } = change
  return reason === undefined ? operation : { ...operation, reason: requireReason(reason) }
}

/** Returns `reason`. Errors: REASON_INVALID. */
export function requireReason(reason: string): string {
  if (isReason(reason)) return reason
  const message = `a reason must have 1 to ${REASON_BYTES_MAX} bytes of UTF-8`
  throw new LedgerError('REASON_INVALID', message)
}

/** Returns `unit` with the author of the request and, for operations without a reason, its reason. */
export function withAuthorship(unit: UnitOfWork, request: Authorship): UnitOfWork {
  const made = pickAuthorship(request)
  if (Object.keys(made).length === 0) return unit
  return unit.map((operation) => ({ ...made, ...operation }))
}

function plainOperation(change: Change, newId: () => string): Operation {
  switch (change.method) {
    case 'create_db':
    case 'delete_db':
      requireDatabaseName(change.db)
      return { kind: change.method, db: change.db }
    case 'create_item':
      return toCreation(change.db, change.item, newId)
    case 'update_item':
    case 'patch_item': {
      const { method, db, item } = change
      if (typeof item.id !== 'string') {
        throw new LedgerError('ITEM_ID_INVALID', `the item of an ${method} entry must have an id`)
      }
      requireItemPath(db, item.id)
      const operation = { db, id: item.id, text: itemText(item) }
      if (method === 'update_item') return { kind: method, ...operation }
      return { kind: method, ...operation, currentBytes: 0 }
    }
    case 'delete_item':
      requireItemPath(change.db, change.id)
      return { kind: 'delete_item', db: change.db, id: change.id }
  }
}

/**
 * Builds the operation that creates `given` in `db`. Errors: ITEM_INVALID, ITEM_ID_INVALID, ITEM_TOO_LARGE.
 */
export function toCreation(
  db: string,
  given: Json,
  newId: () => string,
): Extract<Operation, { kind: 'create_item' }> {
  const item = requireItem(given)
  requireDatabaseName(db)
  const kind = 'create_item'
  if (item.id === undefined) {
    const id = newId()
    return { kind, db, id, text: itemText(item, id), assigned: true }
  }
  const { id } = item
  if (typeof id !== 'string') {
    throw new LedgerError('ITEM_ID_INVALID', 'the id of an item must be a string, or absent')
  }
  requireItemId(id)
  return { kind, db, id, text: itemText(item), assigned: false }
}

/** Checks the database name and the item id of a path. Errors: DATABASE_NAME_…, ITEM_ID_INVALID. */
export function requireItemPath(db: string, id: string): void {
  requireDatabaseName(db)
  requireItemId(id)
}

/** Checks the length of a list before an operation is built for each element. Errors: UNIT_TOO_LARGE. */
export function requireFewChanges(list: readonly unknown[]): void {
  if (list.length <= ENTRIES_MAX) return
  throw new LedgerError('UNIT_TOO_LARGE', `one request may make at most ${ENTRIES_MAX} changes`)
}
