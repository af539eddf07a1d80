import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { HttpRefusal } from '../http/index.ts'
import { ADMIN, type BusinessNetwork, type Caller, callerWith } from '../network/index.ts'

/** Who may make requests. */
export interface Doors {
  /** Whoever shows it in `x-api-key` acts as the administrator; null when there is none. */
  readonly apiKey: string | null
  /** Whether whoever shows nothing acts as the administrator. */
  readonly open: boolean
}

const BEARER = /^bearer +([\w.~+/-]+=*) *$/i

/** On whose behalf a request to `network` is made. Errors: 401. */
export async function callerOf(
  headers: IncomingHttpHeaders,
  network: BusinessNetwork,
  doors: Doors,
): Promise<Caller> {
  const { authorization } = headers
  if (authorization === undefined) return adminOf(headers, doors)
  const [, secret] = BEARER.exec(authorization) ?? []
  if (secret === undefined) throw unauthorized('Authorization takes a bearer token')
  return callerWith(network, secret)
}

/** The administrator, if `headers` are theirs. Errors: 401. */
export function adminOf(headers: IncomingHttpHeaders, { apiKey, open }: Doors): Caller {
  const key = headers['x-api-key']
  if (key !== undefined && apiKey !== null) {
    if (typeof key === 'string' && isEqual(key, apiKey)) return ADMIN
    throw unauthorized('this is not the key of the gateway')
  }
  if (open) return ADMIN
  throw unauthorized('say who you are: Authorization: Bearer, or x-api-key')
}

function isEqual(one: string, other: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(one), hash(other))
}

function unauthorized(message: string): HttpRefusal {
  return new HttpRefusal(401, 'UNAUTHORIZED', message)
}
