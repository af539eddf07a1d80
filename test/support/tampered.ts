import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Does `sql` to the store in `folder`, behind the back of its node, which is stopped. */
export function tamper(folder: string, sql: string): void {
  const store = new DatabaseSync(join(folder, 'ledger.db'))
  store.exec(sql)
  store.close()
}
