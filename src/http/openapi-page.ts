import type { RouteOptions } from 'fastify'
import type { HttpApp } from './component.ts'
import { assetFiles, type PageLink, swaggerPage } from './layout.ts'
import { pageFile, servePageFiles } from './page-files.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Headers of the request for the document, as a schema of an object. The handler reads them itself: a
     * schema of the route would make Node build an object of every request's headers.
     */
    shownHeaders?: unknown
  }
}

type SecurityScheme =
  | { readonly type: 'http'; readonly scheme: 'basic' | 'bearer' }
  | { readonly type: 'apiKey'; readonly in: 'header' | 'query'; readonly name: string }

/** Describes a component for its API page. */
export interface OpenApiPage {
  /** Path of the page, e.g. `/doc`; the document itself is at `<path>/json`. */
  readonly path: string
  readonly title: string
  /** The pages of the listener, this one included. */
  readonly links: readonly PageLink[]
  /** Markdown shown above the operations. */
  readonly description: string
  readonly version: string
  /** Groups of operations, in the order shown. */
  readonly tags?: readonly { readonly name: string; readonly description: string }[]
  /** By the names that routes use in `security`. */
  readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>
}

/**
 * Serves an OpenAPI 3.1 document of the routes that are declared after this call, and Swagger UI for it, with
 * all files from this process, so that the page works offline. Resolves to the path of the shared files, for
 * other pages of the listener.
 */
export async function registerOpenApiPage(app: HttpApp, page: OpenApiPage): Promise<string> {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    const isShown = route.method !== 'HEAD' && route.schema?.hide !== true
    if (isShown) routes.push(route)
  })
  let made: ReturnType<typeof documentOf> | null = null
  const document = () => {
    made ??= documentOf(page, routes)
    return made
  }
  const below = page.path === '/' ? '' : page.path
  const assets = `${below}/static`
  const { title, path, links } = page
  const html = swaggerPage({ title, path, links, assets, document: `${below}/json` })
  const paths = path === '/' ? ['/'] : [path, `${path}/`]
  servePageFiles(app, [
    ...assetFiles(assets),
    ...paths.map((each) => pageFile(each, 'page.html', html)),
  ])
  const open = { schema: { hide: true }, config: { scope: 'public' as const } }
  app.get(`${below}/json`, open, async () => (await document()).json)
  app.get(`${below}/yaml`, open, async (_request, reply) =>
    reply.type('application/x-yaml').send((await document()).yaml),
  )
  return assets
}

/**
 * Builds the document of `routes` on request, in an app of its own that never listens: loading the generator
 * would be a sixth of a node's start, and few need it.
 */
async function documentOf(page: OpenApiPage, routes: readonly RouteOptions[]) {
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
    transformObject: (made) =>
      'openapiObject' in made ? shownDocument(made.openapiObject) : made.swaggerObject,
    transform: ({ schema, url, route }) => {
      const headers = route.config?.shownHeaders
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
 * Replaces `shownPattern` by `pattern`: such patterns are checked by the handler, with an error code of its own.
 * A body whose schema accepts null is optional: a missing body reaches its schema as null.
 */
function shownDocument<Document extends object>(made: Document): Document {
  const text = JSON.stringify(made).replaceAll('"shownPattern":', '"pattern":')
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
