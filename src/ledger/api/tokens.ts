import type { FastifyBaseLogger } from 'fastify'
import { Type } from '../../base/shape.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import { issueApiToken, type TokenService } from '../../tokens/index.ts'
import { DoneReply, okReply, operation } from './schemas.ts'

const PATH = '/api/config/tokens'

const timeMember = (description: string) =>
  Type.Integer({ description: `${description}, milliseconds since the Unix epoch` })

const TokensReply = okReply({
  required: Type.Boolean({ description: 'Whether this node requires tokens' }),
  since: Type.Union([timeMember('Time since which tokens are listed'), Type.Null()]),
  tokens: Type.Array(
    Type.Object({
      jti: Type.String({ description: 'Id of the token, for revoking it' }),
      subject: Type.String(),
      issuer: Type.Optional(
        Type.String({ description: 'OpenID Connect issuer; absent for a token of this node' }),
      ),
      audience: Type.String({ description: '`daicho:api` for this API' }),
      scopes: Type.Array(Type.String()),
      issued_at: timeMember('Creation'),
      expires_at: timeMember('Expiry'),
      last_used: Type.Union([timeMember('Last use'), Type.Null()]),
      revoked: Type.Boolean(),
    }),
  ),
})

const TokenParams = Type.Object({ jti: Type.String({ description: 'Id of the token' }) })

const TokenBody = Type.Object(
  {
    subject: Type.String({ description: 'Owner of the token, recorded with each change' }),
    scopes: Type.Array(Type.String(), {
      ...{ minItems: 1, maxItems: 200 },
      description: 'Scopes that the token of the request has too',
    }),
    life_seconds: Type.Integer({
      ...{ minimum: 1, maximum: 366 * 86_400 },
      description:
        'Lifetime. The token expires with the token of the request, unless that is of a session',
    }),
  },
  {
    additionalProperties: false,
    examples: [{ subject: 'reporting', scopes: ['db:fruit:read'], life_seconds: 86_400 }],
  },
)

const CreatedTokenReply = okReply({
  token: Type.String({ description: 'Shown once: the node does not store it' }),
  jti: Type.String({ description: 'Id of the token, for revoking it' }),
  expires_at: timeMember('Expiry'),
})

const DenialsReply = okReply({
  denials: Type.Array(
    Type.Object({
      component: Type.String({ description: 'The listener, e.g. `ledger`' }),
      reason: Type.String({ description: 'Code of the refusal' }),
      address: Type.String({ description: 'Address of the client or of its proxy' }),
      subject: Type.Union([Type.String(), Type.Null()], {
        description: 'User name or subject of the token, if it is known',
      }),
      method: Type.String({ description: 'Method of the last request' }),
      path: Type.String({ description: 'Path of the last request' }),
      count: Type.Integer(),
      first: timeMember('First request'),
      last: timeMember('Last request'),
    }),
  ),
})

/** Mounts the route that lists denied requests. */
export function denialRoutes(app: HttpApp): void {
  app.get(
    '/api/config/denials',
    operation('operations', 'listDenials', {
      summary: 'List the denied requests of the last hour, of all listeners of this process',
      description:
        'Failed log-ins, refused tokens, missing scopes and throttled addresses. Requests of the same subject and ' +
        'address for the same reason are one element. At most 500, the newest first.',
      reply: DenialsReply,
      config: { scope: 'node:admin' },
    }),
    async () => ({ status: true as const, denials: [...app.denials.recent()] }),
  )
}

/** Mounts the route that creates tokens. `logger` logs the id of each token, never the token. */
function tokenCreationRoute(
  app: HttpApp,
  tokens: TokenService | null,
  logger: Pick<FastifyBaseLogger, 'info'>,
): void {
  app.post(
    PATH,
    operation('operations', 'createToken', {
      summary: 'Create a token with scopes that the token of the request has too',
      body: TokenBody,
      reply: CreatedTokenReply,
      config: { scope: 'node:admin' },
    }),
    async ({ body, caller }, reply) => {
      const { subject, scopes, life_seconds: lifeSeconds } = body
      const grant = { subject, scopes, lifeSeconds }
      const { token, jti, expiresAt } = await issueApiToken(requireTokens(tokens), grant, caller)
      logger.info({ jti, subject, scopes, by: caller?.author }, 'token issued')
      reply.header('cache-control', 'no-store')
      return { status: true as const, token, jti, expires_at: expiresAt * 1000 }
    },
  )
}

/** Mounts the routes that create, list and revoke tokens. `tokens` is null if the node requires no tokens. */
export function tokenRoutes(
  app: HttpApp,
  tokens: TokenService | null,
  logger: Pick<FastifyBaseLogger, 'info'>,
): void {
  tokenCreationRoute(app, tokens, logger)
  app.get(
    PATH,
    operation('operations', 'listTokens', {
      summary: 'List the tokens that this process has issued or accepted since it started',
      description:
        'At most 1,000 tokens, the most recently used first. Expired tokens are omitted.',
      reply: TokensReply,
      config: { scope: 'node:admin' },
    }),
    async () => ({
      status: true as const,
      required: tokens !== null,
      since: tokens?.since ?? null,
      tokens: (tokens?.remembered() ?? []).map((token) => ({
        jti: token.jti,
        subject: token.subject,
        ...(token.issuer === undefined ? {} : { issuer: token.issuer }),
        audience: token.audience,
        scopes: typeof token.scope === 'string' ? token.scope.split(' ').filter(Boolean) : [],
        issued_at: token.issuedAt,
        expires_at: token.expiresAt,
        last_used: token.lastUsed,
        revoked: token.isRevoked,
      })),
    }),
  )
  app.delete(
    `${PATH}/:jti`,
    operation('operations', 'revokeToken', {
      summary: 'Revoke a token of this node, even if it is not listed',
      params: TokenParams,
      reply: DoneReply,
      config: { scope: 'node:admin' },
    }),
    async ({ params }) => {
      await requireTokens(tokens).revoke(params.jti)
      return { status: true as const }
    },
  )
}

function requireTokens(tokens: TokenService | null): TokenService {
  if (tokens !== null) return tokens
  const message = 'this node requires no tokens; start it with TOKENS=required'
  throw new HttpRefusal(409, 'TOKENS_DISABLED', message)
}
