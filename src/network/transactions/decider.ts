import type { Json, JsonObject } from '../../base/json.ts'
import { mergePatch, unitOf } from '../../ledger/core.ts'
import type { Change } from '../../ledger/index.ts'
import { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { TypeDeclaration } from '../model/model.ts'
import { relationshipText, type Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { pointer } from '../model/validation.ts'
import {
  entryOf,
  objectIn,
  type ResourceChange,
  type ResourceReader,
  resourceChangesIn,
  type StoredResource,
} from '../resources/database.ts'
import { type ConditionRequest, Guard, requireTransaction } from '../resources/guard.ts'
import {
  invalid,
  missing,
  type Resource,
  refuseLength,
  refuseRepeated,
  resourceOf,
  resourcesOf,
  taken,
  withId,
} from '../resources/instances.ts'
import { Overlay } from '../resources/overlay.ts'
import { missingReferences } from '../resources/references.ts'
import {
  type Caller,
  recordsOf,
  type Stamp,
  type TransactionRecord,
  transactionOf,
} from '../resources/transaction.ts'
import { identityChange } from './identity-changes.ts'
import type { ChangeRequest, Decision, ExpectedRevisions, LogLine } from './messages.ts'
import { process, processorsFor } from './processing.ts'
import { checkedReturn, isRecorded } from './results.ts'
import type { Scripts } from './scripts.ts'

export interface DeciderParts {
  readonly definition: NetworkDefinition
  readonly scripts: Scripts
  /** The durable resources. */
  readonly database: ResourceReader
  /** Records the network itself, before its first change; null when it is recorded. */
  readonly deployment: readonly Change[] | null
}

/** A request, and when and as whom it is made. */
interface Request<Of extends ChangeRequest = ChangeRequest> {
  readonly id: number
  readonly caller: Caller
  readonly stamp: Stamp
  readonly change: Of
}

/** A transaction with its writes, before the check of its size. */
interface Outcome {
  readonly transaction: TransactionRecord
  readonly writes: readonly ResourceChange[]
  readonly events?: readonly JsonObject[]
  readonly reply: Json
}

type Kind<Name extends ChangeRequest['kind']> = Extract<ChangeRequest, { kind: Name }>

/**
 * Decides the requests of one network, one after the other: each sees all that was decided before it,
 * durable or not. Decisions are applied here at once and recorded by the caller.
 */
export class Decider {
  readonly #parts: DeciderParts
  readonly #control: AccessControl
  #deployment: readonly Change[] | null
  /** Whether a decision records the deployment already. */
  #isDeploying = false
  /** All resources: the durable ones with the decisions that are not durable yet. */
  #state: Overlay

  constructor(parts: DeciderParts) {
    this.#parts = parts
    this.#control = new AccessControl(parts.definition.rules)
    this.#deployment = parts.deployment
    this.#state = this.#freshState()
  }

  /** The decisions up to `id` are durable. */
  durable(id: number): void {
    this.#deployment = null
    this.#state.drop(id)
  }

  /** Forgets the decisions that are not durable. */
  reset(): void {
    this.#isDeploying = false
    this.#state = this.#freshState()
  }

  /**
   * Decides a request; `logged` takes the lines that scripts write to their console.
   * Errors: NetworkError; LedgerError if it is too large to be recorded; StoreError.
   */
  async decide(request: Request, logged: LogLine[]): Promise<Decision> {
    const { id, caller } = request
    const outcome = await this.#outcome(request, logged)
    const { transaction, writes, events = [], reply } = outcome
    const type = this.#typeOf(transaction.target.type)
    if (!isRecorded(type)) return { reply, unit: null, transactionAt: 0, writeAt: 0, events: [] }
    const changes = [...recordsOf(transaction, caller, events), ...writes]
    const { name } = this.#parts.definition
    const before = this.#isDeploying ? [] : (this.#deployment ?? [])
    const unit = unitOf([...before, ...changes.map((change) => entryOf(name, change))])
    this.#isDeploying = true
    for (const change of changes) this.#state.apply(change, id)
    const transactionAt = before.length
    const writeAt = writes.length > 0 ? transactionAt + 2 : transactionAt
    return { reply, unit, transactionAt, writeAt, events }
  }

  /** Evaluates a condition for a reader of durable resources. Errors: NETWORK_INVALID. */
  evaluate(condition: ConditionRequest): Promise<readonly (boolean | null)[]> {
    return this.#parts.scripts.evaluate(condition, this.#parts.database)
  }

  #outcome(request: Request, logged: LogLine[]): Promise<Outcome> {
    const { change, ...from } = request
    switch (change.kind) {
      case 'create':
        return this.#create({ ...from, change })
      case 'update':
        return this.#update({ ...from, change })
      case 'remove':
        return this.#remove({ ...from, change })
      case 'updateAll':
        return this.#updateAll({ ...from, change })
      case 'submit':
        return this.#submit({ ...from, change }, logged)
      case 'start':
        return this.#system(request, 'StartBusinessNetwork', {}, [])
      default:
        return this.#changeIdentity(request, change)
    }
  }

  /** Adds one resource, or all of an array. */
  async #create({ change, caller, stamp }: Request<Kind<'create'>>): Promise<Outcome> {
    const type = this.#typeOf(change.type)
    const resources = resourcesOf(change.body, type, this.#rules)
    const values = resources.map(({ value }) => value)
    const transaction = registryTransaction('Add', type, stamp, { resources: values })
    const guard = this.#guard(caller).within(transaction)
    await requireTransaction(guard, transaction)
    const ids = new Set<string>()
    for (const { target, value } of resources) {
      await guard.require('CREATE', target, () => value)
      if (ids.has(target.id) || (await this.#state.read(target)) !== null) {
        throw taken(type, target.id)
      }
      ids.add(target.id)
    }
    await this.#checkReferences(resources, Array.isArray(change.body))
    const writes = resources.map(
      ({ target, value }): ResourceChange => ({ kind: 'create', target, resource: value }),
    )
    return { transaction, writes, reply: values }
  }

  /** Replaces one resource. */
  async #update({ change, caller, stamp }: Request<Kind<'update'>>): Promise<Outcome> {
    const type = this.#typeOf(change.type)
    const { id, body, isPatch, expects } = change
    const guard = this.#guard(caller)
    // As in Composer, UPDATE without READ is enough to replace a resource.
    const fields = { resources: [body] }
    const updating = isPatch
      ? null
      : guard.within(registryTransaction('Update', type, stamp, fields))
    const before = await this.#current(type, id, { expects, guard, updating })
    const given = isPatch ? mergePatch(objectIn(before.text), body) : body
    const resource = resourceOf(withId(given, type, id), type, this.#rules)
    const { target, value } = resource
    const transaction = registryTransaction('Update', type, stamp, { resources: [value] })
    const inside = guard.within(transaction)
    await requireTransaction(inside, transaction)
    // Rules apply to the version that is replaced.
    await inside.require('UPDATE', target, () => objectIn(before.text))
    await this.#checkReferences([resource], false)
    return { transaction, writes: [{ kind: 'update', target, resource: value }], reply: [value] }
  }

  /** Replaces all resources of an array, or none. */
  async #updateAll({ change, caller, stamp }: Request<Kind<'updateAll'>>): Promise<Outcome> {
    const type = this.#typeOf(change.type)
    const resources = resourcesOf([...change.body], type, this.#rules)
    refuseRepeated(resources.map(({ target }) => target.id))
    const values = resources.map(({ value }) => value)
    const transaction = registryTransaction('Update', type, stamp, { resources: values })
    const guard = this.#guard(caller)
    const inside = guard.within(transaction)
    await requireTransaction(inside, transaction)
    for (const { target } of resources) {
      const access = { expects: null, guard, updating: inside }
      const before = await this.#current(type, target.id, access)
      await inside.require('UPDATE', target, () => objectIn(before.text))
    }
    await this.#checkReferences(resources, true)
    const writes = resources.map(
      ({ target, value }): ResourceChange => ({ kind: 'update', target, resource: value }),
    )
    return { transaction, writes, reply: values }
  }

  /** Removes all resources of a list, or none. */
  async #remove({ change, caller, stamp }: Request<Kind<'remove'>>): Promise<Outcome> {
    const type = this.#typeOf(change.type)
    const { ids, expects } = change
    refuseLength(ids)
    refuseRepeated(ids)
    const guard = this.#guard(caller)
    const fields = { resources: [], resourceIds: [...ids] }
    const transaction = registryTransaction('Remove', type, stamp, fields)
    const inside = guard.within(transaction)
    const removed: StoredResource[] = []
    for (const id of ids) {
      removed.push(await this.#current(type, id, { expects, guard, updating: null }))
    }
    await requireTransaction(inside, transaction)
    const writes: ResourceChange[] = []
    for (const { id, text } of removed) {
      const target = { type: type.qualifiedName, id }
      await inside.require('DELETE', target, () => objectIn(text))
      writes.push({ kind: 'delete', target })
    }
    return { transaction, writes, reply: [] }
  }

  /** Runs the processors of a transaction. */
  async #submit(
    { change, caller, stamp }: Request<Kind<'submit'>>,
    logged: LogLine[],
  ): Promise<Outcome> {
    const type = this.#typeOf(change.type)
    const { definition, scripts } = this.#parts
    const draft = transactionOf(type.qualifiedName, stamp, change.fields)
    const { target, value: resource } = resourceOf(draft.resource, type, this.#rules)
    const transaction = { ...draft, resource }
    await requireTransaction(this.#guard(caller).within(transaction), transaction)
    await this.#checkReferences([{ target, value: resource }], false)
    const processors = processorsFor(type, definition)
    if (processors.length === 0) {
      const what = `transaction ${target.type}#${target.id}`
      const message = `Could not find any functions to execute for ${what}`
      throw new NetworkError('TRANSACTION_FAILED', message)
    }
    const parts = { definition, control: this.#control, scripts }
    const submitted = { transaction, caller, processors }
    const { changes, events, returned } = await process(parts, submitted, this.#state, logged)
    const reply = checkedReturn(type, returned, this.#rules) ?? resource
    return { transaction, writes: changes, events, reply }
  }

  async #changeIdentity(
    request: Request,
    change: Parameters<typeof identityChange>[0],
  ): Promise<Outcome> {
    const { caller } = request
    const { definition } = this.#parts
    const { verb, fields, write } = await identityChange(change, caller, definition, this.#state)
    return this.#system(request, verb, fields, [write])
  }

  /** A transaction of the system with its writes. */
  async #system(
    { caller, stamp }: Request,
    verb: string,
    fields: JsonObject,
    writes: readonly Exclude<ResourceChange, { kind: 'delete' }>[],
  ): Promise<Outcome> {
    const transaction = transactionOf(systemType(verb), stamp, fields)
    const guard = this.#guard(caller).within(transaction)
    await requireTransaction(guard, transaction)
    for (const { kind, target, resource } of writes) {
      const stored = kind === 'create' ? null : await this.#state.read(target)
      const content = stored === null ? resource : objectIn(stored.text)
      await guard.require(kind === 'create' ? 'CREATE' : 'UPDATE', target, () => content)
    }
    return { transaction, writes, reply: [] }
  }

  /**
   * Returns the stored resource. A resource that the caller may neither read nor update is reported as
   * missing. Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED.
   */
  async #current(
    type: TypeDeclaration,
    id: string,
    { expects, guard, updating }: Access,
  ): Promise<StoredResource> {
    const target = { type: type.qualifiedName, id }
    const stored = await this.#state.read(target)
    if (stored === null) throw missing(type, id)
    const content = () => objectIn(stored.text)
    const isKnown =
      (await guard.allows('READ', target, content)) ||
      (await updating?.allows('UPDATE', target, content))
    if (isKnown !== true) throw missing(type, id)
    // One that is not durable yet has no revision that anybody could know.
    if (expects === null || expects.includes(stored.revision)) return stored
    throw new NetworkError('RESOURCE_CHANGED', `'${id}' is not at the revision that was asked for`)
  }

  async #checkReferences(resources: readonly Resource[], inList: boolean): Promise<void> {
    const { definition } = this.#parts
    if (!definition.strictReferences) return
    const own = new Set(resources.map(({ target }) => `${target.type}#${target.id}`))
    const exists = async (target: Target) =>
      own.has(`${target.type}#${target.id}`) || (await this.#state.read(target)) !== null
    for (const [index, { value }] of resources.entries()) {
      const path = inList ? pointer('', index) : ''
      const problems = await missingReferences(value, path, definition.model, exists)
      if (problems.length > 0) throw invalid(problems)
    }
  }

  #guard(caller: Caller): Guard {
    const { definition, scripts } = this.#parts
    const database = this.#state
    const evaluate = (condition: ConditionRequest) => scripts.evaluate(condition, database)
    const { model } = definition
    return new Guard({ control: this.#control, model, caller, database, evaluate }, null)
  }

  get #rules() {
    const { definition } = this.#parts
    return { model: definition.model, strictness: definition }
  }

  /** Errors: TYPE_NOT_FOUND for a type that an upgrade took away. */
  #typeOf(name: string): TypeDeclaration {
    const type = this.#parts.definition.model.type(name)
    if (type !== null) return type
    throw new NetworkError('TYPE_NOT_FOUND', `there is no type ${name}`)
  }

  #freshState(): Overlay {
    const state = new Overlay(this.#parts.database)
    for (const change of this.#deployment ?? []) {
      for (const made of resourceChangesIn(change)) state.apply(made)
    }
    return state
  }
}

interface Access {
  readonly expects: ExpectedRevisions
  readonly guard: Guard
  /** The guard of an update that does not need READ, or null. */
  readonly updating: Guard | null
}

function registryTransaction(
  verb: string,
  type: TypeDeclaration,
  stamp: Stamp,
  fields: JsonObject,
): TransactionRecord {
  const kind = type.kind === 'participant' ? 'Participant' : 'Asset'
  const registry = { type: systemType(`${kind}Registry`), id: type.qualifiedName }
  const targetRegistry = relationshipText(registry)
  return transactionOf(systemType(verb + kind), stamp, { ...fields, targetRegistry })
}
