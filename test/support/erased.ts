import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { expect } from 'vitest'
import { openStoreReader } from '../../src/storage/index.ts'
import { temporaryFolder, verifyFolder } from './ledger-node.ts'
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

/** Returns the files below `folder` that contain `text` in their bytes or in their path. */
export function filesWith(folder: string, text: string): string[] {
  return bytesBelow(folder)(text)
}

/** Waits until the running node has overwritten erased data. */
export async function compacted(folder: string): Promise<void> {
  for (;;) {
    const store = await openStoreReader(folder, { frozen: false })
    const due = await store.uncompacted()
    await store.close()
    if (due.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 5))
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
