import {
  type HttpApp,
  type HttpComponent,
  registerOpenApiPage,
  serveComponentPage,
  statusFalseReply,
} from '../http/index.ts'
import { rateFeedMetrics, rateFeedRoutes, statusOf } from './api/routes.ts'
import { RateFeed, type RateFeedDeps } from './service.ts'

/** The pages of the listener. */
const LINKS = [
  { href: '/page', text: 'Exchange rates', japanese: '為替レート' },
  { href: '/doc', text: 'API' },
]

/**
 * The exchange-rate feed as an HTTP component. Any website may read it: the rates are public, and nothing can be
 * changed. Errors: SourceListError if a source lacks its key.
 */
export function rateFeedComponent(
  deps: RateFeedDeps & { readonly version: string },
): HttpComponent {
  const feed = new RateFeed(deps)
  return {
    name: 'rates',
    defaultPort: 4128,
    // No route accepts a body.
    limits: { bodyBytesMax: 1, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf,
    refusalReply: statusFalseReply,
    register: async (app: HttpApp) => {
      const assets = await registerOpenApiPage(app, {
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
