/**
 * Every failure of the client: what the node refused, and what kept it from being asked.
 *
 * `code` is the node's own (`ITEM_NOT_FOUND`, …), or one of: `UNREACHABLE` (no reply), `TIMEOUT`,
 * `REPLY_MALFORMED` (not what a node sends), `NAME_INVALID` (a name that no path can carry). What the
 * caller aborts fails with the reason of their signal instead.
 */
export class ClientError extends Error {
  override readonly name: string = 'ClientError'
  readonly code: string
  /** The HTTP status; 0 when there was no reply. */
  readonly status: number

  constructor(code: string, status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.status = status
  }
}

/**
 * What a verifying client throws where a node cannot show that it tells the truth. `code` says what does
 * not hold (docs/reference/client.md), `status` is 0. It is never repeated.
 */
export class VerificationError extends ClientError {
  override readonly name = 'VerificationError'

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(code, 0, message, options)
  }
}

/** What no proof is defined for is not read by a client that verifies. */
export function unverifiable(what: string): VerificationError {
  return new VerificationError('UNVERIFIABLE', `${what}: there is no proof that could be verified`)
}

/** No reply, and none to be expected. */
const FINAL: ReadonlySet<string> = new Set(['NAME_INVALID', 'SIGNATURES_UNSUPPORTED'])

/** Whether asking again may help: nobody answered, or somebody was busy. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false
  if (error instanceof VerificationError || FINAL.has(error.code)) return false
  return [0, 502, 503, 504].includes(error.status)
}
