import { hash } from 'node:crypto'
import { LedgerError } from '../errors.ts'
import type { Once } from './terms.ts'

/** Longest key, characters. */
const KEY_LENGTH_MAX = 255
/** A string of RFC 8941 section 3.3.3: printable ASCII in double quotes, `\"` and `\\` escaped. */
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/
/** The same without its quotes, for keys that need none. */
const BARE = /^[A-Za-z0-9!#$%&'*+\-./:=^_`|~]+$/

/** A request as far as it matters whether two are the same, but for its body. */
export interface AskedFor {
  readonly method: string
  /** Path and query as they were sent. */
  readonly url: string
}

/** A request with a key, of which the body may still be on its way. */
export interface KeyedRequest {
  /** As in `Once`. */
  readonly key: string
  /** What the request names once its body is known, as canonical JSON; null when there is none. */
  with(body: string | null): Once
}

/**
 * What the header `Idempotency-Key` names. Keys of different subjects (whom a token belongs to) are
 * different keys, however they are spelled.
 *
 * Errors: IDEMPOTENCY_KEY_INVALID.
 * Source: draft-ietf-httpapi-idempotency-key-header, section 2.1.
 */
export function parseKey(header: string, subject: string, asked: AskedFor): KeyedRequest {
  const text = header.trim()
  const quoted = QUOTED.exec(text)?.[1]?.replace(/\\(.)/g, '$1')
  const chosen = quoted ?? (BARE.test(text) ? text : '')
  if (chosen === '' || chosen.length > KEY_LENGTH_MAX) {
    throw new LedgerError(
      'IDEMPOTENCY_KEY_INVALID',
      `Idempotency-Key is a text of 1 to ${KEY_LENGTH_MAX} printable ASCII characters in double quotes`,
    )
  }
  const key = digest(subject, chosen)
  return { key, with: (body) => ({ key, fingerprint: fingerprintOf(asked, body) }) }
}

/** The same for requests that ask for the same; a token is not part of what is asked for. */
function fingerprintOf({ method, url }: AskedFor, body: string | null): string {
  const [path = '', query = ''] = url.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  parameters.delete('token')
  return digest(method, path, parameters.toString(), ...(body === null ? [] : [body]))
}

function digest(...parts: string[]): string {
  return hash('sha256', JSON.stringify(parts), 'hex')
}
