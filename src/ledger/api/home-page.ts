import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../base/clock.ts'
import { Type } from '../../base/shape.ts'
import {
  addressOf,
  type Credentials,
  equalCredentials,
  FailureThrottle,
  type HttpApp,
  HttpRefusal,
  type PageFile,
  pageFile,
  parseBasic,
  servePageFiles,
} from '../../http/index.ts'
import { EVERY_SCOPE, issueApiToken, type TokenService } from '../../tokens/index.ts'
import { failures, okReply } from './schemas.ts'

/** Number of wrong passwords per address and window, above which attempts are delayed. */
const FAILURES = { failuresMax: 20, windowMs: 5 * 60_000, keysMax: 10_000 }

/** Rejects a request without the node's own credentials. Errors: HttpRefusal (401, 429). */
export type BasicCheck = (request: FastifyRequest, reply: FastifyReply) => void

/** Returns a check of the node's own Basic credentials. All routes with this check share its failure count. */
export function basicCheck(credentials: Credentials, monotonic: Clock): BasicCheck {
  const throttle = new FailureThrottle(monotonic, FAILURES)
  return (request, reply) => {
    const address = addressOf(request)
    const wait = throttle.waitMs(address)
    if (wait > 0) {
      reply.header('retry-after', Math.ceil(wait / 1000))
      throw new HttpRefusal(429, 'TOO_MANY_FAILURES', 'too many wrong passwords; try again later')
    }
    const given = parseBasic(request.headers.authorization)
    if (given === null || !equalCredentials(given, credentials)) {
      if (given !== null) throttle.fail(address)
      reply.header('www-authenticate', 'Basic realm="daicho", charset="UTF-8"')
      throw new HttpRefusal(401, 'CREDENTIALS_NEEDED', 'a user name and a password are required')
    }
    throttle.clear(address)
  }
}

/** Served if the dashboard has not been built. */
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
<li><a href="/doc">API documentation</a>, with every operation to try</li>
<li><a href="/api/dbs">Databases</a> as JSON</li>
<li><a href="/api/serverid">Server id</a> of this node, to list its blocks by</li>
</ul>
</main>
</body>
</html>
`
/** Mounts the dashboard at `/`, behind Basic credentials; `files` is null if it has not been built. */
export function homePage(app: HttpApp, check: BasicCheck, files: readonly PageFile[] | null): void {
  servePageFiles(app, files ?? [pageFile('/', 'page.html', LINKS)], (request, reply) => {
    check(request, reply)
    // Forbids pages of other sites to embed the page.
    reply.header('cross-origin-resource-policy', 'same-origin')
  })
}

const SessionReply = okReply({
  token: Type.Union([Type.String(), Type.Null()], {
    description: 'Send it as x-access-token; null if no tokens are required',
  }),
  expires_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Milliseconds since the Unix epoch',
  }),
})

/** Lifetime of a session token. */
const SESSION_SECONDS = 15 * 60

export interface SessionDeps {
  readonly check: BasicCheck
  /** Null if no tokens are required. */
  readonly tokens: TokenService | null
  /** The `sub` claim of the tokens. */
  readonly subject: string
  /** Logs the id of each token, never the token. */
  readonly logger: Pick<FastifyBaseLogger, 'info'>
}

/**
 * Mounts `POST /session`, which exchanges the node's own credentials for a token with every scope, for the
 * page at `/`. The listener's cross-origin check rejects pages of other sites.
 */
export function sessionRoutes(app: HttpApp, { check, tokens, subject, logger }: SessionDeps): void {
  app.post(
    '/session',
    {
      schema: {
        hide: true,
        response: { 200: SessionReply, ...failures },
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
      })
      logger.info({ jti }, 'session token issued')
      return { status: true as const, token, expires_at: expiresAt * 1000 }
    },
  )
}
