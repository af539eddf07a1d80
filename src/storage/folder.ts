import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

/** A data folder that this process holds alone. */
export interface Folder {
  readonly path: string
  /** False for a temporary folder, which goes when it is released. */
  readonly lasting: boolean
  /** The file of the store in it. */
  readonly storePath: string
  /** Lets another process have it; removes it when it is temporary. */
  release(): void
}

const LOCK_FILE = 'ledger.lock'
/** What holding a folder leaves in it. */
export const LOCK_FILES: readonly string[] = [LOCK_FILE, `${LOCK_FILE}-journal`]
const STORE_FILE = 'ledger.db'
const MISSING = new Set(['ENOENT', 'ENOTDIR'])
const TEMPORARY_PREFIX = 'daicho-temporary-'

/**
 * Makes the folder at `path` (mode 0700), and those that it lies in, where they are missing.
 * `mkdirSync` with `recursive` never returns where a system has a folder and says of what is made in
 * it that it has none, as `/proc` does. Errors: FOLDER_UNUSABLE.
 */
export function makeFolder(path: string): void {
  try {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true)
      makeMissing(resolve(path))
  } catch (error) {
    throw new StoreError('FOLDER_UNUSABLE', `the folder ${path} cannot be made: ${whyOf(error)}`, {
      cause: error,
    })
  }
}

function makeMissing(path: string): void {
  const parent = dirname(path)
  if (!existsSync(parent)) makeMissing(parent)
  mkdirSync(path, { mode: 0o700 })
}

/**
 * Whether something is at `path`. Unlike `existsSync` it throws when the system cannot tell: a key, a signed
 * head or a store that a failing disk hides must not be taken for one that is not there.
 */
export function fileExists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

/**
 * Sees to it that the file of a store is at `path` and can be read.
 * Errors: STORE_NOT_FOUND; FOLDER_UNUSABLE where nobody can say, as in the folder of another owner.
 */
export function requireStoreFile(path: string): void {
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && MISSING.has(String(error.code))
    if (isMissing) throw new StoreError('STORE_NOT_FOUND', `there is no store at ${path}`)
    throw new StoreError('FOLDER_UNUSABLE', `${path} cannot be read: ${whyOf(error)}`, {
      cause: error,
    })
  }
}

function whyOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The file of the store in a data folder. */
export function storePathIn(folder: string): string {
  return join(folder, STORE_FILE)
}

/**
 * The file of a closed store that is to be moved elsewhere. Errors: STORE_FAILED when closing it could not
 * fold the log into it: then the file by itself is not the whole store.
 */
export function closedStoreIn(folder: string): string {
  const path = storePathIn(folder)
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })
  if (log === undefined || log.size === 0) return path
  throw new StoreError('STORE_FAILED', `the log of ${path} could not be folded into it; try again`)
}

/**
 * Takes the data folder at `path` for this process alone, making it (mode 0700) when it is missing;
 * without a path, a temporary one.
 *
 * The lock is the operating system's, through an exclusive transaction on a file of its own, so it
 * ends with the process, however that ends. Temporary folders whose process was killed are removed
 * when the next one is made.
 * Errors: FOLDER_IN_USE, FOLDER_UNUSABLE.
 */
export function holdFolder(path: string | null): Folder {
  if (path !== null) {
    makeFolder(path)
    return folderHeldBy(path, true, lock(path))
  }
  sweepTemporary()
  const temporary = mkdtempSync(join(tmpdir(), TEMPORARY_PREFIX))
  return folderHeldBy(temporary, false, lock(temporary))
}

function folderHeldBy(path: string, lasting: boolean, held: DatabaseSync): Folder {
  return {
    path,
    lasting,
    storePath: storePathIn(path),
    release() {
      if (!lasting) rmSync(path, { recursive: true, force: true })
      held.close()
    },
  }
}

function lock(path: string): DatabaseSync {
  const lockPath = join(path, LOCK_FILE)
  let database: DatabaseSync | null = null
  try {
    // The engine does not say why it cannot open a file.
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    database = new DatabaseSync(lockPath, { timeout: 0 })
    database.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE')
    return database
  } catch (error) {
    database?.close()
    if (error instanceof Error && error.message.includes('locked')) {
      throw new StoreError('FOLDER_IN_USE', `another daicho is using the folder ${path}`)
    }
    throw new StoreError('FOLDER_UNUSABLE', `the folder ${path} cannot be used: ${whyOf(error)}`, {
      cause: error,
    })
  }
}

/** Removes the temporary folders of processes that are gone. */
function sweepTemporary(): void {
  for (const name of readdirSync(tmpdir())) {
    const path = join(tmpdir(), name)
    // Only what has our store in it: a folder that another process is just making has none yet.
    if (!name.startsWith(TEMPORARY_PREFIX) || !existsSync(storePathIn(path))) continue
    try {
      const held = lock(path)
      rmSync(path, { recursive: true, force: true })
      held.close()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }
}
