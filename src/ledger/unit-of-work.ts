import type { JsonObject } from '../base/json.ts'
import { ENTRIES_MAX } from '../chain/index.ts'
import { LedgerError, type LedgerErrorCode } from './errors.ts'

/** A change as a client names it in `POST /api/ledgers`: an entry without the server id. */
export type Change =
  | { readonly method: 'create_db' | 'delete_db'; readonly db: string }
  | {
      readonly method: 'create_item' | 'update_item'
      readonly db: string
      readonly item: JsonObject
    }
  | { readonly method: 'delete_item'; readonly db: string; readonly id: string }

/** A change by the owner of a database. */
export type OwnChange = Change & {
  /** The id of a created item is freshly generated, so nobody checks whether it exists. */
  readonly assigned?: boolean
}

/** Where a change was recorded; `position` is packed. */
export interface Written {
  readonly position: number
  readonly height: number
  readonly blockId: string
}

/** Changes a database that has an owner. */
export interface OwnDatabase {
  /** Records prepared changes in one block. Errors: those of the writer, and of the stored state. */
  record(unit: UnitOfWork): Promise<Written>
}

/**
 * One validated change. Names are checked, texts are canonical JSON.
 *
 * `create_item.assigned`: the id was generated here, so nobody checks whether it exists.
 * `patch_item.text` is an RFC 7396 merge patch; it is recorded as an `update_item` with the whole result.
 */
export type Operation =
  | { readonly kind: 'create_db' | 'delete_db'; readonly db: string }
  | {
      readonly kind: 'create_item'
      readonly db: string
      readonly id: string
      readonly text: string
      readonly assigned: boolean
    }
  | {
      readonly kind: 'update_item' | 'patch_item'
      readonly db: string
      readonly id: string
      readonly text: string
    }
  | {
      readonly kind: 'create_attachment'
      readonly db: string
      readonly id: string
      /** The metadata; the bytes are on the disk already. */
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
      /** The item's id; the item stays as it is. */
      readonly of: string
      /** Packed; null for all revisions that are no longer current. */
      readonly positions: readonly number[] | null
    }

/** Operations that are recorded together in one block, or not at all. */
export type UnitOfWork = readonly Operation[]

/** Estimated size of an entry beside its item: names, id, method, timestamp. */
const OPERATION_OVERHEAD_BYTES = 128
/** Maximum bytes of one unit of work. */
export const UNIT_BYTES_MAX = 64 * 1024 * 1024

/** Where an earlier request with the same idempotency key was recorded. */
export interface Earlier {
  /** Packed, of the first entry. */
  readonly position: number
  readonly entries: number
}

/** The outcome of a unit of work. */
export type Outcome =
  | {
      /** Of its first entry in the block. */
      readonly index: number
      /** The SHA-256 of each content that an erased entry named, if there are any. */
      readonly freed?: readonly string[]
    }
  | Earlier
  | { readonly code: LedgerErrorCode; readonly message: string }

/** The approximate size of `unit` in bytes, from the lengths of its texts. */
export function bytesOf(unit: UnitOfWork): number {
  let bytes = 0
  for (const operation of unit) {
    bytes += OPERATION_OVERHEAD_BYTES + operation.db.length
    if ('text' in operation) bytes += operation.text.length
    if ('of' in operation) bytes += 16 * (operation.positions?.length ?? 0)
  }
  return bytes
}

/** Errors: UNIT_EMPTY, UNIT_TOO_LARGE. */
export function checkUnit(unit: UnitOfWork): void {
  if (unit.length === 0) throw new LedgerError('UNIT_EMPTY', 'the list holds nothing to do')
  if (unit.length > ENTRIES_MAX || bytesOf(unit) > UNIT_BYTES_MAX) {
    throw new LedgerError(
      'UNIT_TOO_LARGE',
      `one request may make ${ENTRIES_MAX} changes of together ${UNIT_BYTES_MAX} bytes`,
    )
  }
}
