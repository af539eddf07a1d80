/**
 * A failed request. `code` is the code of the node (`ITEM_NOT_FOUND`, …), or one of: `UNREACHABLE` (no reply),
 * `TIMEOUT`, `REPLY_MALFORMED` (not the reply of a node), `NAME_INVALID` (a name that no URL can contain). A
 * request that the caller aborts fails with the reason of their signal instead.
 */
export class ClientError extends Error {
  override readonly name: string = 'ClientError'
  readonly code: string
  /** The HTTP status; 0 without a reply. */
  readonly status: number

  constructor(code: string, status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.status = status
  }
}

/**
 * Thrown by a verifying client if the node cannot prove its reply. `code` is the reason
 * (docs/reference/client.md), `status` is 0. Such a request is not retried.
 */
export class VerificationError extends ClientError {
  override readonly name = 'VerificationError'

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(code, 0, message, options)
  }
}

/** The error for a read that cannot be proven. */
export function unverifiable(subject: string): VerificationError {
  return new VerificationError(
    'UNVERIFIABLE',
    `${subject}: there is no proof that could be verified`,
  )
}

/** Codes of errors without a reply that would occur again in a retry. */
const FINAL: ReadonlySet<string> = new Set(['NAME_INVALID', 'SIGNATURES_UNSUPPORTED'])

/** Whether a retry may succeed: there was no reply, or the node is busy. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false
  if (error instanceof VerificationError || FINAL.has(error.code)) return false
  return [0, 502, 503, 504].includes(error.status)
}
