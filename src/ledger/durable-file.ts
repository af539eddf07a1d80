import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isDiskFull } from '../base/disk-full.ts'
import { inheritOwner, syncPath } from '../storage/index.ts'

/**
 * Replaces the file at `path` (mode 0600) atomically. After a power cut during the call, the file has either its old
 * content or `content`. After a power cut later, it has `content`.
 */
export function writeDurably(path: string, content: string | Buffer): void {
  const temporary = `${path}.new`
  try {
    writeFileSync(temporary, content, { mode: 0o600, flush: true })
    inheritOwner(temporary)
    renameSync(temporary, path)
  } catch (error) {
    // The part of the file would take the space that is left.
    if (isDiskFull(error)) rmSync(temporary, { force: true })
    throw error
  }
  syncPath(dirname(path))
}
