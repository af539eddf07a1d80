import { type Json, type JsonObject, parseJson } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Target } from '../model/model.ts'
import { parseStored, type ResourceReader, readBatches } from '../resources/database.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import { Resolution } from '../resources/references.ts'
import { compiledEngine, type EngineModule } from '../runtime/engine.ts'
import {
  Guest,
  type GuestAnswer,
  GuestBootError,
  type GuestHost,
  NO_HOST,
} from '../runtime/guest.ts'
import { GuestClock } from '../runtime/guest-clock.ts'
import { type GuestScripts, guestScripts } from '../runtime/program.ts'

/** Memory of one guest in bytes, including the engine. */
const MEMORY_BYTES = 64 * 1024 * 1024
/** Maximum levels of relationships resolved for one call of a guest. */
export const LEVELS_MAX = 64
/** Characters from which on a member of a resource is sent to a condition only if the condition uses it. */
const LONG_CHARACTERS = 65_536
/** Factor by which `ScriptSettings.bootMs` is multiplied if the scripts have been loaded before. */
const BOOT_AGAIN = 10

/** Limits of the scripts of a network. */
export interface ScriptSettings {
  readonly engine: EngineModule
  readonly clock: GuestClock
  /** Maximum time for the processors of one transaction, and for one condition, in milliseconds. */
  readonly deadlineMs: number
  /** Maximum time to load the scripts, in milliseconds. */
  readonly bootMs: number
  /**
   * Called before and after a guest runs or waits for a database server, with the guest's deadline by `clock`, or with
   * null when no guest is running.
   */
  readonly watch: (untilMs: number | null) => void
}

/**
 * The scripts of one network. Processors and conditions of access rules run in two guests, because conditions are
 * evaluated while a processor waits for an answer. Each guest is booted on first use.
 */
export class Scripts {
  readonly #definition: NetworkDefinition
  readonly #settings: ScriptSettings
  readonly #guests = new Map<'processors' | 'conditions', Guest>()
  /** Whether a script names `getCurrentParticipant` or `getCurrentIdentity`. A script can also call them in other ways. */
  readonly nameCaller: boolean
  #loaded: GuestScripts | null = null
  /** Deadline of the running guest, by `clock`. */
  #untilMs: number | null = null

  constructor(definition: NetworkDefinition, settings: ScriptSettings) {
    this.#definition = definition
    this.#settings = settings
    this.nameCaller = definition.scripts.some(({ text }) => text.includes('getCurrent'))
    settings.clock.onChange = (isRunning) => settings.watch(isRunning ? this.#untilMs : null)
  }

  /** Loads the scripts and conditions, if there are any, to check that they are valid. Errors: NETWORK_INVALID. */
  async load(): Promise<void> {
    const { scripts, rules } = this.#definition
    const hasConditions = rules?.some(({ condition }) => condition !== null) === true
    if (scripts.length > 0 || hasConditions) await this.#guest('processors')
  }

  /** Maximum time for the processors of one transaction, in milliseconds. */
  get deadlineMs(): number {
    return this.#settings.deadlineMs
  }

  get clock(): GuestClock {
    return this.#settings.clock
  }

  /**
   * Evaluates a condition for each of its resources: true, false, or null if it throws or fails. Conditions can follow
   * relationships to all resources of `state`: no access rules apply to these reads, because a rule that applied to the
   * reads of its own condition would recurse without end. Errors: NETWORK_INVALID; PROCESSOR_DEADLINE and
   * PROCESSOR_MEMORY, for all resources together.
   */
  async evaluate(
    condition: ConditionRequest,
    state: ResourceReader,
  ): Promise<readonly (boolean | null)[]> {
    const { participant, transaction, resources, nowMs } = condition
    const texts = [participant, transaction, ...resources]
    const whole = texts.map((text) => (text === null ? null : parseStored(text)))
    const short = whole.map((each, at) => withoutLongMembers(each, texts[at] ?? ''))
    const roots = whole.filter((each) => each !== null)
    const read = (targets: readonly Target[]) => readBatches(state, targets)
    // Starts with level 0 and without long members, because most conditions only compare identifiers and need no more.
    for (let levels = 0; ; levels = levels * 2 || 1) {
      const [given, during, ...subjects] = levels === 0 ? short : whole
      const request = JSON.stringify({
        ...{ condition: condition.condition, participant: given, transaction: during, nowMs },
        ...{
          resources: subjects,
          isShort: levels === 0 && roots.some((each) => !short.includes(each)),
        },
        resolved: await new Resolution(this.#definition.model, read).of(roots, levels),
      })
      const answer = await this.call('conditions', request, NO_HOST, this.#settings.deadlineMs)
      if (isUnresolved(answer) && levels < LEVELS_MAX) continue
      if ('failed' in answer && answer.failed !== 'THROWN') {
        const code = answer.failed === 'DEADLINE' ? 'PROCESSOR_DEADLINE' : 'PROCESSOR_MEMORY'
        throw new NetworkError(code, `a condition of the access rules failed: ${answer.message}`)
      }
      return parseValues(answer, resources.length)
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
    const { name } = this.#definition
    const isFirst = this.#loaded === null
    this.#loaded ??= guestScripts(this.#definition)
    const bootMs = isFirst ? this.#settings.bootMs : BOOT_AGAIN * this.#settings.bootMs
    this.#guests.delete(role)
    const { engine, clock } = this.#settings
    const options = { ...this.#loaded, engine, clock, memoryBytes: MEMORY_BYTES }
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

  /**
   * Runs a guest within a deadline, then restores the previous deadline, because a condition may run while a processor
   * waits.
   */
  async #watched<Result>(withinMs: number, run: () => Promise<Result>): Promise<Result> {
    const outer = this.#untilMs
    this.#watch(this.clock.now() + withinMs)
    try {
      return await run()
    } finally {
      this.#watch(outer)
    }
  }

  #watch(untilMs: number | null): void {
    this.#untilMs = untilMs
    this.#settings.watch(untilMs)
  }
}

/** Maximum time to load the scripts of a network that is only checked, in milliseconds. */
const CHECK_MS = 20_000

/** See `checkScripts`. */
export async function loadScripts(definition: NetworkDefinition): Promise<void> {
  const engine = await compiledEngine()
  const settings = {
    ...{ engine, clock: new GuestClock(), deadlineMs: CHECK_MS, bootMs: CHECK_MS },
    watch: () => {},
  }
  await new Scripts(definition, settings).load()
}

/** Returns `resource` without its long members; `text` is its JSON. */
function withoutLongMembers(resource: JsonObject | null, text: string): JsonObject | null {
  if (resource === null || text.length < LONG_CHARACTERS) return resource
  const isShort = (member: Json) => JSON.stringify(member).length < LONG_CHARACTERS
  return Object.fromEntries(Object.entries(resource).filter(([, member]) => isShort(member)))
}

/** Whether a guest needed a resource, or a long member of one, that was not sent to it. */
export function isUnresolved(answer: GuestAnswer): boolean {
  return 'value' in answer && answer.value === 'unresolved'
}

/** Returns the `count` values in a guest's answer. Because the guest is untrusted, non-boolean values become null. */
function parseValues(answer: GuestAnswer, count: number): (boolean | null)[] {
  const values: unknown = 'value' in answer ? parseAnswerList(answer.value) : []
  const list: readonly unknown[] = Array.isArray(values) ? values : []
  return Array.from({ length: count }, (_, at) => {
    const value = list[at]
    return typeof value === 'boolean' ? value : null
  })
}

function parseAnswerList(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return []
  }
}
