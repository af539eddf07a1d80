import type { Json, JsonObject } from '../../base/json.ts'
import type { Change } from '../../ledger/index.ts'
import { namesEvent } from '../access/rules.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Model, TypeDeclaration } from '../model/model.ts'
import { pointer } from '../model/problem.ts'
import { relationshipText, type Target } from '../model/relationship.ts'
import { systemType } from '../model/system.ts'
import { Ahead, type Begun, type Submission } from './ahead.ts'
import { ADMIN, type Caller } from './caller.ts'
import { conditionAnswerer } from './condition-reads.ts'
import type {
  ResourceChange,
  ResourceDatabase,
  ResourceReader,
  StoredResource,
} from './database.ts'
import type { EmittedEvent, EventFeed } from './event-feed.ts'
import { submitted, withId } from './given.ts'
import type { Recorded } from './group.ts'
import { Guard, type Judge as RuleJudge, requireTransaction } from './guard.ts'
import {
  invalid,
  type Resource,
  refuseLength,
  refuseRepeated,
  resourceOf,
  resourcesOf,
} from './instances.ts'
import { objectIn } from './item.ts'
import type { ListSource } from './list-source.ts'
import { type Listing, listResources, presentedText, resourceFilter } from './listing.ts'
import { missing, removed, taken } from './messages.ts'
import { type Drafted, processorsFor, type Workplace } from './process-request.ts'
import { process } from './processing.ts'
import { type QueryRequest, type QueryTextRequest, runQuery, runQueryText } from './query.ts'
import type { Recorder, Turn } from './recorder.ts'
import { missingReferences } from './references.ts'
import { registriesOf } from './registries.ts'
import { Resolver } from './resolve.ts'
import { checkedReturn, isRecorded } from './returns.ts'
import type { TransactionRecord } from './transaction-record.ts'

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
  /** What its transactions emit. */
  readonly events: EventFeed
}

/**
 * One deployed network: its resources, under its model and its access rules.
 *
 * Changes are decided one after the other, each on what the ones before it left, and recorded in that
 * order: each in one block of the ledger that also holds the transaction it is part of. The next is
 * decided while the one before it is on its way to the disk. Any answer, also a refusal, means that
 * all that it stands on is on the disk. Nothing is remembered beyond that: the ledger's database is
 * all there is.
 */
export class BusinessNetwork {
  #parts: NetworkParts
  readonly #ahead = new Ahead()
  #isRetired = false

  constructor(parts: NetworkParts) {
    this.#parts = parts
  }

