import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { JWTPayload } from 'jose'
import type { Clock } from '../base/clock.ts'
import type { JsonObject } from '../base/json.ts'
import { UuidGenerator } from '../base/uuid.ts'
import { TokenError } from './errors.ts'
import {
  createKey,
  type KeyRing,
  parseRevocations,
  parseRing,
  printRevocations,
  printRing,
  type Revocations,
  revoke,
  ringOfSecret,
  rotateRing,
  TOKEN_LIFE_MAX_MS,
} from './keys.ts'
import {
  type SharedFileOptions,
  type SharedValue,
  sharedFile,
  valueInMemory,
} from './shared-value.ts'

/** Maximum number of verified tokens that are cached. */
const VERIFIED_MAX = 1_000
/** Maximum length of a token, characters. */
const TOKEN_LENGTH_MAX = 4096
/** The `iss` of every token. */
const ISSUER = 'daicho'
/** Three base64url parts without padding; 32 bytes of signature are 43 characters. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]{42}[AEIMQUYcgkosw048]$/

/** The content of a new token. */
export interface TokenGrant {
  /** Who accepts it, e.g. `samples`. It is invalid for any other audience. */
  readonly audience: string
  /** On whose behalf it acts: the `sub`. */
  readonly subject: string
  /** Whole seconds until it expires, 1 to 366 days. */
  readonly lifeSeconds: number
  /** Further claims; those that the service sets itself win. Never a secret: anyone can read them. */
  readonly claims?: JsonObject
}

export interface IssuedToken {
  readonly token: string
  /** Its id, by which it can be revoked; safe to log. */
  readonly jti: string
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
}

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

interface TokenStores {
  readonly keys: SharedValue<KeyRing>
  /** Whether the only key is the operator's own secret. */
  readonly isKeyFixed: boolean
  readonly revocations: SharedValue<Revocations>
}

/**
 * Issues, verifies and revokes the tokens of every component that requires one.
 *
 * A token is a JWT signed with HS256. Algorithm, issuer, audience, type and required claims are pinned
 * on verification, so its header can only name one of our keys. A change of keys or revocations by
 * another process is in force from the next call on.
 * Source: specification, “T: token-gated sample”; RFC 7519, RFC 8725; docs/decisions/0014-tokens-and-scopes.md.
 */
export class TokenService {
  readonly #clock: Clock
  readonly #stores: TokenStores
  readonly #uuids = new UuidGenerator()
  /** Tokens whose signature and claims are valid under `#verifiedBy`; expiry and revocation may change. */
  readonly #verified = new Map<string, VerifiedToken>()
  #verifiedBy: KeyRing = []

  /** Use `openTokens`. */
  constructor(clock: Clock, stores: TokenStores) {
    this.#clock = clock
    this.#stores = stores
  }

