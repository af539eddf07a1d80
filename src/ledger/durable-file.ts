import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes `content` the content of the file at `path` (mode 0600). When it returns, that survives a
 * power cut; until then the file is as it was, or as it will be, and never half of it.
 */
export function writeDurably(path: string, content: string | Buffer): void {
  const temporary = `${path}.new`
  writeFileSync(temporary, content, { mode: 0o600, flush: true })
  renameSync(temporary, path)
  syncPath(dirname(path))
}

/** Brings the file or the directory at `path` to the disk. */
export function syncPath(path: string): void {
  const file = openSync(path, 'r')
  fsyncSync(file)
  closeSync(file)
}
