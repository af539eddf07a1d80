import type { Schedule } from '../base/clock.ts'
import { BlobFiles } from './blobs/blob-files.ts'
import type { BlobInventory, BlobStore } from './blobs/blob-store.ts'
import { FileBlobStore } from './blobs/file-blob-store.ts'
import { folderWarning, hasStoreFile, toStorePath } from './location/folder.ts'
import { isDatabaseUrl, type StoreLocation } from './location/location.ts'
import { StoreError } from './port/errors.ts'
import type { Store, StoreReader, Turns } from './port/store.ts'
import type { SharedText } from './postgres/shared-texts.ts'
import { openSqliteReader } from './sqlite/reader.ts'
import { openSqliteStore } from './sqlite/store.ts'

export interface StoreOptions {
  /** The location of the store. A data folder must be locked by this process. */
  readonly location: StoreLocation
  /** The node that owns the store. */
  readonly serverId: number
  /** False for a temporary store, which is never synced. */
  readonly durable: boolean
}

export interface ReaderOptions {
  /** If true, every read sees the state at the first read. */
  readonly frozen: boolean
}

/** Opens a store for writing, creating it if it is missing. Errors: StoreError. */
export async function openStore({ location, ...options }: StoreOptions): Promise<Store> {
  if (!isDatabaseUrl(location)) return openSqliteStore({ path: toStorePath(location), ...options })
  // Loaded on first use, because a node without a database server never needs this module.
  const { openPostgresStore } = await import('./postgres/store.ts')
  return openPostgresStore({ url: location, ...options })
}

/**
 * Returns the reason why the store could lose acknowledged writes, because of the file system of its folder or in a
 * failover of its database server, or null. Errors: StoreError.
 */
export async function storeWarning(location: StoreLocation): Promise<string | null> {
  if (!isDatabaseUrl(location)) return folderWarning(location)
  return (await import('./postgres/connection.ts')).serverWarning(location)
}

/** Returns whether `location` has a store. Errors: StoreError. */
export async function storeExists(location: StoreLocation): Promise<boolean> {
  if (!isDatabaseUrl(location)) return hasStoreFile(toStorePath(location))
  try {
    await (await openStoreReader(location, { frozen: false })).close()
    return true
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') return false
    throw error
  }
}

/** Opens a store for reading, even while another process writes it. Errors: StoreError. */
export async function openStoreReader(
  location: StoreLocation,
  { frozen }: ReaderOptions,
): Promise<StoreReader> {
  if (!isDatabaseUrl(location)) return openSqliteReader(toStorePath(location), frozen)
  const { openPostgresReader } = await import('./postgres/reader.ts')
  return openPostgresReader({ url: location, frozen })
}

/**
 * Opens the blobs to which the entries of `store` refer. `location` may differ from the location of `store`; `durable`
 * is false for a temporary store, which is never synced.
 */
export async function openBlobStore(
  location: StoreLocation,
  { attachments }: Pick<StoreReader, 'attachments'>,
  durable: boolean,
): Promise<BlobStore> {
  if (!isDatabaseUrl(location)) return new FileBlobStore(location, attachments, durable)
  const { openPostgresBlobs } = await import('./postgres/blobs.ts')
  return openPostgresBlobs({ url: location, durable })
}

/** Opens the blobs of a store for verification. */
export async function openBlobInventory(location: StoreLocation): Promise<BlobInventory> {
  if (!isDatabaseUrl(location)) return new BlobFiles(location, false)
  const { openPostgresBlobs } = await import('./postgres/blobs.ts')
  return openPostgresBlobs({ url: location, durable: false })
}

/** Opens the text `name`, which all processes of a node share. `durable`: whether it is changed. Errors: StoreError. */
export async function openSharedText(
  url: string,
  name: string,
  schedule: Schedule,
  durable = true,
): Promise<SharedText> {
  const { openPostgresSharedText } = await import('./postgres/shared-texts.ts')
  return openPostgresSharedText({ url, durable }, name, schedule)
}

/**
 * Returns a function that opens the turns of a name, or null if only one process uses the store at `location`.
 */
export async function openTurns(
  location: StoreLocation,
  schedule: Schedule,
): Promise<((name: string) => Turns) | null> {
  if (!isDatabaseUrl(location)) return null
  const { PostgresTurns } = await import('./postgres/turns.ts')
  return (name) => new PostgresTurns({ url: location, durable: false }, name, schedule)
}

/** Replaces a text with `change(text)`, durably. The changes of all processes run one after another. */
export type ChangeText = (change: (text: string | null) => string) => Promise<void>

/** Returns a function that changes the text `name`, which all processes of a node share. Errors: StoreError. */
export async function sharedTextChanges(url: string, name: string): Promise<ChangeText> {
  const { changePostgresText } = await import('./postgres/shared-texts.ts')
  let versionMin = 0
  // One change at a time, because each opens a connection.
  let last: Promise<void> = Promise.resolve()
  return (change) => {
    const run = async () => {
      const options = { change, versionMin }
      versionMin = await changePostgresText({ url, durable: true }, name, options)
    }
    last = last.then(run, run)
    return last
  }
}
