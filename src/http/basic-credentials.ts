import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** The name and password of HTTP Basic authentication. */
export interface Credentials {
  readonly name: string
  readonly password: string
}

/** Maximum characters of an `Authorization` header; longer headers are rejected. */
const HEADER_LENGTH_MAX = 4096

/**
 * Returns the credentials in an `Authorization` header, or null if the header is missing or malformed.
 *
 * The name ends at the first colon. Bytes are decoded as UTF-8, or as Latin-1 (older clients) if they are not
 * valid UTF-8. Control characters are rejected. Source: RFC 7617 section 2.
 */
export function parseBasic(header: string | undefined): Credentials | null {
  if (header === undefined || header.length > HEADER_LENGTH_MAX) return null
  const match = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(header)
  if (match?.[1] === undefined) return null
  const bytes = Buffer.from(match[1], 'base64')
  if (bytes.toString('base64').replace(/=+$/, '') !== match[1].replace(/=+$/, '')) return null
  const text = decodeText(bytes)
  const colon = text.indexOf(':')
  if (colon === -1 || /[\u0000-\u001f\u007f]/.test(text)) return null
  return { name: text.slice(0, colon), password: text.slice(colon + 1) }
}

function decodeText(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return bytes.toString('latin1')
  }
}

const comparisonKey = randomBytes(32)

/** Compares two strings in constant time, so that the duration reveals nothing about their contents. */
function equalSecrets(left: string, right: string): boolean {
  const mac = (text: string) => createHmac('sha256', comparisonKey).update(text).digest()
  return timingSafeEqual(mac(left), mac(right))
}

/** Whether `received` equals `expected`. Always compares both parts, so that the duration reveals nothing. */
export function equalCredentials(received: Credentials, expected: Credentials): boolean {
  const name = equalSecrets(received.name, expected.name)
  const password = equalSecrets(received.password, expected.password)
  return name && password
}
