import type { Clock } from '../../base/clock.ts'
import type { JsonObject } from '../../base/json.ts'
import { Semaphore } from '../../base/semaphore.ts'
import { turn } from '../../base/turn.ts'
import { type Group, type HistoryRange, StoreError, toUnit } from '../../ledger/core.ts'
import type { Change, LedgerService } from '../../ledger/index.ts'
import { namesEvent } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { parseStatement } from '../queries/check.ts'
import { parseAggregation } from '../resources/aggregation.ts'
import {
  parseStored,
  type ResourceChange,
  ResourceDatabase,
  type StoredResource,
  selectAll,
  toOwnChange,
} from '../resources/database.ts'
import { Guard, isExhausted } from '../resources/guard.ts'
import { type ReadableRevision, resourceHistory } from '../resources/history.ts'
import { networkRemoved, requireType, resourceMissing } from '../resources/instances.ts'
import {
  type Listing,
  listResources,
  presented,
  Resolver,
  resourceFilter,
} from '../resources/listing.ts'
import { deploymentChanges, networkItem, tombstone } from '../resources/network-item.ts'
import { createRegistries } from '../resources/overlay.ts'
import {
  type ParameterTexts,
  parameterTexts,
  pickParameters,
  runQuery,
} from '../resources/query.ts'
import {
  type Caller,
  callerAuthor,
  createTransaction,
  isRevoked,
  transactionRecords,
} from '../resources/transaction.ts'
import type { NetworkChange } from '../transactions/messages.ts'
import { type EmittedEvent, EventFeed } from './event-feed.ts'
import { NetworkThread } from './network-thread.ts'
import { type DurableOutcome, Pipeline, type WritePosition } from './pipeline.ts'
import { requireFreeName } from './recorded-networks.ts'
import { type FieldDefault, planUpgrade } from './upgrade.ts'

/** Maximum time to load the scripts of a network, milliseconds. */
const BOOT_MS = 2_000
/** Maximum batches of resources that are read and checked by conditions of access rules at a time. */
const CHECKED_BATCHES_MAX = 1
/** Maximum resources whose relationships are resolved at a time. */
const RESOLUTIONS_MAX = 1
/** Maximum requests of one participant that wait for the check of a batch, or for a resolution. */
const WAITING_MAX = 200
/** Maximum wait of a request for the check of a batch or for a resolution, milliseconds. */
const WAITING_MS_MAX = 30_000

/** The position of a request's changes, and the resources that the request created or replaced. */
export interface Made extends WritePosition {
  /** See `Decision`. */
  readonly reply: string
}

export interface NetworkDeps {
  readonly ledger: LedgerService
  readonly clock: Clock
  /** The version of daicho, recorded with each network as `runtimeVersion`. */
  readonly version: string
  /** Maximum time for the processors of one transaction, milliseconds. */
  readonly deadlineMs: number
  /** Applies the network changes in all committed blocks. Returns the number of these blocks. */
  readonly catchUp: () => Promise<number>
  /** Receives the console output of processors. */
  readonly log: (network: string, level: string, text: string) => void
}

/**
 * A deployed network. The main thread answers reads and applies the access rules. The network's thread processes
 * changes. A change is answered when it is durable.
 */
export class BusinessNetwork {
  /** Events emitted by the network's transactions. */
  readonly events: EventFeed
  readonly #deps: NetworkDeps
  #database: ResourceDatabase
  readonly #pipeline: Pipeline
  #definition: NetworkDefinition
  /** Lets few batches be checked at a time, because each can be a resource of 10 MB. */
  readonly #checks = new Semaphore(CHECKED_BATCHES_MAX, WAITING_MAX)
  readonly #resolutions = new Semaphore(RESOLUTIONS_MAX, WAITING_MAX)

