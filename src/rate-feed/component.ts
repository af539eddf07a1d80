import {
  type HttpApp,
  type HttpComponent,
  registerOpenApiPage,
  serveComponentPage,
  statusFalseReply,
} from '../http/index.ts'
import { rateFeedMetrics, rateFeedRoutes } from './api/routes.ts'
import { rateFeedStatuses } from './errors.ts'
import { RateFeed, type RateFeedDeps } from './service.ts'

const LINKS = [
  { href: '/page', text: 'Exchange rates', japanese: '為替レート' },
  { href: '/doc', text: 'API' },
]

/**
 * Returns the exchange-rate feed. Pages of any site may read the rates, because the rates are public. Source:
 * specification, component R.
 */
export function rateFeedComponent(
  deps: RateFeedDeps & { readonly version: string },
): HttpComponent {
  const feed = new RateFeed(deps)
  return {
    name: 'rates',
    // No route accepts a body.
    limits: { bodyBytesMax: 1, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf: rateFeedStatuses,
    refusalReply: statusFalseReply,
    register: async (app: HttpApp) => {
      const assets = await registerOpenApiPage(app, {
        path: '/doc',
        title: 'Exchange-rate feed',
        links: LINKS,
        description:
          'The current rates of twenty currency pairs, with their sources. ' +
          'Source of the reference rates: ECB statistics. Rates without the euro are computed from the euro rates.',
        version: deps.version,
        statusOf: rateFeedStatuses,
        tags: [
          { name: 'rates', description: 'Current and recorded rates' },
          { name: 'operations', description: 'For the operator' },
        ],
      })
      rateFeedMetrics(app, feed, () => deps.clock.now())
      rateFeedRoutes(app, feed)
      serveComponentPage(app, {
        path: '/page',
        title: 'Exchange rates',
        links: LINKS,
        assets,
        folder: new URL('./page/', import.meta.url),
      })
      await feed.open()
    },
    close: () => feed.close(),
  }
}
