import type { Json, JsonObject } from '../../base/json.ts'
import { unitOf } from '../../ledger/core.ts'
import type { Change } from '../../ledger/index.ts'
import { AccessControl, namesEvent } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { writtenQuery } from '../queries/check.ts'
import {
  entryOf,
  objectIn,
  type ResourceChange,
  type ResourceDatabase,
  type StoredResource,
} from '../resources/database.ts'
import { Guard, type Source } from '../resources/guard.ts'
import { missing, removed, submittedFields } from '../resources/instances.ts'
import {
  type Listing,
  listResources,
  presentedText,
  Resolver,
  resourceFilter,
} from '../resources/listing.ts'
import { registriesOf } from '../resources/overlay.ts'
import { type ParameterTexts, parameterTexts, runQuery } from '../resources/query.ts'
import { ADMIN, type Caller, recordsOf, transactionOf } from '../resources/transaction.ts'
import type { ChangeRequest } from '../transactions/messages.ts'
import type { EmittedEvent, EventFeed } from './event-feed.ts'
import type { NetworkThread } from './network-thread.ts'
import type { Outcome, Pipeline, Recorded } from './pipeline.ts'

/** The position of a request's changes, and the resources they made. */
export interface Made extends Recorded {
  /** The resources as they are stored now, in the order of the request. */
  readonly resources: readonly Json[]
}

export interface NetworkParts {
  readonly definition: NetworkDefinition
  readonly database: ResourceDatabase
  /** The way of all changes. */
  readonly pipeline: Pipeline
  /** The events of its transactions. */
  readonly events: EventFeed
  /** Records the network itself, before its first change. */
  readonly deployment: readonly Change[]
}

/**
 * One deployed network. Reads are answered here, under the access rules; changes are decided in the
 * network's thread and answered when they are durable.
 */
export class BusinessNetwork {
  readonly #parts: NetworkParts
  #definition: NetworkDefinition
  #control: AccessControl

  constructor(parts: NetworkParts) {
    this.#parts = parts
    this.#definition = parts.definition
    this.#control = new AccessControl(parts.definition.rules)
  }

  /** The events of its transactions. */
  get events(): EventFeed {
    return this.#parts.events
  }

  /** The network as it is deployed. */
  get definition(): NetworkDefinition {
    return this.#definition
  }

