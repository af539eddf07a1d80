import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Model, TypeDeclaration } from '../model/model.ts'
import { pointer } from '../model/problem.ts'
import { relationshipText, type Target } from '../model/relationship.ts'
import { systemType } from '../model/system.ts'
import type { Caller } from './caller.ts'
import { conditionAnswerer } from './condition-reads.ts'
import type {
  RecordedChanges,
  ResourceChange,
  ResourceDatabase,
  StoredResource,
} from './database.ts'
import { type EmittedEvent, EventFeed } from './event-feed.ts'
import { Guard, type Judge as RuleJudge } from './guard.ts'
import { invalid, type Resource, resourceOf, resourcesOf } from './instances.ts'
import { objectIn } from './item.ts'
import type { ListSource } from './list-source.ts'
import { type Listing, listResources, resourceFilter } from './listing.ts'
import { missing, taken } from './messages.ts'
import { process, processorsFor, type Workplace } from './processing.ts'
import { type QueryRequest, runQuery } from './query.ts'
import type { Beside, Recorded, Recorder } from './recorder.ts'
import { missingReferences } from './references.ts'
import { Resolver } from './resolve.ts'
import { checkedReturn, isRecorded } from './returns.ts'
import { historianTarget, type TransactionRecord } from './transaction-record.ts'
import { Turns } from './turns.ts'

/** What a request changed, and where that was recorded. */
export interface Made extends Recorded {
  /** The resources as they are kept now, in the order of the request. */
  readonly resources: readonly JsonObject[]
}

/** Whether the revision that is there is one that a request asked for. */
export type RevisionTest = (revision: number) => boolean

/** What a transaction came to. */
export interface Submitted {
  /** What the client is answered with: the transaction, or what its processors returned. */
  readonly reply: Json
  /** Null for a transaction with `@commit(false)`. */
  readonly recorded: Recorded | null
}

/** What a network is made of. */
export interface NetworkParts extends Workplace {
  readonly database: ResourceDatabase
  readonly recorder: Recorder
}

/**
 * One deployed network: its resources, under its model and its access rules.
 *
 * Changes are made one after the other, each in one block of the ledger that also holds the
 * transaction it is part of; an answer means that the block is on the disk. Nothing is remembered
 * between requests: the ledger's database is all there is.
 */
export class BusinessNetwork {
  #parts: NetworkParts
  readonly #turns = new Turns()
  /** What its transactions emit. */
  readonly events: EventFeed

  constructor(parts: NetworkParts) {
    this.#parts = parts
    this.events = new EventFeed(parts.database)
  }

  /** What is deployed. */
  get definition(): NetworkDefinition {
    return this.#parts.definition
  }

