import { isJsonObject, type Json } from './json.ts'

/** Who makes a change. `iss` is absent for the tokens, the users and the commands of the node itself. */
export type Author = {
  /** The subject: a token's `sub`, or the participant of a network. */
  readonly sub: string
  /** The issuer, such as the name of a network; absent for a token of this node. */
  readonly iss?: string
}

export const SUBJECT_BYTES_MAX = 256
const ISSUER_BYTES_MAX = 512

/** Whether `value` is a well-formed text of 1 to `bytesMax` bytes of UTF-8. */
export function isTextWithin(value: unknown, bytesMax: number): value is string {
  if (typeof value !== 'string' || value === '' || value.length > bytesMax) return false
  // A UTF-16 unit has at most three bytes.
  if (!value.isWellFormed()) return false
  return value.length * 3 <= bytesMax || new TextEncoder().encode(value).length <= bytesMax
}

/** Returns `value` as an author, or null unless it has exactly the members of one. */
export function decodeAuthor(value: Json | undefined): Author | null {
  if (!isJsonObject(value) || !isTextWithin(value.sub, SUBJECT_BYTES_MAX)) return null
  const { sub, iss } = value
  const members = Object.keys(value).length
  if (iss === undefined) return members === 1 ? { sub } : null
  return members === 2 && isTextWithin(iss, ISSUER_BYTES_MAX) ? { iss, sub } : null
}
