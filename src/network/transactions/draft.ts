import type { Json, JsonObject } from '../../base/json.ts'
import type { NetworkError } from '../errors.ts'
import type { AccessOperation } from '../language/rule-parser.ts'
import type { Target } from '../model/model.ts'
import { type ResourceChange, toWrite } from '../resources/database.ts'
import type { Guard } from '../resources/guard.ts'
import {
  type Resource,
  requireType,
  resourceMissing,
  resourceTaken,
} from '../resources/instances.ts'
import { Overlay } from '../resources/overlay.ts'
import { requireReferences } from '../resources/references.ts'

/** The outcome of a request, before it is recorded. */
export interface DraftedChange {
  readonly draft: Draft
  readonly events?: readonly JsonObject[]
  readonly reply: Json
}

/**
 * A transaction and its writes so far. All writes to a network, by REST requests and by processors, go through a
 * draft. A draft checks each write against the access rules and applies it on top of the earlier writes, but records
 * nothing.
 */
export class Draft {
  readonly transaction: Resource
  /** Checks the caller's rights during the transaction. Reads through this guard include the writes so far. */
  readonly guard: Guard
  readonly changes: ResourceChange[] = []
  readonly #overlay: Overlay

  /** `caller` is the guard for the request, outside of the transaction. */
  constructor(caller: Guard, transaction: Resource) {
    this.transaction = transaction
    this.#overlay = new Overlay(caller.database)
    this.guard = caller.within(transaction, this.#overlay)
  }

  /** Starts a draft. Errors: ACCESS_DENIED if the caller may not submit the transaction. */
  static async begin(caller: Guard, transaction: Resource): Promise<Draft> {
    const draft = new Draft(caller, transaction)
    await draft.guard.requireSubmission(transaction)
    return draft
  }

  /** Creates a resource. Errors: ACCESS_DENIED, RESOURCE_EXISTS. */
  async add({ target, value }: Resource): Promise<void> {
    await this.guard.require('CREATE', target, () => JSON.stringify(value))
    if (await this.#overlay.exists(target)) {
      throw resourceTaken(requireType(this.guard.definition.model, target.type), target.id)
    }
    this.#apply(toWrite('create', target, value))
  }

  /** Replaces a resource. For `reader`, see `remove`. Errors: ACCESS_DENIED, RESOURCE_NOT_FOUND. */
  async update({ target, value }: Resource, reader: Guard | null = this.guard): Promise<void> {
    await this.#require('UPDATE', target, reader)
    this.#apply(toWrite('update', target, value))
  }

  /**
   * Deletes a resource. If the caller may not delete the resource, and `reader` may not read it, the resource is
   * reported as missing. `reader` is null if the caller already knows that the resource exists.
   * Errors: ACCESS_DENIED, RESOURCE_NOT_FOUND.
   */
  async remove(target: Target, reader: Guard | null = this.guard): Promise<void> {
    await this.#require('DELETE', target, reader)
    this.#apply({ kind: 'delete', target })
  }

  /**
   * Checks the relationships in all written resources if the network has `strictReferences`. A resource that the caller
   * may not read counts as missing, unless this draft wrote it. Errors: RESOURCE_INVALID.
   */
  requireReferences(inList = false): Promise<void> {
    const written = this.changes.flatMap((change) =>
      change.kind === 'delete' ? [] : [change.resource],
    )
    const exists = async (target: Target) =>
      this.#overlay.has(target) || (await this.guard.read(target)) !== null
    return requireReferences(written, inList, this.guard.definition, exists)
  }

  /** Throws unless the caller may perform `operation`. The rules are evaluated for the resource before the write. */
  async #require(operation: AccessOperation, target: Target, reader: Guard | null): Promise<void> {
    const stored = await this.#overlay.read(target)
    if (stored === null) throw this.#missing(target)
    const before = () => stored.text
    if (await this.guard.allows(operation, target, before)) return
    const isKnown = reader === null || (await reader.allows('READ', target, before))
    throw isKnown ? this.guard.denied(operation, target) : this.#missing(target)
  }

  #missing({ type, id }: Target): NetworkError {
    return resourceMissing(requireType(this.guard.definition.model, type), id)
  }

  #apply(change: ResourceChange): void {
    this.changes.push(change)
    this.#overlay.apply(change)
  }
}
