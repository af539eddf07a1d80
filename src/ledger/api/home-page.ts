import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../base/clock.ts'
import { Type } from '../../base/shape.ts'
import {
  type Credentials,
  equalCredentials,
  FailureThrottle,
  failedLogin,
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
/** Mounts the dashboard at `/`. Requests must pass `check`. `files` is null if the dashboard has not been built. */
export function homePage(app: HttpApp, check: BasicCheck, files: readonly PageFile[] | null): void {
  servePageFiles(app, files ?? [pageFile('/', 'page.html', LINKS)], {
    check: (request, reply) => {
      check(request, reply)
      // Prevents pages of other sites from embedding the dashboard.
      reply.header('cross-origin-resource-policy', 'same-origin')
    },
  })
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
      })
      logger.info({ jti }, 'session token issued')
      return { status: true as const, token, expires_at: expiresAt * 1000 }
    },
  )
}
