import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** A name and a password, as HTTP Basic carries them. */
export interface Credentials {
  readonly name: string
  readonly password: string
}

/** Longest `Authorization` header that is looked at. */
const HEADER_LENGTH_MAX = 4096

/**
 * The credentials in an `Authorization` header, or null when it holds none that are well-formed.
 *
 * The name ends at the first colon. Bytes are read as UTF-8, else as Latin-1 (older clients).
 * Control characters are refused. Source: RFC 7617 section 2.
 */
export function parseBasic(header: string | undefined): Credentials | null {
  if (header === undefined || header.length > HEADER_LENGTH_MAX) return null
  const match = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(header)
  if (match?.[1] === undefined) return null
  const bytes = Buffer.from(match[1], 'base64')
  if (bytes.toString('base64').replace(/=+$/, '') !== match[1].replace(/=+$/, '')) return null
  const text = decode(bytes)
  const colon = text.indexOf(':')
  if (colon === -1 || hasControl(text)) return null
  return { name: text.slice(0, colon), password: text.slice(colon + 1) }
}

function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit < 0x20 || unit === 0x7f) return true
  }
  return false
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return bytes.toString('latin1')
  }
}

const comparisonKey = randomBytes(32)

/** Whether two texts are equal, in a time that does not tell where or how much they differ. */
function equalSecrets(left: string, right: string): boolean {
  const mac = (text: string) => createHmac('sha256', comparisonKey).update(text).digest()
  return timingSafeEqual(mac(left), mac(right))
}

/** Whether `given` are exactly `expected`; both parts are always compared. */
export function equalCredentials(given: Credentials, expected: Credentials): boolean {
  const name = equalSecrets(given.name, expected.name)
  const password = equalSecrets(given.password, expected.password)
  return name && password
}
