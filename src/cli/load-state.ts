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

/** Version of the file's form. */
const STATE_VERSION = 1
/** Interval between two positions in the file: replacing a file can take milliseconds. */
const SAVE_MS = 500

/** Everything that a resumed load must repeat. */
export interface LoadIdentity {
  readonly db: string
  /** The URL of the node, or its folder. */
  readonly target: string
  readonly files: readonly string[]
  /** Size and time of the last change of each file. */
  readonly stamps: readonly string[]
  readonly format: string | null
  readonly id: string | null
  readonly schema: Json
  readonly attachments: boolean
}

/** Where an interrupted load continues. */
export interface LoadState {
  readonly loadId: string
  readonly position: LoadPosition
}

/** A new load: nothing of it is acknowledged. */
export function newLoad(): LoadState {
  return { loadId: randomBytes(16).toString('hex'), position: { batches: 0, counts: NO_COUNTS } }
}

/** Returns size and time of the last change of a file; a changed file cannot be resumed. */
export function stampOf(path: string): string {
  if (path === '-') return 'stdin'
  const { size, mtimeMs } = statSync(path)
  return `${size} ${mtimeMs}`
}

/**
 * The progress of a load in a file, so that the load can be resumed.
 *
 * The file is synced once, before the first batch: its load id makes the keys of all batches. Later positions are
 * written twice a second and renamed into place, without a sync: after a kill or a power cut the file may have an
 * older position, from which batches are sent again under the same keys.
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

  /** Creates the file for `state`. Errors: Exit (usage) if an unfinished load has it, or it cannot be written. */
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

  /** Reads the file. Errors: Exit (usage) if it is missing, or belongs to another load. */
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
    if (!isStored(stored)) throw new Exit(EXIT.usage, `${path} is not the state of a load`)
    const { loadId, position } = stored
    for (const [name, value] of Object.entries(identity)) {
      const before = stored.identity[name]
      if (JSON.stringify(before) === JSON.stringify(value)) continue
      const what = name === 'stamps' ? 'the input has changed' : `${name} was ${shown(before)}`
      const message = `this load cannot be resumed: ${what}; to load again, remove ${path}`
      throw new Exit(EXIT.usage, message)
    }
    const state = { loadId, position }
    return { file: new LoadStateFile(path, identity, state, clock), state }
  }

  /** Notes a position; saves it unless the last one was saved just before. */
  note(position: LoadPosition): void {
    this.#position = position
    const sinceMs = this.#clock.now() - this.#savedMs
    if (sinceMs < 0 || sinceMs >= SAVE_MS) this.save()
  }

  /** Saves the position in one step. */
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

/** Checks the parts whose loss could load items twice; only this program writes the file. */
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
