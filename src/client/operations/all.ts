// Made by scripts/make-client-types.ts. Do not edit.
import type { AttachmentsCalls } from './attachments.ts'
import type { DatabasesCalls } from './databases.ts'
import type { ItemsCalls } from './items.ts'
import type { LedgerCalls } from './ledger.ts'
import type { LogCalls } from './log.ts'
import type { OperationsCalls } from './operations.ts'

/** What each operation is sent and gives back, by method and path. */
export interface Operations
  extends DatabasesCalls,
    ItemsCalls,
    LedgerCalls,
    AttachmentsCalls,
    OperationsCalls,
    LogCalls {}
