import { canonicalJson } from '../../base/canonical-json.ts'
import { errorCode } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import { StrictJsonError, type StrictJsonErrorCode } from '../../base/strict-json.ts'
import { LedgerError, type LedgerErrorCode, StoreError } from '../../ledger/core.ts'
import type { Change, UnitOfWork } from '../../ledger/index.ts'
import { NetworkError, type NetworkErrorCode } from '../errors.ts'
import type { Problem } from '../model/validation.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import type { Caller, Stamp } from '../resources/transaction.ts'
import type { EngineModule } from '../runtime/engine.ts'

/** The revisions that a change may replace; null for any revision. */
export type ExpectedRevisions = readonly number[] | null

/**
 * A request to change a network. All of its changes are made, or none. `type` is a qualified name. `text` is the JSON of
 * the request, which only the thread parses: its objects can take 30 times as much memory.
 */
export type NetworkChange =
  /** Creates one resource, or all resources of an array. */
  | { readonly kind: 'create'; readonly type: string; readonly text: string }
  | {
      readonly kind: 'update'
      readonly type: string
      readonly id: string
      /** An object. */
      readonly text: string
      /** Whether the object is merged into the resource (RFC 7396), which requires READ access too. */
      readonly isPatch: boolean
      readonly expects: ExpectedRevisions
    }
  | {
      readonly kind: 'remove'
      readonly type: string
      readonly ids: readonly string[]
      readonly expects: ExpectedRevisions
    }
  /** Replaces all resources of an array. */
  | { readonly kind: 'updateAll'; readonly type: string; readonly text: string }
  | { readonly kind: 'submit'; readonly type: string; readonly text: string }
  | IdentityChange
  /** Records only the start of the network. */
  | { readonly kind: 'start' }

/** A request to issue, bind or revoke an identity. */
export type IdentityChange =
  | {
      readonly kind: 'issueIdentity'
      readonly identity: IdentityRequest
      /** The SHA-256 of the secret. */
      readonly id: string
    }
  | { readonly kind: 'bindIdentity'; readonly participant: string; readonly certificate: string }
  | { readonly kind: 'revokeIdentity'; readonly id: string }

export interface IdentityRequest {
  /** The relationship to the identity's participant, as sent by the client. */
  readonly participant: string
  /** The name of the identity, for people. */
  readonly name: string
  /** Whether the identity gets the right to issue, bind and revoke identities. */
  readonly canIssue: boolean
}

/** An event, with its content as canonical JSON. */
export interface EventText {
  /** Qualified name of the event's type. */
  readonly type: string
  readonly id: string
  readonly text: string
}

export function toEventText(event: JsonObject): EventText {
  const { $class, eventId } = event
  return { type: String($class), id: String(eventId), text: canonicalJson(event) }
}

/** The outcome of a change request. */
export interface Decision {
  /**
   * JSON. For a creation or an update: the resource in its stored form, or an array of them. For a submitted transaction:
   * its result (`@returns`), or the transaction itself. Otherwise null.
   */
  readonly reply: string
  /** The changes to record, or null if nothing is recorded (`@commit(false)`). */
  readonly unit: UnitOfWork | null
  /** Index in `unit` of the operation that records the transaction. */
  readonly transactionAt: number
  /** Index in `unit` of the first write of the transaction; `transactionAt` if there are no writes. */
  readonly writeAt: number
  readonly events: readonly EventText[]
}

/** A line of a script's console output. */
export interface LogLine {
  readonly level: string
  readonly text: string
}

export interface ThreadStart {
  /** Location of the ledger's store. */
  readonly location: string
  readonly engine: EngineModule
  /** Maximum time for the processors of one transaction, and for one condition, in milliseconds. */
  readonly deadlineMs: number
  /** Maximum time to load the scripts, in milliseconds. */
  readonly bootMs: number
  /** Deadline of the running guest, in nanoseconds of `process.hrtime`; 0 while no guest runs. */
  readonly stopAt: BigInt64Array<SharedArrayBuffer>
  readonly task:
    | {
        readonly kind: 'serve'
        readonly archive: Uint8Array
        /** The changes that record the network itself; empty if it is in the ledger. See `DeciderParts`. */
        readonly deployment: readonly Change[]
      }
    | {
        readonly kind: 'verify'
        readonly name: string
        /** See `verifyNetwork`. */
        readonly restoredHeight: number | null
      }
}

export interface VerificationProgress {
  /** Height of the block being replayed. */
  readonly height: number
  /** Number of replayed transactions, including the current transaction. */
  readonly transactions: number
}

/** The result of verifying a network. */
export interface NetworkVerification {
  /** Number of blocks of the network, including restored blocks. */
  readonly blocks: number
  /** Number of blocks that were restored from another chain, and therefore not replayed. */
  readonly restored: number
  /** Number of replayed transactions, including system transactions. */
  readonly transactions: number
  /** The first difference, or null. */
  readonly finding: string | null
}

/** Messages to the thread. The thread processes messages one at a time, in order. */
export type ToThread =
  | {
      readonly id: number
      readonly caller: Caller
      readonly stamp: Stamp
      readonly change: NetworkChange
    }
  | { readonly id: number; readonly condition: ConditionRequest }
  /** The decisions up to this id are durable. */
  | { readonly durable: number }
  /** See `StoreReader.requireTimeline`. */
  | { readonly timeline: number }

export type FromThread =
  | { readonly ready: true }
  /** The thread could not start. */
  | { readonly failed: ThreadFailure }
  /** A line of a script's console output, sent before the answer to the request that runs the script. */
  | { readonly logged: LogLine }
  | { readonly id: number; readonly decision: Decision }
  | { readonly id: number; readonly failure: ThreadFailure }
  | { readonly id: number; readonly values: readonly (boolean | null)[] }
  | { readonly progress: VerificationProgress }
  | { readonly verified: NetworkVerification }

/** An error in a form that can be sent to the main thread. */
export interface ThreadFailure {
  readonly name: string
  readonly code: string
  readonly message: string
  readonly problems: readonly Problem[]
}

export function toThreadFailure(error: unknown): ThreadFailure {
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  const code = errorCode(error)
  const problems = error instanceof NetworkError ? error.problems : []
  return { name, code, message, problems }
}

export function toError({ name, code, message, problems }: ThreadFailure): Error {
  // The casts are safe, because `toThreadFailure` took the code from an error of the same class.
  switch (name) {
    case 'NetworkError':
      return new NetworkError(code as NetworkErrorCode, message, { problems })
    case 'StrictJsonError':
      return new StrictJsonError(code as StrictJsonErrorCode, message)
    case 'LedgerError':
      return new LedgerError(code as LedgerErrorCode, message)
    case 'StoreError':
      return new StoreError(code as StoreError['code'], message)
    default:
      return new Error(message)
  }
}
