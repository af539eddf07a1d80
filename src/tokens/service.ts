import assert from 'node:assert/strict'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import type { JWTPayload } from 'jose'
import type { Clock } from '../base/clock.ts'
import type { JsonObject } from '../base/json.ts'
import { UuidGenerator } from '../base/uuid.ts'
import { TokenError } from './errors.ts'
import { type Kept, keptInFile, keptInMemory } from './kept.ts'
import {
  freshKey,
  type KeyRing,
  parseRing,
  printRing,
  ringOfSecret,
  rotateRing,
  TOKEN_LIFE_MAX_MS,
} from './key-ring.ts'
import { parseRevocations, printRevocations, type Revocations, revoke } from './revocations.ts'

/** Verified tokens that are remembered at most. */
const VERIFIED_MAX = 1_000
/** Characters of the longest token that is issued or looked at. */
const TOKEN_LENGTH_MAX = 4096
/** The `iss` of every token. */
const ISSUER = 'daicho'
/** Three base64url parts without padding; 32 bytes of signature are 43 characters. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]{42}[AEIMQUYcgkosw048]$/

/** What a token is to say. */
export interface TokenGrant {
  /** Who will accept it, e.g. `samples`: a token for one is nothing to another. */
  readonly audience: string
  /** On whose behalf it speaks: the `sub`. */
  readonly subject: string
  /** Whole seconds until it expires, 1 to 366 days. */
  readonly lifeSeconds: number
  /** Further claims; those that the service sets itself win. Never a secret: anyone can read them. */
  readonly claims?: JsonObject
}

/** A token just made. */
export interface IssuedToken {
  readonly token: string
  /** Its id, by which it can be revoked; safe to log. */
  readonly jti: string
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
}

/** What a valid token says. */
export interface VerifiedToken {
  readonly jti: string
  readonly subject: string
  /** Seconds since the Unix epoch. */
  readonly issuedAt: number
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
  /** All claims, as they were granted. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** Where keys and revocations come from. */
export interface TokenServiceOptions {
  readonly clock: Clock
  /** The folder that holds keys and revocations across restarts; null keeps them in memory. */
  readonly folder: string | null
  /** The operator's own key, at least 32 bytes; null takes the ring of the folder. */
  readonly secret: string | null
}

/**
 * Issues, verifies and revokes the tokens of every component that takes one.
 *
 * A token is a JWT signed by HS256; the algorithm, issuer, audience, type and required claims are
 * pinned when it is verified, so what its header says can only name one of our keys. Keys and
 * revocations are read through `Kept`, so a change by another process holds from the next call on.
 * Source: specification, “T: token-gated sample”; RFC 7519, RFC 8725;
 * docs/decisions/0040-tokens.md.
 */
export class TokenService {
  readonly #clock: Clock
  readonly #uuids = new UuidGenerator()
  readonly #keys: Kept<KeyRing>
  readonly #revocations: Kept<Revocations>
  readonly #keysFixed: boolean
  // Tokens whose signature and claims held under one ring, so that a client's next request costs
  // no second look. Time and revocations are judged afresh each time.
  readonly #verified = new Map<string, VerifiedToken>()
  #verifiedBy: KeyRing = []

  /** Use `openTokens`. */
  constructor(
    clock: Clock,
    kept: { keys: Kept<KeyRing>; keysFixed: boolean; revocations: Kept<Revocations> },
  ) {
    this.#clock = clock
    this.#keys = kept.keys
    this.#keysFixed = kept.keysFixed
    this.#revocations = kept.revocations
  }

