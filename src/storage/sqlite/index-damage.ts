import type { DatabaseSync } from 'node:sqlite'
import { parseJson } from '../../base/json.ts'
import { keysOf } from '../search/index-keys.ts'
import { markOf, READY } from './indexes.ts'
import { integerOf } from './rows.ts'
import { Query } from './statements.ts'

/**
 * The first index that does not hold what its items give, or null. In constant memory: every entry
 * that an item gives is looked up, and there are as many entries as were looked up.
 */
export function indexDamage(connection: DatabaseSync): string | null {
  const query = (sql: string) => new Query(connection, sql)
  const indexes = query(`SELECT i.number, i.db, i.path, i.built, d.name, i.mark FROM indexes AS i
    LEFT JOIN databases AS d ON d.created = i.db ORDER BY i.number`).all()
  const known = new Set(indexes.map((row) => integerOf(row, 'number')))
  const stray = strayEntries(query, known)
  if (stray !== null) return stray
  const last = query('SELECT max(created) FROM items').get()?.[0]
  const items = query(
    'SELECT created, item FROM items WHERE db = ? AND created <= ? ORDER BY created',
  )
  const entry = query(
    'SELECT sorts FROM index_entries WHERE number = ? AND key = ? AND created = ?',
  )
  const count = query('SELECT count(*) FROM index_entries WHERE number = ?')
  for (const [number, database, path, built, name, mark] of indexes) {
    const called = `index ${path} of database ${name}`
    if (mark !== markOf(Number(number), Number(database), String(path))) {
      return `index ${number} on ${path} is not as it was declared`
    }
    if (typeof name !== 'string') return `index ${number} is on no database`
    if (Number(built) < -1 || (built !== READY && Number(built) > Number(last ?? -1))) {
      return `${called} says it is built up to an item that there is not`
    }
    let entries = 0
    for (const [created, item] of items.iterate(Number(database), Number(built))) {
      for (const { key, sorts } of keysOf(parseJson(String(item)), String(path).split('.'))) {
        const found = entry.get(Number(number), key, Number(created))
        if (found?.[0] !== (sorts ? 1 : 0)) {
          return `${called} lacks an entry that item ${parseJson(String(item)).id} gives`
        }
        entries += 1
      }
    }
    const held = Number(count.get(Number(number))?.[0])
    if (held !== entries) return `${called} holds ${held} entries; its items give ${entries}`
  }
  return null
}

/** Entries of no index that are not on their way out, and notes of indexes that are not. */
function strayEntries(query: (sql: string) => Query, known: ReadonlySet<number>): string | null {
  const dropped = new Set(
    query('SELECT number FROM dropped_indexes')
      .all()
      .map((row) => integerOf(row, 'number')),
  )
  const next = query('SELECT min(number) FROM index_entries WHERE number > ?')
  const held = new Set<number>()
  for (let number = next.get(-(2 ** 52))?.[0]; typeof number === 'number'; ) {
    if (!known.has(number) && !dropped.has(number))
      return `there are entries of no index, ${number}`
    held.add(number)
    number = next.get(number)?.[0]
  }
  const note = [...dropped].find((number) => known.has(number) || !held.has(number))
  return note === undefined ? null : `${note} is noted as a removed index; none was`
}
