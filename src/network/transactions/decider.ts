import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { parseStrictText } from '../../base/strict-json.ts'
import { mergePatch, toUnit } from '../../ledger/core.ts'
import type { Change } from '../../ledger/index.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { formatRelationship, type Target, type TypeDeclaration } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import {
  parseStored,
  type ResourceReader,
  type StoredResource,
  toOwnChange,
  toResourceChanges,
} from '../resources/database.ts'
import { type ConditionRequest, type EvaluateCondition, Guard } from '../resources/guard.ts'
import {
  type Resource,
  requireDistinct,
  requireListLength,
  requireResource,
  requireResources,
  requireType,
  resourceMissing,
  submittedFields,
  withId,
} from '../resources/instances.ts'
import { Overlay } from '../resources/overlay.ts'
import { requireReferences } from '../resources/references.ts'
import {
  type Caller,
  callerAuthor,
  createTransaction,
  identityUnknown,
  isRevoked,
  type Stamp,
  transactionRecords,
} from '../resources/transaction.ts'
import { Draft, type DraftedChange } from './draft.ts'
import { draftIdentityChange } from './identity-changes.ts'
import {
  type Decision,
  type ExpectedRevisions,
  type LogLine,
  type NetworkChange,
  toEventText,
} from './messages.ts'
import { runProcessors } from './processing.ts'
import { isRecorded } from './results.ts'
import type { Scripts } from './scripts.ts'

export interface DeciderParts {
  readonly definition: NetworkDefinition
  readonly scripts: Scripts
  readonly database: ResourceReader
  /** The changes that record the network itself, to be recorded with its first change; empty if it is in the ledger. */
  readonly deployment: readonly Change[]
  /** Receives the console output of scripts. */
  readonly log: (line: LogLine) => void
}

export interface TimedRequest {
  readonly caller: Caller
  readonly stamp: Stamp
  readonly change: NetworkChange
}

const START = systemType('StartBusinessNetwork')

type Kind<Name extends NetworkChange['kind']> = Extract<NetworkChange, { kind: Name }>

/**
 * Decides the requests of one network, one at a time: computes the changes to record, or refuses the request. Each
 * decision builds on all earlier decisions, even if they are not durable yet. A decision is applied to the state in
 * memory at once; the caller of `decide` records the changes.
 */
export class Decider {
  readonly #parts: DeciderParts
  /** The changes that record the network itself; empty if it is recorded, or after the first decision with changes. */
  #deployment: readonly Change[]
  /** All resources, including the changes of decisions that are not durable yet. */
  readonly #state: Overlay

  constructor(parts: DeciderParts) {
    this.#parts = parts
    this.#deployment = parts.deployment
    this.#state = new Overlay(parts.database)
    for (const change of parts.deployment) {
      for (const made of toResourceChanges(change)) this.#state.apply(made)
    }
  }

  /** Called when the decisions up to `id` are durable. */
  durable(id: number): void {
    this.#state.drop(id)
  }

