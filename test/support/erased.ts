import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { expect } from 'vitest'
import { openStoreReader } from '../../src/storage/index.ts'
import { temporaryFolder, verifyFolder } from './ledger-node.ts'
import { tamper } from './tampered.ts'

/**
 * Reads all files below `folder` once. The returned function lists the relative paths of files that contain a
 * text in their bytes or path.
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

/** The files below `folder` that contain `text`, as returned by `bytesBelow`. */
export function filesWith(folder: string, text: string): string[] {
  return bytesBelow(folder)(text)
}

/** Waits until erased data has been overwritten, while the node runs. */
export async function compacted(folder: string): Promise<void> {
  for (;;) {
    const store = await openStoreReader(folder, { frozen: false })
    const due = await store.uncompacted()
    await store.close()
    if (due.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Expects the finding `what` for each copy of the store in `folder` changed by one `sql`. */
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