  /** The resources of `type` that match the filter in `query` and may be read. Errors: FilterError. */
  async list(
    type: TypeDeclaration,
    query: Readonly<Record<string, unknown>>,
    caller: Caller,
  ): Promise<Listing> {
    const filter = resourceFilter(query, this.#model, type)
    return listResources(this.#source(caller), type, filter)
  }

  /** What the named query of the network finds. Errors: QUERY_NOT_FOUND, PARAMETER_INVALID. */
  query(request: QueryRequest, caller: Caller): Promise<Listing> {
    return runQuery(this.#source(caller), this.definition.queries, request)
  }

  /**
   * One resource, its relationships resolved where the filter in `query` asks for that.
   * Errors: RESOURCE_NOT_FOUND, FilterError.
   */
  async read(
    type: TypeDeclaration,
    id: string,
    query: Readonly<Record<string, unknown>>,
    caller: Caller,
  ): Promise<StoredResource> {
    const { resolve } = resourceFilter(query, this.#model, type)
    const target = { type: type.qualifiedName, id }
    const source = this.#source(caller)
    const stored = await source.database.read(target)
    if (stored === null) throw missing(type, id)
    const content = () => objectIn(stored.text)
    if (!(await source.guard.allows('READ', target, content))) throw missing(type, id)
    if (!resolve) return stored
    const whole = content()
    return { ...stored, text: JSON.stringify(await new Resolver(source).resolved(whole, whole)) }
  }

  /**
   * Adds one resource, or all of an array, in one block.
   * Errors: RESOURCE_INVALID, RESOURCE_EXISTS, ACCESS_DENIED, LIST_EMPTY.
   */
  async create(type: TypeDeclaration, body: Json, caller: Caller): Promise<Made> {
    const resources = resourcesOf(body, type, this.#judge)
    const values = resources.map(({ value }) => value)
    return this.#turns.take(async () => {
      const transaction = this.#registryTransaction('Add', type, { resources: values })
      const guard = this.#guard(caller).within(transaction)
      await requireTransaction(guard, transaction)
      const ids = new Set<string>()
      for (const { target, value } of resources) {
        await guard.require('CREATE', target, () => value)
        if (ids.has(target.id) || (await this.#parts.database.read(target)) !== null) {
          throw taken(type, target.id)
        }
        ids.add(target.id)
      }
      await this.#checkReferences(resources, Array.isArray(body))
      const writes = resources.map(
        ({ target, value }): ResourceChange => ({ kind: 'create', target, resource: value }),
      )
      return this.#record(transaction, caller, writes, values)
    })
  }

  /**
   * Replaces one resource by what `next` makes of it.
   * Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED, RESOURCE_INVALID, RESOURCE_ID_MISMATCH,
   * ACCESS_DENIED.
   */
  update(
    type: TypeDeclaration,
    id: string,
    next: (before: JsonObject) => JsonObject,
    expects: RevisionTest,
    caller: Caller,
  ): Promise<Made> {
    return this.#turns.take(async () => {
      const guard = this.#guard(caller)
      const before = await this.#current(type, id, expects, guard)
      const resource = resourceOf(withId(next(objectIn(before.text)), type, id), type, this.#judge)
      const { target, value } = resource
      const transaction = this.#registryTransaction('Update', type, { resources: [value] })
      const inside = guard.within(transaction)
      await requireTransaction(inside, transaction)
      // Rules are asked about the version that is replaced.
      await inside.require('UPDATE', target, () => objectIn(before.text))
      await this.#checkReferences([resource], false)
      const write = { kind: 'update', target, resource: value } as const
      return this.#record(transaction, caller, [write], [value])
    })
  }

  /** Removes one resource. Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED, ACCESS_DENIED. */
  remove(type: TypeDeclaration, id: string, expects: RevisionTest, caller: Caller): Promise<Made> {
    return this.#turns.take(async () => {
      const guard = this.#guard(caller)
      const before = await this.#current(type, id, expects, guard)
      const target = { type: type.qualifiedName, id }
      const fields = { resources: [], resourceIds: [id] }
      const transaction = this.#registryTransaction('Remove', type, fields)
      const inside = guard.within(transaction)
      await requireTransaction(inside, transaction)
      await inside.require('DELETE', target, () => objectIn(before.text))
      return this.#record(transaction, caller, [{ kind: 'delete', target }], [])
    })
  }

  /**
   * Submits a transaction: its processors run, and what they changed is recorded with it, with the id
   * and the time that it is given here; or nothing at all.
   * Errors: RESOURCE_INVALID, ACCESS_DENIED, TRANSACTION_FAILED, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
   */
  submit(type: TypeDeclaration, given: Json, caller: Caller): Promise<Submitted> {
    const fields = submitted(given)
    return this.#turns.take(async () => {
      const draft = this.#parts.recorder.transaction(type.qualifiedName, fields)
      const resource = resourceOf(draft.resource, type, this.#judge)
      const transaction = { ...draft, resource: resource.value }
      await requireTransaction(this.#guard(caller).within(transaction), transaction)
      await this.#checkReferences([resource], false)
      const processors = processorsFor(type, this.definition)
      const { changes, events, returned } =
        processors.length === 0
          ? NOTHING_PROCESSED
          : await process(this.#parts, processors, transaction, caller)
      const reply = checkedReturn(type, returned, this.#judge) ?? resource.value
      if (!isRecorded(type)) return { reply, recorded: null }
      const recorded = await this.#record(transaction, caller, changes, [], { events })
      this.events.publish(recorded.height, events)
      return { reply, recorded }
    })
  }

  /**
   * Decides and records a transaction of the system while nothing else changes the network.
   * `decide` gives its fields and writes, made of what is there. Errors: ACCESS_DENIED; its own.
   */
  submitSystem(
    verb: string,
    decide: (database: ResourceDatabase) => Promise<SystemTransaction>,
    caller: Caller,
  ): Promise<Made> {
    return this.#turns.take(async () => {
      const { fields, writes } = await decide(this.#parts.database)
      const transaction = this.#parts.recorder.transaction(systemType(verb), fields)
      const guard = this.#guard(caller).within(transaction)
      await requireTransaction(guard, transaction)
      for (const { kind, target, resource } of writes) {
        const before = kind === 'create' ? resource : await this.lookUp(target)
        await guard.require(kind === 'create' ? 'CREATE' : 'UPDATE', target, () => before)
      }
      return this.#record(transaction, caller, writes, [])
    })
  }

  /** Those of `events` that the caller may read. */
  async readableEvents(events: readonly EmittedEvent[], caller: Caller): Promise<EmittedEvent[]> {
    const guard = this.#guard(caller)
    const readable: EmittedEvent[] = []
    for (const event of events) {
      // One of a type that an upgrade took away is nobody's any more.
      if (this.#model.type(event.type) === null) continue
      if (await guard.allows('READ', event, () => event.content)) readable.push(event)
    }
    return readable
  }

  /** All that changed it, block by block. */
  recordedBlocks(): AsyncIterable<RecordedChanges> {
    return this.#parts.database.changesFrom(0)
  }

  /** A resource, whoever asks: for the gateway's own decisions, never for a reply. */
  async lookUp(target: Target): Promise<JsonObject | null> {
    const stored = await this.#parts.database.read(target)
    return stored === null ? null : objectIn(stored.text)
  }

  /** Exchanges what is deployed, once `record` has recorded that; nothing else happens meanwhile. */
  replace(
    record: (database: ResourceDatabase, recorder: Recorder) => Promise<unknown>,
    next: Pick<NetworkParts, 'definition' | 'control' | 'scripts'>,
  ): Promise<void> {
    return this.#turns.take(async () => {
      await record(this.#parts.database, this.#parts.recorder)
      const { scripts } = this.#parts
      this.#parts = { ...this.#parts, ...next }
      await scripts.close()
    })
  }

  /** Ends what runs for it. */
  async close(): Promise<void> {
    await this.#parts.scripts.close()
  }

  get #model(): Model {
    return this.definition.model
  }

  get #judge() {
    return { model: this.#model, strictness: this.definition }
  }

  #guard(caller: Caller): Guard {
    const { control, database, scripts } = this.#parts
    const judge: RuleJudge = (request) => scripts.judge(request, conditionAnswerer(database))
    return new Guard({ control, model: this.#model, caller, database, judge }, null)
  }

  #source(caller: Caller): ListSource {
    return { database: this.#parts.database, model: this.#model, guard: this.#guard(caller) }
  }

  /** What is there, if the caller may know of it. */
  async #current(
    type: TypeDeclaration,
    id: string,
    expects: RevisionTest,
    guard: Guard,
  ): Promise<StoredResource> {
    const target = { type: type.qualifiedName, id }
    const stored = await this.#parts.database.read(target)
    if (stored === null) throw missing(type, id)
    if (!(await guard.allows('READ', target, () => objectIn(stored.text)))) throw missing(type, id)
    if (expects(stored.revision)) return stored
    throw new NetworkError('RESOURCE_CHANGED', `'${id}' is not at the revision that was asked for`)
  }

  #registryTransaction(verb: string, type: TypeDeclaration, fields: JsonObject): TransactionRecord {
    const kind = type.kind === 'participant' ? 'Participant' : 'Asset'
    const registry = { type: systemType(`${kind}Registry`), id: type.qualifiedName }
    const targetRegistry = relationshipText(registry)
    return this.#parts.recorder.transaction(systemType(verb + kind), { ...fields, targetRegistry })
  }

