import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isDiskFull } from '../../base/disk-full.ts'
import { inheritOwner, StoreError, syncPath } from '../../storage/index.ts'

/**
 * Replaces the file at `path` (mode 0600) atomically. After a power cut during the call, the file has either its old
 * content or `content`. After a power cut later, it has `content`.
 * Errors: STORE_FULL; errors of the system.
 */
export function writeDurably(path: string, content: string | Buffer): void {
  const temporary = `${path}.new`
  try {
    writeFileSync(temporary, content, { mode: 0o600, flush: true })
    inheritOwner(temporary)
    renameSync(temporary, path)
  } catch (error) {
    if (!isDiskFull(error)) throw error
    // The part of the file would take the space that is left.
    rmSync(temporary, { force: true })
    throw new StoreError('STORE_FULL', 'the disk is full', { cause: error })
  }
  syncPath(dirname(path))
}
