import { type JsonObject, parseJson } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { GuestAnswer } from './guest.ts'
import type { Known } from './messages.ts'
import { guestScripts } from './program.ts'
import type { Evaluate, Run } from './run.ts'
import { Sandbox, SandboxError } from './sandbox.ts'

/** How long scripts of a network may take to be loaded, milliseconds. */
const BOOT_MS = 2_000
/** The most memory of one of its guests, bytes: the engine's and the scripts'. */
const MEMORY_BYTES = 64 * 1024 * 1024

/** What a transaction's processors are called with. */
export interface ProcessRequest {
  /** Made by `processText`. */
  readonly text: string
  /** Resources that it will ask for: sent along, they need not be asked for one by one. */
  readonly known: readonly Known[]
}

/** A transaction as its processors are told of it. */
export function processText(asked: {
  readonly transaction: JsonObject
  /** Names of functions, in the order in which they run. */
  readonly processors: readonly string[]
  readonly participant: { readonly type: string; readonly id: string }
  readonly identity: { readonly type: string; readonly id: string } | null
  /** What the scripts' clock says. */
  readonly nowMs: number
  /** What the scripts' chance follows from: 32 bits. */
  readonly seed: number
}): string {
  return JSON.stringify(asked)
}

/** A condition of an access rule, and what it is asked about. */
export interface ConditionRequest {
  readonly condition: string
  /** The names that the rule gives to what it is about. */
  readonly variables: Readonly<Record<'participant' | 'resource' | 'transaction', string | null>>
  readonly participant: JsonObject
  readonly transaction: JsonObject | null
  readonly resources: readonly (JsonObject | null)[]
}

/** Answers what conditions ask for: relationships lead to resources. */
export type ConditionAnswerer = (request: string) => Promise<string>

/** The scripts of one network, in a sandbox that is started when something first has to run. */
export class ScriptRunner {
  readonly #definition: NetworkDefinition
  readonly #deadlineMs: number
  readonly #bootMs: number
  #sandbox: Promise<Sandbox> | null = null
  #closed = false

  /** `deadlineMs` is how long the processors of one transaction may take, and one condition. */
  constructor(definition: NetworkDefinition, deadlineMs: number, bootMs = BOOT_MS) {
    this.#definition = definition
    this.#deadlineMs = deadlineMs
    this.#bootMs = bootMs
  }

  /** Loads the scripts. Errors: NETWORK_INVALID when one of them throws, or does not end. */
  async start(): Promise<void> {
    await this.#running()
  }

  /**
   * Begins to run the processors of transactions, one after the other. Without `areWritesAsked` they go
   * on after a write as if it was made, and what they write is told with the next question, or the end.
   * With `follow` they also see what those wrote that were begun before. Errors: NETWORK_INVALID.
   */
  async begin(
    requests: readonly ProcessRequest[],
    { areWritesAsked = false, follow = false } = {},
  ): Promise<readonly Run[]> {
    const sandbox = await this.#running()
    const deadlineMs = this.#deadlineMs
    return sandbox.begin(
      requests.map(({ text, known }) => ({
        role: 'processors' as const,
        request: text,
        ...{ known, deadlineMs, areWritesAsked },
      })),
      follow,
    )
  }

  /**
   * Asks a condition: true, false, or null where it throws, for each of the resources. Errors:
   * NETWORK_INVALID, NETWORK_BUSY.
   */
  async judge(
    request: ConditionRequest,
    answer: ConditionAnswerer,
  ): Promise<readonly (boolean | null)[]> {
    const sandbox = await this.#running()
    const call = { request: JSON.stringify(request), deadlineMs: this.#deadlineMs }
    const asked = { role: 'conditions', known: [], areWritesAsked: true, ...call } as const
    const { answer: judgement } = await sandbox.call(asked, answer)
    // Whoever began to read before an upgrade goes on with the rules of before.
    if (this.#closed) await this.#end()
    if ('failed' in judgement && judgement.failed === 'BUSY') throw busy(judgement.message)
    return judged(request, judgement)
  }

  /** The same, while processors wait for the answer. */
  async judgeMeanwhile(
    request: ConditionRequest,
    evaluate: Evaluate,
    answer: ConditionAnswerer,
  ): Promise<readonly (boolean | null)[]> {
    const call = { request: JSON.stringify(request), deadlineMs: this.#deadlineMs }
    return judged(request, await evaluate(call, answer))
  }

  /** Ends the sandbox. A condition that is asked all the same has one for itself. */
  close(): Promise<void> {
    this.#closed = true
    return this.#end()
  }

  async #end(): Promise<void> {
    const running = this.#sandbox
    this.#sandbox = null
    if (running !== null) await running.then((sandbox) => sandbox.close()).catch(() => {})
  }

  #running(): Promise<Sandbox> {
    if (this.#sandbox === null) {
      const { model, scripts } = this.#definition
      const loads = guestScripts(model, scripts)
      const started = Sandbox.start({ ...loads, memoryBytes: MEMORY_BYTES, bootMs: this.#bootMs })
      this.#sandbox = started.catch((error: unknown) => {
        this.#sandbox = null
        if (!(error instanceof SandboxError)) throw error
        const message = `the scripts of ${this.#definition.name} cannot be loaded: ${error.message}`
        throw new NetworkError('NETWORK_INVALID', message, { cause: error })
      })
    }
    return this.#sandbox
  }
}

/** Why what a sandbox was given did not run: `BUSY` of `GuestFailure`. */
export function busy(message: string): NetworkError {
  return new NetworkError('NETWORK_BUSY', `${message}; try again`)
}

/** What the guest answered, which is nobody's word: where it is no answer, the condition threw. */
function judged({ resources }: ConditionRequest, answer: GuestAnswer): (boolean | null)[] {
  const values: unknown = 'value' in answer ? parsed(answer.value) : []
  const list: readonly unknown[] = Array.isArray(values) ? values : []
  return resources.map((_resource, at) => {
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
