import {
  closeSync,
  existsSync,
  fsyncSync,
  lchownSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, resolve } from 'node:path'

/** Mode of a file that only its owner may read. */
const PRIVATE_FILE = 0o600
const PRIVATE_FOLDER = 0o700

/**
 * Returns whether `path` exists. Unlike `existsSync`, it throws if the system cannot report that, because a key, a
 * signed head or a store on a failing disk must not appear to be missing.
 */
export function fileExists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

/**
 * If this process runs as root, gives a new file or folder the owner of its parent folder, so that the node's user can
 * read the files that a command of root creates.
 */
export function inheritOwner(path: string): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(dirname(path))
  if (uid !== 0) lchownSync(path, uid, gid)
}

/**
 * Creates the folder at `path` (mode 0700) and its parents, if missing. Does not use `mkdirSync` with `recursive`,
 * which never returns in file systems that report ENOENT for new entries of existing folders, like `/proc`.
 */
export function createFolder(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true)
    createMissing(resolve(path))
}

function createMissing(path: string): void {
  const parent = dirname(path)
  if (!existsSync(parent)) createMissing(parent)
  mkdirSync(path, { mode: PRIVATE_FOLDER })
  inheritOwner(path)
}

/** Makes the content of a file, or the names in a folder, durable. */
export function syncPath(path: string): void {
  const isWindows = process.platform === 'win32'
  // Windows cannot sync folders, and syncs only files that are open for writing.
  if (isWindows && statSync(path).isDirectory()) return
  const file = openSync(path, isWindows ? 'r+' : 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Like `syncPath` for a folder, without blocking the event loop. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  await folder.sync().finally(() => folder.close())
}

/**
 * Replaces the file at `path` (mode 0600) atomically. After a power cut during the call, the file has either its old
 * content or `content`. After a power cut later, it has `content`. Errors: those of the system.
 */
export function replaceFile(path: string, content: string | Uint8Array): void {
  const temporary = `${path}.new`
  try {
    writeFileSync(temporary, content, { mode: PRIVATE_FILE, flush: true })
    inheritOwner(temporary)
    renameSync(temporary, path)
  } catch (error) {
    // On a full disk, the part of the file would take the remaining space. The first error is the cause, so it is thrown.
    try {
      rmSync(temporary, { force: true })
    } catch {}
    throw error
  }
  syncPath(dirname(path))
}

export interface WritingOptions {
  /** 0600 by default. */
  readonly mode?: number
  /** Whether root gives the file the owner of its folder, as in a data folder. True by default. */
  readonly inheritsOwner?: boolean
}

/**
 * Like `replaceFile`, but `write` writes the content to an open file, which is named `path` when `write` has resolved
 * and the file is on the disk. The caller makes the name durable (`syncFolder`). Returns the result of `write`.
 */
export async function writeFileInParts<Result>(
  path: string,
  write: (file: FileHandle) => Promise<Result>,
  { mode = PRIVATE_FILE, inheritsOwner = true }: WritingOptions = {},
): Promise<Result> {
  const partial = partialPath(path)
  try {
    // Neither opens a file nor follows a link that another user has put there.
    await rm(partial, { force: true })
    const file = await open(partial, 'wx', mode)
    let result: Result
    try {
      result = await write(file)
      await file.sync()
    } finally {
      await file.close()
    }
    if (inheritsOwner) inheritOwner(partial)
    await rename(partial, path)
    return result
  } catch (error) {
    await rm(partial, { force: true }).catch(() => {})
    throw error
  }
}

/** The path of the unfinished file of `writeFileInParts`, which only a crash leaves. */
export function partialPath(path: string): string {
  // Lets several processes write to the same path, also those of containers, whose process ids are often equal.
  return `${path}.${hostname()}.${process.pid}.partial`
}
