import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorCode, errorMessage, isDiskFull } from '../../base/errors.ts'
import { createFolder, replaceFile } from '../../base/files/durable-files.ts'
import { tryLock } from '../../base/files/lock.ts'
import { diskError, StoreError, sqliteCode } from '../port/errors.ts'

/** A data folder locked by this process. */
export interface Folder {
  readonly path: string
  /** False for a temporary folder, which is removed on release. */
  readonly durable: boolean
  readonly storePath: string
  release(): void
}

/** File that `lockFolder` leaves. */
export const LOCK_FILE = 'ledger.lock'
/** Free space in bytes below which the system may be unable to create or enlarge a file. */
export const FREE_BYTES_MIN = 1_048_576
/** Result codes of SQLite for a file that cannot be created, and for a WAL index that cannot be enlarged. */
const CREATION_FAILURES = new Set([14, 4874])
const STORE_FILE = 'ledger.db'
const MISSING = new Set(['ENOENT', 'ENOTDIR'])
const TEMPORARY_PREFIX = 'daicho-temporary-'

/** The start of a URL, such as `s3:/`, or of an address of scp. The names of drives have one letter. */
const REMOTE_START = /^[\w+.@-]{2,}:\//

/** Creates the data folder at `path` (mode 0700) and its parents, if missing. Errors: FOLDER_UNUSABLE. */
export function requireFolder(path: string): void {
  // Otherwise, a backup to a remote storage would be in a local folder. The message omits the rest, because it may have a
  // password.
  const [start] = REMOTE_START.exec(path) ?? []
  if (start !== undefined && !existsSync(path)) {
    const message = `a folder is needed, not an address that starts with ${start}; the URL of a database starts with postgres://`
    throw new StoreError('FOLDER_UNUSABLE', message)
  }
  try {
    createFolder(path)
  } catch (error) {
    const message = `cannot create the folder ${path}: ${errorMessage(error)}`
    throw new StoreError('FOLDER_UNUSABLE', message, { cause: error })
  }
}

/** Replaces a file of a data folder durably; see `replaceFile`. Errors: STORE_FULL; those of the system. */
export function writeDurably(path: string, content: string | Uint8Array): void {
  try {
    replaceFile(path, content)
  } catch (error) {
    throw diskError(error)
  }
}

/**
 * Returns whether the file at `path` contains a store. A first start that was interrupted leaves an empty file without a
 * WAL. Must be called before SQLite opens the file, because SQLite removes the WAL of an empty file.
 * Errors: STORE_DAMAGED if there is a WAL, but the file is missing or empty.
 */
export function hasStoreFile(path: string): boolean {
  if (fileSize(path) > 0) return true
  if (fileSize(`${path}-wal`) === 0) return false
  const message = `${path} is missing or empty, but ${path}-wal contains changes: put the file back`
  throw new StoreError('STORE_DAMAGED', message)
}

function fileSize(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Checks that the file of a store can be read. Errors: STORE_NOT_FOUND; FOLDER_UNUSABLE if access is denied; those of
 * `hasStoreFile`.
 */
export function requireStoreFile(path: string): void {
  try {
    if (!hasStoreFile(path)) {
      const isEmpty = existsSync(path)
      const message = isEmpty ? `the store at ${path} is empty` : `there is no store at ${path}`
      throw new StoreError('STORE_NOT_FOUND', message)
    }
    accessSync(path, constants.R_OK)
  } catch (error) {
    if (error instanceof StoreError) throw error
    throw new StoreError('FOLDER_UNUSABLE', `${path} cannot be read: ${errorMessage(error)}`, {
      cause: error,
    })
  }
}

/** Returns whether the disk of `folder` has almost no free space; false if somebody has removed the folder. */
export function isLow(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize < FREE_BYTES_MIN
  } catch (error) {
    if (MISSING.has(errorCode(error))) return false
    throw error
  }
}

