import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  type JWK,
  type JWTHeaderParameters,
  SignJWT,
} from 'jose'
import { onTestFinished } from 'vitest'
import type { Schedule } from '../../src/base/clock.ts'
import { systemOutbound } from '../../src/http/outbound.ts'
import {
  IssuerTokens,
  openTokens,
  parseScopeRules,
  type TokenService,
} from '../../src/tokens/index.ts'
import { HandClock } from './ledger-node.ts'
import { until } from './until.ts'

export const AUDIENCE = 'https://daicho.example'

/** A timer schedule that tests run by hand. */
class HandSchedule implements Schedule {
  readonly timers = new Map<() => void, number>()

  after(ms: number, run: () => void): () => void {
    this.timers.set(run, ms)
    return () => this.timers.delete(run)
  }

  /** Runs all timers. */
  run(): void {
    const due = [...this.timers.keys()]
    this.timers.clear()
    for (const run of due) run()
  }
}

export interface SigningKey {
  readonly kid: string
  readonly alg: string
  readonly privateKey: CryptoKey
  readonly publicJwk: JWK
}

export async function createSigningKey(kid: string, alg = 'RS256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  const publicJwk = { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' }
  return { kid, alg, privateKey, publicJwk }
}

/** An issuer over HTTP whose replies and tokens tests choose. */
export interface TestIssuer {
  readonly url: string
  readonly clock: HandClock
  /** The published keys. */
  keys: JWK[]
  /** Further members of the metadata. */
  metadata: Record<string, unknown>
  /** Answers instead of the issuer. */
  answer: ((path: string, reply: ServerResponse, request: IncomingMessage) => void) | null
  /** Number of requests. */
  requests: number
  /** Signs an access token. Undefined claims are omitted. */
  sign(
    key: SigningKey,
    claims?: Record<string, unknown>,
    header?: Partial<JWTHeaderParameters>,
  ): Promise<string>
}

export async function startIssuer(path = ''): Promise<TestIssuer> {
  const server = createServer((request, reply) => {
    issuer.requests += 1
    reply.on('error', () => {})
    const found = (request.url ?? '').slice(path.length)
    if (issuer.answer !== null) issuer.answer(found, reply, request)
    else answerIssuer(issuer, found, reply)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer: TestIssuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    clock: new HandClock(),
    ...{ keys: [], metadata: {}, answer: null, requests: 0 },
    async sign({ kid, alg, privateKey }, claims, header) {
      const now = Math.floor(issuer.clock.time / 1000)
      const basic = { iss: issuer.url, aud: AUDIENCE, sub: 'ada', iat: now, exp: now + 600 }
      return new SignJWT({ ...basic, ...claims })
        .setProtectedHeader({ alg, kid, typ: 'at+jwt', ...header })
        .sign(privateKey)
    },
  }
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  return issuer
}

/** Answers like an issuer. */
export function answerIssuer(issuer: TestIssuer, path: string, reply: ServerResponse): void {
  const documents: Record<string, unknown> = {
    '/.well-known/openid-configuration': {
      issuer: issuer.url,
      jwks_uri: `${issuer.url.replace(/\/$/, '')}/keys`,
      ...issuer.metadata,
    },
    '/keys': { keys: issuer.keys },
  }
  const found = documents[path.startsWith('/') ? path : `/${path}`]
  reply.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' })
  reply.end(JSON.stringify(found ?? null))
}

/** Tokens of a node that accepts tokens of `issuers`, with the schedule of its fetches and its reports. */
export interface AcceptingTokens {
  readonly tokens: TokenService
  readonly issuerTokens: IssuerTokens
  readonly schedule: HandSchedule
  readonly reports: string[]
  /** Fetches the keys of the issuers, and waits for the end. */
  refresh(): Promise<void>
}

export async function acceptTokens(
  issuers: readonly TestIssuer[],
  options: {
    readonly scopeClaim?: string
    readonly subjectClaim?: string
    readonly rules?: string
    readonly allowPrivate?: boolean
    readonly audience?: string
    readonly secret?: string
  } = {},
): Promise<AcceptingTokens> {
  const { scopeClaim = 'scope', subjectClaim = 'sub', rules = '[]', allowPrivate = true } = options
  const [first] = issuers
  const clock = first?.clock ?? new HandClock()
  const schedule = new HandSchedule()
  const reports: string[] = []
  const issuerTokens = new IssuerTokens({
    ...{ scopeClaim, subjectClaim, allowPrivate, clock, schedule, outbound: systemOutbound },
    ...{ issuers: issuers.map(({ url }) => url), audience: options.audience ?? AUDIENCE },
    rules: parseScopeRules(rules),
    report: (message) => reports.push(message),
  })
  onTestFinished(() => issuerTokens.close())
  const fetched = () =>
    until('each issuer was asked', () => schedule.timers.size === issuers.length, 60_000)
  await fetched()
  const secret = options.secret ?? 's'.repeat(32)
  return {
    tokens: await openTokens({ clock, folder: null, secret, issuers: issuerTokens }),
    ...{ issuerTokens, schedule, reports },
    async refresh() {
      schedule.run()
      await fetched()
    },
  }
}
