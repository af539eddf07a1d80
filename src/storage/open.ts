import { storePathIn } from './folder.ts'
import { openSqliteReader } from './sqlite/reader.ts'
import { openSqliteStore } from './sqlite/store.ts'
import type { Store, StoreReader } from './store.ts'

export interface StoreOptions {
  /** The data folder, locked by this process. */
  readonly folder: string
  /** The node that owns the store. */
  readonly serverId: number
  /** False for a temporary store, which is never synced. */
  readonly durable: boolean
}

/** Opens the store of a data folder for writing, creating it if it is missing. Errors: StoreError. */
export function openStore({ folder, ...options }: StoreOptions): Store {
  return openSqliteStore({ path: storePathIn(folder), ...options })
}

/**
 * Opens the store of a data folder for reading, also while another process writes it. With `frozen`, every
 * read sees the state at the first read. Errors: StoreError.
 */
export function openStoreReader(folder: string, { frozen }: { frozen: boolean }): StoreReader {
  return openSqliteReader(storePathIn(folder), frozen)
}
