import { parseJson } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Target } from '../model/model.ts'
import type { ResourceReader } from '../resources/database.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import { Resolution } from '../resources/references.ts'
import {
  Guest,
  type GuestAnswer,
  GuestBootError,
  type GuestHost,
  NO_HOST,
} from '../runtime/guest.ts'
import { type GuestScripts, guestScripts } from '../runtime/program.ts'

/** Memory of one guest, bytes: the engine's and the scripts'. */
const MEMORY_BYTES = 64 * 1024 * 1024
/** Levels of relationships that are resolved at most for one call of a guest. */
export const LEVELS_MAX = 64
/** Scripts that were loaded in time may take this many times as long when they are loaded again. */
const BOOT_AGAIN = 10

/** Bounds of the scripts of a network. */
export interface ScriptLimits {
  /** For the processors of one transaction, and for one condition: milliseconds. */
  readonly deadlineMs: number
  /** For loading the scripts, milliseconds. */
  readonly bootMs: number
  /**
   * Called before a guest runs and after it: the time of `performance` at which it must have stopped, or
   * null when none runs.
   */
  readonly watch: (untilMs: number | null) => void
}

/**
 * The scripts of one network. Processors run in one guest, conditions of access rules in another, because
 * conditions are evaluated while a processor waits for the network. Each guest is booted on first use.
 */
export class Scripts {
  readonly #definition: NetworkDefinition
  readonly #limits: ScriptLimits
  readonly #guests = new Map<'processors' | 'conditions', Guest>()
  #loaded: GuestScripts | null = null
  /** Deadline of the running guest, by the clock of `performance`. */
  #untilMs: number | null = null

  constructor(definition: NetworkDefinition, limits: ScriptLimits) {
    this.#definition = definition
    this.#limits = limits
  }

  /** Loads the scripts, to see that they can be. Errors: NETWORK_INVALID. */
  async load(): Promise<void> {
    await this.#guest('processors')
  }

  /** How long the processors of one transaction may take. */
  get deadlineMs(): number {
    return this.#limits.deadlineMs
  }

  /**
   * Evaluates a condition for each of its resources: true, false, or null where it throws or fails. It may
   * follow relationships to all resources of `state`: access rules for the reads of access rules would not
   * end. Errors: NETWORK_INVALID.
   */
  async evaluate(
    condition: ConditionRequest,
    state: ResourceReader,
  ): Promise<readonly (boolean | null)[]> {
    const { participant, transaction, resources } = condition
    const roots = [participant, transaction, ...resources].filter((root) => root !== null)
    const read = (targets: readonly Target[]) =>
      Promise.all(targets.map((target) => state.read(target)))
    // Most conditions compare identifiers, which need no other resource.
    for (let levels = 0; ; levels = levels * 2 || 1) {
      const resolved = await new Resolution(this.#definition.model, read).of(roots, levels)
      const request = JSON.stringify({ ...condition, resolved })
      const answer = await this.call('conditions', request, NO_HOST, this.#limits.deadlineMs)
      if (!isUnresolved(answer) || levels >= LEVELS_MAX) return valuesIn(answer, resources.length)
    }
  }

  /** Calls a guest. Errors: NETWORK_INVALID. */
  async call(
    role: 'processors' | 'conditions',
    request: string,
    host: GuestHost,
    deadlineMs: number,
  ): Promise<GuestAnswer> {
    const guest = await this.#guest(role)
    return this.#watched(deadlineMs, () => guest.call(request, host, deadlineMs))
  }

  async #guest(role: 'processors' | 'conditions'): Promise<Guest> {
    const guest = this.#guests.get(role)
    if (guest !== undefined && !guest.worn) return guest
    const { name, model, scripts } = this.#definition
    const isFirst = this.#loaded === null
    this.#loaded ??= guestScripts(model, scripts)
    const bootMs = isFirst ? this.#limits.bootMs : BOOT_AGAIN * this.#limits.bootMs
    this.#guests.delete(role)
    const options = { ...this.#loaded, memoryBytes: MEMORY_BYTES }
    try {
      const booted = await this.#watched(bootMs, () => Guest.boot(options, bootMs))
      this.#guests.set(role, booted)
      return booted
    } catch (error) {
      if (!(error instanceof GuestBootError)) throw error
      const message = `the scripts of ${name} cannot be loaded: ${error.message}`
      throw new NetworkError('NETWORK_INVALID', message, { cause: error })
    }
  }

  /** Runs a guest. Conditions run inside of processors, which go on to be watched after them. */
  async #watched<Result>(withinMs: number, run: () => Promise<Result>): Promise<Result> {
    const outer = this.#untilMs
    this.#watch(performance.now() + withinMs)
    try {
      return await run()
    } finally {
      this.#watch(outer)
    }
  }

  #watch(untilMs: number | null): void {
    this.#untilMs = untilMs
    this.#limits.watch(untilMs)
  }
}

/** Whether a guest needed a resource that it was not sent. */
export function isUnresolved(answer: GuestAnswer): boolean {
  return 'value' in answer && answer.value === 'unresolved'
}

/** The values in a guest's answer, which is not trusted: anything else counts as thrown. */
function valuesIn(answer: GuestAnswer, count: number): (boolean | null)[] {
  const values: unknown = 'value' in answer ? parsed(answer.value) : []
  const list: readonly unknown[] = Array.isArray(values) ? values : []
  return Array.from({ length: count }, (_, at) => {
    const value = list[at]
    return typeof value === 'boolean' ? value : null
  })
}

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return []
  }
}