  /**
   * Decides request `id` and applies the decision.
   * Errors: NetworkError; LedgerError if the changes are too large for the ledger; StoreError.
   */
  async decide(id: number, request: TimedRequest): Promise<Decision> {
    const { definition } = this.#parts
    // The identity may have been revoked while the request was queued, here or at another process.
    if (await isRevoked(request.caller, this.#state)) throw identityUnknown()
    const { draft, events = [], reply } = await this.outcome(request)
    const { transaction } = draft
    const answer = JSON.stringify(reply)
    if (!isRecorded(requireType(definition.model, transaction.target.type))) {
      return { reply: answer, unit: null, transactionAt: 0, writeAt: 0, events: [] }
    }
    const records = transactionRecords(transaction, request.caller, events)
    const changes = [...records, ...draft.changes]
    const entries = changes.map((change) => toOwnChange(definition.name, change))
    const by = callerAuthor(request.caller, definition.name)
    // The ledger must not refuse it later, because then it would refuse all later decisions too.
    const unit = toUnit([...this.#deployment, ...entries], by)
    const transactionAt = this.#deployment.length
    this.#deployment = []
    for (const change of changes) this.#state.apply(change, id)
    const writeAt = draft.changes.length > 0 ? transactionAt + records.length : transactionAt
    return { reply: answer, unit, transactionAt, writeAt, events: events.map(toEventText) }
  }

  /** Evaluates a condition on durable resources. Errors: NETWORK_INVALID. */
  evaluate(condition: ConditionRequest): Promise<readonly (boolean | null)[]> {
    return this.#parts.scripts.evaluate(condition, this.#parts.database)
  }

  /** Decides a request without applying the decision. Errors: NetworkError, StoreError. */
  async outcome({ caller, stamp, change }: TimedRequest): Promise<DraftedChange> {
    const { definition, scripts } = this.#parts
    const evaluate: EvaluateCondition = (request, state) => scripts.evaluate(request, state)
    const parts = { definition, caller, database: this.#state, evaluate, nowMs: stamp.nowMs }
    const guard = new Guard(parts)
    switch (change.kind) {
      case 'create':
      case 'updateAll':
        return this.#writeAll(change, guard, stamp)
      case 'update':
        return this.#update(change, guard, stamp)
      case 'remove':
        return this.#remove(change, guard, stamp)
      case 'submit':
        return this.#submit(change, guard, stamp)
      case 'start':
        // As in Composer, no access rule applies to the start.
        return { draft: new Draft(guard, createTransaction(START, stamp, {})), reply: null }
      default:
        return { draft: await draftIdentityChange(change, guard, stamp), reply: null }
    }
  }

  /** Creates one resource, or creates or replaces all resources of an array. After an error, nothing is changed. */
  async #writeAll(
    { kind, type: name, text }: Kind<'create' | 'updateAll'>,
    guard: Guard,
    stamp: Stamp,
  ): Promise<DraftedChange> {
    const type = this.#requireType(name)
    const isUpdate = kind === 'updateAll'
    const body = parseStrictText(text)
    const resources = requireResources(body, type, guard.definition)
    if (isUpdate) requireDistinct(resources.map(({ target }) => target.id))
    const values = resources.map(({ value }) => value)
    const verb = isUpdate ? 'Update' : 'Add'
    const draft = await Draft.begin(
      guard,
      registryTransaction(verb, type, stamp, { resources: values }),
    )
    for (const resource of resources) {
      await (isUpdate ? draft.update(resource, guard) : draft.add(resource))
    }
    await draft.requireReferences(Array.isArray(body))
    return { draft, reply: Array.isArray(body) ? values : (values[0] ?? null) }
  }

  async #update(change: Kind<'update'>, guard: Guard, stamp: Stamp): Promise<DraftedChange> {
    const { id, text, isPatch, expects } = change
    const value = parseStrictText(text)
    const body = isJsonObject(value) ? value : {}
    const type = this.#requireType(change.type)
    const updating = (resource: JsonObject) =>
      registryTransaction('Update', type, stamp, { resources: [resource] })
    // As in Composer, UPDATE without READ is enough to replace a resource.
    const updater = isPatch ? null : guard.within(updating(body))
    const before = await requireStored(type, id, expects, guard, updater)
    const given = isPatch ? mergePatch(parseStored(before.text), body) : body
    const resource = requireResource(withId(given, type, id), type, guard.definition)
    const draft = await Draft.begin(guard, updating(resource.value))
    await draft.update(resource, null)
    await draft.requireReferences()
    return { draft, reply: resource.value }
  }

  /** Deletes all listed resources. After an error, nothing is changed. */
  async #remove({ type: name, ids, expects }: Kind<'remove'>, guard: Guard, stamp: Stamp) {
    const type = this.#requireType(name)
    requireListLength(ids)
    requireDistinct(ids)
    for (const id of ids) await requireStored(type, id, expects, guard, null)
    const fields = { resources: [], resourceIds: [...ids] }
    const draft = await Draft.begin(guard, registryTransaction('Remove', type, stamp, fields))
    for (const id of ids) await draft.remove({ type: name, id }, null)
    return { draft, reply: null }
  }

  async #submit({ type: name, text }: Kind<'submit'>, guard: Guard, stamp: Stamp) {
    const { definition, scripts, log } = this.#parts
    const type = this.#requireType(name)
    const fields = submittedFields(parseStrictText(text))
    const transaction = requireResource(
      createTransaction(name, stamp, fields).value,
      type,
      definition,
    )
    const submitter = guard.within(transaction)
    await submitter.requireSubmission(transaction)
    const exists = async (target: Target) => (await submitter.read(target)) !== null
    await requireReferences([transaction.value], false, definition, exists)
    return runProcessors(scripts, guard, type, transaction, log)
  }

  /** Returns the type `name`. Errors: TYPE_NOT_FOUND, for example after an upgrade removed the type. */
  #requireType(name: string): TypeDeclaration {
    return requireType(this.#parts.definition.model, name)
  }
}

/**
 * Returns the stored resource. Reports the resource as missing if the caller may not read it, unless `updater` (if not
 * null) allows UPDATE. Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED.
 */
async function requireStored(
  type: TypeDeclaration,
  id: string,
  expects: ExpectedRevisions,
  guard: Guard,
  updater: Guard | null,
): Promise<StoredResource> {
  const target: Target = { type: type.qualifiedName, id }
  const stored = await guard.database.read(target)
  if (stored === null) throw resourceMissing(type, id)
  const content = () => stored.text
  const isKnown =
    (await guard.allows('READ', target, content)) ||
    (await updater?.allows('UPDATE', target, content))
  if (isKnown !== true) throw resourceMissing(type, id)
  // A resource that is not recorded yet has the revision -1, which no client can have received. So it never has an
  // expected revision.
  if (expects === null || expects.includes(stored.revision)) return stored
  throw new NetworkError('RESOURCE_CHANGED', `'${id}' does not have the expected revision`)
}

function registryTransaction(
  verb: string,
  type: TypeDeclaration,
  stamp: Stamp,
  fields: JsonObject,
): Resource {
  const kind = type.kind === 'participant' ? 'Participant' : 'Asset'
  const registry = { type: systemType(`${kind}Registry`), id: type.qualifiedName }
  const targetRegistry = formatRelationship(registry)
  return createTransaction(systemType(verb + kind), stamp, { ...fields, targetRegistry })
}
