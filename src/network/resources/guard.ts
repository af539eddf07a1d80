import type { JsonObject } from '../../base/json.ts'
import type {
  AccessContext,
  AccessControl,
  AskCondition,
  Instance,
  Subject,
} from '../access/control.ts'
import { NetworkError } from '../errors.ts'
import type { Operation } from '../language/rule-parser.ts'
import type { Model, Target } from '../model/model.ts'
import type { ResourceReader, StoredResource } from './database.ts'
import { objectIn } from './database.ts'
import { asInstance, type Caller, historianTarget, type TransactionRecord } from './transaction.ts'

/** A condition of an access rule, and its resources. */
export interface ConditionRequest {
  readonly condition: string
  /** The names that the rule gives to the three. */
  readonly variables: Readonly<Record<'participant' | 'resource' | 'transaction', string | null>>
  readonly participant: JsonObject
  readonly transaction: JsonObject | null
  readonly resources: readonly (JsonObject | null)[]
}

/** Evaluates a condition for each of its resources: true, false, or null where it throws. */
export type EvaluateCondition = (request: ConditionRequest) => Promise<readonly (boolean | null)[]>

export interface GuardParts {
  readonly control: AccessControl
  readonly model: Model
  readonly caller: Caller
  /** Holds the caller's own resource. */
  readonly database: ResourceReader
  readonly evaluate: EvaluateCondition
}

/** Checks the access of one caller. */
export class Guard {
  readonly #parts: GuardParts
  readonly #transaction: TransactionRecord | null
  readonly #context: AccessContext
  #participant: Promise<JsonObject> | null = null

  /**
   * `transaction` is the one that is being processed, or null.
   * Errors: IDENTITY_UNKNOWN for a participant of a type that there is not.
   */
  constructor(parts: GuardParts, transaction: TransactionRecord | null) {
    this.#parts = parts
    this.#transaction = transaction
    const { caller, model } = parts
    const participant = asInstance(caller.participant, model)
    if (participant === null) {
      const message = `there is no participant type ${caller.participant.type}`
      throw new NetworkError('IDENTITY_UNKNOWN', message)
    }
    const processed = transaction === null ? null : asInstance(transaction.target, model)
    this.#context = { participant, transaction: processed }
  }

  /** The guard of the same caller during `transaction`. */
  within(transaction: TransactionRecord): Guard {
    return new Guard(this.#parts, transaction)
  }

  /** Whether the caller may do `operation` on `target`, whose content is or was `content`. */
  async allows(
    operation: Operation,
    target: Target,
    content: () => JsonObject | null,
  ): Promise<boolean> {
    const instance = this.#instance(target)
    // Most rules decide for all instances of a type at once.
    const all = this.#parts.control.allowsAll(operation, instance.type, this.#context)
    if (all !== null) return all
    const subject = { ...instance, content }
    const [allowed] = await this.#parts.control.decide(
      operation,
      [subject],
      this.#context,
      this.#ask,
    )
    return allowed === true
  }

  /** Returns those of `resources`, all of one type, that the caller may read. */
  async readable<Row extends Pick<StoredResource, 'id' | 'text'>>(
    typeName: string,
    resources: readonly Row[],
  ): Promise<Row[]> {
    const { type } = this.#instance({ type: typeName, id: '' })
    const subjects = resources.map(
      ({ id, text }): Subject => ({ type, id, content: () => objectIn(text) }),
    )
    const allowed = await this.#parts.control.decide('READ', subjects, this.#context, this.#ask)
    return resources.filter((_resource, at) => allowed[at])
  }

  /** Whether the caller may read all resources of `type`; null when it depends on which one. */
  readsAll(type: string): boolean | null {
    const { control } = this.#parts
    return control.allowsAll('READ', this.#instance({ type, id: '' }).type, this.#context)
  }

  /** Errors: ACCESS_DENIED. */
  async require(
    operation: Operation,
    target: Target,
    content: () => JsonObject | null,
  ): Promise<void> {
    if (await this.allows(operation, target, content)) return
    const { type, id } = this.#parts.caller.participant
    throw new NetworkError(
      'ACCESS_DENIED',
      `Participant '${type}#${id}' does not have '${operation}' access to resource ` +
        `'${target.type}#${target.id}'`,
    )
  }

  readonly #ask: AskCondition = async (rule, subjects) => {
    const { participant, resource, transaction } = rule
    return this.#parts.evaluate({
      condition: rule.condition,
      variables: {
        participant: participant.variable,
        resource: resource.variable,
        transaction: transaction?.variable ?? null,
      },
      participant: await this.#participantContent(),
      transaction: this.#transaction?.resource ?? null,
      resources: subjects.map(({ content }) => content()),
    })
  }

  #participantContent(): Promise<JsonObject> {
    this.#participant ??= this.#readParticipant()
    return this.#participant
  }

  async #readParticipant(): Promise<JsonObject> {
    const { database, caller } = this.#parts
    const stored = await database.read(caller.participant)
    if (stored !== null) return objectIn(stored.text)
    // The administrator of a network that is not recorded yet.
    const { type, id } = caller.participant
    const { identifier } = this.#context.participant.type
    return { $class: type, [identifier ?? '']: id }
  }

  #instance({ type, id }: Target): Instance {
    const declaration = this.#parts.model.type(type)
    if (declaration === null) throw new NetworkError('TYPE_NOT_FOUND', `there is no type ${type}`)
    return { type: declaration, id }
  }
}

/** Checks that the caller may create the transaction and its historian record. Errors: ACCESS_DENIED. */
export async function requireTransaction(
  guard: Guard,
  transaction: TransactionRecord,
): Promise<void> {
  await guard.require('CREATE', transaction.target, () => transaction.resource)
  // The record does not exist yet, so a condition has no content of it.
  await guard.require('CREATE', historianTarget(transaction), () => null)
}

/** Resources as one caller may read them. */
export interface Source {
  readonly database: ResourceReader
  readonly model: Model
  readonly guard: Guard
}
