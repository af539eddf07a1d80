import { type Author, isTextWithin, SUBJECT_BYTES_MAX } from '../base/author.ts'
import { TokenError } from './errors.ts'

/** Levels of access; each level includes the previous levels. */
export const LEVELS = ['read', 'write', 'admin'] as const
export type DatabaseLevel = (typeof LEVELS)[number]

const NODE_SCOPES = ['ledger:read', 'node:metrics', 'node:sync', 'node:admin'] as const
/** Access to a whole node: its chains, metrics, synchronization and configuration. */
export type NodeScope = (typeof NODE_SCOPES)[number]

export function isNodeScope(text: string): text is NodeScope {
  return NODE_SCOPES.some((known) => known === text)
}

/** The access that a request requires. */
export type Need = NodeScope | { readonly db: string; readonly level: DatabaseLevel }

/** The access of a caller. A level is an index of `LEVELS`, or -1 for no access. */
export interface Grant {
  readonly everyDatabase: number
  readonly databases: ReadonlyMap<string, number>
  readonly node: ReadonlySet<string>
}

/** The owner of a verified API token. */
export interface TokenOwner {
  /** Recorded with each change; several tokens may have the same author. */
  readonly author: Author
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
  /** See `ApiGrant`. */
  readonly isSession: boolean
  readonly grant: Grant
}

/** The `aud` of API tokens. */
export const API_AUDIENCE = 'daicho:api'
/** Maximum total length of a token's scopes, so that the token fits into a header and a query parameter. */
const SCOPES_LENGTH_MAX = 2_000
/** `db:`, a name or `*`, and a level. Names may contain colons. */
const DATABASE_SCOPE = /^db:(.+):(read|write|admin)$/s

/** All scopes, for callers with the node's own credentials. */
export const EVERY_SCOPE: readonly string[] = ['db:*:admin', ...NODE_SCOPES]
export const NO_GRANT: Grant = { everyDatabase: -1, databases: new Map(), node: new Set() }

/** Whether `text` can be a subject: 1..256 bytes of UTF-8 without control characters. */
export function isSubject(text: string): boolean {
  return !/[\u0000-\u001f\u007f]/.test(text) && isTextWithin(text, SUBJECT_BYTES_MAX)
}

/** Throws TOKEN_GRANT_EXCEEDS unless the owner of a token has each of the scopes in `claim`. */
export function requireCovered({ grant }: TokenOwner, claim: string): void {
  for (const text of claim.split(' ')) {
    const scope = parseDatabaseScope(text)
    const { level = 'read', isEvery = false, name = '' } = scope ?? {}
    const isCovered =
      scope === null
        ? grant.node.has(text)
        : isEvery
          ? grant.everyDatabase >= LEVELS.indexOf(level)
          : allows(grant, { db: name, level })
    if (isCovered) continue
    const message = `a token cannot create a token with more rights: it lacks the scope ${text}`
    throw new TokenError('TOKEN_GRANT_EXCEEDS', message)
  }
}

/** Whether `caller` has the access `need`. `caller` is null if no tokens are required. */
export function may(caller: TokenOwner | null, need: Need): boolean {
  return caller === null || allows(caller.grant, need)
}

/** Whether `caller` may read every database. */
export function mayReadEvery(caller: TokenOwner | null): boolean {
  return caller === null || caller.grant.everyDatabase >= LEVELS.indexOf('read')
}

/**
 * Returns the `scope` claim for `texts`, in canonical spelling and separated by spaces. The name in
 * `db:<name>:<level>` is percent-encoded as in a path. `*` means every database; `%2A` is the database named `*`.
 * Unencoded characters, such as a colon, are encoded in the claim. Errors: SCOPE_UNKNOWN, SCOPES_TOO_LONG. Source:
 * RFC 8693 section 4.2 (the claim); docs/decisions/0014-tokens-and-scopes.md.
 */
export function scopeClaim(texts: readonly string[]): string {
  const claim = [...new Set(texts.map(toCanonicalScope))].join(' ')
  if (claim === '') throw new TokenError('SCOPE_UNKNOWN', 'a token needs at least one scope')
  if (claim.length <= SCOPES_LENGTH_MAX) return claim
  throw new TokenError(
    'SCOPES_TOO_LONG',
    `the scopes of a token may have at most ${SCOPES_LENGTH_MAX} characters; use db:*, or several tokens`,
  )
}

/** Parses a `scope` claim. Unknown scopes grant nothing. */
export function parseGrant(claim: unknown): Grant {
  const databases = new Map<string, number>()
  const node = new Set<string>()
  let everyDatabase = -1
  for (const text of typeof claim === 'string' ? claim.split(' ') : []) {
    const scope = parseDatabaseScope(text)
    if (scope === null) {
      node.add(text)
      continue
    }
    const rank = LEVELS.indexOf(scope.level)
    if (scope.isEvery) everyDatabase = Math.max(everyDatabase, rank)
    else databases.set(scope.name, Math.max(databases.get(scope.name) ?? -1, rank))
  }
  return { everyDatabase, databases, node }
}

export function allows(grant: Grant, need: Need): boolean {
  if (typeof need === 'string') return grant.node.has(need)
  const rank = LEVELS.indexOf(need.level)
  return grant.everyDatabase >= rank || (grant.databases.get(need.db) ?? -1) >= rank
}

/** Returns the scope that grants `need`. */
export function formatScope(need: Need): string {
  return typeof need === 'string' ? need : `db:${encodeName(need.db)}:${need.level}`
}

function toCanonicalScope(text: string): string {
  if (isNodeScope(text)) return text
  const scope = parseDatabaseScope(text)
  if (scope !== null) return `db:${scope.isEvery ? '*' : encodeName(scope.name)}:${scope.level}`
  throw new TokenError(
    'SCOPE_UNKNOWN',
    `unknown scope ${JSON.stringify(text.slice(0, 200))}; use db:<name>:read, db:<name>:write, db:<name>:admin, ` +
      `${NODE_SCOPES.slice(0, -1).join(', ')} or ${NODE_SCOPES.at(-1)} ` +
      '(<name>: a database name, percent-encoded as in a path, or * for every database)',
  )
}

function parseDatabaseScope(text: string) {
  const [, written = '', levelText] = DATABASE_SCOPE.exec(text) ?? []
  const level = LEVELS.find((known) => known === levelText)
  if (level === undefined) return null
  try {
    return { name: decodeURIComponent(written), isEvery: written === '*', level }
  } catch {
    return null
  }
}

function encodeName(name: string): string {
  return encodeURIComponent(name.toWellFormed()).replaceAll('*', '%2A')
}
