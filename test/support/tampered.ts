import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Runs `sql` on the store in `folder`, without its node, which is stopped. */
export function tamper(folder: string, sql: string): void {
  const store = new DatabaseSync(join(folder, 'ledger.db'))
  // Allows PRAGMA writable_schema.
  store.enableDefensive(false)
  store.exec(sql)
  store.close()
}
