// The storage engine of the nodes in a test file: a folder, unless the file calls `useDatabases`.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type StoreLocation, storeExists } from '../../src/storage/index.ts'
import { queryOnce } from '../postgres/server.ts'
import type { SharedPostgres } from '../postgres/shared.ts'
import { tamper } from './tampered.ts'

const databases = {
  postgres: null as SharedPostgres | null,
  /** URL of the database of each node, by the folder of the node. */
  byFolder: new Map<string, Promise<string>>(),
}

/**
 * Gives a PostgreSQL database to each node that is started later. Files that call this have their own
 * process, and call it before their tests.
 */
export function useDatabases(postgres: SharedPostgres): void {
  databases.postgres = postgres
}

export function isOnDatabases(): boolean {
  return databases.postgres !== null
}

/** Returns the URL of the database of the node with this folder, or null if its store is in the folder. */
export async function databaseOf(folder: string | null): Promise<string | null> {
  const { postgres, byFolder } = databases
  if (postgres === null) return null
  const create = async () => (await postgres.newDatabase()).url
  if (folder === null) return create()
  const url = byFolder.get(folder) ?? create()
  byFolder.set(folder, url)
  return url
}

/** Returns the location of the store of the node with this folder. */
export async function locationOf(folder: string): Promise<StoreLocation> {
  return (await databaseOf(folder)) ?? folder
}

/** Runs `sql` on the store of the stopped node with this folder. */
export async function tamperStore(folder: string, sql: string): Promise<void> {
  const url = await databaseOf(folder)
  if (url === null) tamper(folder, sql)
  else await queryOnce(url, sql)
}

/** Returns the SHA-256 of each stored blob of the node with this folder, sorted. */
export async function storedBlobs(folder: string): Promise<string[]> {
  const url = await databaseOf(folder)
  if (url !== null) {
    if (!(await storeExists(url))) return []
    const rows = await queryOnce(url, 'SELECT sha256 FROM blobs ORDER BY sha256')
    return rows.map(({ sha256 }) => String(sha256))
  }
  const root = join(folder, 'attachments')
  if (!existsSync(root)) return []
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.parentPath.slice(-2) + entry.name)
    .toSorted()
}
