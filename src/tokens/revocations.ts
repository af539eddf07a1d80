import { isJsonObject, type Json } from '../base/json.ts'
import { TokenError } from './errors.ts'
import { TOKEN_LIFE_MAX_MS } from './key-ring.ts'

/** Tokens revoked one by one at most; whoever needs more drops the keys. */
const REVOCATIONS_MAX = 10_000

/** The `jti` of each revoked token, and until when it must be remembered (ms since the epoch). */
export type Revocations = ReadonlyMap<string, number>

const TOKEN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * `revocations` with the token `jti` among them, and without those that have expired by now.
 *
 * Errors: TOKEN_ID_MALFORMED, REVOCATIONS_FULL.
 */
export function revoke(revocations: Revocations, jti: string, now: number): Revocations {
  if (!TOKEN_ID.test(jti)) {
    throw new TokenError(
      'TOKEN_ID_MALFORMED',
      'name the token by its jti, which looks like 01890a5d-ac96-774b-bcce-b302099a8057',
    )
  }
  const kept = new Map([...revocations].filter(([, until]) => until > now))
  // Only the id is known here, so the token counts as one of the longest life.
  kept.set(jti, now + TOKEN_LIFE_MAX_MS)
  if (kept.size > REVOCATIONS_MAX) {
    throw new TokenError(
      'REVOCATIONS_FULL',
      `${REVOCATIONS_MAX} tokens are revoked already; rotate the keys and drop the old ones`,
    )
  }
  return kept
}

/** `revocations` as the text of their file. */
export function printRevocations(revocations: Revocations): string {
  return `${JSON.stringify({ revoked: Object.fromEntries(revocations) }, null, 2)}\n`
}

/** Reads what `printRevocations` wrote. Errors: any, for any other text. */
export function parseRevocations(text: string): Revocations {
  const file: Json = JSON.parse(text)
  const revoked = isJsonObject(file) ? file.revoked : undefined
  if (!isJsonObject(revoked)) throw new Error('no list of revocations')
  return new Map(
    Object.entries(revoked).map(([jti, until]) => {
      if (typeof until !== 'number') throw new Error('not a time')
      return [jti, until]
    }),
  )
}
