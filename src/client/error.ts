/**
 * Every failure of the client: what the node refused, and what kept it from being asked.
 *
 * `code` is the node's own (`ITEM_NOT_FOUND`, …), or one of: `UNREACHABLE` (no reply), `TIMEOUT`,
 * `REPLY_MALFORMED` (not what a node sends), `NAME_INVALID` (a name that no path can carry). What the
 * caller aborts fails with the reason of their signal instead.
 */
export class ClientError extends Error {
  override readonly name = 'ClientError'
  readonly code: string
  /** The HTTP status; 0 when there was no reply. */
  readonly status: number

  constructor(code: string, status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.status = status
  }
}

/** Whether asking again may help: nobody answered, or somebody was busy. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false
  return [0, 502, 503, 504].includes(error.status) && error.code !== 'NAME_INVALID'
}
