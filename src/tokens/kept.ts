import { randomBytes } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { mkdir, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CodedError } from '../base/coded-error.ts'

/** Why a kept value cannot be read or changed; the message names the file. */
export type KeptErrorCode =
  | 'FILE_DAMAGED' // its text is not what we write there
  | 'FILE_LOCKED' // another process has been changing it for longer than we wait
  | 'FILE_UNREADABLE' // the system refuses, e.g. permissions

/** Thrown by the values of this file. */
export class KeptError extends CodedError<KeptErrorCode> {
  override readonly name = 'KeptError'
}

/** A small value that outlives a request: in a file that several processes share, or in memory. */
export interface Kept<Value> {
  /** The value now. With a file: as the last process left it, also when that was another one. */
  current(): Value
  /**
   * Replaces the value by `change(current)` and resolves to it; changes take turns.
   *
   * With a file, the change survives a power cut once the promise resolves. An error of `change`
   * rises and nothing is changed.
   */
  change(change: (value: Value) => Value): Promise<Value>
}

/** How a value stands in its file. */
export interface KeptFile<Value> {
  readonly path: string
  /** The value while there is no file. */
  readonly initial: Value
  readonly print: (value: Value) => string
  /** Reads what `print` wrote. Errors: any, when the text is something else. */
  readonly parse: (text: string) => Value
  /** How long a change waits for another process, milliseconds; 5 s unless said otherwise. */
  readonly lockWaitMs?: number
}

/** Only the owner reads and writes these files: they hold keys and password hashes. */
const FILE_MODE = 0o600
const FOLDER_MODE = 0o700
const LOCK_WAIT_MS = 5_000
/** How often a change that waits looks again. */
const LOCK_RETRY_MS = 20

/** A value that ends with the process. */
export function keptInMemory<Value>(initial: Value): Kept<Value> {
  let value = initial
  return {
    current: () => value,
    change: async (change) => {
      value = change(value)
      return value
    },
  }
}

/**
 * A value in a file of its own (mode 0600), read again whenever the file is another one.
 *
 * `current` costs one `stat` while nothing changes, so it may be called for every request. A file
 * that vanishes leaves the value last read in force: deleting a list of revocations by accident
 * revives nothing. The first change makes the folder where it is missing. Changes hold `<path>.lock` and replace the file as a whole; readers see the old
 * or the new one. A lock left by a crash is never stolen: its message says what to remove.
 *
 * Errors: KeptError. A damaged file is refused, at start and later, rather than taken for empty.
 * Source: docs/decisions/0041-kept-files.md.
 */
export function keptInFile<Value>(file: KeptFile<Value>): Kept<Value> {
  let value = file.initial
  let seen = ''

  const current = () => {
    const stamp = stampOf(file.path)
    if (stamp === null || stamp === seen) return value
    value = readKept(file)
    seen = stamp
    return value
  }

  return {
    current,
    change: async (change) => {
      const release = await lock(`${file.path}.lock`, file.lockWaitMs ?? LOCK_WAIT_MS)
      try {
        const changed = change(current())
        await replaceFile(file.path, file.print(changed))
        return current()
      } finally {
        await release()
      }
    },
  }
}

/** What differs whenever a file was replaced or written; null when there is none. */
function stampOf(path: string): string | null {
  try {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    return stat === undefined ? null : `${stat.ino}:${stat.size}:${stat.mtimeNs}`
  } catch (error) {
    throw new KeptError('FILE_UNREADABLE', `${path} cannot be read${why(error)}`, { cause: error })
  }
}

function readKept<Value>({ path, parse }: KeptFile<Value>): Value {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new KeptError('FILE_UNREADABLE', `${path} cannot be read${why(error)}`, { cause: error })
  }
  try {
    return parse(text)
  } catch (error) {
    // Not the parser's own words: they may quote the file, and it may hold keys.
    throw new KeptError('FILE_DAMAGED', `${path} does not hold what belongs there`, {
      cause: error instanceof CodedError ? error : undefined,
    })
  }
}

async function lock(path: string, waitMs: number): Promise<() => Promise<void>> {
  await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE }).catch((error: unknown) => {
    throw new KeptError('FILE_UNREADABLE', `${dirname(path)} cannot be made${why(error)}`, {
      cause: error,
    })
  })
  for (let waitedMs = 0; waitedMs <= waitMs; waitedMs += LOCK_RETRY_MS) {
    try {
      const handle = await open(path, 'wx', FILE_MODE)
      await handle.close()
      return () => unlink(path)
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) {
        throw new KeptError('FILE_UNREADABLE', `${path} cannot be created${why(error)}`, {
          cause: error,
        })
      }
      await delay(LOCK_RETRY_MS)
    }
  }
  throw new KeptError(
    'FILE_LOCKED',
    `another process is changing this file; if none is, remove ${path}`,
  )
}

/**
 * Replaces the file at `path` as a whole, mode 0600: after a crash at any moment it holds the old
 * text or the new one, and once the promise resolves the new one survives a power cut.
 */
async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  const handle = await open(temporary, 'wx', FILE_MODE)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  try {
    await rename(temporary, path)
  } catch (error) {
    await unlink(temporary)
    throw error
  }
  // The new name is durable only when its folder is.
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** What the system says, such as EACCES. */
function why(error: unknown): string {
  return error instanceof Error && 'code' in error ? `: ${error.code}` : ''
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
