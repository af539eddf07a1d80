import assert from 'node:assert/strict'
import { createHmac, type KeyObject } from 'node:crypto'
import { join } from 'node:path'
import type { JWTPayload } from 'jose'
import { type Author, decodeAuthor } from '../base/author.ts'
import type { Clock } from '../base/clock.ts'
import type { JsonObject } from '../base/json.ts'
import { UuidGenerator } from '../base/uuid.ts'
import { TokenError } from './errors.ts'
import { type IssuerTokens, issuerTokenId, SKEW_SECONDS } from './issuer-tokens.ts'
import {
  createKey,
  createRing,
  formatRevocations,
  formatRing,
  type KeyRing,
  parseRevocations,
  parseRing,
  type Revocations,
  revoke,
  rotateRing,
  TOKEN_LIFE_MAX_MS,
} from './keys.ts'
import { API_AUDIENCE, isSubject, requireCovered, scopeClaim, type TokenOwner } from './scopes.ts'
import {
  type SharedFileOptions,
  type SharedTextStore,
  type SharedValue,
  sharedFile,
  sharedTextValue,
  valueInMemory,
} from './shared-value.ts'
import { type RememberedToken, TokenUses } from './token-uses.ts'
import { invalidToken, toSubjectId, type VerifiedToken } from './verified-token.ts'

/** Maximum number of cached verified tokens. */
const VERIFIED_MAX = 1_000
/** Maximum length of a token in characters. */
const TOKEN_LENGTH_MAX = 4096
/** The `iss` claim of every token. */
const ISSUER = 'daicho'
/**
 * Three base64url parts without padding. The 32 bytes of the signature are 43 characters. The last character has only
 * 4 used bits, and the other bits must be 0.
 */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]{42}[AEIMQUYcgkosw048]$/

export interface TokenGrant {
  /** Component that accepts the token, e.g. `samples`. The token is invalid for any other component. */
  readonly audience: string
  /** The `sub` claim. */
  readonly subject: string
  /** Lifetime in whole seconds, at most 366 days. */
  readonly lifeSeconds: number
  /** Additional claims; the service's own claims take precedence. Must not contain secrets: anyone can read them. */
  readonly claims?: JsonObject
  /** A secret text to which the token is bound, e.g. a password hash (`VerifiedToken.isBoundTo`). */
  readonly boundTo?: string
}

export interface IssuedToken {
  readonly token: string
  /** Id of the token, for revoking it. Safe to log. */
  readonly jti: string
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
}

/** The id of a token in the list of tokens, a token of an issuer, or all tokens that a subject has until now. */
export type RevocationTarget =
  | string
  | { readonly jti: string; readonly issuer: string }
  | { readonly subject: string; readonly issuer?: string }

interface TokenStores {
  readonly keys: SharedValue<KeyRing>
  /** Whether the operator's secret is the only key. */
  readonly isKeyFixed: boolean
  readonly revocations: SharedValue<Revocations>
  /** Null if only tokens of this node are accepted. */
  readonly issuers: IssuerTokens | null
}

/**
 * Issues, verifies and revokes the tokens of all components.
 *
 * A token of this node is a JWT signed with HS256. Verification requires a fixed algorithm, issuer, audience, type and
 * set of claims, so the header of a token can only select one of the node's keys. `IssuerTokens` verifies the tokens of
 * issuers. Changes of keys or revocations by another process apply from the next call on. Source: specification, “T:
 * token-gated sample”; RFC 7519, RFC 8725; docs/decisions/0014-tokens-and-scopes.md.
 */
export class TokenService {
  readonly #clock: Clock
  readonly #stores: TokenStores
  readonly #uuids = new UuidGenerator()
  /**
   * Tokens whose signature and claims are valid with the keys in `#verifiedBy`. Each use checks expiry and revocation.
   */
  readonly #verified = new Map<string, VerifiedToken>()
  #verifiedBy: KeyRing = []
  #generation = 0
  readonly #uses = new TokenUses()
  /** Time from which tokens are remembered: the start of this service, in milliseconds since the Unix epoch. */
  readonly since: number

  /** Private to this module; callers use `openTokens`. */
  constructor(clock: Clock, stores: TokenStores) {
    this.#clock = clock
    this.#stores = stores
    this.since = clock.now()
  }

