import type { FastifyBaseLogger } from 'fastify'
import type { HttpApp } from '../../http/index.ts'
import { EVERY_SCOPE, issueApiToken, type TokenService } from '../../tokens/index.ts'
import type { KeeperCheck } from '../keeper.ts'
import { Failure } from '../schemas.ts'
import { SessionReply } from './schemas.ts'

/** Seconds for which the token of a session is valid. */
const SESSION_SECONDS = 15 * 60

/** What the exchange stands on. */
export interface SessionDeps {
  readonly check: KeeperCheck
  /** Null: no tokens are required. */
  readonly tokens: TokenService | null
  /** The `sub` of the tokens. */
  readonly subject: string
  /** Told of each token by its id, never by itself. */
  readonly logger: Pick<FastifyBaseLogger, 'info'>
}

/**
 * Mounts `POST /session`, where the page at `/` exchanges the node's own credentials for a token of
 * every scope. A page of another site cannot: the guard of the listener refuses it before this.
 */
export function sessionRoutes(app: HttpApp, { check, tokens, subject, logger }: SessionDeps): void {
  app.post(
    '/session',
    {
      // Not of the API: it belongs to the page at `/`.
      schema: {
        hide: true,
        response: { 200: SessionReply, '4xx': Failure, '5xx': Failure },
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
