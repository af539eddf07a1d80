import { type HttpApp, type HttpComponent, registerOpenApiPage } from '../http/index.ts'
import { readBodies, type SampleLogger, sampleRoutes } from './api/routes.ts'
import { SampleService, type SampleServiceDeps } from './service.ts'

export interface SampleApiDeps extends SampleServiceDeps {
  readonly logger: SampleLogger
  /** Version to show in the documentation. */
  readonly version: string
  /** Mounts other routes on this listener before the routes of the sample API. */
  readonly mountFirst: (app: HttpApp) => Promise<void>
}

/** All other error codes of this component occur only at startup. */
const STATUSES = {
  HASHING_BUSY: 429, // too many concurrent logins
  ISSUER_UNAVAILABLE: 503, // the keys of the token's issuer could not be fetched lately
}

/**
 * Returns the token-gated sample API. Its listener also serves the guarded path, which `mountFirst` mounts. Source:
 * specification, components T and B.
 */
export function sampleApiComponent(deps: SampleApiDeps): HttpComponent {
  const { version, mountFirst, logger } = deps
  return {
    name: 'samples',
    limits: { bodyBytesMax: 64 * 1024, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf: STATUSES,
    retried: new Set(['ISSUER_UNAVAILABLE']),
    refusalReply: ({ message }) => ({
      contentType: 'application/json; charset=utf-8',
      body: JSON.stringify({ success: false, message }),
    }),
    register: async (app) => {
      readBodies(app)
      await registerOpenApiPage(app, {
        path: '/doc',
        title: 'daicho samples',
        links: [{ href: '/doc', text: 'API' }],
        description:
          'A sample API that requires a token, and a path that requires the Basic credentials of an id.',
        version,
        statusOf: STATUSES,
        tags: [
          { name: 'sample', description: 'Log in, then send the token with each request.' },
          { name: 'guarded path', description: 'Each `id` has its own Basic credentials.' },
        ],
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer' },
          basicPerId: { type: 'http', scheme: 'basic' },
        },
      })
      await mountFirst(app)
      sampleRoutes(app, new SampleService(deps), logger)
    },
  }
}
