import { LedgerError } from '../errors.ts'

/** What a client says the SHA-256 of its bytes is. */
export interface Digest {
  /** Errors: DIGEST_MISMATCH unless `sha256`, in hex, is what was said. */
  check(sha256: string): void
}

const MEMBER = /^([a-z*][a-z0-9_.*-]*)=(.*)$/
const SHA_256 = /^:([A-Za-z0-9+/]{43}=):(?:;.*)?$/

/**
 * The SHA-256 in a `Content-Digest` or `Repr-Digest` header, which are the same where nothing is
 * encoded; other algorithms are passed over, as the standard has it. Null when there is none.
 * Errors: DIGEST_INVALID. Source: RFC 9530 sections 2 and 3; RFC 9651 section 3.2 for the syntax.
 */
export function digestOf(header: string | readonly string[] | undefined): Digest | null {
  if (header === undefined) return null
  let said: string | null = null
  // Neither names nor base64 can hold a comma. The last of equal names counts.
  for (const member of String(header).split(',')) {
    const [, name, value = ''] = MEMBER.exec(member.trim()) ?? []
    if (name === undefined) throw invalid()
    if (name !== 'sha-256') continue
    const [, base64] = SHA_256.exec(value) ?? []
    if (base64 === undefined) throw invalid()
    said = Buffer.from(base64, 'base64').toString('hex')
  }
  if (said === null) return null
  return {
    check(sha256) {
      if (sha256 === said) return
      throw new LedgerError(
        'DIGEST_MISMATCH',
        `what arrived has the SHA-256 ${sha256}, not ${said}`,
      )
    },
  }
}

/** The value of a `Repr-Digest` header for bytes with this SHA-256 in hex. */
export function digestHeader(sha256: string): string {
  return `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`
}

function invalid(): LedgerError {
  return new LedgerError('DIGEST_INVALID', 'a digest is written like sha-256=:…base64…:')
}