  /** A new token, signed by the key in use. Errors: AssertionError on a grant out of bounds. */
  async issue({ audience, subject, lifeSeconds, claims }: TokenGrant): Promise<IssuedToken> {
    assert(Number.isInteger(lifeSeconds) && lifeSeconds >= 1)
    assert(lifeSeconds * 1000 <= TOKEN_LIFE_MAX_MS)
    const key = this.#keys.current()[0]
    assert(key !== undefined, 'openTokens leaves no ring empty')

    const now = this.#clock.now()
    const jti = this.#uuids.next(now)
    const issuedAt = Math.floor(now / 1000)
    const expiresAt = issuedAt + lifeSeconds
    const { SignJWT } = await loadJose()
    const token = await new SignJWT({ ...claims })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid: key.kid })
      .setIssuer(ISSUER)
      .setAudience(audience)
      .setSubject(subject)
      .setJti(jti)
      .setIssuedAt(issuedAt)
      .setExpirationTime(expiresAt)
      .sign(key.secret)
    assert(token.length <= TOKEN_LENGTH_MAX)
    return { token, jti, expiresAt }
  }

  /**
   * What `token` says, if it is one of ours for `audience`, unexpired and not revoked.
   *
   * It expires exactly `lifeSeconds` after it was issued, without tolerance.
   * Errors: TOKEN_INVALID, which does not say why; the cause does.
   */
  async verify(token: string, audience: string): Promise<VerifiedToken> {
    const ring = this.#keys.current()
    if (this.#verifiedBy !== ring || this.#verified.size >= VERIFIED_MAX) {
      this.#verified.clear()
      this.#verifiedBy = ring
    }
    const place = `${audience}\n${token}`
    let verified = this.#verified.get(place)
    if (verified === undefined) {
      verified = verifiedOf(await this.#payloadOf(token, audience, ring))
      // Another ring may be in force by now; what it says of this token is for it to find out.
      if (this.#verifiedBy === ring) this.#verified.set(place, verified)
    }
    if (verified.expiresAt <= Math.floor(this.#clock.now() / 1000)) throw invalid('it has expired')
    if (this.#revocations.current().has(verified.jti)) throw invalid('it is revoked')
    return verified
  }

  async #payloadOf(token: string, audience: string, keys: KeyRing): Promise<JWTPayload> {
    if (token.length > TOKEN_LENGTH_MAX || !TOKEN.test(token)) throw invalid('it is malformed')
    // The library takes ten times as long to say so: whoever sends many bad tokens would be felt.
    if (!isSignedBy(keys, token)) throw invalid('none of the keys signed it')
    const { errors, jwtVerify } = await loadJose()
    try {
      const { payload } = await jwtVerify(
        token,
        ({ kid }) => {
          const key = keys.find((candidate) => candidate.kid === kid)
          if (key === undefined) throw invalid('its key is unknown')
          return key.secret
        },
        {
          algorithms: ['HS256'],
          typ: 'JWT',
          issuer: ISSUER,
          audience,
          requiredClaims: ['sub', 'jti', 'iat', 'exp'],
          clockTolerance: 0,
          currentDate: new Date(this.#clock.now()),
        },
      )
      return payload
    } catch (error) {
      if (error instanceof errors.JOSEError) throw invalid(error.code)
      throw error
    }
  }

  /**
   * Makes the token named `jti` invalid from now on, also for processes that share the folder.
   *
   * Errors: TOKEN_ID_MALFORMED, REVOCATIONS_FULL, KeptError.
   */
  async revoke(jti: string): Promise<void> {
    await this.#revocations.change((revoked) => revoke(revoked, jti, this.#clock.now()))
  }

  /**
   * Takes a new key into use and resolves to its `kid`. Tokens signed before stay valid until they
   * expire, unless `dropOld` voids them all.
   *
   * Errors: KEYS_FIXED, KEY_RING_FULL, KeptError.
   */
  async rotate({ dropOld }: { dropOld: boolean }): Promise<string> {
    if (this.#keysFixed) {
      throw new TokenError(
        'KEYS_FIXED',
        'tokens are signed by the secret that was configured; replace it there',
      )
    }
    const key = freshKey()
    await this.#keys.change((ring) => rotateRing(ring, key, { now: this.#clock.now(), dropOld }))
    return key.kid
  }
}

/**
 * The token service of this node, with a key to sign by.
 *
 * With a folder (made if missing), keys are in `token-keys.json` and revocations in
 * `token-revocations.json`; a secret replaces the keys, never the revocations.
 * Errors: SECRET_TOO_SHORT, KeptError.
 */
export async function openTokens(options: TokenServiceOptions): Promise<TokenService> {
  const { clock, folder, secret } = options
  const revocations = keep(folder, 'token-revocations.json', {
    initial: new Map(),
    print: printRevocations,
    parse: parseRevocations,
  })
  // Read now: a damaged file stops the start, not the first request.
  revocations.current()
  if (secret !== null) {
    const keys = keptInMemory(ringOfSecret(secret))
    return new TokenService(clock, { keys, keysFixed: true, revocations })
  }
  const keys = keep<KeyRing>(folder, 'token-keys.json', {
    initial: [],
    print: printRing,
    parse: parseRing,
  })
  if (keys.current().length === 0) {
    await keys.change((ring) => (ring.length === 0 ? [freshKey()] : ring))
  }
  return new TokenService(clock, { keys, keysFixed: false, revocations })
}

function keep<Value>(
  folder: string | null,
  name: string,
  how: { initial: Value; print: (value: Value) => string; parse: (text: string) => Value },
): Kept<Value> {
  return folder === null
    ? keptInMemory(how.initial)
    : keptInFile({ path: join(folder, name), ...how })
}

/** Loaded with the first token: many nodes never see one. */
const loadJose = () => import('jose')

/** Whether one of `keys` signed `token`, whatever its header says. */
function isSignedBy(keys: KeyRing, token: string): boolean {
  const end = token.lastIndexOf('.')
  const given = Buffer.from(token.slice(end + 1), 'base64url')
  const signed = token.slice(0, end)
  return keys.some(({ secret }) => {
    const expected = createHmac('sha256', secret).update(signed).digest()
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}

/** What a payload under our own signature says. Errors: TOKEN_INVALID for claims of other types. */
function verifiedOf(payload: JWTPayload): VerifiedToken {
  const { jti, sub, iat, exp } = payload
  // An operator's secret may sign elsewhere too, and the library looks at types of times only.
  if (typeof jti !== 'string' || typeof sub !== 'string') throw invalid('its ids are no texts')
  if (iat === undefined || exp === undefined) throw invalid('its times are missing')
  return { jti, subject: sub, issuedAt: iat, expiresAt: exp, claims: payload }
}

/** The cause is a reason of ours: the library's own error would carry the claims along. */
function invalid(reason: string): TokenError {
  const cause = new Error(reason)
  return new TokenError('TOKEN_INVALID', 'the token is not valid here', { cause })
}