  /** `isRecorded`: whether the ledger contains the network. If not, the network is recorded with its first change. */
  constructor(deps: NetworkDeps, definition: NetworkDefinition, isRecorded: boolean) {
    const { ledger, clock, log } = deps
    const { name } = definition
    this.#deps = deps
    this.#definition = definition
    this.#database = openResources(definition, ledger)
    this.events = new EventFeed(this.#database)
    const parts = {
      database: ledger.write.ownDatabase(name),
      clock,
      // Without tokens and identities, everybody is the administrator.
      findAuthor: (caller: Caller) =>
        caller.identity !== null || caller.by !== undefined || ledger.writer.isAuthorRequired
          ? { by: callerAuthor(caller, name) }
          : {},
      startThread: (recorded: boolean) => this.#startThread(this.#definition, recorded),
      // Publishes nothing here if several processes change the network. Then `Networks` calls `EventFeed.follow`, which
      // reads the events from the chain, in chain order.
      publish: ledger.follower.isShared ? () => {} : this.events.publish.bind(this.events),
      timeline: () => ledger.reader.timeline,
      follow: (timeline: number) => this.#catchUp(timeline),
      log: (level: string, text: string) => log(name, level, text),
    }
    this.#pipeline = new Pipeline(parts, isRecorded)
  }

  get definition(): NetworkDefinition {
    return this.#definition
  }

  /**
   * Returns the resources of `type` that match the filter in `query` and that the caller may read. `signal`, also of
   * `query`, `queryText` and `read`, ends the reading. Errors: FilterError.
   */
  async list(
    type: TypeDeclaration,
    query: Readonly<Record<string, unknown>>,
    caller: Caller,
    signal?: AbortSignal,
  ): Promise<Listing> {
    const filter = resourceFilter(query, this.#definition.model, type)
    await this.#takeTurn(type)
    return listResources(this.#guard(caller, signal), type, filter)
  }

  /**
   * Returns the results of the named query `name`. `query` contains the parameters of the named query and of a filter.
   * Errors: QUERY_NOT_FOUND, PARAMETER_INVALID, FilterError.
   */
  async query(
    name: string,
    query: ParameterTexts,
    caller: Caller,
    signal?: AbortSignal,
  ): Promise<Listing> {
    const named = this.#definition.queries.get(name)
    if (named === undefined) {
      throw new NetworkError('QUERY_NOT_FOUND', `there is no query ${name}`)
    }
    await this.#takeTurn(named.type)
    return runQuery(this.#guard(caller, signal), named, pickParameters(query, named), query)
  }

  /**
   * Returns the results of `text`, a client's own `SELECT` statement. `query` contains the parameters of a filter.
   * Errors: PARAMETER_INVALID, FilterError.
   */
  async queryText(
    text: string,
    parameters: JsonObject,
    query: ParameterTexts,
    caller: Caller,
    signal?: AbortSignal,
  ): Promise<Listing> {
    const written = parseStatement(text, this.#definition.model)
    await this.#takeTurn(written.type)
    return runQuery(this.#guard(caller, signal), written, parameterTexts(parameters), query)
  }

  /** Returns the deployed archive. Errors: RESOURCE_NOT_FOUND if the caller may not read the network's resource. */
  async archive(caller: Caller): Promise<Buffer> {
    const { name, archive, model } = this.#definition
    const target = { type: systemType('Network'), id: name }
    const stored = await this.#database.read(target)
    // Before its first change, the default network is not in the ledger, so its resource is created here.
    const created = { $class: target.type, networkId: name }
    const content = () => stored?.text ?? JSON.stringify(created)
    if (await this.#guard(caller).allows('READ', target, content)) return archive
    throw resourceMissing(requireType(model, target.type), name)
  }

  /**
   * Returns a resource with the fields selected by the filter in `query`, and with resolved relationships if the
   * filter requests them. Errors: RESOURCE_NOT_FOUND, FilterError.
   */
  async read(
    type: TypeDeclaration,
    id: string,
    query: Readonly<Record<string, unknown>>,
    caller: Caller,
    signal?: AbortSignal,
  ): Promise<StoredResource> {
    const filter = resourceFilter(query, this.#definition.model, type)
    await this.#takeTurn(type)
    const guard = this.#guard(caller, signal)
    const stored = await guard.read({ type: type.qualifiedName, id })
    if (stored === null) throw resourceMissing(type, id)
    return { ...stored, text: await presented(stored.text, filter, new Resolver(guard)) }
  }

  /**
   * Returns at most `limit` revisions of a resource that the caller may read.
   * Errors: RESOURCE_NOT_FOUND; StoreError (SEARCH_TOO_LARGE).
   */
  history(
    type: TypeDeclaration,
    id: string,
    range: HistoryRange,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<ReadableRevision[]> {
    return resourceHistory(this.#guard(caller, signal), this.#database, type, id, range)
  }

  /**
   * Returns the groups of the resources of `type` that match the filter in `query` and that the caller may read.
   * Errors: FilterError; LedgerError and StoreError as for `LedgerReads.aggregate`.
   */
  aggregate(
    type: TypeDeclaration,
    query: ParameterTexts,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<Group[]> {
    const aggregation = parseAggregation(query, this.#definition.model, type)
    const selection = { ...selectAll(type), where: aggregation.where }
    const pages = this.#guard(caller, signal).select(selection)
    return this.#deps.ledger.read.aggregateItems(aggregation, pages, signal)
  }

  /** Makes a change in one block. Errors: as for `Decider.decide`; NETWORK_BUSY, NETWORK_REMOVED. */
  async change(change: NetworkChange, caller: Caller): Promise<Made> {
    const { reply, recorded } = await this.#pipeline.request(change, caller)
    if (recorded === null) throw new Error(`${change.kind} was not recorded`)
    return { ...recorded, reply }
  }

  /**
   * Submits a transaction, as JSON: runs its processors, and records the transaction with all of their changes, or nothing.
   * `reply` is the result of the processors if the type has `@returns`, otherwise the transaction. `recorded` is null
   * if the type has `@commit(false)`.
   * Errors: RESOURCE_INVALID, ACCESS_DENIED, TRANSACTION_FAILED, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
   */
  async submit(
    { qualifiedName: type }: TypeDeclaration,
    text: string,
    caller: Caller,
  ): Promise<DurableOutcome> {
    return this.#pipeline.request({ kind: 'submit', type, text }, caller)
  }

  /**
   * Returns the events that the caller may receive, which are all events that the caller may READ. Unless
   * `strictEvents` is set, the caller also receives an event that no READ rule names (see `namesEvent`), provided that
   * the caller may submit the transaction that emitted the event.
   */
  async receivableEvents(events: readonly EmittedEvent[], caller: Caller): Promise<EmittedEvent[]> {
    const { model, rules, strictEvents } = this.#definition
    const guard = this.#guard(caller)
    const submits = new Map<string, boolean>()
    const maySubmit = async ({ id }: EmittedEvent) => {
      const [transactionId = ''] = id.split('#')
      const known = submits.get(transactionId) ?? (await this.#maySubmit(transactionId, guard))
      submits.set(transactionId, known)
      return known
    }
    const received: EmittedEvent[] = []
    for (const event of events) {
      // Nobody receives an event whose type an upgrade has removed.
      if (model.type(event.type) === null) continue
      const needsRead = strictEvents || namesEvent(rules, event, model)
      const isReceived =
        (await guard.allows('READ', event, () => event.bytes.toString())) ||
        (!needsRead && (await maySubmit(event)))
      if (isReceived) received.push(event)
    }
    return received
  }

  /** Whether the rules allow the caller to submit the recorded transaction `id`. */
  async #maySubmit(id: string, guard: Guard): Promise<boolean> {
    const record = await this.readUnchecked({ type: systemType('HistorianRecord'), id })
    const target = { type: String(record?.transactionType), id }
    const resource = await this.readUnchecked(target)
    if (resource === null || this.#definition.model.type(target.type) === null) return false
    try {
      return await guard
        .within({ target, value: resource })
        .allows('CREATE', target, () => JSON.stringify(resource))
    } catch (error) {
      if (isExhausted(error)) return false
      throw error
    }
  }

  /**
   * Returns a resource without checking access rules. Use it only for the gateway's own decisions, never for a reply.
   */
  async readUnchecked(target: Target): Promise<JsonObject | null> {
    const stored = await this.#database.read(target)
    return stored === null ? null : parseStored(stored.text)
  }

  /** Whether the identity of a formerly valid caller has been revoked, or its participant deleted. */
  isRevoked(caller: Caller): Promise<boolean> {
    return isRevoked(caller, this.#database)
  }

  /**
   * Replaces the network with `next` if all stored resources are valid in the new model; `defaults` fill new fields.
   * One block contains the new archive and all updates. Other requests wait until the upgrade is finished.
   * Errors: NETWORK_VERSION_SAME, NETWORK_INVALID, UPGRADE_INVALID.
   */
  async upgrade(
    next: NetworkDefinition,
    defaults: readonly FieldDefault[],
    caller: Caller,
  ): Promise<void> {
    const item = networkItem(next, this.#deps.version)
    const thread = await this.#startThread(next, true)
    try {
      await this.#pipeline.exclusive(async () => {
        const { name, sha256 } = this.#definition
        if (next.sha256 === sha256) {
          const message = `${name} is already deployed with exactly this archive`
          throw new NetworkError('NETWORK_VERSION_SAME', message)
        }
        const writes = await planUpgrade(this.#database, this.#definition, next, defaults)
        await this.#record('StartBusinessNetwork', item, { writes, caller })
        this.#definition = next
        this.#database = openResources(next, this.#deps.ledger)
        await this.#pipeline.exchange(thread)
      })
    } catch (error) {
      await thread.end()
      throw error
    }
  }

  /** Switches to `next`, which another process has recorded. */
  async follow(next: NetworkDefinition): Promise<void> {
    this.#pipeline.recordedElsewhere()
    if (next.sha256 === this.#definition.sha256) return
    await this.#pipeline.whenIdle(async () => {
      // This process may have made the upgrade itself while this call waited.
      if (next.sha256 === this.#definition.sha256) return
      this.#definition = next
      this.#database = openResources(next, this.#deps.ledger)
      await this.#pipeline.exchange(null)
    })
  }

  /** Removes the network permanently. */
  async remove(caller: Caller): Promise<void> {
    return this.#pipeline.exclusive(async () => {
      const item = tombstone(this.#definition, this.#deps.version)
      await this.#record('RemoveBusinessNetwork', item, { writes: [], caller })
      await this.#pipeline.close(networkRemoved(this.#definition.name))
    })
  }

  /** Refuses all requests after another process has removed the network. */
  async removedElsewhere(): Promise<void> {
    await this.#pipeline.close(networkRemoved(this.#definition.name))
  }

  /** Stops the network's thread. Pending requests are refused with NETWORK_BUSY. */
  async close(): Promise<void> {
    await this.#pipeline.close(new NetworkError('NETWORK_BUSY', 'the node is closing; try again'))
  }

  /** Records a system transaction and the new item of the network. Must be called within an exclusive task. */
  async #record(
    verb: string,
    item: JsonObject,
    { writes, caller }: { readonly writes: readonly ResourceChange[]; readonly caller: Caller },
  ): Promise<void> {
    const { name } = this.#definition
    const transaction = createTransaction(systemType(verb), this.#pipeline.nextStamp(), {})
    const changes = [...transactionRecords(transaction, caller, []), ...writes]
    const deployment = this.#deploymentBefore(this.#definition, this.#pipeline.isRecorded)
    const entries = changes.map((change) => toOwnChange(name, change))
    const itemChange: Change = { method: 'update_item', db: name, item }
    const unit = toUnit([...deployment, itemChange, ...entries], callerAuthor(caller, name))
    await this.#pipeline.record(unit, caller)
  }

  /** Starts a thread for `definition`. Errors: NETWORK_INVALID if the scripts cannot be loaded; NETWORK_BUSY. */
  #startThread(definition: NetworkDefinition, isRecorded: boolean): Promise<NetworkThread> {
    const { ledger, deadlineMs } = this.#deps
    const deployment = this.#deploymentBefore(definition, isRecorded)
    const task = { kind: 'serve', archive: definition.archive, deployment } as const
    return NetworkThread.start({
      location: ledger.reader.location,
      deadlineMs,
      bootMs: BOOT_MS,
      task,
    })
  }

  /** Returns the changes that record the network itself, or none if the ledger already contains the network. */
  #deploymentBefore(definition: NetworkDefinition, isRecorded: boolean): Change[] {
    return isRecorded ? [] : deploymentChanges(definition, this.#deps.version)
  }

  /** See `PipelineParts.follow`. Errors: NETWORK_EXISTS, NETWORK_NAME_TAKEN before the network is recorded. */
  async #catchUp(timeline: number): Promise<number> {
    const { ledger, catchUp } = this.#deps
    ledger.reader.requireTimeline(timeline)
    const blocks = await catchUp()
    if (!this.#pipeline.isRecorded) await requireFreeName(this.#definition.name, ledger)
    return blocks
  }

  /**
   * Resolves when a request may read resources of `type`. Many clients may ask for long resources at once, which delay
   * only requests for types with long resources.
   */
  #takeTurn({ qualifiedName }: TypeDeclaration): Promise<void> {
    return turn(`${this.#definition.name} ${qualifiedName}`)
  }

  /** Runs `work` when it gets a permit of `permits`. Errors: NETWORK_BUSY, SEARCH_INTERRUPTED. */
  async #inTurn<Result>(
    permits: Semaphore,
    work: () => Promise<Result>,
    { participant }: Caller,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), WAITING_MS_MAX)
    const ended = signal === undefined ? late.signal : AbortSignal.any([late.signal, signal])
    const key = `${participant.type}#${participant.id}`
    const acquired = permits.acquire(ended, key).catch(() => false)
    const hasPermit = await acquired.finally(() => clearTimeout(timer))
    if (signal?.aborted === true) {
      if (hasPermit) permits.release()
      throw interrupted()
    }
    if (!hasPermit) {
      const message = 'too many requests wait for this network; try again'
      throw new NetworkError('NETWORK_BUSY', message)
    }
    try {
      // Lets the event loop serve other requests between two batches of large resources.
      await turn()
      return await work()
    } finally {
      permits.release()
    }
  }

  #guard(caller: Caller, signal?: AbortSignal): Guard {
    return new Guard({
      definition: this.#definition,
      caller,
      database: this.#database,
      evaluate: (condition) => this.#pipeline.evaluate(condition),
      nowMs: this.#deps.clock.now(),
      inTurn: (work) => this.#inTurn(this.#checks, work, caller, signal),
      pause: async () => {
        await turn()
        if (signal?.aborted === true) throw interrupted()
      },
      resolving: (work) => this.#inTurn(this.#resolutions, work, caller, signal),
    })
  }
}

function interrupted(): StoreError {
  return new StoreError('SEARCH_INTERRUPTED', 'the client has disconnected')
}

function openResources({ name, model }: NetworkDefinition, { reader }: LedgerService) {
  return new ResourceDatabase(name, reader, createRegistries(model))
}
