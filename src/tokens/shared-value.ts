import { randomBytes } from 'node:crypto'
import { lchownSync, readFileSync, statSync } from 'node:fs'
import { mkdir, open, rename, rm, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CodedError } from '../base/coded-error.ts'

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
export interface SharedText {
  current(): string | null
  change(change: (text: string | null) => string): Promise<void>
}

export interface SharedFileOptions<Value> {
  readonly path: string
  /** The value if the file does not exist. */
  readonly initial: Value
  readonly print: (value: Value) => string
  /** Parses the output of `print`. Throws for any other string. */
  readonly parse: (text: string) => Value
  /** Maximum time that a change waits for the lock, in milliseconds; 5 s by default. */
  readonly lockWaitMs?: number
}

/** Only the owner may access these files, because they contain keys and password hashes. */
const FILE_MODE = 0o600
const FOLDER_MODE = 0o700
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
  shared: SharedText,
  { initial, print, parse }: Omit<SharedFileOptions<Value>, 'path'>,
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
      await shared.change((found) => print(change(found === null ? initial : parse(found))))
      return current()
    },
  }
}

/**
 * A value in a file of its own (mode 0600). `current` reads the file again when it has changed.
 *
 * `current` costs one `stat` if nothing has changed, so it can be called for every request. If the file disappears, the
 * last value stays, because deleting a list of revocations by accident must not make revoked tokens valid.
 *
 * The first change creates the folder. A change locks `<path>.lock` and replaces the whole file. A lock left by a
 * crash is never removed automatically; the error names the file to delete.
 *
 * Errors: SharedFileError. A damaged file is rejected, at startup and later, instead of being treated as empty.
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

/** Returns a text that changes whenever the file is written or replaced; null if the file does not exist. */
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
    // Omits the parser's message, which may quote keys from the file.
    const cause = error instanceof CodedError ? error : undefined
    throw new SharedFileError('FILE_DAMAGED', `${path} is damaged; restore it from a backup`, {
      cause,
    })
  }
}

async function lock(path: string, waitMs: number): Promise<() => Promise<void>> {
  const folder = dirname(path)
  try {
    const created = await mkdir(folder, { recursive: true, mode: FOLDER_MODE })
    if (created !== undefined) inheritOwner(folder)
  } catch (error) {
    throw unreadable(folder, 'cannot be created', error)
  }
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
    `another process has locked the file; if no such process is running, delete ${path}`,
  )
}

/**
 * Replaces the file at `path` atomically: after a crash it contains either the old or the new text. Once the promise
 * resolves, the new text survives a power cut.
 */
async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const handle = await open(temporary, 'wx', FILE_MODE)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    inheritOwner(temporary)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  // The rename is durable only after its folder is synced.
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/**
 * If this process runs as root, gives a new file or folder the owner of its parent folder, so that the node's user can
 * read it.
 */
function inheritOwner(path: string): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(dirname(path))
  if (uid !== 0) lchownSync(path, uid, gid)
}

function unreadable(path: string, problem: string, cause: unknown): SharedFileError {
  const code = cause instanceof Error && 'code' in cause ? `: ${cause.code}` : ''
  return new SharedFileError('FILE_UNREADABLE', `${path} ${problem}${code}`, { cause })
}