  /** The resources of `type` that match the filter in `query` and may be read. Errors: FilterError. */
  async list(
    type: TypeDeclaration,
    query: Readonly<Record<string, unknown>>,
    caller: Caller,
  ): Promise<Listing> {
    const filter = resourceFilter(query, this.#definition.model, type)
    return listResources(this.#source(caller), type, filter)
  }

  /**
   * The results of a named query; `query` has its parameters and those of a filter.
   * Errors: QUERY_NOT_FOUND, PARAMETER_INVALID, FilterError.
   */
  async query(name: string, query: ParameterTexts, caller: Caller): Promise<Listing> {
    const named = this.#definition.queries.get(name)
    if (named === undefined) {
      throw new NetworkError('QUERY_NOT_FOUND', `there is no query ${name}`)
    }
    return runQuery(this.#source(caller), named, query, query)
  }

  /**
   * The results of a query that a client wrote, `SELECT …`; `query` has the parameters of a filter.
   * Errors: PARAMETER_INVALID, FilterError.
   */
  async queryText(
    text: string,
    parameters: JsonObject,
    query: ParameterTexts,
    caller: Caller,
  ): Promise<Listing> {
    const written = writtenQuery(text, this.#definition.model)
    return runQuery(this.#source(caller), written, parameterTexts(parameters), query)
  }

  /** The archive that is deployed, for callers who may read the network. Errors: RESOURCE_NOT_FOUND. */
  async archive(caller: Caller): Promise<Buffer> {
    const { name, archive } = this.#definition
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
    const filter = resourceFilter(query, this.#definition.model, type)
    const target = { type: type.qualifiedName, id }
    const source = this.#source(caller)
    const stored = await source.database.read(target)
    if (stored === null) throw missing(type, id)
    const content = () => objectIn(stored.text)
    if (!(await source.guard.allows('READ', target, content))) throw missing(type, id)
    return { ...stored, text: await presentedText(stored.text, filter, new Resolver(source)) }
  }

  /** Makes a change, in one block. Errors: those of `Decider.decide`; NETWORK_BUSY, NETWORK_REMOVED. */
  async change(change: ChangeRequest, caller: Caller): Promise<Made> {
    const { reply, recorded } = await this.#parts.pipeline.request(change, caller)
    if (recorded === null) throw new Error(`${change.kind} was not recorded`)
    return { ...recorded, resources: Array.isArray(reply) ? reply : [] }
  }

  /**
   * Submits a transaction: runs its processors, and records it with all of their changes, or nothing.
   * `reply` is the transaction or the result of its processors; `recorded` is null with `@commit(false)`.
   * Errors: RESOURCE_INVALID, ACCESS_DENIED, TRANSACTION_FAILED, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
   */
  async submit(
    { qualifiedName: type }: TypeDeclaration,
    given: Json,
    caller: Caller,
  ): Promise<Outcome> {
    const fields = submittedFields(given)
    return this.#parts.pipeline.request({ kind: 'submit', type, fields }, caller)
  }

  /**
   * Returns those of `events` that the caller receives: those that it may READ, and those that no READ
   * rule names whose transaction it may submit.
   */
  async receivableEvents(events: readonly EmittedEvent[], caller: Caller): Promise<EmittedEvent[]> {
    const { model, rules, strictEvents } = this.#definition
    const { guard } = this.#source(caller)
    const submits = new Map<string, boolean>()
    const maySubmit = async ({ id }: EmittedEvent) => {
      const [transactionId = ''] = id.split('#')
      const known = submits.get(transactionId) ?? (await this.#maySubmit(transactionId, guard))
      submits.set(transactionId, known)
      return known
    }
    const received: EmittedEvent[] = []
    for (const event of events) {
      // Nobody receives one of a type that an upgrade took away.
      if (model.type(event.type) === null) continue
      const needsRead = strictEvents || namesEvent(rules, event, model)
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
    if (resource === null || this.#definition.model.type(target.type) === null) return false
    const transaction = { target, resource, timestamp: String(resource.timestamp) }
    return guard.within(transaction).allows('CREATE', target, () => resource)
  }

  /** A resource, without access rules: for the gateway's own decisions, never for a reply. */
  async lookUp(target: Target): Promise<JsonObject | null> {
    const stored = await this.#parts.database.read(target)
    return stored === null ? null : objectIn(stored.text)
  }

  /**
   * Replaces the definition by `next`, whose thread is `thread`; the changes that `decide` makes of the
   * resources are recorded with `item`, while no other request runs.
   */
  replace(
    next: NetworkDefinition,
    thread: NetworkThread,
    decide: (database: ResourceDatabase) => Promise<readonly ResourceChange[]>,
    item: Change,
  ): Promise<void> {
    const { database, pipeline } = this.#parts
    return pipeline.exclusive(async () => {
      await this.#recordAlone('StartBusinessNetwork', [item], await decide(database))
      this.#definition = next
      this.#control = new AccessControl(next.rules)
      database.setRegistries(registriesOf(next.model))
      await pipeline.exchange(thread)
    })
  }

  /** Records `tombstone`, after which nothing can change the network. */
  retire(tombstone: Change): Promise<void> {
    const { pipeline } = this.#parts
    return pipeline.exclusive(async () => {
      await this.#recordAlone('RemoveBusinessNetwork', [tombstone], [])
      await pipeline.close(removed(this.#definition.name))
    })
  }

  /** Ends its thread. Requests that wait are refused with NETWORK_BUSY. */
  async close(): Promise<void> {
    await this.#parts.pipeline.close(
      new NetworkError('NETWORK_BUSY', 'the node is closing; try again'),
    )
  }

  async #recordAlone(
    verb: string,
    also: readonly Change[],
    writes: readonly ResourceChange[],
  ): Promise<void> {
    const { pipeline, deployment } = this.#parts
    const transaction = transactionOf(systemType(verb), pipeline.stamp(), {})
    const changes = [...recordsOf(transaction, ADMIN, []), ...writes]
    const entries = changes.map((change) => entryOf(this.#definition.name, change))
    await pipeline.record(unitOf([...(pipeline.isRecorded ? [] : deployment), ...also, ...entries]))
  }

  #source(caller: Caller): Source {
    const { database, pipeline } = this.#parts
    const { model } = this.#definition
    const evaluate = pipeline.evaluate.bind(pipeline)
    const guard = new Guard({ control: this.#control, model, caller, database, evaluate }, null)
    return { database, model, guard }
  }
}
