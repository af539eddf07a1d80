import { Type } from '../../base/shape.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { TokenService } from '../../tokens/index.ts'
import { DoneReply, okReply, operation } from './schemas.ts'

const PATH = '/api/config/tokens'

const time = (description: string) =>
  Type.Integer({ description: `${description}, milliseconds since the Unix epoch` })

const TokensReply = okReply({
  required: Type.Boolean({ description: 'Whether this node requires tokens' }),
  since: Type.Union([time('Time since which tokens are listed'), Type.Null()]),
  tokens: Type.Array(
    Type.Object({
      jti: Type.String({ description: 'Id of the token, for revoking it' }),
      subject: Type.String(),
      issuer: Type.Optional(
        Type.String({ description: 'OpenID Connect issuer; absent for a token of this node' }),
      ),
      audience: Type.String({ description: '`daicho:api` for this API' }),
      scopes: Type.Array(Type.String()),
      issued_at: time('Creation'),
      expires_at: time('Expiry'),
      last_used: Type.Union([time('Last use'), Type.Null()]),
      revoked: Type.Boolean(),
    }),
  ),
})

const TokenParams = Type.Object({ jti: Type.String({ description: 'Id of the token' }) })

/** Mounts the routes that list and revoke tokens. `tokens` is null if the node requires no tokens. */
export function tokenRoutes(app: HttpApp, tokens: TokenService | null): void {
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
        scopes: typeof token.scope === 'string' ? token.scope.split(' ') : [],
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
      if (tokens === null) {
        throw new HttpRefusal(
          409,
          'TOKENS_DISABLED',
          'this node requires no tokens; start it with TOKENS=required',
        )
      }
      await tokens.revoke(params.jti)
      return { status: true as const }
    },
  )
}
