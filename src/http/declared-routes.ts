import type { Server } from 'node:http'
import type { FastifyRequest, RouteOptions } from 'fastify'
import type { HttpApp } from './component.ts'
import { METHODS } from './node-http.ts'
import { HttpRefusal } from './refusal.ts'

/** The declared routes of listeners, by their servers. */
const byServer = new WeakMap<Server, DeclaredRoutes>()

interface DeclaredPath {
  readonly pattern: RegExp
  /** Parameters and wildcards in the path: with fewer it is more specific. */
  readonly parameters: number
  readonly methods: Set<string>
}

/** The paths that a listener's routes declare, with their methods. */
export class DeclaredRoutes {
  /** By the path as the route declares it. */
  readonly #paths = new Map<string, DeclaredPath>()

  /** One per server. */
  constructor(server: Server) {
    byServer.set(server, this)
  }

  /** Adds a route. */
  add({ url, method }: Pick<RouteOptions, 'url' | 'method'>): void {
    const path = this.#paths.get(url) ?? declaredPath(url)
    this.#paths.set(url, path)
    for (const each of [method].flat()) path.methods.add(each)
  }

  /** The methods of the most specific path that matches `path`, in alphabetical order; none without one. */
  methodsAt(path: string): string[] {
    const matching = [...this.#paths.values()].filter(({ pattern }) => pattern.test(path))
    const fewest = Math.min(...matching.map(({ parameters }) => parameters))
    const best = matching.filter(({ parameters }) => parameters === fewest)
    return [...new Set(best.flatMap(({ methods }) => [...methods]))].toSorted()
  }
}

/** Lets routes of `app` take every method of HTTP, and returns them. CONNECT never arrives as a request. */
export function takeAllMethods(app: HttpApp): string[] {
  const methods = METHODS.filter((method) => method !== 'CONNECT')
  for (const method of methods) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true })
  }
  return methods
}

/** Why `request` reaches no route: 405 where its path has other methods, else 404. */
export function unroutedRefusal({ server, url, method }: FastifyRequest): HttpRefusal {
  const methods = byServer.get(server.server)?.methodsAt(decodedPath(url)) ?? []
  if (methods.length > 0 && !methods.includes(method)) return methodRefusal(methods)
  return new HttpRefusal(404, 'PATH_UNKNOWN', 'nothing is served at this path')
}

/** Refuses a method at a path that has only `methods`, with `Allow` (RFC 9110, section 15.5.6). */
export function methodRefusal(methods: readonly string[]): HttpRefusal {
  const message = `this path takes ${methods.join(', ')}`
  return new HttpRefusal(405, 'METHOD_NOT_ALLOWED', message, { allow: methods })
}

/** A path as Fastify writes it: `:name` is one part, `*` the rest. */
function declaredPath(url: string): DeclaredPath {
  const parts = url.split(/(:\w+|\*)/)
  const source = parts.map((part, at) => {
    if (at % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    return part === '*' ? '.*' : '[^/]+'
  })
  const parameters = Math.floor(parts.length / 2)
  return { pattern: new RegExp(`^${source.join('')}$`, 's'), parameters, methods: new Set() }
}

/** The path of `url` as routes are compared with it: decoded, but for `%2F`, and without the query. */
function decodedPath(url: string): string {
  const [path = ''] = url.split('?')
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}
