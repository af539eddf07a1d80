import type { LedgerErrorCode } from '../errors.ts'
import type { Outcome } from '../unit-of-work.ts'

/** What the writer's thread is started with. */
export interface WriterStart {
  readonly folder: string
  readonly serverId: number
  readonly durable: boolean
  readonly difficulty: number
}

/**
 * Main thread to writer: units of work, or the last message. `entries` and `bytes` are their sums,
 * so that the writer can tell how many messages make one block without opening them.
 */
export type ToWriter =
  | {
      readonly units: string
      readonly entries: number
      readonly bytes: number
      readonly nowMs: number
    }
  | { readonly close: true }

/** Writer to main thread. `messages` says how many messages an answer is for, oldest first. */
export type FromWriter =
  | { readonly ready: true }
  /** The units are durable; units of which nothing could be done make no block. */
  | {
      readonly messages: number
      readonly block: { height: number; id: string } | null
      readonly outcomes: Outcome[]
    }
  /** Nothing of the units was done; with `stopped` nobody knows, and nothing more will be done. */
  | {
      readonly messages: number
      readonly refused: LedgerErrorCode
      readonly reason: string
      readonly stopped: boolean
    }
  /** It could not start. */
  | { readonly code: string; readonly failed: string }
  | { readonly closed: true }