  /** What its transactions emit. */
  get events(): EventFeed {
    return this.#parts.events
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

  /** The results of a query that a client wrote. Errors: PARAMETER_INVALID, FilterError. */
  queryText(request: QueryTextRequest, caller: Caller): Promise<Listing> {
    return runQueryText(this.#source(caller), request)
  }

  /** The archive that is deployed, for callers who may read the network. Errors: RESOURCE_NOT_FOUND. */
  async archive(caller: Caller): Promise<Buffer> {
    const { name, archive } = this.definition
    const target = { type: systemType('Network'), id: name }
    const { database, guard } = this.#source(caller)
    const stored = await database.read(target)
    // The default network is recorded with its first change.
    const content = () =>
      stored === null ? { $class: target.type, networkId: name } : objectIn(stored.text)
    if (await guard.allows('READ', target, content)) return archive
    const message = `Object with ID '${name}' in collection with ID 'Asset:${target.type}' does not exist`
    throw new NetworkError('RESOURCE_NOT_FOUND', message)
  }

  /**
   * One resource, with the `fields` and the resolved relationships that the filter in `query` asks for.
   * Errors: RESOURCE_NOT_FOUND, FilterError.
   */
  async read(
    type: TypeDeclaration,
    id: string,
    query: Readonly<Record<string, unknown>>,
    caller: Caller,
  ): Promise<StoredResource> {
    const filter = resourceFilter(query, this.#model, type)
    const target = { type: type.qualifiedName, id }
    const source = this.#source(caller)
    const stored = await source.database.read(target)
    if (stored === null) throw missing(type, id)
    const content = () => objectIn(stored.text)
    if (!(await source.guard.allows('READ', target, content))) throw missing(type, id)
    return { ...stored, text: await presentedText(stored.text, filter, new Resolver(source)) }
  }

  /**
   * Adds one resource, or all of an array, in one block.
   * Errors: RESOURCE_INVALID, RESOURCE_EXISTS, ACCESS_DENIED, LIST_EMPTY.
   */
  async create(type: TypeDeclaration, body: Json, caller: Caller): Promise<Made> {
    return this.#take(async (turn) => {
      // Not before: an upgrade may have its turn first.
      const resources = resourcesOf(body, type, this.#judge)
      const values = resources.map(({ value }) => value)
      const transaction = this.#registryTransaction('Add', type, { resources: values })
      const guard = this.#guard(caller, turn.state).within(transaction)
      await requireTransaction(guard, transaction)
      const ids = new Set<string>()
      for (const { target, value } of resources) {
        await guard.require('CREATE', target, () => value)
        if (ids.has(target.id) || (await turn.state.read(target)) !== null) {
          throw taken(type, target.id)
        }
        ids.add(target.id)
      }
      await this.#checkReferences(resources, Array.isArray(body), turn.state)
      const writes = resources.map(
        ({ target, value }): ResourceChange => ({ kind: 'create', target, resource: value }),
      )
      return made(turn, values, transaction, caller, writes)
    })
  }

  /**
   * Replaces one resource by `next`, or by the result of `next`, which then needs READ as well.
   * Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED, RESOURCE_INVALID, RESOURCE_ID_MISMATCH,
   * ACCESS_DENIED.
   */
  update(
    type: TypeDeclaration,
    id: string,
    next: JsonObject | ((before: JsonObject) => JsonObject),
    expects: RevisionTest,
    caller: Caller,
  ): Promise<Made> {
    return this.#take(async (turn) => {
      const guard = this.#guard(caller, turn.state)
      // As in Composer, UPDATE without READ is enough to replace a resource.
      const updating = () =>
        typeof next === 'function'
          ? null
          : guard.within(this.#registryTransaction('Update', type, { resources: [next] }))
      const before = await current(type, id, { expects, guard, updating, state: turn.state })
      const given = typeof next === 'function' ? next(objectIn(before.text)) : next
      const resource = resourceOf(withId(given, type, id), type, this.#judge)
      const { target, value } = resource
      const transaction = this.#registryTransaction('Update', type, { resources: [value] })
      const inside = guard.within(transaction)
      await requireTransaction(inside, transaction)
      // Rules are asked about the version that is replaced.
      await inside.require('UPDATE', target, () => objectIn(before.text))
      await this.#checkReferences([resource], false, turn.state)
      const write = { kind: 'update', target, resource: value } as const
      return made(turn, [value], transaction, caller, [write])
    })
  }

  /** Removes one resource. Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED, ACCESS_DENIED. */
  remove(type: TypeDeclaration, id: string, expects: RevisionTest, caller: Caller): Promise<Made> {
    return this.#take(async (turn) => {
      const guard = this.#guard(caller, turn.state)
      const before = await current(type, id, { expects, guard, state: turn.state })
      const target = { type: type.qualifiedName, id }
      const fields = { resources: [], resourceIds: [id] }
      const transaction = this.#registryTransaction('Remove', type, fields)
      const inside = guard.within(transaction)
      await requireTransaction(inside, transaction)
      await inside.require('DELETE', target, () => objectIn(before.text))
      return made(turn, [], transaction, caller, [{ kind: 'delete', target }])
    })
  }

