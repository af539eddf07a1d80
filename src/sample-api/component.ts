import { type HttpApp, type HttpComponent, registerOpenApiPage } from '../http/index.ts'
import { statusOf } from './errors.ts'
import { readBodies, type SampleLogger, sampleRoutes } from './routes.ts'
import { SampleService, type SampleServiceDeps } from './service.ts'

/** What the listener of the samples stands on. */
export interface SampleApiDeps extends SampleServiceDeps {
  readonly logger: SampleLogger
  /** The version that the documentation page shows. */
  readonly version: string
  /** What else is mounted on this listener, before the sample itself. */
  readonly also: readonly ((app: HttpApp) => Promise<void>)[]
}

/**
 * The listener of the token-gated sample, with room for a neighbour.
 *
 * Source: specification, “T: token-gated sample”, whose address is also that of B.
 */
export function sampleApiComponent({
  version,
  also,
  logger,
  ...deps
}: SampleApiDeps): HttpComponent {
  return {
    name: 'samples',
    defaultPort: 4129,
    limits: { bodyBytesMax: 64 * 1024, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf,
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
        description: 'A token-gated sample API, and a path guarded by Basic credentials per id.',
        version,
        tags: [
          { name: 'sample', description: 'Log in, then show the token.' },
          { name: 'guarded path', description: 'Basic credentials that depend on `id`.' },
        ],
        securitySchemes: {
          sessionToken: { type: 'apiKey', in: 'header', name: 'x-access-token' },
          sessionTokenInQuery: { type: 'apiKey', in: 'query', name: 'token' },
          sessionTokenAsBearer: { type: 'http', scheme: 'bearer' },
          basicPerId: { type: 'http', scheme: 'basic' },
        },
      })
      for (const mount of also) await mount(app)
      sampleRoutes(app, new SampleService(deps), logger)
    },
  }
}
