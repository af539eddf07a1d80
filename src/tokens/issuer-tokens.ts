import type { JWTPayload } from 'jose'
import type { Json, JsonObject } from '../base/json.ts'
import { TokenError } from './errors.ts'
import { Issuer, type IssuerDeps, type SignInEndpoints } from './issuer.ts'
import { TOKEN_LIFE_MAX_MS } from './keys.ts'
import { findClaim, grantedScope, type ScopeRule } from './scope-rules.ts'
import { isSubject } from './scopes.ts'
import { deriveId, invalidToken, toSubjectId, type VerifiedToken } from './verified-token.ts'

/** Maximum length of a token in characters. */
const TOKEN_LENGTH_MAX = 8_192
/** Tolerated difference between the clocks of an issuer and of this node. */
export const SKEW_SECONDS = 60
/** Three base64url parts without padding. */
const SIGNED_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/
/** Accepted values of the header `typ`; many issuers omit it. Source: RFC 9068 section 2.1. */
const TYPES = ['jwt', 'at+jwt', 'application/at+jwt']
/** Claims of ID tokens. Source: OpenID Connect Core 1.0, sections 2 and 3.3.2.11. */
const ID_CLAIMS = ['nonce', 'at_hash', 'c_hash']

export interface IssuerTokensOptions extends IssuerDeps {
  readonly issuers: readonly string[]
  /** Required in the `aud` claim. */
  readonly audience: string
  readonly scopeClaim: string
  readonly subjectClaim: string
  readonly rules: readonly ScopeRule[]
}

/**
 * Verifies the access tokens of OpenID Connect issuers. No verification waits for the network. Source: RFC 9068,
 * RFC 8725; docs/decisions/0014-tokens-and-scopes.md.
 */
export class IssuerTokens {
  readonly #options: IssuerTokensOptions
  readonly #issuers: ReadonlyMap<string, Issuer>

  /** Starts to fetch the keys of the issuers. */
  constructor(options: IssuerTokensOptions) {
    this.#options = options
    this.#issuers = new Map(options.issuers.map((name) => [name, new Issuer(name, options)]))
  }

  /** Changes whenever the keys of an issuer change. */
  get generation(): number {
    let sum = 0
    for (const { generation } of this.#issuers.values()) sum += generation
    return sum
  }

  /** Throws if the keys of an issuer are too old. Errors: ISSUER_UNAVAILABLE. */
  requireKeys(name: string): void {
    this.#issuers.get(name)?.current()
  }

  /** Returns the addresses of the first issuer's sign-in, or null if it has none. Errors: ISSUER_UNAVAILABLE. */
  signInOffer(): { readonly issuer: string; readonly endpoints: SignInEndpoints } | null {
    const [first] = this.#issuers.values()
    const endpoints = first?.current().signIn ?? null
    return first === undefined || endpoints === null ? null : { issuer: first.name, endpoints }
  }

  /** Returns the content of `token`. Errors: TOKEN_INVALID, ISSUER_UNAVAILABLE. */
  async verify(token: string): Promise<VerifiedToken> {
    if (token.length > TOKEN_LENGTH_MAX || !SIGNED_TOKEN.test(token))
      throw invalidToken('it is malformed')
    const { decodeJwt, errors, jwtVerify } = await import('jose')
    let issuer: Issuer | undefined
    try {
      issuer = this.#issuers.get(decodeJwt(token).iss ?? '')
      if (issuer === undefined) throw invalidToken('its issuer is unknown')
      const { algorithms, findKey } = issuer.current()
      const { payload, protectedHeader } = await jwtVerify(token, findKey, {
        ...{ algorithms, issuer: issuer.name, requiredClaims: ['exp', 'iat'] },
        ...{ clockTolerance: SKEW_SECONDS, currentDate: new Date(this.#options.clock.now()) },
      })
      const type = protectedHeader.typ?.toLowerCase() ?? 'jwt'
      if (!TYPES.includes(type)) throw invalidToken('its type is not that of an access token')
      return this.#read(token, payload, issuer.name)
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey && issuer?.refreshSoon()) throw issuer.outage
      if (error instanceof TokenError) throw error
      // The other errors are those of a key that cannot be imported.
      throw invalidToken(error instanceof errors.JOSEError ? error.code : 'its key is unusable')
    }
  }

  close(): void {
    for (const issuer of this.#issuers.values()) issuer.stop()
  }

  /** Checks the claims of a token with a valid signature. */
  #read(token: string, payload: JWTPayload, issuer: string): VerifiedToken {
    const { clock, audience, scopeClaim, subjectClaim, rules } = this.#options
    // jose parses the payload with JSON.parse, so it is JSON.
    const claims = payload as JsonObject
    const subject = findClaim(claims, subjectClaim)
    if (typeof subject !== 'string' || !isSubject(subject))
      throw invalidToken(`its claim ${subjectClaim} is not the name of a subject`)
    if (!audiences(claims).includes(audience))
      throw invalidToken('its audience is another', subject)
    if (!isAccessToken(claims)) throw invalidToken('it is not an access token', subject)
    // The owner of such a token would have to prove that it has a key. Source: RFC 7800.
    if (claims.cnf !== undefined) throw invalidToken('it is bound to a key', subject)
    const { iat: issuedAt = 0, exp: expiresAt = 0 } = payload
    if (issuedAt > clock.now() / 1000 + SKEW_SECONDS)
      throw invalidToken('it was issued in the future', subject)
    // The service keeps a revocation for this time.
    if (expiresAt - issuedAt > TOKEN_LIFE_MAX_MS / 1000)
      throw invalidToken('it is valid for more than 366 days', subject)
    // Without the signature, because the same signature can be written in several ways.
    const signed = token.slice(0, token.lastIndexOf('.'))
    const scope = grantedScope(claims, { issuer, claim: scopeClaim, rules })
    return {
      ...{ subject, issuer, issuedAt, expiresAt, skewSeconds: SKEW_SECONDS },
      subjectId: toSubjectId(subject, issuer),
      jti: issuerTokenId(issuer, typeof claims.jti === 'string' ? claims.jti : signed),
      claims: { ...claims, scope },
      isBoundTo: () => false,
    }
  }
}

/** Returns the id under which this node lists and revokes the token `jti` of an issuer. */
export function issuerTokenId(issuer: string, jti: string): string {
  return deriveId('token', issuer, jti)
}

/** Access tokens of Amazon Cognito have a `client_id` instead of an audience. */
function audiences({ aud, token_use, client_id }: JsonObject): readonly Json[] {
  if (aud !== undefined) return [aud].flat()
  return token_use === 'access' ? [client_id ?? null] : []
}

/** Whether the claims are not those of an ID token. Keycloak and Cognito mark their tokens in `typ` and `token_use`. */
function isAccessToken(claims: JsonObject): boolean {
  const { typ, token_use } = claims
  if (typ !== undefined) return typ === 'Bearer'
  if (token_use !== undefined) return token_use === 'access'
  return ID_CLAIMS.every((name) => claims[name] === undefined)
}
