import { isIP } from 'node:net'
import type { Refusal } from './component.ts'
import type { FormHeaders } from './request-form.ts'

/** Paths that any site may read: the documentation page (specification, L 7). */
const OPEN_PATH = /^\/doc(?:[/?]|$)/

/**
 * Why a browser of another site may not make this request, or null when it may.
 *
 * Leaving CORS headers out only hides replies: a page anywhere could still send a simple POST, and
 * one without a body creates a database. So every request to a guarded listener is judged before
 * its route is looked at, by three headers that scripts cannot forge:
 * - `Host`: a name that DNS cannot be made to point here (an IP literal, a single-label name,
 *   `*.localhost`) or one that the operator listed; else 421. There is exactly one, since every
 *   listener asks for that (`request-form.ts`); and the target may name no other (`GET http://…`,
 *   for proxies), because two answers to one question are how guards are talked round; else 400.
 * - `Sec-Fetch-Site`: `same-origin` or `none` (typed by a person); else 403.
 * - `Origin`, where sent: this very host; else 403. `null` is another site.
 *
 * `publicHosts` holds host names in lower case, without ports.
 * Source: specification, L 7; docs/decisions/0006-cross-origin-guard.md.
 */
export function crossOriginRefusal(
  url: string,
  { host, site, origin }: FormHeaders,
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

/** The value that was found to be trusted last: nearly every request has the same. */
let lastTrusted = { host: '', publicHosts: new Set<string>() as ReadonlySet<string> }

function isTrustedHost(host: string, publicHosts: ReadonlySet<string>): boolean {
  if (host === lastTrusted.host && publicHosts === lastTrusted.publicHosts) return true
  const trusted = judgeHost(host, publicHosts)
  if (trusted) lastTrusted = { host, publicHosts }
  return trusted
}

function judgeHost(host: string, publicHosts: ReadonlySet<string>): boolean {
  const name = hostName(host)
  if (name === null) return false
  // A DNS name that an attacker controls has a dot; these cannot be rebound.
  if (isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost')) return true
  if (/^[a-z0-9_-]+$/.test(name)) return true
  return publicHosts.has(name)
}

/** The name in a Host header, lower case, without port or brackets; null when it is malformed. */
function hostName(host: string): string | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/@\s]+))(?::\d{1,5})?$/.exec(host)
  return (match?.[1] ?? match?.[2] ?? null)?.toLowerCase() ?? null
}
