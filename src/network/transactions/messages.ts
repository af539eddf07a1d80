import type { Json, JsonObject } from '../../base/json.ts'
import { LedgerError, type LedgerErrorCode, StoreError } from '../../ledger/core.ts'
import type { Change, UnitOfWork } from '../../ledger/index.ts'
import { NetworkError, type NetworkErrorCode } from '../errors.ts'
import type { Problem } from '../model/validation.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import type { Caller, Stamp } from '../resources/transaction.ts'

/** Revisions that a change may replace; null for any. */
export type ExpectedRevisions = readonly number[] | null

/** A request that may change a network, all of it or nothing. `type` is a qualified name. */
export type ChangeRequest =
  /** Adds one resource, or all of an array. */
  | { readonly kind: 'create'; readonly type: string; readonly body: Json }
  | {
      readonly kind: 'update'
      readonly type: string
      readonly id: string
      readonly body: JsonObject
      /** Whether the body is merged into the resource (RFC 7396), which needs READ as well. */
      readonly isPatch: boolean
      readonly expects: ExpectedRevisions
    }
  | {
      readonly kind: 'remove'
      readonly type: string
      readonly ids: readonly string[]
      readonly expects: ExpectedRevisions
    }
  | { readonly kind: 'updateAll'; readonly type: string; readonly body: readonly Json[] }
  | { readonly kind: 'submit'; readonly type: string; readonly fields: JsonObject }
  | IdentityChange
  /** Records that the network has started, and nothing else. */
  | { readonly kind: 'start' }

/** A request that changes who may use a network. */
export type IdentityChange =
  | {
      readonly kind: 'issueIdentity'
      readonly identity: IdentityRequest
      /** The SHA-256 of the secret. */
      readonly id: string
    }
  | { readonly kind: 'bindIdentity'; readonly participant: string; readonly certificate: string }
  | { readonly kind: 'revokeIdentity'; readonly id: string }

/** A request to issue an identity. */
export interface IdentityRequest {
  /** The relationship to the participant that the identity speaks for, as a client wrote it. */
  readonly participant: string
  /** What people call the identity. */
  readonly name: string
  /** Whether the identity gets the right to issue, bind and revoke identities. */
  readonly canIssue: boolean
}

/** The outcome of a change request. */
export interface Decision {
  /** The resources in their stored form; for a transaction its resource or its result. */
  readonly reply: Json
  /** The changes to record; null for none. */
  readonly unit: UnitOfWork | null
  /** Which operation of the unit records the transaction, and which one its first write. */
  readonly transactionAt: number
  readonly writeAt: number
  readonly events: readonly JsonObject[]
}

/** A line of a script's console. */
export interface LogLine {
  readonly level: string
  readonly text: string
}

export interface ThreadStart {
  /** The store of the ledger. */
  readonly location: string
  /** How long the processors of one transaction may take, and one condition: milliseconds. */
  readonly deadlineMs: number
  /** How long scripts may take to load, milliseconds. */
  readonly bootMs: number
  /** When the guest that runs has to stop: nanoseconds of `process.hrtime`; 0 while none runs. */
  readonly stopAt: BigInt64Array<SharedArrayBuffer>
  readonly task:
    | {
        readonly kind: 'serve'
        readonly archive: Uint8Array
        /** Records the network itself, before its first change; empty when it is recorded. */
        readonly deployment: readonly Change[]
      }
    | { readonly kind: 'verify'; readonly name: string }
}

/** The progress of a verification. */
export interface VerificationProgress {
  /** Height of the block that is being replayed. */
  readonly height: number
  /** Transactions that were replayed, with the one that is running. */
  readonly transactions: number
}

/** The result of verifying a network. */
export interface NetworkVerification {
  readonly blocks: number
  /** Those of the system included. */
  readonly transactions: number
  /** The first difference, or null. */
  readonly finding: string | null
}

/** To the thread. Messages are processed one after the other, in their order. */
export type ToThread =
  | {
      readonly id: number
      readonly caller: Caller
      readonly stamp: Stamp
      readonly change: ChangeRequest
    }
  | { readonly id: number; readonly condition: ConditionRequest }
  /** The decisions up to this id are durable. */
  | { readonly durable: number }

/** From the thread. */
export type FromThread =
  | { readonly ready: true }
  /** The thread could not start. */
  | { readonly failed: Failure }
  /** A line that a script wrote, sent before the answer to its request. */
  | { readonly logged: LogLine }
  | { readonly id: number; readonly decision: Decision }
  | { readonly id: number; readonly failure: Failure }
  | { readonly id: number; readonly values: readonly (boolean | null)[] }
  | { readonly progress: VerificationProgress }
  | { readonly verified: NetworkVerification }

/** An error on its way to the main thread. */
export interface Failure {
  readonly name: string
  readonly code: string
  readonly message: string
  readonly problems: readonly Problem[]
}

export function failureOf(error: unknown): Failure {
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const problems = error instanceof NetworkError ? error.problems : []
  return { name, code, message, problems }
}

export function errorOf({ name, code, message, problems }: Failure): Error {
  // Each code is one of its class, since `failureOf` took it from there.
  switch (name) {
    case 'NetworkError':
      return new NetworkError(code as NetworkErrorCode, message, { problems })
    case 'LedgerError':
      return new LedgerError(code as LedgerErrorCode, message)
    case 'StoreError':
      return new StoreError(code as StoreError['code'], message)
    default:
      return new Error(message)
  }
}
