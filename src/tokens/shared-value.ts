import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CodedError } from '../base/coded-error.ts'
import { createFolder, syncFolder, writeFileInParts } from '../base/files/durable-files.ts'
import { tryLock } from '../base/files/lock.ts'

export type SharedFileErrorCode =
  | 'FILE_DAMAGED' // `parse` rejects the content of the file
  | 'FILE_LOCKED' // another process held the lock for longer than the timeout
  | 'FILE_UNREADABLE' // the system denies access, e.g. because of permissions

/** The message contains the path of the file. */
export class SharedFileError extends CodedError<SharedFileErrorCode> {
  override readonly name = 'SharedFileError'
}

/** A small value, shared by several processes or in memory. */
export interface SharedValue<Value> {
  /** The current value. With a file, includes changes by other processes. */
  current(): Value
  /**
   * Replaces the value with `change(current)` and resolves to the new value. Changes are serialized. With a file, the
   * change survives a power cut once the promise resolves. If `change` throws, nothing is changed.
   */
  change(change: (value: Value) => Value): Promise<Value>
}

/** A string that several processes share by other means than a file, e.g. in a database. */
export interface SharedTextStore {
  current(): string | null
  change(change: (text: string | null) => string): Promise<void>
}

export interface SharedFileOptions<Value> {
  readonly path: string
  /** The value if the file does not exist. */
  readonly initial: Value
  readonly format: (value: Value) => string
  /** Parses the output of `format`. Throws for any other string. */
  readonly parse: (text: string) => Value
  /** Maximum time that a change waits for the lock, in milliseconds; 5 s by default. */
  readonly lockWaitMs?: number
}

const LOCK_WAIT_MS = 5_000
const LOCK_RETRY_MS = 20

/** A value that is lost when the process exits. */
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

/** A value that is stored as the string `shared`. Errors: as for `shared` and `parse`. */
export function sharedTextValue<Value>(
  shared: SharedTextStore,
  { initial, format, parse }: Omit<SharedFileOptions<Value>, 'path'>,
): SharedValue<Value> {
  let text: string | null = null
  let value = initial
  const current = () => {
    const found = shared.current()
    // If the string disappears, the last value stays, so that revoked tokens stay revoked.
    if (found !== null && found !== text) {
      value = parse(found)
      text = found
    }
    return value
  }
  return {
    current,
    change: async (change) => {
      await shared.change((found) => format(change(found === null ? initial : parse(found))))
      return current()
    },
  }
}

/**
 * A value in a separate file (mode 0600). `current` reads the file again when it has changed.
 *
 * `current` costs one `stat` if nothing has changed, so it can be called for every request. If the file disappears, the
 * last value stays, because deleting a list of revocations by accident must not make revoked tokens valid.
 *
 * The first change creates the folder. A change locks `<path>.lock` and replaces the whole file.
 *
 * Errors: SharedFileError. A damaged file is rejected, at startup and later, instead of being treated as empty.
 * Source: docs/decisions/0014-tokens-and-scopes.md.
 */
export function sharedFile<Value>(file: SharedFileOptions<Value>): SharedValue<Value> {
  let value = file.initial
  let version = ''

  const current = () => {
    const found = readVersion(file.path)
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
        await writeFileInParts(file.path, (handle) => handle.writeFile(file.format(changed)))
        await syncFolder(dirname(file.path))
        return current()
      } finally {
        release()
      }
    },
  }
}

/** Returns a text that changes whenever the file is written or replaced; null if the file does not exist. */
function readVersion(path: string): string | null {
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
    // Omits the parser's message, which may quote keys from the file.
    const cause = error instanceof CodedError ? error : undefined
    throw new SharedFileError('FILE_DAMAGED', `${path} is damaged; restore it from a backup`, {
      cause,
    })
  }
}

async function lock(path: string, waitMs: number): Promise<() => void> {
  for (let waitedMs = 0; waitedMs <= waitMs; waitedMs += LOCK_RETRY_MS) {
    const release = lockOnce(path)
    if (release !== null) return release
    await delay(LOCK_RETRY_MS)
  }
  throw new SharedFileError('FILE_LOCKED', `another process has locked ${path}; try again`)
}

function lockOnce(path: string): (() => void) | null {
  try {
    createFolder(dirname(path))
    return tryLock(path)
  } catch (error) {
    throw unreadable(path, 'cannot be created', error)
  }
}

function unreadable(path: string, problem: string, cause: unknown): SharedFileError {
  const code = cause instanceof Error && 'code' in cause ? `: ${cause.code}` : ''
  return new SharedFileError('FILE_UNREADABLE', `${path} ${problem}${code}`, { cause })
}
