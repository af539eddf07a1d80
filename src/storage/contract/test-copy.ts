import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished } from 'vitest'

/** The file of a store in its folder. */
export const FILE = 'ledger.db'

/** Runs `work` on a copy of the store in `folder`, and returns the folder of the copy and the result of `work`. */
export function inCopy<Result>(folder: string, work: (copy: DatabaseSync) => Result) {
  const path = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  copyFileSync(join(folder, FILE), join(path, FILE))
  const copy = new DatabaseSync(join(path, FILE), { enableForeignKeyConstraints: false })
  try {
    return { path, result: work(copy) }
  } finally {
    copy.close()
  }
}
