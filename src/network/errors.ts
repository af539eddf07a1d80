import { CodedError } from '../base/coded-error.ts'
import type { Finding } from './language/source.ts'
import type { Problem } from './model/validation.ts'

/** Every way a network refuses. */
export type NetworkErrorCode =
  | 'NETWORK_UNREADABLE' // no directory or archive of a network, or not a safe one
  | 'NETWORK_INVALID' // its files have errors: `findings`
  | 'NETWORK_EXISTS'
  | 'NETWORK_NOT_FOUND'
  | 'NETWORK_REMOVED'
  | 'NETWORK_NAME_TAKEN' // a database that is no network's has its name
  | 'NETWORK_VERSION_SAME' // an upgrade to the deployed archive
  | 'UPGRADE_INVALID' // stored resources do not fit the new model: `problems`
  | 'TYPE_NOT_FOUND'
  | 'RESOURCE_NOT_FOUND'
  | 'RESOURCE_EXISTS'
  | 'RESOURCE_INVALID' // not an instance of its type: `problems`
  | 'RESOURCE_ID_MISMATCH' // the body names another id than the path
  | 'RESOURCE_CHANGED' // `If-Match` names another revision
  | 'TRANSACTION_FAILED' // a processor threw; its message is kept
  | 'PROCESSOR_DEADLINE' // its processors took too long
  | 'PROCESSOR_MEMORY' // they took more memory than there is for them
  | 'QUERY_NOT_FOUND'
  | 'PARAMETER_INVALID' // of a query: `problems`
  | 'FILTER_INVALID' // `problems`
  | 'ACCESS_DENIED'
  | 'IDENTITY_UNKNOWN' // no identity, or a revoked one
  | 'LIST_EMPTY'
  | 'UNIT_TOO_LARGE' // more resources than one block holds
  | 'NETWORK_BUSY'

/** Details of a refusal. */
export interface NetworkErrorDetails {
  readonly problems?: readonly Problem[]
  readonly findings?: readonly Finding[]
  readonly cause?: unknown
}

/** Thrown by this module. */
export class NetworkError extends CodedError<NetworkErrorCode> {
  override readonly name = 'NetworkError'
  /** Problems of a request or of stored resources. */
  readonly problems: readonly Problem[]
  /** Findings in a network's files. */
  readonly findings: readonly Finding[]

  constructor(code: NetworkErrorCode, message: string, details: NetworkErrorDetails = {}) {
    super(code, message, details.cause === undefined ? {} : { cause: details.cause })
    this.problems = details.problems ?? []
    this.findings = details.findings ?? []
  }
}
