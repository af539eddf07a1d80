import type { LedgerService } from '../ledger/index.ts'
import { systemType } from './model/system.ts'
import { itemIdOf } from './resources/database.ts'

// A separate entry point for nodes that serve no networks: it does not load languages, models and scripts.

/** Returns the id of the item that records a network. A database with this item belongs to the network. */
export function networkItemId(name: string): string {
  return itemIdOf({ type: systemType('Network'), id: name })
}

/** Makes the databases of all recorded networks read-only for the ledger's API, also if the networks are not served. */
export async function ownNetworkDatabases(ledger: LedgerService): Promise<void> {
  for (const name of await ledger.databases()) {
    if ((await ledger.readItem(name, networkItemId(name))) !== null) ledger.ownDatabase(name)
  }
}
