import type { LedgerService } from '../ledger/index.ts'
import { systemType } from './model/system.ts'
import { itemIdOf } from './resources/database.ts'

// For nodes that serve no networks: loads no languages, models or scripts.

/** The id of the item that makes a database a network's. */
export function networkItemId(name: string): string {
  return itemIdOf({ type: systemType('Network'), id: name })
}

/** Reserves the databases of all recorded networks, whether they are served or not. */
export async function ownNetworkDatabases(ledger: LedgerService): Promise<void> {
  for (const name of await ledger.databases()) {
    if ((await ledger.readItem(name, networkItemId(name))) !== null) ledger.ownDatabase(name)
  }
}
