import type { Json, JsonObject } from '../../base/json.ts'
import type { NetworkError } from '../errors.ts'
import type { Operation } from '../language/rule-parser.ts'
import type { Target } from '../model/model.ts'
import { objectIn, type ResourceChange } from '../resources/database.ts'
import type { Guard } from '../resources/guard.ts'
import { missing, type Resource, requireType, taken } from '../resources/instances.ts'
import { Overlay } from '../resources/overlay.ts'
import { requireReferences } from '../resources/references.ts'

/** The outcome of a request; nothing of it is recorded yet. */
export interface DraftedChange {
  readonly draft: Draft
  /** Events of processors. */
  readonly events?: readonly JsonObject[]
  readonly reply: Json
}

/**
 * A transaction with the writes that it has made so far. All writes of a network are made here, of REST
 * requests and of processors, under the access rules and on top of those before; nothing is recorded.
 */
export class Draft {
  readonly transaction: Resource
  /** The rights of the caller during the transaction; reads the resources as the writes left them. */
  readonly guard: Guard
  /** The writes, in their order. */
  readonly changes: ResourceChange[] = []
  readonly #overlay: Overlay

  /** `caller` is the guard of the request, outside of the transaction. */
  constructor(caller: Guard, transaction: Resource) {
    this.transaction = transaction
    this.#overlay = new Overlay(caller.database)
    this.guard = caller.within(transaction, this.#overlay)
  }

  /** A draft of a transaction that the caller may submit. Errors: ACCESS_DENIED. */
  static async begin(caller: Guard, transaction: Resource): Promise<Draft> {
    const draft = new Draft(caller, transaction)
    await draft.guard.requireSubmission(transaction)
    return draft
  }

  /** Errors: ACCESS_DENIED, RESOURCE_EXISTS. */
  async add({ target, value }: Resource): Promise<void> {
    await this.guard.require('CREATE', target, () => value)
    if ((await this.#overlay.read(target)) !== null) {
      throw taken(requireType(this.guard.definition.model, target.type), target.id)
    }
    this.#apply({ kind: 'create', target, resource: value })
  }

  /** `reader` as for `remove`. Errors: ACCESS_DENIED, RESOURCE_NOT_FOUND. */
  async update({ target, value }: Resource, reader: Guard | null = this.guard): Promise<void> {
    await this.#require('UPDATE', target, reader)
    this.#apply({ kind: 'update', target, resource: value })
  }

  /**
   * A resource that may not be removed counts as missing if `reader` may not read it; null if the caller
   * knows already that it exists. Errors: ACCESS_DENIED, RESOURCE_NOT_FOUND.
   */
  async remove(target: Target, reader: Guard | null = this.guard): Promise<void> {
    await this.#require('DELETE', target, reader)
    this.#apply({ kind: 'delete', target })
  }

  /** Errors: RESOURCE_INVALID if relationships must lead to something, and one of a write does not. */
  requireReferences(inList = false): Promise<void> {
    const written = this.changes.flatMap((change) =>
      change.kind === 'delete' ? [] : [change.resource],
    )
    return requireReferences(written, inList, this.guard.definition, this.#overlay)
  }

  /** Rules apply to the version that is replaced. */
  async #require(operation: Operation, target: Target, reader: Guard | null): Promise<void> {
    const stored = await this.#overlay.read(target)
    if (stored === null) throw this.#missing(target)
    const before = () => objectIn(stored.text)
    if (await this.guard.allows(operation, target, before)) return
    const isKnown = reader === null || (await reader.allows('READ', target, before))
    throw isKnown ? this.guard.denied(operation, target) : this.#missing(target)
  }

  #missing({ type, id }: Target): NetworkError {
    return missing(requireType(this.guard.definition.model, type), id)
  }

  #apply(change: ResourceChange): void {
    this.changes.push(change)
    this.#overlay.apply(change)
  }
}
