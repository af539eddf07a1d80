import type { LedgerErrorCode } from '../errors.ts'
import type { Outcome } from '../unit-of-work.ts'

/** What the writer's thread is started with. */
export interface WriterStart {
  readonly folder: string
  readonly serverId: number
  readonly durable: boolean
  readonly difficulty: number
}

/** Main thread to writer: one batch, or the last message. */
export type ToWriter = { readonly batch: string; readonly nowMs: number } | { readonly close: true }

/** Writer to main thread. */
export type FromWriter =
  | { readonly ready: true }
  /** The batch is durable; a batch of which nothing could be done makes no block. */
  | { readonly block: { height: number; id: string } | null; readonly outcomes: Outcome[] }
  /** Nothing of the batch was done. After `stopped` nothing more will be. */
  | { readonly refused: LedgerErrorCode; readonly reason: string; readonly stopped: boolean }
  /** It could not start. */
  | { readonly code: string; readonly failed: string }
  | { readonly closed: true }
