import type { Head } from '../../chain/index.ts'
import type { IndexOutcome } from '../../storage/index.ts'
import type { LedgerErrorCode } from '../errors.ts'
import type { RequestConditions } from './request-conditions.ts'
import type { UnitOfWork, UnitOutcome } from './unit-of-work.ts'

/**
 * Messages to the writer thread: the units of work of the next block, an index change, or the request to close.
 */
export type ToWriter =
  | {
      readonly units: readonly UnitOfWork[]
      readonly nowMs: number
      /** Conditions by index of the unit; absent if no unit has conditions. */
      readonly conditions?: ReadonlyMap<number, RequestConditions>
    }
  | { readonly index: 'add' | 'remove'; readonly db: string; readonly path: string }
  /** A block that this process has read or signed. */
  | { readonly seen: SeenBlock }
  | { readonly close: true }

export type SeenBlock = Pick<Head, 'height' | 'id'>

export interface CommittedBlock {
  readonly height: number
  readonly id: string
  readonly entries: number
  /** Total bytes of the texts of the entries. */
  readonly bytes: number
  /** Duration of the commit, milliseconds. */
  readonly ms: number
}

/** A failure of the store. If `stopped` is true, the writer accepts no more changes. */
export interface StoreRefusal {
  readonly refused: LedgerErrorCode
  readonly reason: string
  readonly stopped: boolean
}

/** Messages from the writer thread. */
export type FromWriter =
  | { readonly ready: true }
  /** Answers the oldest units. The accepted ones are durable. `block` is null if all were rejected. */
  | { readonly block: CommittedBlock | null; readonly outcomes: readonly UnitOutcome[] }
  /** The store failed. If `unknown` is true, the units may have been recorded; otherwise no unit was recorded. */
  | (StoreRefusal & { readonly unknown: boolean })
  /** Outcome of the oldest index change; null if the store failed. */
  | { readonly indexed: IndexOutcome }
  | (StoreRefusal & { readonly indexed: null })
  /** The database server answers again after STORE_UNAVAILABLE or OUTCOME_UNKNOWN. */
  | { readonly available: true }
  /** The disk has free space again after STORE_FULL. */
  | { readonly hasSpace: true }
  /** Maintenance failed permanently, and the writer has stopped. */
  | { readonly maintenanceFailed: string; readonly code: LedgerErrorCode }
  /** The thread could not start. */
  | { readonly code: string; readonly failed: string }
  | { readonly closed: true }
