import { createHash, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { isJsonObject, type Json } from '../base/json.ts'
import { TokenError } from './errors.ts'

/** The longest life of any token, in milliseconds: so long is a retired key still needed. */
export const TOKEN_LIFE_MAX_MS = 366 * 24 * 60 * 60 * 1000
/** Bytes of a key: as many as an HS256 signature has (RFC 7518 section 3.2). */
const KEY_BYTES = 32
/** Keys held at most, the one in use among them. */
export const KEYS_MAX = 16

/** A key that signs, or signed, tokens. */
export interface TokenKey {
  /** The `kid` in the header of the tokens that it signed. */
  readonly kid: string
  readonly secret: KeyObject
  /** Milliseconds since the Unix epoch; null for the key in use. */
  readonly retiredAt: number | null
}

/** All keys by which a token may be signed; the first is in use. Empty only before the first start. */
export type KeyRing = readonly TokenKey[]

/** A new random key. */
export function freshKey(): TokenKey {
  return keyOf(randomBytes(KEY_BYTES), null)
}

/**
 * The ring made of an operator's own secret, so that several processes can share it.
 *
 * Errors: SECRET_TOO_SHORT for less than KEY_BYTES bytes of UTF-8.
 */
export function ringOfSecret(secret: string): KeyRing {
  const bytes = Buffer.from(secret, 'utf8')
  if (bytes.length < KEY_BYTES) {
    throw new TokenError(
      'SECRET_TOO_SHORT',
      `the secret that signs tokens has ${bytes.length} bytes; it needs at least ${KEY_BYTES}`,
    )
  }
  return [keyOf(bytes, null)]
}

/**
 * `ring` with `key` in use. The others keep verifying what they signed until that has expired, or
 * are dropped at once with `dropOld`, which voids every token there is.
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
  if (retired.length >= KEYS_MAX) {
    throw new TokenError(
      'KEY_RING_FULL',
      `${retired.length} old keys may still have valid tokens; drop them to rotate again`,
    )
  }
  return [key, ...retired]
}

/** `ring` as the text of its file. */
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
  // The id tells keys apart and tells nothing of them: it is a hash of 32 unguessable bytes.
  const kid = createHash('sha256')
    .update('daicho key id\n')
    .update(bytes)
    .digest('hex')
    .slice(0, 16)
  return { kid, secret: createSecretKey(bytes), retiredAt }
}
