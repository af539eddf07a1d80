import type { AccessContext, AccessControl, Instance } from '../access/control.ts'
import { NetworkError } from '../errors.ts'
import type { Operation } from '../language/rule-file.ts'
import type { Model } from '../model/model.ts'
import type { Target } from '../model/relationship.ts'
import { asInstance, type Caller } from './caller.ts'

/** Access rules, asked on behalf of one caller. */
export class Guard {
  readonly #control: AccessControl
  readonly #model: Model
  readonly #caller: Caller
  readonly #context: AccessContext

  /** Errors: IDENTITY_UNKNOWN for a participant of a type that there is not. */
  constructor(control: AccessControl, model: Model, caller: Caller) {
    this.#control = control
    this.#model = model
    this.#caller = caller
    const participant = asInstance(caller.participant, model)
    if (participant === null) {
      throw new NetworkError(
        'IDENTITY_UNKNOWN',
        `there is no participant type ${caller.participant.type}`,
      )
    }
    this.#context = { participant, transaction: null }
  }

  /** Whether the caller may do `operation` on `target` while `transaction` is processed, if one is. */
  allows(operation: Operation, target: Target, transaction: Target | null): boolean {
    const context = {
      ...this.#context,
      transaction: transaction === null ? null : asInstance(transaction, this.#model),
    }
    return this.#control.allows(operation, this.#instance(target), context)
  }

  /** Whether the caller may read all resources of `type`; null when it depends on which one. */
  readsAll(type: string): boolean | null {
    return this.#control.allowsAll('READ', this.#instance({ type, id: '' }).type, this.#context)
  }

  /** Errors: ACCESS_DENIED. */
  require(operation: Operation, target: Target, transaction: Target | null): void {
    if (this.allows(operation, target, transaction)) return
    const { type, id } = this.#caller.participant
    throw new NetworkError(
      'ACCESS_DENIED',
      `Participant '${type}#${id}' does not have '${operation}' access to resource ` +
        `'${target.type}#${target.id}'`,
    )
  }

  #instance({ type, id }: Target): Instance {
    const declaration = this.#model.type(type)
    if (declaration === null) throw new NetworkError('TYPE_NOT_FOUND', `there is no type ${type}`)
    return { type: declaration, id }
  }
}
