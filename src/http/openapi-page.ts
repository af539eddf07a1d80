import type { RouteOptions } from 'fastify'
import type { HttpApp } from './component.ts'
import { assetFiles, type PageLink, swaggerPage } from './layout.ts'
import { pageFile, servePageFiles } from './page-files.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Schema of the request headers, only for the OpenAPI document. The route's own schema does not contain this
     * schema, because Node would then build an object of all headers for each request.
     */
    documentedHeaders?: unknown
  }
}

type SecurityScheme =
  | { readonly type: 'http'; readonly scheme: 'basic' | 'bearer' }
  | { readonly type: 'apiKey'; readonly in: 'header' | 'query'; readonly name: string }

/** The API page of a component. */
export interface OpenApiPage {
  /** Path of the page, e.g. `/doc`; the OpenAPI document is at `<path>/json` and `<path>/yaml`. */
  readonly path: string
  readonly title: string
  /** Links to all pages of the listener, including this page. */
  readonly links: readonly PageLink[]
  /** Markdown shown above the operations. */
  readonly description: string
  readonly version: string
  /** Groups of operations, in display order. */
  readonly tags?: readonly { readonly name: string; readonly description: string }[]
  /** Keys are the names used in the `security` of routes. */
  readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>
}

/**
 * Serves an OpenAPI 3.1 document of the routes declared after this call, and Swagger UI. The page works offline,
 * because it loads files only from this process. Resolves to the path of the files that all pages of the listener
 * share.
 */
export async function registerOpenApiPage(app: HttpApp, page: OpenApiPage): Promise<string> {
  app.routeTable.apiPage = page.path
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    const isDocumented = route.method !== 'HEAD' && route.schema?.hide !== true
    if (isDocumented) routes.push(route)
  })
  let built: ReturnType<typeof buildDocument> | null = null
  const document = () => {
    built ??= buildDocument(page, routes)
    return built
  }
  const below = page.path === '/' ? '' : page.path
  const assets = `${below}/static`
  const { title, path, links } = page
  const html = swaggerPage({ title, path, links, assets, document: `${below}/json` })
  const paths = path === '/' ? ['/'] : [path, `${path}/`]
  const config = { scope: 'public' as const, openToAllSites: true }
  const files = paths.map((each) => pageFile(each, 'page.html', html))
  servePageFiles(app, [...assetFiles(assets), ...files], { config })
  const open = { schema: { hide: true }, config }
  app.get(`${below}/json`, open, async () => (await document()).json)
  app.get(`${below}/yaml`, open, async (_request, reply) =>
    reply.type('application/x-yaml').send((await document()).yaml),
  )
  return assets
}

/**
 * Builds the document of `routes`, in a separate app that never listens. Called on the first request, because loading
 * the generator takes a sixth of the startup time, and few users need the document.
 */
async function buildDocument(page: OpenApiPage, routes: readonly RouteOptions[]) {
  const [{ fastify }, { default: fastifySwagger }] = await Promise.all([
    import('fastify'),
    import('@fastify/swagger'),
  ])
  const app = fastify({ exposeHeadRoutes: false })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
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
    transformObject: (generated) =>
      'openapiObject' in generated
        ? finishDocument(generated.openapiObject)
        : generated.swaggerObject,
    transform: ({ schema, url, route }) => {
      const headers = route.config?.documentedHeaders
      return { schema: headers === undefined ? schema : { ...schema, headers }, url }
    },
  })
  for (const { method, url, schema, config } of routes) {
    app.route({
      ...{ method, url, handler: () => {} },
      ...(schema === undefined ? {} : { schema }),
      ...(config === undefined ? {} : { config }),
    })
  }
  await app.ready()
  return { json: app.swagger(), yaml: app.swagger({ yaml: true }) }
}

/**
 * Completes the generated document:
 * - Renames `documentedPattern` to `pattern`. The schemas of routes do not use `pattern`, because handlers check these
 *   patterns and return their own error codes.
 * - Gives the rest of a path, `*` in Fastify, the name `path`.
 * - Shows bytes of any type as `application/octet-stream`, because code generators do not support wildcards.
 * - Marks a body as optional if its schema accepts null, because Fastify represents a missing body as null.
 */
function finishDocument<Document extends object>(document: Document): Document {
  const text = JSON.stringify(document)
    .replaceAll('"documentedPattern":', '"pattern":')
    .replaceAll('/{*}"', '/{path}"')
    .replaceAll('"name":"*"', '"name":"path"')
    .replaceAll(
      '"*/*":{"schema":{',
      '"application/octet-stream":{"schema":{"type":"string","format":"binary",',
    )
  return JSON.parse(text, (key, value) => {
    if (key !== 'requestBody') return value
    const content: [string, { schema?: { anyOf?: { type?: string }[] } }][] = Object.entries(
      value.content,
    )
    let required = true
    for (const [, { schema }] of content) {
      if (schema?.anyOf?.some(({ type }) => type === 'null') !== true) continue
      schema.anyOf = schema.anyOf.filter(({ type }) => type !== 'null')
      required = false
    }
    return { ...value, required }
  })
}
