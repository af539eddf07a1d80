import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
// @ts-expect-error: the package has no types
import { Provider } from 'oidc-provider'
import { onTestFinished, vi } from 'vitest'
import { AUDIENCE } from './issuer.ts'

/** The scopes that the issuer may grant. */
const SCOPES = 'db:fruit:admin db:*:admin ledger:read node:admin node:metrics'

/** Clients with a secret, which get tokens for themselves. */
const PROGRAMS = ['robot', 'reporter']

/** The issuer of the package oidc-provider, with the clients `robot` and `reporter`, which have a secret, and `dashboard`, which has none. */
export interface RealIssuer {
  readonly url: string
  /** Returns an access token of a client, by default of the robot. */
  token(scope: string, client?: string): Promise<string>
  /** Publishes a new key beside the old keys. With `signs`, the new key signs from now on. */
  addKey(kid: string, options: { signs: boolean }): Promise<void>
}

/** Starts the issuer. `redirectUri`: the address of the dashboard; while it is null, the issuer is out of service. */
export async function startRealIssuer(
  redirectUri: string | (() => string | null),
): Promise<RealIssuer> {
  // The package warns that its parts for development are not for production.
  for (const method of ['info', 'warn'] as const) {
    vi.spyOn(console, method).mockImplementation(() => {})
  }
  let answer: RequestListener = () => {}
  const server = createServer((request, reply) => answer(request, reply))
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
  const url = `http://localhost:${(server.address() as AddressInfo).port}`
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  let keys: JWK[] = []
  const addKey = async (kid: string, { signs }: { signs: boolean }) => {
    const { privateKey } = await generateKeyPair('RS256', { extractable: true })
    const key = { ...(await exportJWK(privateKey)), kid, use: 'sig', alg: 'RS256' }
    // The provider signs with the first key.
    const others = keys.filter((known) => known.kid !== kid)
    keys = signs ? [keys.find((known) => known.kid === kid) ?? key, ...others] : [...keys, key]
    let provider: RequestListener | null = null
    answer = (request, reply) => {
      const address = typeof redirectUri === 'string' ? redirectUri : redirectUri()
      if (address === null) return reply.writeHead(503).end()
      provider ??= new Provider(url, configuration(keys, address)).callback() as RequestListener
      provider(request, reply)
    }
  }
  await addKey('first', { signs: true })
  return {
    url,
    addKey,
    async token(scope, client = 'robot') {
      const reply = await fetch(`${url}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`${client}:${client}-secret`)}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', scope, resource: AUDIENCE }),
      })
      const text = await reply.text()
      if (!reply.ok) throw new Error(text)
      return JSON.parse(text).access_token
    },
  }
}

function configuration(keys: readonly JWK[], redirectUri: string): object {
  const server = {
    ...{ scope: SCOPES, audience: AUDIENCE, accessTokenFormat: 'jwt', accessTokenTTL: 300 },
    jwt: { sign: { alg: 'RS256' } },
  }
  return {
    jwks: { keys },
    cookies: { keys: ['a key for the cookies of the tests'] },
    clientBasedCORS: () => true,
    issueRefreshToken: async () => true,
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id }),
    }),
    clients: [
      ...PROGRAMS.map((id) => ({
        ...{ client_id: id, client_secret: `${id}-secret`, redirect_uris: [] },
        ...{ grant_types: ['client_credentials'], response_types: [] },
      })),
      {
        ...{ client_id: 'dashboard', token_endpoint_auth_method: 'none' },
        ...{ redirect_uris: [redirectUri], response_types: ['code'] },
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => server,
        useGrantedResource: () => true,
        defaultResource: () => AUDIENCE,
      },
    },
  }
}
