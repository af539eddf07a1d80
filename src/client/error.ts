/**
 * A failed request. `code` is a code of the node (`ITEM_NOT_FOUND`, …), or one of: `UNREACHABLE` (no reply),
 * `TIMEOUT`, `REPLY_MALFORMED` (the reply does not come from a node), `REPLY_TOO_LARGE`, `NAME_INVALID` (a name that
 * no URL can contain), `VALUE_INVALID` (a value that no request can contain). A request that the caller aborts fails
 * with the reason of the `signal` instead.
 */
export class ClientError extends Error {
  override readonly name: string = 'ClientError'
  readonly code: string
  /** The HTTP status; 0 without a reply. */
  readonly status: number
  /** The delay in milliseconds that the node requires before a retry (`Retry-After`), or null. */
  readonly retryAfterMs: number | null

  constructor(code: string, status: number, message: string, options: ClientErrorOptions = {}) {
    super(message, options)
    this.code = code
    this.status = status
    this.retryAfterMs = options.retryAfterMs ?? null
  }
}

interface ClientErrorOptions extends ErrorOptions {
  readonly retryAfterMs?: number | null
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

/** Returns the error for a read that cannot be proven. */
export function unverifiable(subject: string): VerificationError {
  return new VerificationError(
    'UNVERIFIABLE',
    `${subject} cannot be verified: there is no proof for this request`,
  )
}

/** Codes of errors without a reply. After these errors, a retry can succeed. */
const NO_REPLY: ReadonlySet<string> = new Set(['UNREACHABLE', 'TIMEOUT'])

/** Maximum `Retry-After` for which the client waits, milliseconds. If it is longer, the request fails at once. */
const RETRY_AFTER_MS_MAX = 30_000

/** Whether a retry may succeed soon, because there was no reply, the body arrived slowly, or the node is busy. */
export function canRetry(error: unknown): error is ClientError {
  if (!(error instanceof ClientError)) return false
  const { code, status, retryAfterMs } = error
  if ((retryAfterMs ?? 0) > RETRY_AFTER_MS_MAX) return false
  if (status === 429) return retryAfterMs !== null
  return NO_REPLY.has(code) || [408, 502, 503, 504].includes(status)
}
