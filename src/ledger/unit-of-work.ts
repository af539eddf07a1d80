import { ENTRIES_MAX } from '../chain/index.ts'
import { LedgerError, type LedgerErrorCode } from './errors.ts'

/**
 * One change that a client asks for. Names are checked, texts are canonical JSON.
 *
 * `create_item.assigned` says that the id was made here and is fresh, so nobody needs to look
 * whether it is taken. `patch_item.text` is an RFC 7396 merge patch; it is recorded as an
 * `update_item` with the whole item that comes out.
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
  | { readonly kind: 'delete_item'; readonly db: string; readonly id: string }
  | {
      readonly kind: 'create_attachment'
      readonly db: string
      readonly id: string
      /** The attachment as canonical JSON; its bytes are on the disk already. */
      readonly text: string
    }
  | {
      readonly kind: 'delete_attachment'
      readonly db: string
      readonly id: string
      readonly name: string
    }
  | {
      readonly kind: 'erase_item'
      readonly db: string
      /** Of the item, which stays as it is. */
      readonly of: string
      /** Packed; null stands for all revisions that are no longer current. */
      readonly positions: readonly number[] | null
    }

/** Operations that happen together: all of them in one block, or none. */
export type UnitOfWork = readonly Operation[]

/** What one entry may cost beside its item: names, id, method, timestamp. */
const OPERATION_OVERHEAD_BYTES = 128
/** The most bytes of one unit of work. */
export const UNIT_BYTES_MAX = 64 * 1024 * 1024
/** The most bytes of one item in canonical form. */
export const ITEM_BYTES_MAX = 10 * 1024 * 1024

/** Where what a request asked for was recorded before. */
export interface Earlier {
  /** Packed, of the first entry. */
  readonly position: number
  readonly entries: number
}

/** What became of a unit of work. */
export type Outcome =
  | {
      /** Of its first entry in the block. */
      readonly index: number
      /** The SHA-256 of contents that it took entries from, when there are any. */
      readonly freed?: readonly string[]
    }
  | Earlier // it was done before, when the same request came first
  | { readonly code: LedgerErrorCode; readonly message: string }

/** A rough size of `unit` in bytes, from the lengths of its texts. */
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
