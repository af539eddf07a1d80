import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists, inheritOwner, syncPath } from '../../base/files/durable-files.ts'
import {
  openStoreReader,
  requireClosedStore,
  type StoreLocation,
  type StoreReader,
  toStorePath,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'
import { PeerError } from './errors.ts'

// Restores and imports build a store in a side folder and move it into place when it is complete.

/** Returns whether `folder` has a store, or a leftover WAL, which SQLite would apply to a new store. */
export function hasStore(folder: string): boolean {
  const path = toStorePath(folder)
  return fileExists(path) || fileExists(`${path}-wal`)
}

/**
 * Creates the store of `folder`: `build` creates a verified store in the empty side folder `name`, which is then moved
 * into place. A crash before the move leaves only the side folder, which the next call replaces; a later crash leaves
 * the complete store.
 */
export async function buildStore<Result>(
  folder: string,
  name: string,
  build: (side: string) => Promise<Result>,
): Promise<Result> {
  const side = join(folder, name)
  removeFolder(side)
  mkdirSync(side, { mode: 0o700 })
  inheritOwner(side)
  try {
    const result = await build(side)
    moveStore(side, folder)
    return result
  } finally {
    removeFolder(side)
  }
}

export function removeFolder(path: string): void {
  rmSync(path, { recursive: true, force: true })
}

/** Durably moves the closed store in `side` to `folder`, replaces the store there, and removes `side`. */
export function moveStore(side: string, folder: string): void {
  const store = requireClosedStore(side)
  syncPath(store)
  const target = toStorePath(folder)
  for (const end of ['-wal', '-shm']) rmSync(`${target}${end}`, { force: true })
  renameSync(store, target)
  syncPath(folder)
  removeFolder(side)
}

export async function withReader<Result>(
  location: StoreLocation,
  work: (store: StoreReader) => Promise<Result>,
): Promise<Result> {
  const store = await openStoreReader(location, { frozen: true })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** Returns `verification` if it passed. `what` names the store. Errors: RESTORE_REFUSED. */
export function requireValid(verification: Verification, what: string): Verification {
  const { finding } = verification
  if (finding === null) return verification
  const where = finding.height === null ? '' : `block ${finding.height}: `
  throw new PeerError('RESTORE_REFUSED', `${what} does not verify: ${where}${finding.what}`)
}

export function verifyStoreAt(location: StoreLocation, threads: number): Promise<Verification> {
  const options = threads > 1 ? { threads: { location, count: threads } } : {}
  return withReader(location, (store) => verifyStore(store, options))
}
