import { createHash, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { isJsonObject, type Json } from '../base/json.ts'
import { TokenError } from './errors.ts'

/** Maximum life of a token, milliseconds; a retired key is needed for as long. */
export const TOKEN_LIFE_MAX_MS = 366 * 24 * 60 * 60 * 1000
/** Bytes of a key: as many as an HS256 signature has (RFC 7518 section 3.2). */
const KEY_BYTES = 32
/** Maximum number of keys, including the one in use. */
export const KEYS_MAX = 16
/** Maximum number of tokens that are revoked one by one. */
const REVOCATIONS_MAX = 10_000
const TOKEN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A key that signs, or signed, tokens. */
export interface TokenKey {
  /** The `kid` in the header of the tokens that it signed. */
  readonly kid: string
  readonly secret: KeyObject
  /** Milliseconds since the Unix epoch; null for the key in use. */
  readonly retiredAt: number | null
}

/** All keys that may have signed a valid token. The first is in use. Empty only before the first start. */
export type KeyRing = readonly TokenKey[]

/** The `jti` of each revoked token, and until when it must be remembered (ms since the epoch). */
export type Revocations = ReadonlyMap<string, number>

/** Creates a random key. */
export function createKey(): TokenKey {
  return keyOf(randomBytes(KEY_BYTES), null)
}

/** The ring of an operator's own secret, which several processes can share. Errors: SECRET_TOO_SHORT. */
export function ringOfSecret(secret: string): KeyRing {
  const bytes = Buffer.from(secret, 'utf8')
  if (bytes.length >= KEY_BYTES) return [keyOf(bytes, null)]
  throw new TokenError(
    'SECRET_TOO_SHORT',
    `the secret that signs tokens has ${bytes.length} bytes; it needs at least ${KEY_BYTES}`,
  )
}

/**
 * Puts `key` into use. The others keep verifying what they signed until that has expired; with
 * `dropOld` they are dropped at once, which voids every token there is.
 *
 * Errors: KEY_RING_FULL.
 */
export function rotateRing(
  ring: KeyRing,
  key: TokenKey,
  { now, dropOld }: { now: number; dropOld: boolean },
): KeyRing {
  const retired = ring
    .map((old) => ({ ...old, retiredAt: old.retiredAt ?? now }))
    .filter((old) => !dropOld && old.retiredAt + TOKEN_LIFE_MAX_MS > now)
  if (retired.length < KEYS_MAX) return [key, ...retired]
  throw new TokenError(
    'KEY_RING_FULL',
    `${retired.length} old keys may still have valid tokens; drop them to rotate again`,
  )
}

/** The text of the file of `ring`. */
export function printRing(ring: KeyRing): string {
  const keys = ring.map(({ kid, secret, retiredAt }) => ({
    kid,
    secret: secret.export().toString('base64url'),
    retiredAt,
  }))
  return `${JSON.stringify({ keys }, null, 2)}\n`
}

/** Reads what `printRing` wrote. Errors: any, for any other text. */
export function parseRing(text: string): KeyRing {
  const file: Json = JSON.parse(text)
  const keys = isJsonObject(file) ? file.keys : undefined
  if (!Array.isArray(keys) || keys.length > KEYS_MAX) throw new Error('no list of keys')
  return keys.map((key) => {
    if (!isJsonObject(key) || typeof key.secret !== 'string') throw new Error('not a key')
    const { retiredAt = null } = key
    if (retiredAt !== null && typeof retiredAt !== 'number') throw new Error('not a time')
    const bytes = Buffer.from(key.secret, 'base64url')
    const read = keyOf(bytes, retiredAt)
    if (bytes.length < KEY_BYTES || read.kid !== key.kid) throw new Error('a key was altered')
    return read
  })
}

function keyOf(bytes: Buffer, retiredAt: number | null): TokenKey {
  // The id reveals nothing of the key: it is a hash of 32 unguessable bytes.
  const kid = createHash('sha256').update('daicho key id\n').update(bytes).digest('hex')
  return { kid: kid.slice(0, 16), secret: createSecretKey(bytes), retiredAt }
}

/**
 * Adds the token `jti`, and drops those that have expired by now.
 * Errors: TOKEN_ID_MALFORMED, REVOCATIONS_FULL.
 */
export function revoke(revocations: Revocations, jti: string, now: number): Revocations {
  if (!TOKEN_ID.test(jti)) {
    throw new TokenError(
      'TOKEN_ID_MALFORMED',
      'name the token by its jti, which looks like 01890a5d-ac96-774b-bcce-b302099a8057',
    )
  }
  const living = new Map([...revocations].filter(([, until]) => until > now))
  // Only the id is known here, so the token may have the longest life.
  living.set(jti, now + TOKEN_LIFE_MAX_MS)
  if (living.size <= REVOCATIONS_MAX) return living
  throw new TokenError(
    'REVOCATIONS_FULL',
    `${REVOCATIONS_MAX} tokens are revoked already; rotate the keys and drop the old ones`,
  )
}

/** The text of the file of `revocations`. */
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
