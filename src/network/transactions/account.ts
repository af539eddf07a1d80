import { createHash } from 'node:crypto'
import { type Author, decodeAuthor } from '../../base/author.ts'

// An identity can be bound to an account of an OpenID Connect issuer. Its certificate names the account.

const ACCOUNT = /^oidc:(https?:\/\/\S+) ([^\u0000-\u001f\u007f]+)$/

/** Returns the certificate of an identity that is bound to an account. The address of an issuer has no space. */
export function formatAccount({ iss = '', sub }: Author): string {
  return `oidc:${iss} ${sub}`
}

/** Whether `certificate` is a result of `formatAccount`. */
export function isAccount(certificate: string): boolean {
  const [, iss = '', sub = ''] = ACCOUNT.exec(certificate) ?? []
  return decodeAuthor({ iss, sub }) !== null
}

/** Returns the id of the identity with this certificate. No secret has this hash: a bearer token contains no NUL. */
export function accountId(certificate: string): string {
  return createHash('sha256').update(`${certificate}\0`).digest('hex')
}
