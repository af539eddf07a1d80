import { CodedError } from '../base/coded-error.ts'
import type { SourceFinding } from './language/source.ts'
import { PROBLEMS_MAX, type Problem } from './model/validation.ts'

export type NetworkErrorCode =
  | 'NETWORK_UNREADABLE' // not a directory or archive of a network, or an archive with unsafe paths
  | 'NETWORK_INVALID' // the files of the network have errors; see `findings`
  | 'NETWORK_EXISTS'
  | 'NETWORK_NOT_FOUND'
  | 'NETWORK_REMOVED'
  | 'NETWORK_NAME_TAKEN' // a removed network, or a database without a network, has this name
  | 'NETWORK_VERSION_SAME' // an upgrade to an archive that is already deployed
  | 'UPGRADE_INVALID' // stored resources are invalid in the new model; see `problems`
  | 'TYPE_NOT_FOUND'
  | 'RESOURCE_NOT_FOUND'
  | 'RESOURCE_EXISTS'
  | 'RESOURCE_INVALID' // not a valid instance of its type; see `problems`
  | 'RESOURCE_ID_MISMATCH' // the ids in the body and the path differ
  | 'RESOURCE_CHANGED' // `If-Match` does not contain the current revision
  | 'TRANSACTION_FAILED' // a processor threw; the message comes from its error
  | 'PROCESSOR_DEADLINE' // the processors of a transaction took too long
  | 'PROCESSOR_MEMORY' // the processors of a transaction used too much memory
  | 'QUERY_NOT_FOUND'
  | 'PARAMETER_INVALID' // a query or its parameters are invalid; see `problems`
  | 'FILTER_INVALID' // see `problems`
  | 'ACCESS_DENIED'
  | 'IDENTITY_UNKNOWN' // the identity does not exist or is revoked
  | 'LIST_EMPTY'
  | 'UNIT_TOO_LARGE' // more resources than fit into one block
  | 'NETWORK_BUSY'

/** Maximum characters of a message or path. A longer one, which quotes a long text of a request, is cut. */
const TEXT_LENGTH_MAX = 5_000

function cut(text: string): string {
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text
}

export interface NetworkErrorDetails {
  readonly problems?: readonly Problem[]
  readonly findings?: readonly SourceFinding[]
  readonly cause?: unknown
}

export class NetworkError extends CodedError<NetworkErrorCode> {
  override readonly name = 'NetworkError'
  /** Problems of a request or of stored resources, at most PROBLEMS_MAX. */
  readonly problems: readonly Problem[]
  /** Findings in a network's files. */
  readonly findings: readonly SourceFinding[]

  constructor(code: NetworkErrorCode, message: string, details: NetworkErrorDetails = {}) {
    super(code, cut(message), details.cause === undefined ? {} : { cause: details.cause })
    this.problems = (details.problems ?? [])
      .slice(0, PROBLEMS_MAX)
      .map(({ path, code, message: text }) => ({ path: cut(path), code, message: cut(text) }))
    this.findings = details.findings ?? []
  }
}
