import { CodedError } from './coded-error.ts'

/** A text that is not the URL of a server, or a path that URLs change. */
export class UrlError extends CodedError<'URL_INVALID'> {
  override readonly name = 'UrlError'
}

const EXAMPLE = 'use a URL like http://127.0.0.1:4126, and give a token separately'

/** Returns the URL of a server without a final slash; it may have a path. Errors: URL_INVALID. */
export function serverUrl(text: string): string {
  const parsed = URL.parse(text)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) {
    // The text may be the URL of a database with a password.
    const shown = /[@?]/.test(text) ? 'this' : JSON.stringify(text)
    throw new UrlError('URL_INVALID', `${shown} is not the URL of a server; ${EXAMPLE}`)
  }
  const { origin, pathname, username, password, search, hash } = parsed
  // The message must not contain the URL, because the URL contains a password or a token.
  if (username + password + search + hash !== '') {
    const parts = 'a user name, a password, a query or a fragment'
    throw new UrlError('URL_INVALID', `the URL of a server must not have ${parts}; ${EXAMPLE}`)
  }
  return origin + pathname.replace(/\/+$/, '')
}

/**
 * Returns the URL of `path` below the path of `server`. `path` starts with `/`, is percent-encoded, and may have a
 * query. Errors: URL_INVALID, also if URLs resolve a part of the path, for example `..`, or if a part is empty, which
 * would name a collection instead of its member.
 */
export function joinUrl(server: string, path: string): URL {
  const base = serverUrl(server)
  const [pathname = ''] = path.split('?', 1)
  const url = URL.parse(base + path)
  const isWhole = /^\/(?:[^/]+(?:\/[^/]+)*)?$/.test(pathname)
  if (isWhole && url?.href.startsWith(base + pathname) && url.hash === '') return url
  const message = `the path ${JSON.stringify(path)} cannot be requested, because a part is empty, . or ..`
  throw new UrlError('URL_INVALID', message)
}

/** Returns the URL of a listener on `host`, as this computer can reach it. */
export function listenerUrl(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}