  async #checkReferences(resources: readonly Resource[], inList: boolean): Promise<void> {
    if (!this.definition.strictReferences) return
    const own = new Set(resources.map(({ target }) => `${target.type}#${target.id}`))
    const isThere = async (target: Target) =>
      own.has(`${target.type}#${target.id}`) || (await this.#parts.database.read(target)) !== null
    for (const [index, { value }] of resources.entries()) {
      const path = inList ? pointer('', index) : ''
      const problems = await missingReferences(value, path, this.#model, isThere)
      if (problems.length > 0) throw invalid(problems)
    }
  }

  async #record(
    transaction: TransactionRecord,
    caller: Caller,
    writes: readonly ResourceChange[],
    resources: readonly JsonObject[],
    beside: Beside = {},
  ): Promise<Made> {
    const recorded = await this.#parts.recorder.record(transaction, caller, writes, beside)
    return { ...recorded, resources }
  }
}

const NOTHING_PROCESSED = { changes: [], events: [], returned: null }

/** What a transaction of the system says and does. */
export interface SystemTransaction {
  readonly fields: JsonObject
  readonly writes: readonly Exclude<ResourceChange, { kind: 'delete' }>[]
}

/** Whoever submits must be allowed to, and to leave the historian's record of it. */
async function requireTransaction(guard: Guard, transaction: TransactionRecord): Promise<void> {
  await guard.require('CREATE', transaction.target, () => transaction.resource)
  // The record is made when all is done, so a condition has nothing of it to look at.
  await guard.require('CREATE', historianTarget(transaction), () => null)
}

/** `value` with the id of the path, which it may leave out. Errors: RESOURCE_ID_MISMATCH. */
function withId(value: JsonObject, { identifier }: TypeDeclaration, id: string): JsonObject {
  const name = identifier ?? ''
  const given = value[name] ?? id
  if (given === id) return { ...value, [name]: id }
  const message = `the body names another id than the path, '${id}'`
  throw new NetworkError('RESOURCE_ID_MISMATCH', message)
}

/** What a client says of a transaction: its time is ours to tell, and so is its id. */
function submitted(given: Json): JsonObject {
  if (!isJsonObject(given)) {
    throw invalid([{ path: '', code: 'WRONG_TYPE', message: 'must be an object, a transaction' }])
  }
  const { timestamp: _ignored, transactionId, ...fields } = given
  if (transactionId === undefined || transactionId === null) return fields
  const message = 'the id of a transaction is given by the server'
  throw invalid([{ path: '/transactionId', code: 'ASSIGNED_BY_SERVER', message }])
}
