import type { FastifyBaseLogger } from 'fastify'
import type { Clock } from '../base/clock.ts'
import {
  acceptStrictJson,
  type Credentials,
  type HttpApp,
  type HttpComponent,
  type PageFile,
  Registry,
  registerOpenApiPage,
  statusFalseReply,
} from '../http/index.ts'
import { API_TOKEN_SCHEMES, registerAccessChecks, type TokenService } from '../tokens/index.ts'
import { aggregationRoutes } from './api/aggregation.ts'
import { refuseIgnoredParameters } from './api/as-of.ts'
import { attachmentRoutes } from './api/attachments.ts'
import { changesRoutes } from './api/changes.ts'
import { differenceRoutes } from './api/differences.ts'
import { erasureRoutes } from './api/erasures.ts'
import { historyRoutes } from './api/history.ts'
import { basicCheck, homePage, type SignIn, sessionRoutes, signInRoutes } from './api/home-page.ts'
import { itemListRoutes } from './api/item-lists.ts'
import { databaseRoutes, itemRoutes } from './api/items.ts'
import { ledgersRoutes } from './api/ledgers.ts'
import { logRoutes, witnessRoutes } from './api/log.ts'
import { commitMetrics, ledgerMetrics } from './api/metrics.ts'
import { activityRoutes, healthRoutes, indexRoutes } from './api/operations.ts'
import { peerRoutes } from './api/peers.ts'
import { statusOfLedgerApi } from './api/replies.ts'
import { denialRoutes, tokenRoutes } from './api/tokens.ts'
import { STORE_OUTAGES } from './errors.ts'
import { FEED_BOUNDS } from './feed/feed.ts'
import { Activity } from './node/activity.ts'
import type { LedgerService } from './node/service.ts'
import { SignedRequests } from './peers/signed-request.ts'

const BODY_BYTES_MAX = 10 * 1024 * 1024
const REQUEST_TIMEOUT_MS = 30_000
/** Maximum open sockets: 1,000, as for other listeners, plus one per subscriber of the change feed. */
const SOCKETS_MAX = 1_000 + FEED_BOUNDS.subscribersMax

/** Codes with status 503 that need an operator. All other codes with status 503 are temporary. */
const ALARMS = new Set(['WRITER_STOPPED', 'STORE_DAMAGED', 'STORE_FAILED', 'STORE_ROLLED_BACK'])

/** Path of the API documentation, which needs no token. Source: specification, L 7. */
const DOC_PATH = '/doc'

export interface LedgerComponentDeps {
  readonly ledger: LedgerService
  readonly credentials: Credentials
  /** Files of the dashboard; null or absent if the dashboard has not been built. */
  readonly page?: readonly PageFile[] | null
  /** The dashboard's sign-in at an issuer; null or absent if there is none. */
  readonly signIn?: SignIn | null
  /** Verifies the tokens of callers; null if callers need no token. */
  readonly tokens: TokenService | null
  readonly clock: Clock
  /** Clock that throttles wrong passwords. It must be monotonic, because a wall clock can be set back. */
  readonly monotonic: Clock
  readonly logger: Pick<FastifyBaseLogger, 'info'>
  readonly version: string
  /** Called after the listener has closed. */
  readonly close?: () => Promise<void>
}

const DESCRIPTION = `A database of JSON objects in which every change is recorded in a ledger of
hash-chained blocks.

Every JSON reply carries \`status\`: \`true\`, or \`false\` with a \`code\` for programs and a \`message\` for
people. Changes of databases, items and attachments accept an \`Idempotency-Key\`; items and attachments
accept \`If-Match\` and \`If-None-Match\` with the \`ETag\` of a reply. Browsers can call the API only from pages of the same host.`

