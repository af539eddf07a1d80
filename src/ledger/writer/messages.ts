import type { IndexOutcome } from '../../storage/index.ts'
import type { LedgerErrorCode } from '../errors.ts'
import type { RequestConditions } from '../request-conditions.ts'
import type { Outcome } from '../unit-of-work.ts'
import type { EncodedUnit } from './batch-text.ts'

/** What the writer's thread is started with. */
export interface WriterStart {
  readonly folder: string
  readonly serverId: number
  readonly durable: boolean
  readonly difficulty: number
}

/** Main thread to writer: the units of work of the next block, a change of the indexes, or the last message. */
export type ToWriter =
  | {
      readonly units: readonly EncodedUnit[]
      readonly nowMs: number
      /** Of the units that have any, by their place among the units. */
      readonly terms?: ReadonlyMap<number, RequestConditions>
    }
  | { readonly index: 'add' | 'remove'; readonly db: string; readonly path: string }
  | { readonly close: true }

/** What the writer tells of a block that it has stored. */
export interface CommittedBlock {
  readonly height: number
  readonly id: string
  /** How many entries it has. */
  readonly entries: number
  /** The bytes of their texts. */
  readonly bytes: number
  /** How long storing it took, milliseconds. */
  readonly ms: number
}

/** Writer to main thread. */
export type FromWriter =
  | { readonly ready: true }
  /**
   * The units are durable; units of which nothing could be done make no block. Without `outcomes` each
   * unit made one entry, which is the usual case and costs nothing to tell.
   */
  | { readonly block: CommittedBlock | null; readonly outcomes: readonly Outcome[] | null }
  /** Nothing of the units was done, or with `unknown` nobody knows; after `stopped` nothing more will be. */
  | {
      readonly refused: LedgerErrorCode
      readonly reason: string
      readonly stopped: boolean
      readonly unknown: boolean
    }
  /** What became of the change of the indexes that was sent first; null when the store failed. */
  | { readonly indexed: IndexOutcome }
  | {
      readonly indexed: null
      readonly refused: LedgerErrorCode
      readonly reason: string
      readonly stopped: boolean
    }
  /** Maintenance failed for good: nothing more will be written. */
  | { readonly maintenanceFailed: string }
  /** It could not start. */
  | { readonly code: string; readonly failed: string }
  | { readonly closed: true }
