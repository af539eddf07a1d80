import { type Issued, type Renew, SessionEnded } from './session.ts'

/** The sign-in at an OpenID Connect issuer, as the node describes it. */
export interface SignInOffer {
  readonly issuer: string
  readonly client_id: string
  readonly authorization_endpoint: string
  readonly token_endpoint: string
  /** Further parameters of the request, as a query. */
  readonly parameters: string
}

/** The memory of the page while the user is at the issuer. */
interface Started {
  readonly verifier: string
  readonly state: string
  readonly nonce: string
  /** The view to open afterwards. */
  readonly hash: string
}

const STARTED = 'daicho sign-in'
/** Time before the expiry of a token at which the token is renewed. */
const EARLY_SECONDS = 60
/** Lifetime of a token whose issuer does not state it. */
const LIFE_SECONDS = 300

/** Whether the node offers a sign-in, which it says in its page. */
export function hasLogin(): boolean {
  return document.querySelector('meta[name="sign-in"]') !== null
}

/** Returns the offer of the node at `base`. Errors: TypeError. */
export async function readOffer(base: string): Promise<SignInOffer> {
  const reply = await fetch(`${base}session`, { cache: 'no-store' })
  const value: unknown = await reply.json().catch(() => null)
  const { status, message, ...offer } = Object(value)
  if (reply.ok && status === true) return offer
  throw new TypeError(String(message ?? reply.status))
}

/**
 * Opens the page of the issuer: authorization code with PKCE. Source: RFC 6749 section 4.1, RFC 7636. Errors: TypeError
 * for a page without https, for which browsers have no hashes.
 */
export async function startLogin(base: string, offer: SignInOffer): Promise<void> {
  if (!isSecureContext) throw new TypeError('open the page with https')
  const [verifier, state, nonce] = [randomText(), randomText(), randomText()]
  const started: Started = { verifier, state, nonce, hash: location.hash }
  sessionStorage.setItem(STARTED, JSON.stringify(started))
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))
  const url = new URL(offer.authorization_endpoint)
  const parameters = {
    scope: 'openid',
    ...Object.fromEntries(new URLSearchParams(offer.parameters)),
    ...{ response_type: 'code', client_id: offer.client_id, redirect_uri: base, state, nonce },
    ...{ code_challenge: toBase64Url(new Uint8Array(digest)), code_challenge_method: 'S256' },
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  location.assign(url)
}

/**
 * Completes a sign-in if the issuer has sent the user back, and removes the code from the address. Returns the renewal
 * of the token, or null if no sign-in was started. Errors: TypeError.
 */
export async function finishLogin(base: string, offer: SignInOffer): Promise<Renew | null> {
  const query = new URLSearchParams(location.search)
  const state = query.get('state')
  if (state === null) return null
  const started: Partial<Started> = JSON.parse(sessionStorage.getItem(STARTED) ?? '{}')
  sessionStorage.removeItem(STARTED)
  history.replaceState(null, '', base + (started.hash ?? ''))
  const [code, error] = [query.get('code'), query.get('error')]
  // Another page may have sent the user here, with the code of another account or with its own message.
  if (started.state !== state || (code ?? error) === null) {
    throw new TypeError('this page did not start this sign-in; sign in again')
  }
  if ((query.get('iss') ?? offer.issuer) !== offer.issuer) {
    throw new TypeError(`the reply is not from ${offer.issuer}; sign in again`)
  }
  if (error !== null || code === null) {
    throw new TypeError(query.get('error_description') ?? `${error}`)
  }
  const { verifier: code_verifier = '', nonce } = started
  const grant = { grant_type: 'authorization_code', code, redirect_uri: base, code_verifier }
  const first = await requestTokens(offer, grant)
  const claims = parseClaims(first.idToken)
  // The ID token comes directly from the issuer, so its signature need not be checked (OpenID Connect Core 3.1.3.7).
  const { aud, azp = offer.client_id, iss } = claims
  const isOurs =
    [aud].flat().includes(offer.client_id) && azp === offer.client_id && iss === offer.issuer
  if (claims.nonce !== nonce || !isOurs) throw new TypeError('the ID token is not for this sign-in')
  return renewal(offer, first)
}

interface Tokens extends Issued {
  readonly idToken: string
  readonly refreshToken: string | null
}

/** Returns the first token, later those for its refresh token. */
function renewal(offer: SignInOffer, first: Tokens): Renew {
  let tokens: Tokens | null = first
  let { refreshToken } = first
  return async () => {
    const issued = tokens
    tokens = null
    if (issued !== null) return issued
    if (refreshToken === null) throw new SessionEnded('the session has ended')
    const grant = { grant_type: 'refresh_token', refresh_token: refreshToken }
    const renewed = await requestTokens(offer, grant)
    refreshToken = renewed.refreshToken ?? refreshToken
    return renewed
  }
}

/** Requests tokens from the issuer. Errors: SessionEnded if the issuer refuses; TypeError. */
async function requestTokens(
  { token_endpoint, client_id, parameters }: SignInOffer,
  grant: Readonly<Record<string, string>>,
): Promise<Tokens> {
  const body = new URLSearchParams({ ...grant, client_id })
  const resource = new URLSearchParams(parameters).get('resource')
  if (resource !== null) body.set('resource', resource)
  const reply = await fetch(token_endpoint, { method: 'POST', body })
  const value: unknown = await reply.json().catch(() => null)
  const { access_token, id_token, refresh_token, expires_in, error } = Object(value)
  if (!reply.ok || typeof access_token !== 'string') {
    const message = typeof error === 'string' ? error : `status ${reply.status}`
    throw reply.status >= 429 ? new TypeError(message) : new SessionEnded(message)
  }
  const seconds = Math.max((Number(expires_in) || LIFE_SECONDS) - EARLY_SECONDS, EARLY_SECONDS)
  return {
    token: access_token,
    renewAt: performance.now() + seconds * 1_000,
    idToken: String(id_token ?? ''),
    refreshToken: typeof refresh_token === 'string' ? refresh_token : null,
  }
}

function parseClaims(token: string): Record<string, unknown> {
  const [, payload = ''] = token.split('.')
  const bytes = atob(payload.replaceAll('-', '+').replaceAll('_', '/'))
  return Object(
    JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)))),
  )
}

function randomText(): string {
  return toBase64Url(crypto.getRandomValues(new Uint8Array(32)))
}

function toBase64Url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes))
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
