import { isIP } from 'node:net'
import type { Refusal } from './component.ts'
import { createRefusal } from './refusal.ts'
import type { RequestHeaders } from './request-headers.ts'

const TARGET_NOT_PATH = createRefusal('TARGET_NOT_PATH')
const HOST_UNKNOWN = createRefusal('HOST_UNKNOWN')
const CROSS_ORIGIN = createRefusal('CROSS_ORIGIN')

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether pages of any site may read the route, with any `Host`. Source: specification, L 7. */
    openToAllSites?: boolean
  }
}

/**
 * Returns a refusal if the request comes from a page of another site, or else null.
 *
 * Without CORS headers, a browser only hides the replies. A page of any site could still send a simple POST, and
 * a POST without a body creates a database. So every request to a guarded listener is checked before routing, by
 * three headers that scripts cannot forge:
 * - `Host`: must be one of `publicHosts`, or a name that an attacker's DNS cannot point to this node (an IP literal,
 *   a single-label name, `*.localhost`); otherwise 421. Every listener requires exactly one `Host`, or none in
 *   HTTP/1.0 (`request-headers.ts`), which health checks use and browsers do not. The request target must not contain
 *   a second host (`GET http://…`); otherwise 400.
 * - `Sec-Fetch-Site`: must be `same-origin`, or `none` (the user typed the address); otherwise 403.
 * - `Origin`: if sent, must be this host; otherwise 403. `null` counts as another site.
 *
 * Pages of `allowedOrigins` only need a trusted `Host`, and routes with `openToAllSites` need none of the three.
 * `publicHosts` contains host names in lower case, without ports.
 * Source: specification, L 7; docs/decisions/0006-cross-origin-guard.md.
 */
export function crossOriginRefusal(
  { url, openToAllSites }: { readonly url: string; readonly openToAllSites: boolean },
  { host, site, origin }: RequestHeaders,
  publicHosts: ReadonlySet<string>,
  allowedOrigins: ReadonlySet<string> = new Set(),
): Refusal | null {
  if (!url.startsWith('/') && url !== '*') return TARGET_NOT_PATH
  if (openToAllSites) return null
  if (host !== undefined && !isTrustedHost(host, publicHosts)) return HOST_UNKNOWN
  if (origin !== undefined && allowedOrigins.has(origin)) return null
  const isSameSite = site === undefined || site === 'same-origin' || site === 'none'
  const isSameOrigin =
    origin === undefined ||
    (host !== undefined && (origin === `http://${host}` || origin === `https://${host}`))
  return isSameSite && isSameOrigin ? null : CROSS_ORIGIN
}

function isTrustedHost(host: string, publicHosts: ReadonlySet<string>): boolean {
  const name = hostName(host)
  if (name === null) return false
  // Safe from DNS rebinding, because a DNS name that an attacker controls contains a dot.
  if (isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost')) return true
  if (/^[a-z0-9_-]+$/.test(name)) return true
  return publicHosts.has(name)
}

/** Returns the name in a Host header in lower case, without port or brackets, or null if the header is malformed. */
function hostName(host: string): string | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/@\s]+))(?::\d{1,5})?$/.exec(host)
  return (match?.[1] ?? match?.[2] ?? null)?.toLowerCase() ?? null
}
