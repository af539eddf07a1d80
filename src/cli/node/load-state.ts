import { hash, randomBytes } from 'node:crypto'
import {
  appendFileSync,
  closeSync,
  existsSync,
  fdatasync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { syncPath } from '../../base/files/durable-files.ts'
import { isJsonObject, type Json } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { type LoadNote, LoadProgress } from '../../exchange/index.ts'
import { EXIT, Exit, formatReason } from '../exit.ts'

/** Arguments and input of a load. A load can be resumed only with the same arguments and the same input. */
export interface LoadIdentity {
  readonly db: string
  /** The URL of the running node, or the folder of the stopped node. */
  readonly target: string
  readonly files: readonly string[]
  /** Size and modification time of each file. */
  readonly stamps: readonly string[]
  readonly format: string | null
  readonly id: string | null
  readonly schema: Json
  readonly attachments: boolean
}

/** Id and start of a load. The ids of its new items depend on them, so that a resumed load uses the same ids. */
export interface LoadId {
  readonly loadId: string
  readonly startedMs: number
}

export function newLoad(startedMs: number): LoadId {
  return { loadId: randomBytes(16).toString('hex'), startedMs }
}

/**
 * Returns the id of an item whose record, the `n`th of the load, has none: a UUID of version 7 (RFC 9562) with the time
 * of the start of the load. The ids sort in the order of the records. Instead of random bits, they have the hash of the
 * load's random id and of `n`.
 */
export function itemIdFor({ loadId, startedMs }: LoadId, n: number): string {
  const random = hash('sha256', `${loadId} ${n}`, 'hex')
  const time = (startedMs + Math.floor(n / 0x1000)).toString(16).padStart(12, '0')
  const counter = (0x7000 | (n % 0x1000)).toString(16)
  const variant = (0x8 | (Number.parseInt(random.slice(0, 1), 16) & 0x3)).toString(16)
  return `${time.slice(0, 8)}-${time.slice(8)}-${counter}-${variant}${random.slice(1, 4)}-${random.slice(4, 16)}`
}

/** Returns the size and the modification time of a file. If they change, a load from the file cannot be resumed. */
export function readStamp(path: string): string {
  if (path === '-') return 'stdin'
  const { size, mtimeMs } = statSync(path)
  return `${size} ${mtimeMs}`
}

const sync = promisify(fdatasync)

/**
 * The file in which a load writes down its progress, so that it can be resumed: a line with the load and its identity,
 * then a line per note. An incomplete last line, which an interrupted write leaves, is ignored.
 */
export class LoadStateFile {
  readonly load: LoadId
  readonly progress: LoadProgress
  readonly #path: string
  readonly #file: number
  #failure: { readonly error: unknown } | null = null

  private constructor(path: string, file: number, load: LoadId, progress: LoadProgress) {
    this.#path = path
    this.#file = file
    this.load = load
    this.progress = progress
  }

  /**
   * Creates the file. Errors: Exit (usage) if the file exists, because an earlier load did not finish, or if the file
   * cannot be written.
   */
  static create(path: string, identity: LoadIdentity, load: LoadId): LoadStateFile {
    let file: number | null = null
    try {
      file = openSync(path, 'ax', 0o600)
      appendFileSync(file, `${JSON.stringify({ ...load, identity })}\n`)
      fsyncSync(file)
      syncPath(dirname(path))
      return new LoadStateFile(path, file, load, new LoadProgress())
    } catch (error) {
      if (file !== null) removeUnfinished(path, file)
      const message =
        formatReason(error) === 'EEXIST'
          ? `an earlier load did not finish: continue it with --resume, or remove ${path}`
          : `${path} cannot be written: ${formatReason(error)}; choose another file with --state`
      throw new Exit(EXIT.usage, message, { cause: error })
    }
  }

  /** Reads the file. Errors: Exit (usage) if the file is missing, or belongs to a load with another identity. */
  static resume(path: string, identity: LoadIdentity): LoadStateFile {
    if (!existsSync(path)) {
      const message = `there is nothing to resume: ${path} does not exist, so the load finished or never began`
      throw new Exit(EXIT.usage, message)
    }
    const bytes = readFileSync(path)
    const length = bytes.lastIndexOf(LINE_FEED) + 1
    const [first = '', ...lines] = bytes.toString('utf8', 0, length).split('\n').slice(0, -1)
    const stored = parseForeignJsonOrNull(first)
    if (!isHead(stored)) throw new Exit(EXIT.usage, `${path} is not the state file of a load`)
    for (const [name, value] of Object.entries(identity)) {
      const before = stored.identity[name]
      if (JSON.stringify(before) === JSON.stringify(value)) continue
      const what =
        name === 'stamps'
          ? 'the input has changed'
          : `the value of ${name} was ${showValue(before)} before`
      const message = `this load cannot be resumed: ${what}; to load again, remove ${path}`
      throw new Exit(EXIT.usage, message)
    }
    const progress = new LoadProgress()
    for (const line of lines) {
      const note = parseForeignJsonOrNull(line)
      if (!isJsonObject(note)) throw new Exit(EXIT.usage, `${path} is damaged: ${line}`)
      // No other program writes the file.
      progress.add(note as LoadNote)
    }
    const file = openSync(path, 'a')
    ftruncateSync(file, length)
    const { loadId, startedMs } = stored
    return new LoadStateFile(path, file, { loadId, startedMs }, progress)
  }

  /** Appends a note. Resolves when notes about requests are durable; the others may be lost in a power cut. */
  async write(note: LoadNote): Promise<void> {
    // After a failed write, the last line can be incomplete, so no line may follow.
    if (this.#failure !== null) throw this.#failure.error
    try {
      appendFileSync(this.#file, `${JSON.stringify(note)}\n`)
    } catch (error) {
      this.#failure = { error }
      throw error
    }
    if ('creating' in note || 'plan' in note) await sync(this.#file)
  }

  /** Closes the file, and removes it unless the load is to be resumed. */
  close(isKept: boolean): void {
    closeSync(this.#file)
    if (!isKept) rmSync(this.#path, { force: true })
  }
}

const LINE_FEED = 0x0a

/** Removes the file of a load that could not begin, for example on a full disk. Otherwise it would block the next load. */
function removeUnfinished(path: string, file: number): void {
  try {
    closeSync(file)
    rmSync(path, { force: true })
  } catch {}
}

function showValue(value: unknown): string {
  return value === undefined ? 'not given' : JSON.stringify(value)
}

interface StateHead extends LoadId {
  readonly identity: Readonly<Record<string, Json>>
}

/** Checks only the members without which items could be loaded twice, because no other program writes the file. */
function isHead(value: unknown): value is StateHead {
  if (!isJsonObject(value)) return false
  const { loadId, startedMs, identity } = value
  return typeof loadId === 'string' && Number.isSafeInteger(startedMs) && isJsonObject(identity)
}
