import type { FastifyRequest, RouteOptions } from 'fastify'
import type { HttpApp } from './component.ts'
import { METHODS } from './node-http.ts'
import { createRefusal, HttpRefusal, httpErrors } from './refusal.ts'

declare module 'fastify' {
  interface FastifyInstance {
    routeTable: RouteTable
  }
}

interface RoutePath {
  readonly pattern: RegExp
  /** Number of parameters and wildcards in the path. A path with fewer of them is more specific. */
  readonly parameters: number
  readonly methods: Set<string>
}

/** The paths declared by a listener's routes, with their methods. */
export class RouteTable {
  /** Keys are paths as routes declare them, e.g. `/api/:db`. */
  readonly #paths = new Map<string, RoutePath>()
  /** Path of the listener's API page, e.g. `/doc`. */
  apiPage: string | null = null

  add({ url, method }: Pick<RouteOptions, 'url' | 'method'>): void {
    const path = this.#paths.get(url) ?? parseRoutePath(url)
    this.#paths.set(url, path)
    for (const each of [method].flat()) path.methods.add(each)
  }

  /** Returns the methods of the most specific path that matches `path`, in alphabetical order. */
  methodsAt(path: string): string[] {
    const matching = [...this.#paths.values()].filter(({ pattern }) => pattern.test(path))
    const fewest = Math.min(...matching.map(({ parameters }) => parameters))
    const best = matching.filter(({ parameters }) => parameters === fewest)
    return [...new Set(best.flatMap(({ methods }) => [...methods]))].toSorted()
  }
}

/** Makes `app` support all HTTP methods except CONNECT, which Node does not emit as a request. Returns them. */
export function acceptAllMethods(app: HttpApp): string[] {
  const methods = METHODS.filter((method) => method !== 'CONNECT')
  for (const method of methods) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true })
  }
  return methods
}

/** Returns the refusal of a request without a route: 405 if other methods have a route at its path, else 404. */
export function unroutedRefusal({ server, url, method }: FastifyRequest): HttpRefusal {
  const methods = server.routeTable.methodsAt(decodedPath(url))
  if (methods.length > 0 && !methods.includes(method)) return methodRefusal(methods)
  const { apiPage } = server.routeTable
  const hint = apiPage === null ? '' : `; GET ${apiPage} shows the API`
  return createRefusal('PATH_UNKNOWN', `${httpErrors.PATH_UNKNOWN[1]}${hint}`)
}

/** Returns a refusal if a parameter of the path is empty, as after a slash at the end of another path. */
export function emptyPartRefusal({ params, is404 }: FastifyRequest): HttpRefusal | null {
  if (is404 || typeof params !== 'object' || params === null) return null
  // A wildcard may match nothing.
  if (!Object.entries(params).some(([name, value]) => value === '' && name !== '*')) return null
  const message = 'the path has an empty part: leave out the slash at its end, or the second of two'
  return createRefusal('PATH_UNKNOWN', message)
}

/** Returns a 405 with the header `Allow` (RFC 9110, section 15.5.6). */
export function methodRefusal(methods: readonly string[]): HttpRefusal {
  const message = `this path accepts only ${methods.join(', ')}`
  return new HttpRefusal(405, 'METHOD_NOT_ALLOWED', message, { allow: methods })
}

/** Parses a path in Fastify's syntax: `:name` matches one segment, `*` the whole rest of the path. */
function parseRoutePath(url: string): RoutePath {
  const parts = url.split(/(:\w+|\*)/)
  const source = parts.map((part, at) => {
    if (at % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    return part === '*' ? '.*' : '[^/]+'
  })
  const parameters = Math.floor(parts.length / 2)
  return { pattern: new RegExp(`^${source.join('')}$`, 's'), parameters, methods: new Set() }
}

/** Returns the path of `url` in the form that routes match: without the query, decoded except for `%2F`. */
function decodedPath(url: string): string {
  const [path = ''] = url.split('?')
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}
