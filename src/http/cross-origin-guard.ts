import { isIP } from 'node:net'
import type { Refusal } from './component.ts'
import type { RequestHeaders } from './request-headers.ts'

/** Paths that any site may read: the documentation page (specification, L 7). */
const OPEN_PATH = /^\/doc(?:[/?]|$)/

/**
 * Returns why a browser of another site may not make this request, or null if it may.
 *
 * Without CORS headers a browser only hides replies: any page could still send a simple POST, and one
 * without a body creates a database. So every request to a guarded listener is checked before routing, by
 * three headers that scripts cannot forge:
 * - `Host`: a name that DNS cannot be made to point here (an IP literal, a single-label name,
 *   `*.localhost`) or one that the operator listed; else 421. Every listener requires exactly one
 *   (`request-headers.ts`), and the target may not name another (`GET http://…`, for proxies); else 400.
 * - `Sec-Fetch-Site`: `same-origin` or `none` (typed by a person); else 403.
 * - `Origin`, where sent: this very host; else 403. `null` is another site.
 *
 * `publicHosts` holds host names in lower case, without ports.
 * Source: specification, L 7; docs/decisions/0006-cross-origin-guard.md.
 */
export function crossOriginRefusal(
  url: string,
  { host, site, origin }: RequestHeaders,
  publicHosts: ReadonlySet<string>,
): Refusal | null {
  if (!url.startsWith('/') && url !== '*') {
    return {
      status: 400,
      code: 'TARGET_NOT_PATH',
      message: 'send the path alone as the target of the request',
    }
  }
  if (OPEN_PATH.test(url)) return null

  if (host === undefined || !isTrustedHost(host, publicHosts)) {
    return {
      status: 421,
      code: 'HOST_UNKNOWN',
      message: 'this Host is not served here; the operator can list it in PUBLIC_HOSTS',
    }
  }
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    return { status: 403, code: 'CROSS_ORIGIN', message: 'calls from other sites are blocked' }
  }
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
    return { status: 403, code: 'CROSS_ORIGIN', message: 'calls from other sites are blocked' }
  }
  return null
}

function isTrustedHost(host: string, publicHosts: ReadonlySet<string>): boolean {
  const name = hostName(host)
  if (name === null) return false
  // A DNS name that an attacker controls has a dot; these cannot be rebound.
  if (isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost')) return true
  if (/^[a-z0-9_-]+$/.test(name)) return true
  return publicHosts.has(name)
}

/** Returns the name in a Host header, lower case, without port or brackets; null if malformed. */
function hostName(host: string): string | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/@\s]+))(?::\d{1,5})?$/.exec(host)
  return (match?.[1] ?? match?.[2] ?? null)?.toLowerCase() ?? null
}
