import { mkdirSync, renameSync, rmSync } from 'node:fs'
import {
  closedStoreIn,
  fileExists,
  inheritOwner,
  openStoreReader,
  type StoreReader,
  storePathIn,
  syncPath,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'

// Restores and imports build a store in a side folder and move it into place when it is complete.

/** Returns whether `folder` has a store, or a leftover WAL, which SQLite would apply to a new store. */
export function hasStore(folder: string): boolean {
  const path = storePathIn(folder)
  return fileExists(path) || fileExists(`${path}-wal`)
}

export function emptySideFolder(side: string): void {
  removeFolder(side)
  mkdirSync(side, { mode: 0o700 })
  inheritOwner(side)
}

export function removeFolder(path: string): void {
  rmSync(path, { recursive: true, force: true })
}

/** Durably moves the closed store in `side` to `folder`, replaces the store there, and removes `side`. */
export function moveStore(side: string, folder: string): void {
  const store = closedStoreIn(side)
  syncPath(store)
  const target = storePathIn(folder)
  for (const end of ['-wal', '-shm']) rmSync(`${target}${end}`, { force: true })
  renameSync(store, target)
  syncPath(folder)
  removeFolder(side)
}

/** Runs `work` with a reader of the store in `folder`. */
export async function withReader<Result>(
  folder: string,
  work: (store: StoreReader) => Promise<Result>,
): Promise<Result> {
  const store = await openStoreReader(folder, { frozen: true })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** Verifies the store in `folder` on `threads` threads. */
export function verifyIn(folder: string, threads: number): Promise<Verification> {
  const options = threads > 1 ? { threads: { location: folder, count: threads } } : {}
  return withReader(folder, (store) => verifyStore(store, options))
}
