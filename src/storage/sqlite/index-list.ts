import { positionText } from '../../chain/index.ts'
import type { StoredIndex } from '../store.ts'
import { READY } from './indexes.ts'
import type { StatementCache } from './statements.ts'

const LIST = `SELECT d.name, d.created, i.path, i.built, (SELECT max(height) FROM blocks)
  FROM indexes AS i JOIN databases AS d ON d.created = i.db ORDER BY d.created, i.number`

/**
 * The declared indexes. How far one is built is told in blocks gone through: the items of a large
 * database cannot be counted in passing.
 */
export function indexesOf(statements: StatementCache): StoredIndex[] {
  return statements
    .get(LIST)
    .all()
    .map(([name, created, path, built, head]) => {
      const first = heightOf(Number(created))
      const total = Number(head) - first + 1
      const isReady = built === READY
      const reached = Math.max(first, heightOf(Math.max(0, Number(built))))
      const done = isReady ? total : reached - first
      return { db: String(name), path: String(path), isReady, done, total }
    })
}

function heightOf(position: number): number {
  return Number(positionText(position).split('.')[0])
}
