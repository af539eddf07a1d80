import type { EntryHead } from '../../chain/index.ts'

/** Selects entries by their database and their author. */
export interface EntryFilter {
  /** Cache key, which is equal for equal filters. */
  readonly key: string
  /** Whether an entry with this head matches; null, which no entry has, does not. */
  matches(head: EntryHead | null): boolean
}

export interface EntryFilterInput {
  /** Empty for all databases. */
  readonly db?: readonly string[] | undefined
  /** The subject of the author. */
  readonly by?: string | undefined
  /** The issuer of the author; an empty text for the node itself. */
  readonly iss?: string | undefined
}

/** Returns a filter, or null if all entries match. The databases need not exist yet. */
export function entryFilter({ db = [], by, iss }: EntryFilterInput): EntryFilter | null {
  if (db.length === 0 && by === undefined && iss === undefined) return null
  const names = new Set(db)
  return {
    key: JSON.stringify([[...names].sort(), by, iss]),
    matches(head) {
      if (head === null || (names.size > 0 && !names.has(head.db))) return false
      const { by: author } = head
      if (by !== undefined && author?.sub !== by) return false
      return iss === undefined || (author !== null && (author.iss ?? '') === iss)
    },
  }
}
