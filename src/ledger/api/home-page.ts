import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../base/clock.ts'
import { Type } from '../../base/shape.ts'
import {
  type Credentials,
  equalCredentials,
  FailureThrottle,
  failedLogin,
  formatPolicy,
  type HttpApp,
  HttpRefusal,
  PASSWORD_FAILURES,
  type PageFile,
  pageFile,
  parseBasic,
  readAddress,
  servePageFiles,
  toClientKey,
} from '../../http/index.ts'
import { EVERY_SCOPE, issueApiToken, type TokenService } from '../../tokens/index.ts'
import { ErrorReply, failures, okReply } from './schemas.ts'

/** Rejects a request without the node's own credentials. Errors: HttpRefusal (401, 429). */
export type BasicCheck = (request: FastifyRequest, reply: FastifyReply) => void

/** Returns a check of the node's own Basic credentials. All routes with this check share its failure count. */
export function basicCheck(credentials: Credentials, monotonic: Clock): BasicCheck {
  const throttle = new FailureThrottle(monotonic, PASSWORD_FAILURES)
  return (request, reply) => {
    const client = toClientKey(readAddress(request))
    const wait = throttle.waitMs(client)
    if (wait > 0) {
      reply.header('retry-after', Math.ceil(wait / 1000))
      const message = 'too many wrong passwords; try again later'
      const denial = { reason: 'TOO_MANY_FAILURES' }
      throw new HttpRefusal(429, 'TOO_MANY_FAILURES', message, { denial })
    }
    const given = parseBasic(request.headers.authorization)
    if (given === null || !equalCredentials(given, credentials)) {
      if (given !== null) throttle.fail(client)
      // A browser first asks without credentials, which is no failure.
      const denial = given === null ? {} : { denial: failedLogin(given.name, credentials.name) }
      throw new HttpRefusal(401, 'CREDENTIALS_NEEDED', 'a user name and a password are required', {
        ...{ challenge: 'Basic realm="daicho", charset="UTF-8"', ...denial },
      })
    }
    throttle.clear(client)
  }
}

/** Page that is served if the dashboard has not been built. */
const LINKS = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>daicho</title>
</head>
<body>
<main>
<h1>daicho</h1>
<p>The dashboard has not been built: run <code>npm run build</code>.</p>
<ul>
<li><a href="/doc">API documentation</a>, where you can try every operation</li>
<li><a href="/api/dbs">Databases</a> as JSON</li>
<li><a href="/api/serverid">Server id</a> of this node, with which you can list its blocks</li>
</ul>
</main>
</body>
</html>
`
/** The sign-in of the dashboard at an OpenID Connect issuer. */
export interface SignIn {
  /** The `client_id` of the dashboard at the issuer. */
  readonly clientId: string
  /** Further parameters of the request to the issuer, as a query. */
  readonly parameters: string
  /** Returns the issuer and its addresses; null if it has no sign-in. Errors: ISSUER_UNAVAILABLE. */
  readonly find: () => {
    readonly issuer: string
    readonly endpoints: { readonly authorization: URL; readonly token: URL }
  } | null
}

/**
 * Mounts the dashboard at `/`. Requests must pass `check`, unless there is a sign-in: the page itself contains nothing
 * secret. `files` is null if the dashboard has not been built.
 */
export function homePage(
  app: HttpApp,
  check: BasicCheck,
  files: readonly PageFile[] | null,
  signIn: SignIn | null,
): void {
  // Prevents pages of other sites from embedding the dashboard.
  const headers = { 'cross-origin-resource-policy': 'same-origin' }
  const all = files ?? [pageFile('/', 'page.html', LINKS)]
  if (signIn === null) servePageFiles(app, all, { check, headers: () => headers })
  else
    servePageFiles(app, all.map(markPage), {
      headers: () => ({
        ...headers,
        'content-security-policy': formatPolicy(signInOrigins(signIn)),
      }),
      // The issuer sends the browser back to the page.
      config: { scope: 'public', openToAllSites: true },
    })
}

/** Returns the page with a mark that tells it to ask for the sign-in. */
function markPage(file: PageFile): PageFile {
  if (file.path !== '/') return file
  const mark = '<head><meta name="sign-in" content="session">'
  return pageFile('/', 'index.html', () =>
    Buffer.from(file.content().bytes.toString().replace('<head>', mark)),
  )
}

/** Returns the origins to which the page sends requests: its own, and that of the issuer's tokens. */
function signInOrigins({ find }: SignIn): string {
  try {
    const origin = find()?.endpoints.token.origin
    return origin === undefined ? "'self'" : `'self' ${origin}`
  } catch {
    // The page then shows that the issuer is not available.
    return "'self'"
  }
}

const SignInReply = okReply({
  issuer: Type.String(),
  client_id: Type.String(),
  authorization_endpoint: Type.String(),
  token_endpoint: Type.String(),
  parameters: Type.String(),
})

/** Mounts `GET /session`, which describes the sign-in to the dashboard. */
export function signInRoutes(app: HttpApp, { clientId, parameters, find }: SignIn): void {
  app.get(
    '/session',
    {
      schema: { hide: true, response: { 200: SignInReply, ...failures } },
      config: { scope: 'public' },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'no-store')
      const found = find()
      if (found === null)
        throw new HttpRefusal(503, 'ISSUER_UNAVAILABLE', 'the issuer has no sign-in for browsers')
      return {
        status: true as const,
        ...{ issuer: found.issuer, client_id: clientId, parameters },
        authorization_endpoint: found.endpoints.authorization.href,
        token_endpoint: found.endpoints.token.href,
      }
    },
  )
}

const SessionReply = okReply({
  token: Type.Union([Type.String(), Type.Null()], {
    description: 'Token for the header x-access-token; null if the node requires no tokens',
  }),
  expires_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Milliseconds since the Unix epoch',
  }),
})

/** Lifetime of a session token. */
const SESSION_SECONDS = 15 * 60

export interface SessionDeps {
  readonly check: BasicCheck
  /** Null if the node requires no tokens. */
  readonly tokens: TokenService | null
  /** The `sub` claim of the tokens. */
  readonly subject: string
  /** Logs the id of each token, never the token. */
  readonly logger: Pick<FastifyBaseLogger, 'info'>
}

/**
 * Mounts `POST /session`, with which the dashboard exchanges the node's own credentials for a token with every scope.
 * The cross-origin check of the listener rejects requests from pages of other sites, so they cannot get a token with
 * credentials that the browser has stored.
 */
export function sessionRoutes(app: HttpApp, { check, tokens, subject, logger }: SessionDeps): void {
  app.post(
    '/session',
    {
      schema: {
        hide: true,
        response: { 200: SessionReply, 429: ErrorReply, ...failures },
      },
      config: { scope: 'public' },
    },
    async (request, reply) => {
      check(request, reply)
      reply.header('cache-control', 'no-store')
      if (tokens === null) return { status: true as const, token: null, expires_at: null }
      const { token, jti, expiresAt } = await issueApiToken(tokens, {
        subject,
        scopes: EVERY_SCOPE,
        lifeSeconds: SESSION_SECONDS,
        isSession: true,
      })
      logger.info({ jti }, 'session token issued')
      return { status: true as const, token, expires_at: expiresAt * 1000 }
    },
  )
}