  /** Returns the whole seconds until `expiresAt`, in seconds since the Unix epoch; at least 1. */
  secondsUntil(expiresAt: number): number {
    return Math.max(1, expiresAt - Math.floor(this.#clock.now() / 1000))
  }

  /** Issues a token signed with the active key. Errors: AssertionError for an invalid grant. */
  async issue(grant: TokenGrant): Promise<IssuedToken> {
    const { audience, subject, lifeSeconds, boundTo } = grant
    assert(Number.isInteger(lifeSeconds) && lifeSeconds >= 1)
    assert(lifeSeconds * 1000 <= TOKEN_LIFE_MAX_MS)
    const [key] = this.#stores.keys.current()
    assert(key !== undefined, 'openTokens always creates a key')

    const now = this.#clock.now()
    const jti = this.#uuids.next(now)
    const issuedAt = Math.floor(now / 1000)
    const expiresAt = issuedAt + lifeSeconds
    const claims =
      boundTo === undefined
        ? (grant.claims ?? {})
        : { ...grant.claims, bound: boundClaim(key.secret, boundTo) }
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
    this.#note({ jti, subject, issuedAt, expiresAt, claims }, audience, null)
    return { token, jti, expiresAt }
  }

  /**
   * Returns the content of `token` if this node issued it for `audience` or it is from an issuer, and if it is neither
   * expired nor revoked. A token of this node expires exactly `lifeSeconds` after it was issued, without tolerance.
   * Errors: TOKEN_INVALID, whose cause gives the reason; ISSUER_UNAVAILABLE; SharedFileError.
   */
  async verify(token: string, audience: string): Promise<VerifiedToken> {
    const ring = this.#stores.keys.current()
    const { issuers } = this.#stores
    const generation = issuers?.generation ?? 0
    const isKnown = this.#verifiedBy === ring && this.#generation === generation
    if (!isKnown || this.#verified.size >= VERIFIED_MAX) {
      this.#verified.clear()
      this.#verifiedBy = ring
      this.#generation = generation
    }
    const cacheKey = `${audience}\n${token}`
    let verified = this.#verified.get(cacheKey)
    if (verified === undefined) {
      verified = await this.#verifyNow(token, audience, ring)
      // The keys may have changed during the verification; then the result is not cached.
      if (this.#verifiedBy === ring && this.#generation === generation)
        this.#verified.set(cacheKey, verified)
    }
    const { issuer, subject, expiresAt, skewSeconds } = verified
    if (issuer !== undefined) issuers?.requireKeys(issuer)
    if (expiresAt + skewSeconds <= Math.floor(this.#clock.now() / 1000))
      throw invalidToken('it has expired', subject)
    if (isRevoked(verified, this.#stores.revocations.current()))
      throw invalidToken('it is revoked', subject)
    this.#note(verified, audience, this.#clock.now())
    return verified
  }

  /** Returns the sign-in of the first issuer, or null. Errors: ISSUER_UNAVAILABLE. */
  findSignInOffer(): ReturnType<IssuerTokens['signInOffer']> {
    return this.#stores.issuers?.signInOffer() ?? null
  }

  /** Returns the owner of a token of an issuer, or null if the token is invalid. Errors: as for `verify`. */
  async findAccount(token: string): Promise<Author | null> {
    try {
      const { subject, issuer } = await this.verify(token, API_AUDIENCE)
      return issuer === undefined ? null : decodeAuthor({ sub: subject, iss: issuer })
    } catch (error) {
      if (error instanceof TokenError && error.code === 'TOKEN_INVALID') return null
      throw error
    }
  }

  /** Lists the tokens that this process has issued or accepted, most recently used first. Errors: SharedFileError. */
  remembered(): readonly (RememberedToken & { readonly isRevoked: boolean })[] {
    const revoked = this.#stores.revocations.current()
    const tokens = this.#uses.list(this.#clock.now())
    return tokens.map((token) => {
      const { jti, subject, issuer, issuedAt } = token
      const skewSeconds = issuer === undefined ? 0 : SKEW_SECONDS
      const subjectId = toSubjectId(subject, issuer)
      const checked = { jti, subjectId, issuedAt: issuedAt / 1_000, skewSeconds }
      return { ...token, isRevoked: isRevoked(checked, revoked) }
    })
  }

  #note(
    token: Omit<VerifiedToken, 'isBoundTo' | 'skewSeconds' | 'subjectId'>,
    audience: string,
    lastUsed: number | null,
  ): void {
    const { jti, subject, issuer, issuedAt, expiresAt, claims } = token
    const { scope } = claims
    const [issued, expires] = [issuedAt * 1_000, expiresAt * 1_000]
    const times = { issuedAt: issued, expiresAt: expires, lastUsed }
    this.#uses.note({ jti, subject, issuer, audience, scope, ...times })
  }

  async #verifyNow(token: string, audience: string, keys: KeyRing): Promise<VerifiedToken> {
    const { issuers } = this.#stores
    // The signature of an issuer is longer than that of this node.
    if (issuers !== null && !TOKEN.test(token)) return issuers.verify(token)
    if (token.length > TOKEN_LENGTH_MAX || !TOKEN.test(token)) throw invalidToken('it is malformed')
    const { errors, jwtVerify } = await loadJose()
    let secret: KeyObject | null = null
    try {
      const { payload } = await jwtVerify(
        token,
        ({ kid }) => {
          const key = keys.find((candidate) => candidate.kid === kid)
          if (key === undefined) throw invalidToken('its key is unknown')
          secret = key.secret
          return secret
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
      return toVerifiedToken(payload, secret)
    } catch (error) {
      if (error instanceof errors.JOSEError) throw invalidToken(error.code)
      throw error
    }
  }

  /**
   * Revokes a token, or all tokens that a subject has until now, at once, including in other processes that share the
   * folder. Errors: TOKEN_ID_MALFORMED, REVOCATIONS_FULL, SharedFileError.
   */
  async revoke(target: RevocationTarget): Promise<void> {
    const id = typeof target === 'string' ? target : toRevokedId(target)
    await this.#stores.revocations.change((revoked) => revoke(revoked, id, this.#clock.now()))
  }

  /**
   * Activates a new key and resolves to its `kid`. Existing tokens stay valid until they expire, unless `dropOld`
   * revokes them all. Errors: KEYS_FIXED, KEY_RING_FULL, SharedFileError.
   */
  async rotate({ dropOld }: { dropOld: boolean }): Promise<string> {
    if (this.#stores.isKeyFixed) {
      throw new TokenError(
        'KEYS_FIXED',
        'tokens are signed with the configured secret; change SECRET to replace it',
      )
    }
    const key = createKey()
    const now = this.#clock.now()
    await this.#stores.keys.change((ring) => rotateRing(ring, key, { now, dropOld }))
    return key.kid
  }
}

/**
 * Opens the token service of this node, and creates a key if there is none. With a folder (created if missing),
 * keys are stored in `token-keys.json` and revocations in `token-revocations.json`; otherwise both are in memory.
 * `secret`, the operator's own key of at least 32 bytes, replaces the keys but not the revocations. Errors:
 * SECRET_TOO_SHORT, SharedFileError.
 */
export async function openTokens(options: {
  readonly clock: Clock
  readonly folder: string | null
  readonly secret: string | null
  /** Replaces the file of revocations if several processes share the revocations. */
  readonly revocations?: SharedTextStore | null
  /** Verifies the tokens of issuers; default: only tokens of this node are valid. */
  readonly issuers?: IssuerTokens | null
}): Promise<TokenService> {
  const { clock, folder, secret, revocations: shared = null, issuers = null } = options
  const open = <Value>({ path, ...file }: SharedFileOptions<Value>): SharedValue<Value> =>
    folder === null
      ? valueInMemory(file.initial)
      : sharedFile({ path: join(folder, path), ...file })
  const format = {
    initial: new Map() as Revocations,
    format: formatRevocations,
    parse: parseRevocations,
  }
  const revocations =
    shared === null
      ? open<Revocations>({ path: 'token-revocations.json', ...format })
      : sharedTextValue<Revocations>(shared, format)
  // Reads the file, so that a damaged file fails the start and not the first request.
  revocations.current()
  if (secret !== null) {
    const keys = valueInMemory(createRing(secret))
    return new TokenService(clock, { keys, isKeyFixed: true, revocations, issuers })
  }
  const keys = open<KeyRing>({
    path: 'token-keys.json',
    initial: [],
    format: formatRing,
    parse: parseRing,
  })
  if (keys.current().length === 0) {
    await keys.change((ring) => (ring.length === 0 ? [createKey()] : ring))
  }
  return new TokenService(clock, { keys, isKeyFixed: false, revocations, issuers })
}

interface ApiGrant {
  readonly subject: string
  readonly scopes: readonly string[]
  /** A whole number, at most 366 days. */
  readonly lifeSeconds: number
  /** Whether the token is a session. Its owner has the node's credentials and can get another session at any time. */
  readonly isSession?: boolean
}

/**
 * Issues a token for the API of this node. `creator` is the owner of the token with which it is requested, whose rights
 * the new token may not exceed; null for an operator of the node. Errors: SCOPE_UNKNOWN, SCOPES_TOO_LONG,
 * TOKEN_GRANT_INVALID, TOKEN_GRANT_EXCEEDS, SharedFileError.
 */
export async function issueApiToken(
  tokens: TokenService,
  { subject, scopes, lifeSeconds, isSession = false }: ApiGrant,
  creator: TokenOwner | null = null,
): Promise<IssuedToken> {
  const scope = scopeClaim(scopes)
  if (!isSubject(subject)) {
    const expected = '1 to 256 bytes and no control character'
    throw new TokenError('TOKEN_GRANT_INVALID', `the subject of a token must have ${expected}`)
  }
  const isLife = Number.isInteger(lifeSeconds) && lifeSeconds >= 1
  if (!isLife || lifeSeconds * 1_000 > TOKEN_LIFE_MAX_MS) {
    throw new TokenError('TOKEN_GRANT_INVALID', 'the lifetime of a token must be 1s to 366d')
  }
  if (creator !== null) requireCovered(creator, scope)
  const isLimited = creator !== null && !creator.isSession
  // Otherwise a short token, once stolen, would be as good as a long one.
  const seconds = isLimited
    ? Math.min(lifeSeconds, tokens.secondsUntil(creator.expiresAt))
    : lifeSeconds
  const claims = { scope, ...(isSession ? { session: true } : {}) }
  return tokens.issue({ audience: API_AUDIENCE, subject, lifeSeconds: seconds, claims })
}

/** Loads jose with the first token, because many nodes use no tokens. */
const loadJose = () => import('jose')

/** Returns the claims of a verified token. Errors: TOKEN_INVALID for a claim of the wrong type. */
function toVerifiedToken(payload: JWTPayload, secret: KeyObject | null): VerifiedToken {
  const { jti, sub, iat, exp } = payload
  // The operator may use the secret for other tokens too, so a signed token can have claims of any type. jose checks
  // only the types of iat and exp.
  if (typeof jti !== 'string' || typeof sub !== 'string')
    throw invalidToken('its jti or sub is not a string')
  if (iat === undefined || exp === undefined) throw invalidToken('its iat or exp is missing')
  const isBoundTo = (text: string) => secret !== null && payload.bound === boundClaim(secret, text)
  const times = { issuedAt: iat, expiresAt: exp, skewSeconds: 0 }
  return { jti, subject: sub, subjectId: toSubjectId(sub), ...times, claims: payload, isBoundTo }
}

function toRevokedId(target: Exclude<RevocationTarget, string>): string {
  if ('jti' in target) return issuerTokenId(target.issuer, target.jti)
  return toSubjectId(target.subject, target.issuer)
}

/** Whether the token is revoked, or was issued before the tokens of its subject were revoked. */
function isRevoked(
  token: Pick<VerifiedToken, 'jti' | 'subjectId' | 'issuedAt' | 'skewSeconds'>,
  revoked: Revocations,
): boolean {
  const { jti, subjectId, issuedAt, skewSeconds } = token
  if (revoked.has(jti)) return true
  const until = revoked.get(subjectId)
  return until !== undefined && (issuedAt - skewSeconds) * 1_000 <= until - TOKEN_LIFE_MAX_MS
}

/** Returns the claim of a token that is bound to `text`. Nobody can test a guess of `text` without the secret. */
function boundClaim(secret: KeyObject, text: string): string {
  return createHmac('sha256', secret).update('bound to ').update(text).digest('base64url')
}
