import fastifySwagger from '@fastify/swagger'
import fastifySwaggerUi from '@fastify/swagger-ui'
import type { HttpApp } from './component.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Headers of the request that the document shows, as a schema of an object. The handler reads
     * them itself: a schema of the route would have every request's headers made into an object.
     */
    shownHeaders?: unknown
  }
}

/** One way to show who calls, as OpenAPI names it. */
type SecurityScheme =
  | { readonly type: 'http'; readonly scheme: 'basic' | 'bearer' }
  | { readonly type: 'apiKey'; readonly in: 'header' | 'query'; readonly name: string }

/** What the page says of its component. */
export interface OpenApiPage {
  /** Where the page is served, e.g. `/doc`; the document itself is at `<path>/json`. */
  readonly path: string
  readonly title: string
  /** Markdown shown above the operations. */
  readonly description: string
  readonly version: string
  /** Groups of operations, in the order shown. */
  readonly tags?: readonly { readonly name: string; readonly description: string }[]
  /** By the names that routes use in `security`. */
  readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>
}

/**
 * Everything comes from this address. The plugin's own policy lets other sites in, and its
 * `upgrade-insecure-requests` leaves the page blank on every plain address but loopback.
 */
const CONTENT_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; " +
  "frame-ancestors 'none'"

/** The name, in place of the plugin's own logo. */
const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" width="150" height="40" viewBox="0 0 150 40">
<text x="0" y="28" font-family="system-ui, sans-serif" font-size="26" font-weight="600" fill="#fff">daicho</text>
</svg>`

/**
 * Serves an OpenAPI 3.1 document made of the route schemas, and Swagger UI for it, with every file
 * from this process: nothing is fetched from elsewhere, so the page works without a network.
 *
 * Call it before the routes are mounted: only later routes are listed.
 */
export async function registerOpenApiPage(app: HttpApp, page: OpenApiPage): Promise<void> {
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: page.title, description: page.description, version: page.version },
      servers: [{ url: '/' }],
      tags: (page.tags ?? []).map((tag) => ({ ...tag })),
      ...(page.securitySchemes === undefined
        ? {}
        : { components: { securitySchemes: { ...page.securitySchemes } } }),
    },
    transform: ({ schema, url, route }) => {
      const headers = route.config?.shownHeaders
      return { schema: headers === undefined ? schema : { ...schema, headers }, url }
    },
  })
  await app.register(fastifySwaggerUi, {
    routePrefix: page.path,
    staticCSP: CONTENT_POLICY,
    theme: { title: page.title },
    logo: { type: 'image/svg+xml', content: Buffer.from(LOGO) },
    uiConfig: { validatorUrl: null, docExpansion: 'list', displayRequestDuration: true },
  })
}
