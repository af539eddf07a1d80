import { storePathIn } from './folder.ts'
import { openSqliteReader } from './sqlite/reader.ts'
import { openSqliteStore } from './sqlite/store.ts'
import type { Store, StoreReader } from './store.ts'

/** What an engine must know to open a store for writing. */
export interface StoreOptions {
  /** The data folder, held by this process. */
  readonly folder: string
  /** The node whose databases the store keeps. */
  readonly serverId: number
  /** False for a store that is thrown away with its folder: nothing waits for the disk. */
  readonly durable: boolean
}

/** Opens the store of a data folder for writing, making it when it is missing. Errors: StoreError. */
export function openStore({ folder, ...options }: StoreOptions): Store {
  return openSqliteStore({ path: storePathIn(folder), ...options })
}

/**
 * Opens the store of a data folder for reading, also beside its writer. With `frozen` every read
 * sees the store as it was at the first one. Errors: StoreError.
 */
export function openStoreReader(folder: string, { frozen }: { frozen: boolean }): StoreReader {
  return openSqliteReader(storePathIn(folder), frozen)
}