  /** Issues a token signed with the key in use. Errors: AssertionError on a grant out of bounds. */
  async issue({ audience, subject, lifeSeconds, claims }: TokenGrant): Promise<IssuedToken> {
    assert(Number.isInteger(lifeSeconds) && lifeSeconds >= 1)
    assert(lifeSeconds * 1000 <= TOKEN_LIFE_MAX_MS)
    const [key] = this.#stores.keys.current()
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
   * The content of `token`, if it is one of ours for `audience`, unexpired and not revoked.
   *
   * It expires exactly `lifeSeconds` after it was issued, without tolerance.
   * Errors: TOKEN_INVALID, whose cause gives the reason; SharedFileError.
   */
  async verify(token: string, audience: string): Promise<VerifiedToken> {
    const ring = this.#stores.keys.current()
    if (this.#verifiedBy !== ring || this.#verified.size >= VERIFIED_MAX) {
      this.#verified.clear()
      this.#verifiedBy = ring
    }
    const cacheKey = `${audience}\n${token}`
    let verified = this.#verified.get(cacheKey)
    if (verified === undefined) {
      verified = verifiedOf(await this.#payloadOf(token, audience, ring))
      // The ring may have changed since.
      if (this.#verifiedBy === ring) this.#verified.set(cacheKey, verified)
    }
    if (verified.expiresAt <= Math.floor(this.#clock.now() / 1000)) throw invalid('it has expired')
    if (this.#stores.revocations.current().has(verified.jti)) throw invalid('it is revoked')
    return verified
  }

  async #payloadOf(token: string, audience: string, keys: KeyRing): Promise<JWTPayload> {
    if (token.length > TOKEN_LENGTH_MAX || !TOKEN.test(token)) throw invalid('it is malformed')
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
   * Makes the token `jti` invalid from now on, also for processes that share the folder.
   * Errors: TOKEN_ID_MALFORMED, REVOCATIONS_FULL, SharedFileError.
   */
  async revoke(jti: string): Promise<void> {
    await this.#stores.revocations.change((revoked) => revoke(revoked, jti, this.#clock.now()))
  }

  /**
   * Puts a new key into use and resolves to its `kid`. Tokens signed before stay valid until they
   * expire, unless `dropOld` voids them all. Errors: KEYS_FIXED, KEY_RING_FULL, SharedFileError.
   */
  async rotate({ dropOld }: { dropOld: boolean }): Promise<string> {
    if (this.#stores.isKeyFixed) {
      throw new TokenError(
        'KEYS_FIXED',
        'tokens are signed by the secret that was configured; replace it there',
      )
    }
    const key = createKey()
    const now = this.#clock.now()
    await this.#stores.keys.change((ring) => rotateRing(ring, key, { now, dropOld }))
    return key.kid
  }
}

/**
 * Opens the token service of this node, with a key to sign with.
 *
 * With a folder (created if missing), keys are in `token-keys.json` and revocations in
 * `token-revocations.json`; without, both are in memory. `secret`, the operator's own key of at least
 * 32 bytes, replaces the keys but not the revocations.
 * Errors: SECRET_TOO_SHORT, SharedFileError.
 */
export async function openTokens(options: {
  readonly clock: Clock
  readonly folder: string | null
  readonly secret: string | null
}): Promise<TokenService> {
  const { clock, folder, secret } = options
  const open = <Value>({ path, ...file }: SharedFileOptions<Value>): SharedValue<Value> =>
    folder === null
      ? valueInMemory(file.initial)
      : sharedFile({ path: join(folder, path), ...file })
  const revocations = open<Revocations>({
    path: 'token-revocations.json',
    initial: new Map(),
    print: printRevocations,
    parse: parseRevocations,
  })
  // Reads it now: a damaged file stops the start, not the first request.
  revocations.current()
  if (secret !== null) {
    const keys = valueInMemory(ringOfSecret(secret))
    return new TokenService(clock, { keys, isKeyFixed: true, revocations })
  }
  const keys = open<KeyRing>({
    path: 'token-keys.json',
    initial: [],
    print: printRing,
    parse: parseRing,
  })
  if (keys.current().length === 0) {
    await keys.change((ring) => (ring.length === 0 ? [createKey()] : ring))
  }
  return new TokenService(clock, { keys, isKeyFixed: false, revocations })
}

/** Loaded with the first token: many nodes never see one. */
const loadJose = () => import('jose')

/** Errors: TOKEN_INVALID for claims of other types. */
function verifiedOf(payload: JWTPayload): VerifiedToken {
  const { jti, sub, iat, exp } = payload
  // An operator's secret may sign elsewhere too, and jose checks the types of times only.
  if (typeof jti !== 'string' || typeof sub !== 'string') throw invalid('its ids are no texts')
  if (iat === undefined || exp === undefined) throw invalid('its times are missing')
  return { jti, subject: sub, issuedAt: iat, expiresAt: exp, claims: payload }
}

/** The cause is a reason of ours: jose's own error would carry the claims. */
function invalid(reason: string): TokenError {
  const cause = new Error(reason)
  return new TokenError('TOKEN_INVALID', 'the token is not valid here', { cause })
}
