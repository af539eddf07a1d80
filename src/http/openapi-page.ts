import type { FastifySchema, RouteOptions } from 'fastify'
import { isJsonObject } from '../base/json.ts'
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

export interface OpenApiPage {
  /** Path of the page, e.g. `/doc`; the OpenAPI document is at `<path>/json` and `<path>/yaml`. */
  readonly path: string
  readonly title: string
  /** Links to all pages of the listener, including this page. */
  readonly links: readonly PageLink[]
  /** Markdown shown above the operations. */
  readonly description: string
  readonly version: string
  /** The HTTP statuses of the component's error codes. */
  readonly statusOf: Readonly<Record<string, number>>
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
  if (path !== '/doc') app.get('/doc', open, async (_request, reply) => reply.redirect(path))
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
      const documented = headers === undefined ? schema : { ...schema, headers }
      return { schema: numberFailures(documented, route, page.statusOf), url }
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

/** Properties of an operation that decide which errors it may have. */
export interface FailureCauses {
  readonly isChange: boolean
  /** Whether the request needs a token or credentials. */
  readonly isGuarded: boolean
  /** Whether the path or query names something that may not exist. */
  readonly hasTarget: boolean
  readonly hasBody: boolean
  readonly hasPrecondition: boolean
  readonly hasFilter: boolean
}

/** Returns the statuses of an operation's errors, of those that the component has at all (`own`) or that HTTP has. */
export function failureStatuses(causes: FailureCauses, own: ReadonlySet<number>): number[] {
  const { isChange, isGuarded, hasTarget, hasBody, hasPrecondition, hasFilter } = causes
  const occurs: readonly (readonly [status: number, boolean])[] = [
    [400, true],
    [401, isGuarded && own.has(401)],
    [403, isGuarded],
    [404, hasTarget && own.has(404)],
    [409, isChange && own.has(409)],
    [412, hasPrecondition],
    [413, hasBody],
    [415, hasBody],
    [422, (isChange || hasFilter) && own.has(422)],
    [429, isChange && own.has(429)],
    [500, true],
    [503, true],
    [507, isChange && own.has(507)],
  ]
  return occurs.flatMap(([status, mayOccur]) => (mayOccur ? [status] : []))
}

/**
 * Replaces the replies `4xx` and `5xx` of a route by a reply for each status that may occur, because generated clients
 * know the type of an error only by its number.
 */
function numberFailures(
  schema: FastifySchema & { readonly security?: unknown; readonly 'x-scope'?: unknown },
  { method, url, config }: RouteOptions,
  statusOf: Readonly<Record<string, number>>,
): FastifySchema {
  const { response, querystring, security, headers } = schema
  if (!isJsonObject(response)) return schema
  const { '4xx': refused, '5xx': failed, ...others } = response
  const has = (part: unknown, name: string) =>
    isJsonObject(part) && isJsonObject(part.properties) && Object.hasOwn(part.properties, name)
  const scope = schema['x-scope']
  const causes = {
    isChange: method !== 'GET',
    isGuarded: Array.isArray(security) ? security.length > 0 : (scope ?? 'public') !== 'public',
    hasTarget: url.includes(':') || has(querystring, 'db') || has(querystring, 'serverid'),
    hasBody: schema.body !== undefined || config?.streamsBody === true,
    hasPrecondition: has(headers, 'if-match'),
    hasFilter: has(querystring, 'filter'),
  }
  const numbered = failureStatuses(causes, new Set(Object.values(statusOf))).flatMap((status) => {
    const reply = status < 500 ? refused : failed
    return reply === undefined ? [] : [[status, reply]]
  })
  return { ...schema, response: { ...Object.fromEntries(numbered), ...others } }
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
