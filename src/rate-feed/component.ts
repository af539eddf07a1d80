import {
  type HttpApp,
  type HttpComponent,
  registerMetrics,
  registerOpenApiPage,
  serveComponentPage,
  statusFalseReply,
} from '../http/index.ts'
import { statusOf } from './errors.ts'
import { createRateFeed, type RateFeedDeps } from './feed.ts'
import { rateFeedRoutes } from './routes.ts'
import type { RateFeedService } from './service.ts'

/** The port of the feed when none is chosen. */
const DEFAULT_PORT = 4128
/** No path takes a body. */
const BODY_BYTES_MAX = 1
const REQUEST_TIMEOUT_MS = 30_000

/** The pages of the listener. */
const LINKS = [
  { href: '/page', text: 'Exchange rates', japanese: '為替レート' },
  { href: '/doc', text: 'API' },
]

/** What the component needs beside the feed's own. */
export interface RateFeedComponentDeps extends RateFeedDeps {
  /** Of daicho, for the documentation page. */
  readonly version: string
}

/**
 * The exchange-rate feed as an HTTP program. Any site may read it: it gives the same public figures
 * to everyone and takes no orders. Errors: SourceListError when a source lacks its key.
 */
export function rateFeedComponent(deps: RateFeedComponentDeps): HttpComponent {
  const feed = createRateFeed(deps)
  return {
    name: 'rates',
    defaultPort: DEFAULT_PORT,
    limits: { bodyBytesMax: BODY_BYTES_MAX, requestTimeoutMs: REQUEST_TIMEOUT_MS },
    sameOriginOnly: false,
    statusOf,
    refusalReply: statusFalseReply,
    register: async (app: HttpApp) => {
      const look = await registerOpenApiPage(app, {
        path: '/doc',
        title: 'Exchange-rate feed',
        links: LINKS,
        description:
          'The current rates of twenty currency pairs, and where they come from. ' +
          'Reference rates: source ECB statistics; crosses are computed.',
        version: deps.version,
        tags: [
          { name: 'rates', description: 'Current and recorded rates' },
          { name: 'operations', description: 'For whoever runs the feed' },
        ],
      })
      addFigures(app, feed, deps)
      rateFeedRoutes(app, feed)
      serveComponentPage(app, {
        path: '/page',
        title: 'Exchange rates',
        links: LINKS,
        look,
        folder: new URL('./page/', import.meta.url),
      })
      await feed.open()
    },
    close: () => feed.close(),
  }
}

function addFigures(app: HttpApp, feed: RateFeedService, { clock }: RateFeedDeps): void {
  const figures = registerMetrics(app)
  figures.add({
    name: 'daicho_rates_stale',
    help: 'Whether the rates served are stale (1), or there are none (1)',
    labelNames: [],
    collect() {
      this.set(feed.health().health === 'ok' ? 0 : 1)
    },
  })
  figures.add({
    name: 'daicho_rates_age_seconds',
    help: 'Time since the date of the rates served',
    labelNames: [],
    collect() {
      this.set(feed.health().vector?.ageSeconds ?? Number.NaN)
    },
  })
  figures.add({
    name: 'daicho_rates_source_failures',
    help: 'Failures of each source since its last success',
    labelNames: ['source'],
    collect() {
      for (const { name, failures } of feed.health().sources) this.set({ source: name }, failures)
    },
  })
  figures.add({
    name: 'daicho_rates_source_answer_age_seconds',
    help: 'Time since each source last answered well; absent when it never did',
    labelNames: ['source'],
    collect() {
      for (const { name, lastSuccessAt } of feed.health().sources) {
        if (lastSuccessAt === null) continue
        this.set({ source: name }, (clock.now() - lastSuccessAt) / 1_000)
      }
    },
  })
}
