import { createHash } from 'node:crypto'
import { closeSync, createReadStream, fsyncSync, linkSync, openSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm, unlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { StoreError } from '../errors.ts'
import { fileExists } from '../folder.ts'

/** A file that is still being written; nothing with this ending is ever taken for a whole one. */
const UNFINISHED = '.unfinished'
/** A file that is called after its content: the 64 hex digits of its SHA-256, two of them as folder. */
const CONTENT_PATH = /^[0-9a-f]{2}\/[0-9a-f]{62}$/

/** Brings the entries of a folder, or the content of a file, to the disk. */
export function sync(path: string): void {
  const file = openSync(path, 'r')
  fsyncSync(file)
  closeSync(file)
}

/**
 * Copies a file (mode 0600) and brings it to the disk; gives the SHA-256 of what was copied, in hex.
 * A crash leaves the old file, if there was one, or the new one. Errors: STORE_FULL; of the system.
 */
export async function copyDurably(from: string, to: string): Promise<string> {
  const hash = createHash('sha256')
  const unfinished = to + UNFINISHED
  try {
    const file = await open(unfinished, 'w', 0o600)
    try {
      for await (const chunk of createReadStream(from, { highWaterMark: 1024 * 1024 })) {
        hash.update(chunk)
        await file.writeFile(chunk)
      }
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, to)
    return hash.digest('hex')
  } catch (error) {
    await rm(unfinished, { force: true })
    throw roomError(error, to)
  }
}

/** A full disk in the words of a store; any other error as it is. */
export function roomError(error: unknown, path: string): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new StoreError('STORE_FULL', `there is no room left for ${path}`, { cause: error })
}

/** The files below `folder` that are called after their content: relative paths, sorted. */
async function contentsOf(folder: string): Promise<string[]> {
  if (!fileExists(folder)) return []
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  return found
    .filter((one) => one.isFile())
    .map((one) => relative(folder, join(one.parentPath, one.name)))
    .filter((path) => CONTENT_PATH.test(path))
    .sort()
}

/** Folders of files that are called after their content. */
export interface ContentFolders {
  readonly from: string
  readonly to: string
  /** The same folder of an earlier backup, whose files are linked instead of copied again. */
  readonly earlier: string | null
}

/**
 * Copies what `to` lacks of the files in `from` whose name is the SHA-256 of their content; they never
 * change, so one that is there is the same. Files that vanish meanwhile are passed over. Gives how
 * many were copied. Errors: STORE_DAMAGED for a file that is not what its name says; STORE_FULL.
 */
export async function copyMissing({ from, to, earlier }: ContentFolders): Promise<number> {
  let copied = 0
  const touched = new Set<string>()
  for (const path of await contentsOf(from)) {
    const target = join(to, path)
    if (fileExists(target)) continue
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    if (earlier === null || !linked(join(earlier, path), target)) {
      if (!(await copiedContent(join(from, path), target, path.replace('/', '')))) continue
      copied += 1
    }
    touched.add(dirname(target))
  }
  // The folders of contents may be new themselves.
  if (touched.size > 0) touched.add(to)
  for (const folder of touched) sync(folder)
  return copied
}

/** Removes from `to` what is not in `from` any more, and what never was whole. */
export async function dropSurplus({ from, to }: ContentFolders): Promise<void> {
  const kept = new Set(await contentsOf(from))
  for (const one of await readdir(to, { recursive: true, withFileTypes: true })) {
    const path = relative(to, join(one.parentPath, one.name))
    if (!one.isDirectory() && !kept.has(path)) await unlink(join(to, path))
  }
}

/** Whether `target` is now another name of `path`; not every file system can do that. */
function linked(path: string, target: string): boolean {
  try {
    linkSync(path, target)
    return true
  } catch {
    return false
  }
}

async function copiedContent(from: string, target: string, sha256: string): Promise<boolean> {
  try {
    if ((await copyDurably(from, target)) === sha256) return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
  await unlink(target)
  throw new StoreError('STORE_DAMAGED', `the content of ${from} is not what its name says`)
}