/** Network file systems by their types in `statfs` on Linux. */
const NETWORK_TYPES = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
])

/** Returns the reason why a store in `folder` could be damaged, or null. */
export function folderWarning(folder: string, type = statfsSync(folder).type): string | null {
  const name = process.platform === 'linux' ? NETWORK_TYPES.get(type) : undefined
  if (name === undefined) return null
  return `${folder} is on a network file system (${name}), whose locks can fail and damage the store: use a local disk`
}

/** Returns whether `error` means that the disk of `folder` is full, which SQLite may report as another error. */
export function isFolderFull(error: unknown, folder: string): boolean {
  if (isDiskFull(error)) return true
  return CREATION_FAILURES.has(sqliteCode(error)) && isLow(folder)
}

/** Returns the path of the store's file; if it is a symbolic link, of its target, beside which SQLite keeps the WAL. */
export function toStorePath(folder: string): string {
  const path = join(folder, STORE_FILE)
  return existsSync(path) && lstatSync(path).isSymbolicLink() ? realpathSync(path) : path
}

/**
 * Returns the path of a closed store's file, which can then be moved. Errors: STORE_FAILED if closing did not
 * checkpoint the WAL, because the file alone is then incomplete.
 */
export function requireClosedStore(folder: string): string {
  const path = toStorePath(folder)
  if (fileSize(`${path}-wal`) === 0) return path
  throw new StoreError('STORE_FAILED', `the WAL of ${path} could not be checkpointed; try again`)
}

/**
 * Locks the data folder at `path` for this process. Creates the folder (mode 0700) if it is missing. If `path` is null,
 * creates and locks a temporary folder.
 *
 * The lock is an exclusive transaction on a file, so it ends with the process, even after a kill. The temporary folders
 * of killed processes are removed when the next temporary folder is created.
 * Errors: FOLDER_IN_USE, FOLDER_UNUSABLE.
 */
export function lockFolder(path: string | null): Folder {
  if (path !== null) {
    requireFolder(path)
    return lockedFolder(path, true, acquireLock(path, LOCK_WAIT_MS))
  }
  removeStaleFolders()
  const temporary = mkdtempSync(join(tmpdir(), TEMPORARY_PREFIX))
  return lockedFolder(temporary, false, acquireLock(temporary))
}

function lockedFolder(path: string, durable: boolean, release: () => void): Folder {
  return {
    path,
    durable: durable,
    storePath: toStorePath(path),
    release() {
      if (!durable) rmSync(path, { recursive: true, force: true })
      release()
    },
  }
}

/** Wait for a lock that another process only tests, as `doctor` does, because a node that exits is not started again. */
const LOCK_WAIT_MS = 100

function acquireLock(path: string, waitMs = 0): () => void {
  const lockPath = join(path, LOCK_FILE)
  try {
    // Checks the access first, because SQLite does not report why it cannot open a file.
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    const release = tryLock(lockPath, waitMs)
    if (release !== null) return release
  } catch (error) {
    // Messages of SQLite do not contain the path.
    const subject = sqliteCode(error) !== 0 ? lockPath : `the folder ${path}`
    const reason = isFolderFull(error, path) ? 'the disk is full' : errorMessage(error)
    throw new StoreError('FOLDER_UNUSABLE', `${subject} cannot be used: ${reason}`, {
      cause: error,
    })
  }
  throw new StoreError(
    'FOLDER_IN_USE',
    `another daicho is using the folder ${path}; stop it, or choose another folder`,
  )
}

/** Removes the temporary folders of killed processes. */
function removeStaleFolders(): void {
  for (const name of readdirSync(tmpdir())) {
    const path = join(tmpdir(), name)
    // A folder without a store may belong to a process that is still creating it.
    if (!name.startsWith(TEMPORARY_PREFIX) || !existsSync(toStorePath(path))) continue
    try {
      const release = acquireLock(path)
      rmSync(path, { recursive: true, force: true })
      release()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }
}
