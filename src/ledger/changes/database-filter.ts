import { storedJson } from '../../storage/index.ts'
import { checkDatabaseName } from '../names.ts'

/** Whose entries a follower wants. */
export interface DatabaseFilter {
  readonly names: ReadonlySet<string>
  /** Equal for equal filters, so that what is made for one serves the others. */
  readonly key: string
}

/**
 * A filter of the databases called `names`, which need not be there yet; null, all of them, when there
 * is no name. Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED.
 */
export function databaseFilter(names: readonly string[]): DatabaseFilter | null {
  if (names.length === 0) return null
  for (const name of names) checkDatabaseName(name)
  const set = new Set(names)
  return { names: set, key: JSON.stringify([...set].sort()) }
}

/** `db` as the first member of a canonical entry, which it is unless another name sorts before it. */
const DATABASE_FIRST = /^\{"db":("(?:[^"\\]|\\.)*")/

/** The database that an entry is about. */
export function databaseIn(entry: string): string {
  const [, quoted] = DATABASE_FIRST.exec(entry) ?? []
  // Entries in the store have a `db` of text: whoever wrote them was this program.
  const db: unknown = quoted === undefined ? storedJson(entry).db : storedJson(quoted)
  return String(db)
}