  /**
   * Replaces all resources of the array `body`, in one block, or none.
   * Errors: RESOURCE_NOT_FOUND, RESOURCE_INVALID, ACCESS_DENIED, LIST_EMPTY, UNIT_TOO_LARGE.
   */
  updateAll(type: TypeDeclaration, body: readonly Json[], caller: Caller): Promise<Made> {
    return this.#take(async (turn) => {
      const resources = resourcesOf([...body], type, this.#judge)
      refuseRepeated(resources.map(({ target }) => target.id))
      const values = resources.map(({ value }) => value)
      const transaction = this.#registryTransaction('Update', type, { resources: values })
      const guard = this.#guard(caller, turn.state)
      const inside = guard.within(transaction)
      await requireTransaction(inside, transaction)
      const request = { expects: ANY_REVISION, guard, updating: () => inside, state: turn.state }
      for (const { target } of resources) {
        const before = await current(type, target.id, request)
        await inside.require('UPDATE', target, () => objectIn(before.text))
      }
      await this.#checkReferences(resources, true, turn.state)
      const writes = resources.map(
        ({ target, value }): ResourceChange => ({ kind: 'update', target, resource: value }),
      )
      return made(turn, values, transaction, caller, writes)
    })
  }

  /**
   * Removes all resources that `ids` names, in one block, or none.
   * Errors: RESOURCE_NOT_FOUND, RESOURCE_INVALID, ACCESS_DENIED, LIST_EMPTY, UNIT_TOO_LARGE.
   */
  removeAll(type: TypeDeclaration, ids: readonly string[], caller: Caller): Promise<Made> {
    return this.#take(async (turn) => {
      refuseLength(ids)
      refuseRepeated(ids)
      const fields = { resources: [], resourceIds: [...ids] }
      const transaction = this.#registryTransaction('Remove', type, fields)
      const guard = this.#guard(caller, turn.state)
      const inside = guard.within(transaction)
      await requireTransaction(inside, transaction)
      const request = { expects: ANY_REVISION, guard, state: turn.state }
      const writes: ResourceChange[] = []
      for (const id of ids) {
        const before = await current(type, id, request)
        const target = { type: type.qualifiedName, id }
        await inside.require('DELETE', target, () => objectIn(before.text))
        writes.push({ kind: 'delete', target })
      }
      return made(turn, [], transaction, caller, writes)
    })
  }

  /**
   * Submits a transaction: its processors run, and what they changed is recorded with it, with the id
   * and the time that it is given here; or nothing at all.
   * Errors: RESOURCE_INVALID, ACCESS_DENIED, TRANSACTION_FAILED, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
   */
  submit(type: TypeDeclaration, given: Json, caller: Caller): Promise<Submitted> {
    const fields = submitted(given)
    const submission: Submission = {
      draft: (state) => this.#draft(type, fields, caller, state),
      begun: null,
    }
    return this.#take(async (turn) => {
      const begun = await this.#ahead.begin(this.#parts, submission, turn)
      try {
        return await this.#process(type, begun, turn)
      } finally {
        begun.leave()
      }
    }, submission)
  }

  async #draft(
    type: TypeDeclaration,
    fields: JsonObject,
    caller: Caller,
    state: ResourceReader,
  ): Promise<Drafted> {
    const draft = this.#parts.recorder.transaction(type.qualifiedName, fields)
    const { value } = resourceOf(draft.resource, type, this.#judge)
    const transaction = { ...draft, resource: value }
    await requireTransaction(this.#guard(caller, state).within(transaction), transaction)
    return { transaction, caller, processors: processorsFor(type, this.definition) }
  }

  async #process(type: TypeDeclaration, begun: Begun, turn: Turn): Promise<Submitted> {
    const { drafted } = begun
    const { transaction, caller, processors } = drafted
    const { target, resource } = transaction
    await this.#checkReferences([{ target, value: resource }], false, turn.state)
    if (processors.length === 0) {
      const what = `transaction ${target.type}#${target.id}`
      const message = `Could not find any functions to execute for ${what}`
      throw new NetworkError('TRANSACTION_FAILED', message)
    }
    const { changes, events, returned } = await process(this.#parts, drafted, turn.state, begun)
    const reply = checkedReturn(type, returned, this.#judge) ?? resource
    if (!isRecorded(type)) return { reply, recorded: null }
    const onDisk = recorded(turn, transaction, caller, changes, { events })
    begun.note(changes)
    return { reply, recorded: await onDisk }
  }

  /**
   * Decides and records a transaction of the system while nothing else changes the network.
   * `decide` gives its fields and writes, made of what is there. Errors: ACCESS_DENIED; its own.
   */
  submitSystem(
    verb: string,
    decide: (state: ResourceReader) => Promise<SystemTransaction>,
    caller: Caller,
  ): Promise<Made> {
    return this.#take(async (turn) => {
      const { fields, writes } = await decide(turn.state)
      const transaction = this.#parts.recorder.transaction(systemType(verb), fields)
      const guard = this.#guard(caller, turn.state).within(transaction)
      await requireTransaction(guard, transaction)
      for (const { kind, target, resource } of writes) {
        const before = kind === 'create' ? resource : await resourceAt(target, turn.state)
        await guard.require(kind === 'create' ? 'CREATE' : 'UPDATE', target, () => before)
      }
      return made(turn, [], transaction, caller, writes)
    })
  }

  /**
   * Returns those of `events` that the caller receives: those that it may READ, and those that no READ
   * rule names whose transaction it may submit.
   */
  async receivableEvents(events: readonly EmittedEvent[], caller: Caller): Promise<EmittedEvent[]> {
    const { rules, strictEvents } = this.definition
    const guard = this.#guard(caller, this.#parts.database)
    const submits = new Map<string, boolean>()
    const maySubmit = async ({ id }: EmittedEvent) => {
      const [transactionId = ''] = id.split('#')
      const known = submits.get(transactionId) ?? (await this.#maySubmit(transactionId, guard))
      submits.set(transactionId, known)
      return known
    }
    const received: EmittedEvent[] = []
    for (const event of events) {
      // One of a type that an upgrade took away is nobody's any more.
      if (this.#model.type(event.type) === null) continue
      const needsRead = strictEvents || namesEvent(rules, event, this.#model)
      const isReceived =
        (await guard.allows('READ', event, () => event.content)) ||
        (!needsRead && (await maySubmit(event)))
      if (isReceived) received.push(event)
    }
    return received
  }

  /** Whether rules let the caller submit a transaction like the recorded one. */
  async #maySubmit(id: string, guard: Guard): Promise<boolean> {
    const record = await this.lookUp({ type: systemType('HistorianRecord'), id })
    const target = { type: String(record?.transactionType), id }
    const resource = await this.lookUp(target)
    if (resource === null || this.#model.type(target.type) === null) return false
    const transaction = { target, resource, timestamp: String(resource.timestamp) }
    return guard.within(transaction).allows('CREATE', target, () => resource)
  }

  /** A resource, whoever asks: for the gateway's own decisions, never for a reply. */
  async lookUp(target: Target): Promise<JsonObject | null> {
    return resourceAt(target, this.#parts.database)
  }

  /**
   * Exchanges what is deployed, once what `decide` makes of the resources is recorded as `transaction`;
   * nothing else happens meanwhile.
   */
  replace(
    decide: (database: ResourceDatabase) => Promise<readonly ResourceChange[]>,
    also: readonly Change[],
    next: Pick<NetworkParts, 'definition' | 'control' | 'scripts'>,
  ): Promise<void> {
    return this.#take(async (turn) => {
      await turn.durable
      const { database, recorder, scripts } = this.#parts
      const changes = await decide(database)
      const transaction = recorder.transaction(systemType('StartBusinessNetwork'), {})
      await turn.record(transaction, ADMIN, changes, { also })
      this.#parts = { ...this.#parts, ...next }
      database.setRegistries(registriesOf(next.definition.model))
      await scripts.close()
    })
  }

  /** Records `tombstone`, after which nothing can change the network. Errors: NETWORK_REMOVED. */
  retire(tombstone: Change): Promise<void> {
    return this.#take(async (turn) => {
      await turn.durable
      const { recorder, scripts } = this.#parts
      const transaction = recorder.transaction(systemType('RemoveBusinessNetwork'), {})
      await turn.record(transaction, ADMIN, [], { also: [tombstone] })
      this.#isRetired = true
      await scripts.close()
    })
  }

  /** Ends what runs for it. */
  async close(): Promise<void> {
    await this.#parts.scripts.close()
  }

  /** Takes a turn of the recorder. Errors: NETWORK_REMOVED for requests that waited behind the removal. */
  #take<Result>(
    work: (turn: Turn) => Promise<Result>,
    submission: Submission | null = null,
  ): Promise<Result> {
    return this.#parts.recorder.take((turn) => {
      if (this.#isRetired) throw removed(this.definition.name)
      return work(turn)
    }, submission)
  }

  get #model(): Model {
    return this.definition.model
  }

  get #judge() {
    return { model: this.#model, strictness: this.definition }
  }

  #guard(caller: Caller, database: ResourceReader): Guard {
    const { control, scripts } = this.#parts
    const judge: RuleJudge = (request) => scripts.judge(request, conditionAnswerer(database))
    return new Guard({ control, model: this.#model, caller, database, judge }, null)
  }

  #source(caller: Caller): ListSource {
    const { database } = this.#parts
    return { database, model: this.#model, guard: this.#guard(caller, database) }
  }

  #registryTransaction(verb: string, type: TypeDeclaration, fields: JsonObject): TransactionRecord {
    const kind = type.kind === 'participant' ? 'Participant' : 'Asset'
    const registry = { type: systemType(`${kind}Registry`), id: type.qualifiedName }
    const targetRegistry = relationshipText(registry)
    return this.#parts.recorder.transaction(systemType(verb + kind), { ...fields, targetRegistry })
  }

  async #checkReferences(
    resources: readonly Resource[],
    inList: boolean,
    state: ResourceReader,
  ): Promise<void> {
    if (!this.definition.strictReferences) return
    const own = new Set(resources.map(({ target }) => `${target.type}#${target.id}`))
    const isThere = async (target: Target) =>
      own.has(`${target.type}#${target.id}`) || (await state.read(target)) !== null
    for (const [index, { value }] of resources.entries()) {
      const path = inList ? pointer('', index) : ''
      const problems = await missingReferences(value, path, this.#model, isThere)
      if (problems.length > 0) throw invalid(problems)
    }
  }
}

