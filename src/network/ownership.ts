import type { LedgerService } from '../ledger/index.ts'
import { systemType } from './model/system.ts'
import { itemIdOf } from './resources/database.ts'

// A face of this wing for nodes that serve no networks: nothing of languages, models and sandboxes.

/** The id of the item that makes a database a network's. */
export function networkItemId(name: string): string {
  return itemIdOf({ type: systemType('Network'), id: name })
}

/** Makes the databases of all networks that the ledger records theirs, whether they are served or not. */
export async function ownNetworkDatabases(ledger: LedgerService): Promise<void> {
  for (const name of await ledger.databases()) {
    if ((await ledger.readItem(name, networkItemId(name))) !== null) ledger.ownDatabase(name)
  }
}
