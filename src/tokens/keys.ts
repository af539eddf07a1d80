import { createHash, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { isJsonObject, type Json } from '../base/json.ts'
import { TokenError } from './errors.ts'

/** Maximum lifetime of a token. Retired keys are stored for the same time. */
export const TOKEN_LIFE_MAX_MS = 366 * 24 * 60 * 60 * 1000
/** Bytes of a created key and minimum for a configured key: the length of an HS256 signature (RFC 7518 section 3.2). */
const KEY_BYTES = 32
/** Maximum number of keys, including the active key. */
export const KEYS_MAX = 16
/** Maximum number of individually revoked tokens. */
const REVOCATIONS_MAX = 10_000
const TOKEN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** An active or retired key for signing tokens. */
export interface TokenKey {
  /** The `kid` in the header of the tokens that this key signs. */
  readonly kid: string
  readonly secret: KeyObject
  /** Milliseconds since the Unix epoch; null for the active key. */
  readonly retiredAt: number | null
}

/** The active key, then all retired keys that may have signed a valid token. Empty only before the first start. */
export type KeyRing = readonly TokenKey[]

/**
 * Maps the `jti` of each revoked token to the latest time at which the token can expire, in ms since the Unix epoch.
 */
export type Revocations = ReadonlyMap<string, number>

export function createKey(): TokenKey {
  return toTokenKey(randomBytes(KEY_BYTES), null)
}

/** Returns a ring with the operator's secret as its only key. Errors: SECRET_TOO_SHORT. */
export function createRing(secret: string): KeyRing {
  const bytes = Buffer.from(secret, 'utf8')
  if (bytes.length >= KEY_BYTES) return [toTokenKey(bytes, null)]
  throw new TokenError(
    'SECRET_TOO_SHORT',
    `the secret that signs tokens has ${bytes.length} bytes; it needs at least ${KEY_BYTES}`,
  )
}

/**
 * Makes `key` the active key. The other keys still verify their tokens until those tokens have expired. With
 * `dropOld` the other keys are removed, which revokes all existing tokens at once. Errors: KEY_RING_FULL.
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
    `${retired.length} old keys may still have valid tokens; drop the old keys to rotate again`,
  )
}

export function formatRing(ring: KeyRing): string {
  const keys = ring.map(({ kid, secret, retiredAt }) => ({
    kid,
    secret: secret.export().toString('base64url'),
    retiredAt,
  }))
  return `${JSON.stringify({ keys }, null, 2)}\n`
}

/** Parses the output of `formatRing`. Throws for any other string. */
export function parseRing(text: string): KeyRing {
  const file: Json = JSON.parse(text)
  const keys = isJsonObject(file) ? file.keys : undefined
  if (!Array.isArray(keys) || keys.length > KEYS_MAX) throw new Error('no list of keys')
  return keys.map((key) => {
    if (!isJsonObject(key) || typeof key.secret !== 'string') throw new Error('not a key')
    const { retiredAt = null } = key
    if (retiredAt !== null && typeof retiredAt !== 'number') throw new Error('not a time')
    const bytes = Buffer.from(key.secret, 'base64url')
    const read = toTokenKey(bytes, retiredAt)
    if (bytes.length < KEY_BYTES || read.kid !== key.kid) throw new Error('a key was altered')
    return read
  })
}

function toTokenKey(bytes: Buffer, retiredAt: number | null): TokenKey {
  // The id reveals nothing about the key, because it is a hash of 32 unguessable bytes.
  const kid = createHash('sha256').update('daicho key id\n').update(bytes).digest('hex')
  return { kid: kid.slice(0, 16), secret: createSecretKey(bytes), retiredAt }
}

/** Adds the token `jti` and removes expired tokens. Errors: TOKEN_ID_MALFORMED, REVOCATIONS_FULL. */
export function revoke(revocations: Revocations, jti: string, now: number): Revocations {
  if (!TOKEN_ID.test(jti)) {
    throw new TokenError(
      'TOKEN_ID_MALFORMED',
      `${JSON.stringify(jti.slice(0, 64))} is not the id of a token: give its jti, such as 01890a5d-ac96-774b-bcce-b302099a8057`,
    )
  }
  const living = new Map([...revocations].filter(([, until]) => until > now))
  // The lifetime of the token is unknown here, so its revocation is stored for the maximum lifetime.
  living.set(jti, now + TOKEN_LIFE_MAX_MS)
  if (living.size <= REVOCATIONS_MAX) return living
  throw new TokenError(
    'REVOCATIONS_FULL',
    `${REVOCATIONS_MAX} tokens are revoked already; rotate the keys and drop the old ones`,
  )
}

export function formatRevocations(revocations: Revocations): string {
  return `${JSON.stringify({ revoked: Object.fromEntries(revocations) }, null, 2)}\n`
}

/** Parses the output of `formatRevocations`. Throws for any other string. */
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