const API_PAGE = {
  path: DOC_PATH,
  title: 'daicho: ledger database',
  links: [
    { href: '/', text: 'Dashboard' },
    { href: DOC_PATH, text: 'API' },
  ],
  description: DESCRIPTION,
  tags: [
    { name: 'databases', description: 'Named sets of items' },
    { name: 'items', description: 'JSON objects with an `id`' },
    { name: 'attachments', description: 'Bytes of any type that belong to an item' },
    { name: 'ledger', description: 'The chain of all changes' },
    { name: 'log', description: 'Proofs for clients that do not trust the node' },
    { name: 'operations', description: 'For operators of the node' },
  ],
}

export function ledgerComponent(deps: LedgerComponentDeps): HttpComponent {
  const { ledger } = deps
  const registry = new Registry()
  // Called here and not in `register`, because the blocks that networks record before the listener starts must be
  // counted too.
  const observe = commitMetrics(registry)
  const activity = new Activity(deps.clock, async () => {
    const { fileBytes, walBytes } = await ledger.store.diskUsage()
    return fileBytes + walBytes
  })
  ledger.writer.onStored = (block) => {
    observe(block)
    activity.note(block)
  }
  const findKey = (id: string) => ledger.mirrors.peerOfKey(id)?.key.publicKey ?? null
  const signatures = new SignedRequests(findKey, deps.clock)
  return {
    name: 'ledger',
    limits: {
      bodyBytesMax: BODY_BYTES_MAX,
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      socketsMax: SOCKETS_MAX,
    },
    sameOriginOnly: true,
    statusOf: statusOfLedgerApi,
    alarms: ALARMS,
    retried: new Set([...STORE_OUTAGES, 'ISSUER_UNAVAILABLE']),
    refusalReply: statusFalseReply,
    async register(app) {
      // Must come before all routes, because a route that is registered earlier would be served without an access
      // check.
      registerAccessChecks(app, {
        tokens: deps.tokens,
        signed: (request) => signatures.verifyBodiless(request),
      })
      acceptStrictJson(app)
      app.addHook('onRequest', refuseIgnoredParameters)
      await registerOpenApiPage(app, {
        ...{ ...API_PAGE, version: deps.version, statusOf: statusOfLedgerApi },
        ...(deps.tokens === null ? {} : { securitySchemes: API_TOKEN_SCHEMES }),
      })
      ledgerMetrics(app, registry, ledger)
      dataRoutes(app, ledger)
      nodeRoutes(app, deps, { signatures, activity })
    },
    close: async () => deps.close?.(),
  }
}

/** Mounts the routes of databases, items, attachments and the chain. */
function dataRoutes(app: HttpApp, ledger: LedgerService): void {
  databaseRoutes(app, ledger)
  itemRoutes(app, ledger)
  itemListRoutes(app, ledger)
  aggregationRoutes(app, ledger)
  differenceRoutes(app, ledger)
  historyRoutes(app, ledger.history)
  ledgersRoutes(app, ledger)
  changesRoutes(app, ledger)
  attachmentRoutes(app, ledger)
  indexRoutes(app, ledger)
  erasureRoutes(app, ledger)
  logRoutes(app, ledger)
}

/** Mounts the routes of witnesses and peers, of the operator, and the dashboard. */
function nodeRoutes(
  app: HttpApp,
  { ledger, tokens, credentials, monotonic, page, logger, signIn = null }: LedgerComponentDeps,
  { signatures, activity }: { signatures: SignedRequests; activity: Activity },
): void {
  witnessRoutes(app, ledger.witness)
  peerRoutes(app, ledger.mirrors, signatures)
  tokenRoutes(app, tokens, logger)
  denialRoutes(app)
  activityRoutes(app, ledger, activity)
  healthRoutes(app, ledger, tokens !== null)
  const check = basicCheck(credentials, monotonic)
  homePage(app, check, page ?? null, signIn)
  if (signIn !== null) signInRoutes(app, signIn)
  sessionRoutes(app, { check, tokens, subject: credentials.name, logger })
}
