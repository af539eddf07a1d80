import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import type { Clock } from '../base/clock.ts'
import { isJsonObject, type Json } from '../base/json.ts'
import { type LoadPosition, NO_COUNTS } from '../exchange/index.ts'
import { EXIT, Exit, reasonOf } from './exit.ts'
import { parseJsonOrNull } from './node-client.ts'

/** Version of the file format. */
const STATE_VERSION = 1
/** Minimum time between two saves of the position, because replacing a file can take milliseconds. */
const SAVE_MS = 500

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

/** Id of a load, and the position after its last acknowledged batch. */
export interface LoadState {
  readonly loadId: string
  readonly position: LoadPosition
}

/** Returns the state of a new load, of which no batch is acknowledged. */
export function newLoad(): LoadState {
  return { loadId: randomBytes(16).toString('hex'), position: { batches: 0, counts: NO_COUNTS } }
}

/** Returns the size and the modification time of a file. If they change, a load from the file cannot be resumed. */
export function stampOf(path: string): string {
  if (path === '-') return 'stdin'
  const { size, mtimeMs } = statSync(path)
  return `${size} ${mtimeMs}`
}

/**
 * Saves the progress of a load in a file, so that the load can be resumed.
 *
 * The file is synced before the first batch is sent, so that the load id, which is part of the idempotency keys of all
 * batches, cannot be lost. Later positions are saved every SAVE_MS without a sync, so the file can contain an older
 * position after a power cut. The resumed load then sends some batches again with the same keys, which changes nothing.
 */
export class LoadStateFile {
  readonly #path: string
  readonly #identity: LoadIdentity
  readonly #loadId: string
  readonly #clock: Clock
  #position: LoadPosition
  #savedMs: number

  private constructor(path: string, identity: LoadIdentity, state: LoadState, clock: Clock) {
    this.#path = path
    this.#identity = identity
    this.#loadId = state.loadId
    this.#position = state.position
    this.#clock = clock
    this.#savedMs = clock.now()
  }

  /**
   * Creates the file with `state`. Errors: Exit (usage) if the file exists, because an earlier load did not finish,
   * or if the file cannot be written.
   */
  static create(
    path: string,
    identity: LoadIdentity,
    state: LoadState,
    clock: Clock,
  ): LoadStateFile {
    if (existsSync(path)) {
      const message = `an earlier load did not finish: continue it with --resume, or remove ${path}`
      throw new Exit(EXIT.usage, message)
    }
    const file = new LoadStateFile(path, identity, state, clock)
    try {
      file.save()
      const opened = openSync(path, 'r+')
      fsyncSync(opened)
      closeSync(opened)
    } catch (error) {
      const message = `${path} cannot be written: ${reasonOf(error)}; choose another file with --state`
      throw new Exit(EXIT.usage, message, { cause: error })
    }
    return file
  }

  /** Reads the file. Errors: Exit (usage) if the file is missing, or belongs to a load with another identity. */
  static resume(
    path: string,
    identity: LoadIdentity,
    clock: Clock,
  ): { file: LoadStateFile; state: LoadState } {
    if (!existsSync(path)) {
      const message = `there is nothing to resume: ${path} does not exist, so the load finished or never began`
      throw new Exit(EXIT.usage, message)
    }
    const stored = parseJsonOrNull(readFileSync(path, 'utf8'))
    if (!isStored(stored)) throw new Exit(EXIT.usage, `${path} is not the state file of a load`)
    const { loadId, position } = stored
    for (const [name, value] of Object.entries(identity)) {
      const before = stored.identity[name]
      if (JSON.stringify(before) === JSON.stringify(value)) continue
      const what =
        name === 'stamps'
          ? 'the input has changed'
          : `the value of ${name} was ${shown(before)} before`
      const message = `this load cannot be resumed: ${what}; to load again, remove ${path}`
      throw new Exit(EXIT.usage, message)
    }
    const state = { loadId, position }
    return { file: new LoadStateFile(path, identity, state, clock), state }
  }

  /** Remembers `position`, and saves it if the last save is at least SAVE_MS ago. */
  note(position: LoadPosition): void {
    this.#position = position
    const sinceMs = this.#clock.now() - this.#savedMs
    if (sinceMs < 0 || sinceMs >= SAVE_MS) this.save()
  }

  /** Saves the position atomically. */
  save(): void {
    this.#savedMs = this.#clock.now()
    const state = {
      ...{ version: STATE_VERSION, loadId: this.#loadId },
      ...{ identity: this.#identity, position: this.#position },
    }
    const partial = `${this.#path}.partial`
    writeFileSync(partial, `${JSON.stringify(state)}\n`, { mode: 0o600 })
    renameSync(partial, this.#path)
  }

  remove(): void {
    rmSync(this.#path, { force: true })
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'not given' : JSON.stringify(value)
}

interface Stored {
  readonly loadId: string
  readonly identity: Readonly<Record<string, Json>>
  readonly position: LoadPosition
}

/** Checks only the members without which items could be loaded twice, because no other program writes the file. */
function isStored(value: unknown): value is Stored {
  if (!isJsonObject(value) || value.version !== STATE_VERSION) return false
  const { loadId, identity, position } = value
  return (
    typeof loadId === 'string' &&
    isJsonObject(identity) &&
    isJsonObject(position) &&
    Number.isSafeInteger(position.batches) &&
    isJsonObject(position.counts) &&
    Object.keys(NO_COUNTS).every((name) => name in Object(position.counts))
  )
}
