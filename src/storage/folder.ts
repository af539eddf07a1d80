import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
const TEMPORARY_PREFIX = 'daicho-temporary-'

/** The file of the store in a data folder. */
export function storePathIn(folder: string): string {
  return join(folder, STORE_FILE)
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
    try {
      mkdirSync(path, { recursive: true, mode: 0o700 })
    } catch (error) {
      throw new StoreError('FOLDER_UNUSABLE', `the folder ${path} cannot be made`, { cause: error })
    }
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
    database = new DatabaseSync(lockPath, { timeout: 0 })
    database.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE')
    return database
  } catch (error) {
    database?.close()
    if (error instanceof Error && error.message.includes('locked')) {
      throw new StoreError('FOLDER_IN_USE', `another daicho is using the folder ${path}`)
    }
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreError('FOLDER_UNUSABLE', `the folder ${path} cannot be used: ${reason}`, {
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
