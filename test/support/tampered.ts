import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Runs `sql` on the store in `folder`, whose node must be stopped. */
export function tamper(folder: string, sql: string): void {
  const store = new DatabaseSync(join(folder, 'ledger.db'))
  // Defensive mode would forbid PRAGMA writable_schema.
  store.enableDefensive(false)
  store.exec(sql)
  store.close()
}
