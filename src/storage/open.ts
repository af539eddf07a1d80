import { storePathIn } from './folder.ts'
import { openSqliteReader } from './sqlite/reader.ts'
import { openSqliteStore } from './sqlite/store.ts'
import type { Store, StoreReader } from './store.ts'

/** Where a store is: a data folder. */
export type StoreLocation = string

export interface StoreOptions {
  /** A data folder must be locked by this process. */
  readonly location: StoreLocation
  /** The node that owns the store. */
  readonly serverId: number
  /** False for a temporary store, which is never synced. */
  readonly durable: boolean
}

export interface ReaderOptions {
  /** Every read sees the state at the first read. */
  readonly frozen: boolean
}

/** Opens a store for writing, creating it if it is missing. Errors: StoreError. */
export async function openStore({ location, ...options }: StoreOptions): Promise<Store> {
  return openSqliteStore({ path: storePathIn(location), ...options })
}

/** Opens a store for reading, also while another process writes it. Errors: StoreError. */
export async function openStoreReader(
  location: StoreLocation,
  { frozen }: ReaderOptions,
): Promise<StoreReader> {
  return openSqliteReader(storePathIn(location), frozen)
}
