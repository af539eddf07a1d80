import { randomBytes } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { mkdir, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CodedError } from '../base/coded-error.ts'

export type SharedFileErrorCode =
  | 'FILE_DAMAGED' // it does not hold what `print` wrote
  | 'FILE_LOCKED' // another process has been changing it for longer than we wait
  | 'FILE_UNREADABLE' // the system refuses, e.g. permissions

/** The message names the file. */
export class SharedFileError extends CodedError<SharedFileErrorCode> {
  override readonly name = 'SharedFileError'
}

/** A small value: in a file that several processes share, or in memory. */
export interface SharedValue<Value> {
  /** The value now. With a file: as the last process left it. */
  current(): Value
  /**
   * Replaces the value by `change(current)` and resolves to it. Changes are serial.
   *
   * With a file, the change survives a power cut once the promise resolves. If `change` throws, nothing
   * is changed.
   */
  change(change: (value: Value) => Value): Promise<Value>
}

export interface SharedFileOptions<Value> {
  readonly path: string
  /** The value while there is no file. */
  readonly initial: Value
  readonly print: (value: Value) => string
  /** Reads what `print` wrote. Errors: any, when the text is something else. */
  readonly parse: (text: string) => Value
  /** How long a change waits for another process, milliseconds; 5 s by default. */
  readonly lockWaitMs?: number
}

/** Only the owner reads and writes these files: they hold keys and password hashes. */
const FILE_MODE = 0o600
const FOLDER_MODE = 0o700
const LOCK_WAIT_MS = 5_000
const LOCK_RETRY_MS = 20

/** A value that ends with the process. */
export function valueInMemory<Value>(initial: Value): SharedValue<Value> {
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
 * A value in a file of its own (mode 0600), read again whenever the file changes.
 *
 * `current` costs one `stat` while nothing changes, so it may be called for every request. If the file
 * vanishes, the value last read stays in force: deleting a list of revocations by accident revives
 * nothing. The first change creates the folder. Changes hold `<path>.lock` and replace the file as a
 * whole. A lock left by a crash is never stolen; the error says what to remove.
 *
 * Errors: SharedFileError. A damaged file is refused, at start and later, rather than taken for empty.
 * Source: docs/decisions/0014-tokens-and-scopes.md.
 */
export function sharedFile<Value>(file: SharedFileOptions<Value>): SharedValue<Value> {
  let value = file.initial
  let version = ''

  const current = () => {
    const found = versionOf(file.path)
    if (found === null || found === version) return value
    value = readValue(file)
    version = found
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

/** Differs whenever the file was replaced or written; null when there is none. */
function versionOf(path: string): string | null {
  try {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    return stat === undefined ? null : `${stat.ino}:${stat.size}:${stat.mtimeNs}`
  } catch (error) {
    throw unreadable(path, 'cannot be read', error)
  }
}

function readValue<Value>({ path, parse }: SharedFileOptions<Value>): Value {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw unreadable(path, 'cannot be read', error)
  }
  try {
    return parse(text)
  } catch (error) {
    // Without the parser's message: it may quote the file, and the file may hold keys.
    const cause = error instanceof CodedError ? error : undefined
    throw new SharedFileError('FILE_DAMAGED', `${path} does not hold what belongs there`, { cause })
  }
}

async function lock(path: string, waitMs: number): Promise<() => Promise<void>> {
  const folder = dirname(path)
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE }).catch((error: unknown) => {
    throw unreadable(folder, 'cannot be made', error)
  })
  for (let waitedMs = 0; waitedMs <= waitMs; waitedMs += LOCK_RETRY_MS) {
    try {
      await (await open(path, 'wx', FILE_MODE)).close()
      return () => unlink(path)
    } catch (error) {
      const isHeld = error instanceof Error && 'code' in error && error.code === 'EEXIST'
      if (!isHeld) throw unreadable(path, 'cannot be created', error)
      await delay(LOCK_RETRY_MS)
    }
  }
  throw new SharedFileError(
    'FILE_LOCKED',
    `another process is changing this file; if none is, remove ${path}`,
  )
}

/**
 * Replaces the file at `path` as a whole: after a crash it holds the old text or the new one, and once
 * the promise resolves the new one survives a power cut.
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

function unreadable(path: string, what: string, cause: unknown): SharedFileError {
  const code = cause instanceof Error && 'code' in cause ? `: ${cause.code}` : ''
  return new SharedFileError('FILE_UNREADABLE', `${path} ${what}${code}`, { cause })
}
