import { statusOfStrictJson } from '../../base/strict-json.ts'
import { FilterError, statusOfFilter } from '../../filter/index.ts'
import { HttpRefusal, type Refusal, type RefusalReply } from '../../http/index.ts'
import { NetworkError, type NetworkErrorCode } from '../../network/index.ts'

const statusOfNetwork: Record<NetworkErrorCode, number> = {
  NETWORK_UNREADABLE: 400,
  NETWORK_INVALID: 422,
  NETWORK_EXISTS: 409,
  NETWORK_NOT_FOUND: 404,
  NETWORK_REMOVED: 410,
  NETWORK_NAME_TAKEN: 409,
  NETWORK_VERSION_SAME: 409,
  NETWORK_BUSY: 503,
  UPGRADE_INVALID: 422,
  TYPE_NOT_FOUND: 404,
  RESOURCE_NOT_FOUND: 404,
  RESOURCE_EXISTS: 409,
  RESOURCE_INVALID: 422,
  RESOURCE_ID_MISMATCH: 400,
  RESOURCE_CHANGED: 412,
  TRANSACTION_FAILED: 422,
  PROCESSOR_DEADLINE: 504,
  PROCESSOR_MEMORY: 500,
  QUERY_NOT_FOUND: 404,
  PARAMETER_INVALID: 400,
  FILTER_INVALID: 400,
  ACCESS_DENIED: 403,
  IDENTITY_UNKNOWN: 401,
  LIST_EMPTY: 422,
  UNIT_TOO_LARGE: 413,
}

/** Maps error codes of networks and of the ledger to HTTP statuses. */
export const gatewayStatuses: Readonly<Record<string, number>> = {
  ...statusOfStrictJson,
  ...statusOfFilter,
  ...statusOfNetwork,
  DATABASE_EXISTS: 409,
  AGGREGATION_INVALID: 400,
  AGGREGATIONS_BUSY: 503,
  GROUPS_TOO_MANY: 422,
  SUM_TOO_LARGE: 422,
  SEARCH_TOO_LARGE: 422,
  SEARCH_INTERRUPTED: 503,
  ITEM_TOO_LARGE: 413,
  CHAIN_DOUBTED: 503,
  WRITER_BUSY: 503,
  WRITER_STOPPED: 503,
  STORE_FULL: 507,
  STORE_DAMAGED: 503,
  STORE_FAILED: 503,
  STORE_UNAVAILABLE: 503,
  OUTCOME_UNKNOWN: 503,
  STORE_ROLLED_BACK: 503,
  ISSUER_UNAVAILABLE: 503,
}

/** Codes with status 503 that need an operator. All other errors with status 503 are temporary. */
export const ALARMS: ReadonlySet<string> = new Set([
  'WRITER_STOPPED',
  'STORE_DAMAGED',
  'STORE_FAILED',
  'STORE_ROLLED_BACK',
])

/** Codes of temporary errors whose replies have `Retry-After`. */
export const RETRIED: ReadonlySet<string> = new Set([
  ...['STORE_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'NETWORK_BUSY', 'ISSUER_UNAVAILABLE'],
])

interface Detail {
  /** Location of the problem: a JSON pointer into the body or the filter, or `file:line:column`. */
  readonly path: string
  readonly code: string
  readonly message: string
}

/** A refusal with a list of problems. */
class DetailedRefusal extends HttpRefusal {
  readonly details: readonly Detail[]

  constructor(status: number, code: string, message: string, details: readonly Detail[]) {
    super(status, code, message)
    this.details = details
  }
}

/** Returns `error`, converted to a DetailedRefusal if it has details. */
export function withDetails(error: unknown): unknown {
  if (error instanceof FilterError) {
    const { code, message, pointer, reason } = error
    return new DetailedRefusal(gatewayStatuses[code] ?? 400, code, message, [
      { path: pointer, code, message: reason },
    ])
  }
  if (!(error instanceof NetworkError)) return error
  const { code, message, problems, findings } = error
  const found = findings.map(({ path, line, column, severity, message: text }) => ({
    path: line === 0 ? path : `${path}:${line}:${column}`,
    code: severity.toUpperCase(),
    message: text,
  }))
  return new DetailedRefusal(statusOfNetwork[code], code, message, [...problems, ...found])
}

/** Returns the reply to a refusal in the error format of LoopBack, which clients of Composer expect. */
export function errorReply(refusal: Refusal): RefusalReply {
  const { status: statusCode, code, message } = refusal
  const details = refusal instanceof DetailedRefusal ? refusal.details : []
  const name = statusCode === 422 ? 'ValidationError' : 'Error'
  const error = { statusCode, name, code, message, details }
  return { contentType: 'application/json; charset=utf-8', body: JSON.stringify({ error }) }
}
