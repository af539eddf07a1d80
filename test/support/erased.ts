import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { expect } from 'vitest'
import { openStoreReader } from '../../src/storage/index.ts'
import { queryOnce } from '../postgres/server.ts'
import { databaseOf, isOnDatabases, locationOf } from './engine.ts'
import { temporaryFolder, verifyFolder } from './ledger-node.ts'
import { unpackedValues } from './postgres-pages.ts'
import { tamper } from './tampered.ts'

/**
 * Reads all files below `folder` once. Returns a function that lists the files that contain a text in their
 * bytes or in their path.
 */
export function bytesBelow(folder: string): (text: string) => string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .map((path) => ({ path: relative(folder, path), bytes: readFileSync(path) }))
  return (text) => {
    const wide = Buffer.from(text, 'utf16le')
    const holds = ({ path, bytes }: (typeof files)[number]) =>
      bytes.includes(text) || bytes.includes(wide) || path.replaceAll('/', '').includes(text)
    return files.filter(holds).map(({ path }) => path)
  }
}

/**
 * Like `bytesBelow`, for the store of the node with this folder: its files, or the files of the tables of its database,
 * also in values that PostgreSQL compresses or divides.
 */
export async function storedBytes(folder: string): Promise<(text: string) => string[]> {
  const url = await databaseOf(folder)
  if (url === null) return bytesBelow(folder)
  await queryOnce(url, 'CHECKPOINT')
  const rows = await queryOnce(
    url,
    `SELECT relname, pg_read_binary_file(pg_relation_filepath(oid)) AS bytes FROM pg_class
      WHERE relkind IN ('r', 't', 'i') AND (oid >= 16384 OR relname = 'pg_statistic')`,
  )
  const files = rows.map(({ relname, bytes }) => {
    if (!Buffer.isBuffer(bytes)) throw new Error(`there are no bytes of ${relname}`)
    return { relname: `${relname}`, values: [bytes, ...unpackedValues(bytes)] }
  })
  return (text) =>
    files.flatMap(({ relname, values }) =>
      values.some((value) => value.includes(text)) ? [relname] : [],
    )
}

/** Returns the files below `folder` that contain `text` in their bytes or in their path. */
export function filesWith(folder: string, text: string): string[] {
  return bytesBelow(folder)(text)
}

/** Waits until the running node has overwritten erased data. */
export async function compacted(folder: string): Promise<void> {
  const store = await openStoreReader(await locationOf(folder), { frozen: false })
  try {
    while ((await store.uncompacted()).length > 0) {
      await new Promise((resolve) => setTimeout(resolve, isOnDatabases() ? 50 : 5))
    }
  } finally {
    await store.close()
  }
}

/**
 * For each change, copies the store in `folder`, applies `sql` to the copy, and expects that verification
 * reports `what`.
 */
export async function expectFindings(
  folder: string,
  changes: readonly (readonly [sql: string, what: string])[],
): Promise<void> {
  for (const [sql, expected] of changes) {
    const copy = temporaryFolder()
    copyFileSync(join(folder, 'ledger.db'), join(copy, 'ledger.db'))
    tamper(copy, sql)
    const { finding } = await verifyFolder(copy)
    expect([sql, finding?.what]).toEqual([sql, expect.stringContaining(expected)])
  }
}
