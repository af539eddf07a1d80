import { ledger } from '../node/ledger.ts'
import { useLoaded } from './hooks.ts'

/** Concurrent requests, because browsers allow only six connections per node. */
const READS_MAX = 4

/** Whether `db` belongs to a business network, so that only transactions of the network may change it. */
async function belongsToNetwork(db: string, signal: AbortSignal): Promise<boolean> {
  const id = `org.hyperledger.composer.system.Network#${db}`
  // A list, because browsers log the 404 of a missing item as an error of the page.
  const found = ledger.database(db).ids({ filter: { where: { id } }, limit: 1, signal })
  return (await found.next()).done !== true
}

/** Returns the databases that belong to business networks. */
async function readNetworks(
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  const left = names.values()
  const work = async () => {
    for (const db of left) if (await belongsToNetwork(db, signal)) found.add(db)
  }
  await Promise.all(Array.from({ length: READS_MAX }, work))
  return found
}

/** The databases of `names` that belong to business networks; none before they are known. */
export function useNetworks(names: readonly string[]): ReadonlySet<string> {
  const [loaded] = useLoaded(`networks ${JSON.stringify(names)}`, (signal) =>
    readNetworks(names, signal),
  )
  return loaded.state === 'loaded' ? loaded.value : new Set()
}