/** What a transaction of the system says and does. */
export interface SystemTransaction {
  readonly fields: JsonObject
  readonly writes: readonly Exclude<ResourceChange, { kind: 'delete' }>[]
}

const ANY_REVISION: RevisionTest = () => true

/** Records what `turn` decided; the next turn begins before that is on the disk. */
function recorded(turn: Turn, ...what: Parameters<Turn['record']>): Promise<Recorded> {
  const onDisk = turn.record(...what)
  turn.release()
  return onDisk
}

async function made(
  turn: Turn,
  resources: readonly JsonObject[],
  ...what: Parameters<Turn['record']>
): Promise<Made> {
  return { ...(await recorded(turn, ...what)), resources }
}

async function resourceAt(target: Target, state: ResourceReader): Promise<JsonObject | null> {
  const stored = await state.read(target)
  return stored === null ? null : objectIn(stored.text)
}

interface CurrentRequest {
  readonly expects: RevisionTest
  readonly guard: Guard
  readonly state: ResourceReader
  /** The guard of an update that does not need READ, or null. */
  readonly updating?: () => Guard | null
}

/**
 * Returns the stored resource. A resource that the caller may neither read nor update is reported as
 * missing. Errors: RESOURCE_NOT_FOUND, RESOURCE_CHANGED.
 */
async function current(
  type: TypeDeclaration,
  id: string,
  { expects, guard, state, updating = () => null }: CurrentRequest,
): Promise<StoredResource> {
  const target = { type: type.qualifiedName, id }
  const stored = await state.read(target)
  if (stored === null) throw missing(type, id)
  const content = () => objectIn(stored.text)
  const isKnown =
    (await guard.allows('READ', target, content)) ||
    (await updating()?.allows('UPDATE', target, content))
  if (isKnown !== true) throw missing(type, id)
  // One that is not on the disk yet has no revision that anybody could ask for.
  if (expects(stored.revision)) return stored
  throw new NetworkError('RESOURCE_CHANGED', `'${id}' is not at the revision that was asked for`)
}
