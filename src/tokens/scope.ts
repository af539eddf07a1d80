import { TokenError } from './errors.ts'

/** Each level includes the ones before it. */
export const LEVELS = ['read', 'write', 'admin'] as const
const RANKS = new Map<string, number>(LEVELS.map((level, rank) => [level, rank]))
/** How much of a database. */
export type DatabaseLevel = (typeof LEVELS)[number]

const NODE_SCOPES = ['ledger:read', 'node:metrics', 'node:sync', 'node:admin'] as const
/** What is not of one database: all chains, figures, exchange with other nodes, configuration. */
export type NodeScope = (typeof NODE_SCOPES)[number]

/** Whether `text` is one of them. */
export function isNodeScope(text: string): text is NodeScope {
  return NODE_SCOPES.some((known) => known === text)
}

/** What a request needs to be allowed. */
export type Need = NodeScope | { readonly db: string; readonly level: DatabaseLevel }

/** What a caller may do. Levels are indexes of `LEVELS`; -1 is nothing. */
export interface Grant {
  readonly everyDatabase: number
  readonly databases: ReadonlyMap<string, number>
  readonly node: ReadonlySet<string>
}

/** Longest text of all scopes of a token together, so that it fits in a header and a query. */
const SCOPES_LENGTH_MAX = 2_000
/** `db:`, a name or `*`, and a level: what follows the last colon, whatever the name holds. */
const DATABASE_SCOPE = /^db:(.+):(read|write|admin)$/s

/** Every scope there is, for whoever holds the node's own credentials. */
export const EVERY_SCOPE: readonly string[] = ['db:*:admin', ...NODE_SCOPES]
/** May do nothing. */
export const NO_GRANT: Grant = { everyDatabase: -1, databases: new Map(), node: new Set() }

/**
 * `texts` as the `scope` claim of a token: in canonical spelling, with spaces between them.
 *
 * The name in `db:<name>:<level>` is percent-encoded as in a path; `*` alone is every database, and
 * the database of that name is `%2A`. What is taken unencoded, such as a colon, is encoded in the claim.
 * Errors: SCOPE_UNKNOWN, SCOPES_TOO_LONG. Source: RFC 8693 section 4.2 (the claim);
 * docs/decisions/0062-scopes.md.
 */
export function scopeClaim(texts: readonly string[]): string {
  const claim = [...new Set(texts.map(canonicalScope))].join(' ')
  if (claim === '') throw new TokenError('SCOPE_UNKNOWN', 'a token needs at least one scope')
  if (claim.length <= SCOPES_LENGTH_MAX) return claim
  throw new TokenError(
    'SCOPES_TOO_LONG',
    `the scopes of a token may have ${SCOPES_LENGTH_MAX} characters; use db:*, or several tokens`,
  )
}

/** What a `scope` claim allows. A scope that is not known allows nothing. */
export function grantOf(claim: unknown): Grant {
  const databases = new Map<string, number>()
  const node = new Set<string>()
  let everyDatabase = -1
  for (const text of typeof claim === 'string' ? claim.split(' ') : []) {
    const [, written, level] = DATABASE_SCOPE.exec(text) ?? []
    const name = written === undefined ? null : nameOf(written)
    const rank = RANKS.get(level ?? '') ?? -1
    if (name === null) node.add(text)
    else if (written === '*') everyDatabase = Math.max(everyDatabase, rank)
    else databases.set(name, Math.max(databases.get(name) ?? -1, rank))
  }
  return { everyDatabase, databases, node }
}

/** Whether `grant` covers `need`. */
export function allows(grant: Grant, need: Need): boolean {
  if (typeof need === 'string') return grant.node.has(need)
  const wanted = LEVELS.indexOf(need.level)
  return grant.everyDatabase >= wanted || (grant.databases.get(need.db) ?? -1) >= wanted
}

/** The scope that would cover `need`, as it is written. */
export function scopeOf(need: Need): string {
  return typeof need === 'string' ? need : `db:${writtenName(need.db)}:${need.level}`
}

function canonicalScope(text: string): string {
  if (isNodeScope(text)) return text
  const [, written, level] = DATABASE_SCOPE.exec(text) ?? []
  const name = written === undefined ? null : nameOf(written)
  if (name !== null) return `db:${written === '*' ? '*' : writtenName(name)}:${level}`
  throw new TokenError(
    'SCOPE_UNKNOWN',
    `no scope ${JSON.stringify(text.slice(0, 200))}: known are db:<name>:read, write and admin ` +
      `(* for every database, other names as in a path), ${NODE_SCOPES.join(', ')}`,
  )
}

function nameOf(written: string): string | null {
  try {
    return decodeURIComponent(written)
  } catch {
    return null
  }
}

function writtenName(name: string): string {
  return encodeURIComponent(name.toWellFormed()).replaceAll('*', '%2A')
}
