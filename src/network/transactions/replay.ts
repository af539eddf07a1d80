import { canonicalJson } from '../../base/canonical-json.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Model } from '../model/model.ts'
import { type Target, targetOfCanonical } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { RecordedChanges, ResourceChange } from '../resources/database.ts'
import { definitionInItem } from '../resources/network-item.ts'
import { NO_RESOURCES, Overlay, registriesOf } from '../resources/overlay.ts'
import { ADMIN, type Caller } from '../resources/transaction.ts'
import type { NetworkVerification, VerificationProgress } from './messages.ts'
import { process, processorsFor } from './processing.ts'
import { type ScriptLimits, Scripts } from './scripts.ts'

/** A transaction as the ledger records it. */
interface RecordedTransaction {
  readonly target: Target
  readonly resource: JsonObject
  /** The historian's record. */
  readonly record: JsonObject
  readonly writes: readonly ResourceChange[]
}

/**
 * Runs every transaction of network `name` again, on top of those that were recorded before it, and
 * compares its writes and events with those that were recorded. `blocks` are all that changed the network,
 * in their order. It holds all resources of the network in memory. `onProgress` is called before each
 * transaction. Errors: NETWORK_INVALID when the scripts cannot be loaded here.
 */
export async function verifyNetwork(
  name: string,
  blocks: AsyncIterable<RecordedChanges>,
  limits: ScriptLimits,
  onProgress: (progress: VerificationProgress) => void,
): Promise<NetworkVerification> {
  const replay = new Replay(name, limits, onProgress)
  let count = 0
  for await (const block of blocks) {
    count += 1
    const finding = await replay.block(block)
    if (finding !== null) {
      const text = `block ${block.height}: ${finding}`
      return { blocks: count, transactions: replay.transactions, finding: text }
    }
  }
  return { blocks: count, transactions: replay.transactions, finding: null }
}

class Replay {
  transactions = 0
  readonly #name: string
  readonly #limits: ScriptLimits
  readonly #onProgress: (progress: VerificationProgress) => void
  readonly #state = new Overlay(NO_RESOURCES)
  #definition: NetworkDefinition | null = null
  #scripts: Scripts | null = null
  #isRemoved = false

  constructor(
    name: string,
    limits: ScriptLimits,
    onProgress: (progress: VerificationProgress) => void,
  ) {
    this.#name = name
    this.#limits = limits
    this.#onProgress = onProgress
  }

  /** Replays one block. Returns the first difference, or null. */
  async block(recorded: RecordedChanges): Promise<string | null> {
    const { height, changes, deployed, removed } = recorded
    if (this.#isRemoved) return 'it changes a network that was removed'
    this.#isRemoved = removed
    if (deployed !== null) {
      const refused = this.#deploy(deployed)
      if (refused !== null) return refused
    }
    if (this.#definition === null) return 'it changes a network that is not deployed yet'
    const { before, transactions } = transactionsIn(changes, this.#definition.model)
    this.#apply(before)
    for (const transaction of transactions) {
      this.transactions += 1
      this.#onProgress({ height, transactions: this.transactions })
      const finding = await this.#run(transaction, this.#definition)
      if (finding !== null) return `transaction ${transaction.target.id}: ${finding}`
      this.#apply([
        { kind: 'create', target: transaction.target, resource: transaction.resource },
        { kind: 'create', target: recordTarget(transaction.target), resource: transaction.record },
        ...transaction.writes,
      ])
    }
    return null
  }

  #deploy(item: JsonObject): string | null {
    try {
      this.#definition = definitionInItem(JSON.stringify(item), this.#name)
    } catch (error) {
      if (error instanceof NetworkError) return error.message
      throw error
    }
    this.#state.standOn(registriesOf(this.#definition.model))
    this.#scripts = new Scripts(this.#definition, this.#limits)
    return null
  }

  #apply(changes: readonly ResourceChange[]): void {
    for (const change of changes) this.#state.apply(change)
  }

  async #run(recorded: RecordedTransaction, definition: NetworkDefinition): Promise<string | null> {
    const { target, resource, record, writes } = recorded
    const registered = registeredBy(resource)
    if (registered !== null) return difference(registered, writes.map(contentOf), 'writes')
    const type = definition.model.type(target.type)
    const processors = type === null ? [] : processorsFor(type, definition)
    const isSystem = target.type.startsWith(systemType(''))
    if (isSystem || this.#scripts === null) return null
    if (processors.length === 0) return difference([], writes.map(asJson), 'writes')
    const control = new AccessControl(definition.rules)
    const parts = { definition, control, scripts: this.#scripts }
    const timestamp = String(resource.timestamp)
    try {
      const transaction = { target, resource, timestamp }
      const submitted = { transaction, caller: callerIn(record), processors }
      const done = await process(parts, submitted, this.#state, [])
      const { eventsEmitted } = record
      const events = Array.isArray(eventsEmitted) ? eventsEmitted : []
      return (
        difference(done.changes.map(asJson), writes.map(asJson), 'writes') ??
        difference([...done.events], events, 'events')
      )
    } catch (error) {
      if (!(error instanceof NetworkError) || error.code === 'NETWORK_INVALID') throw error
      return `it was recorded, and fails now: ${error.message}`
    }
  }
}

const HISTORIAN_RECORD = systemType('HistorianRecord')

function recordTarget({ id }: Target): Target {
  return { type: HISTORIAN_RECORD, id }
}

/** The transactions of a block: each is its record, the historian's, and the writes behind them. */
function transactionsIn(changes: readonly ResourceChange[], model: Model) {
  const before: ResourceChange[] = []
  const transactions: (RecordedTransaction & { writes: ResourceChange[] })[] = []
  for (let at = 0; at < changes.length; at += 1) {
    const change = changes[at]
    const next = changes[at + 1]
    if (change === undefined) break
    const isTransaction =
      change.kind === 'create' && model.type(change.target.type)?.kind === 'transaction'
    if (isTransaction && next?.kind === 'create' && next.target.type === HISTORIAN_RECORD) {
      const { target, resource } = change
      transactions.push({ target, resource, record: next.resource, writes: [] })
      at += 1
    } else {
      const last = transactions.at(-1)
      if (last === undefined) before.push(change)
      else last.writes.push(change)
    }
  }
  return { before, transactions }
}

/** The writes that a registry transaction names; null for other transactions. */
function registeredBy({ $class, resources, resourceIds }: JsonObject): Json[] | null {
  const [, verb] = /(Add|Update|Remove)(?:Asset|Participant)$/.exec(String($class)) ?? []
  if (verb === undefined || !String($class).startsWith(systemType(''))) return null
  const list = verb === 'Remove' ? resourceIds : resources
  return Array.isArray(list) ? list : []
}

/** A recorded write in the same form: the resource, or the id of a removed one. */
function contentOf(change: ResourceChange): Json {
  return change.kind === 'delete' ? change.target.id : change.resource
}

function asJson(change: ResourceChange): Json {
  const { kind, target } = change
  const named = { kind, type: target.type, id: target.id }
  return change.kind === 'delete' ? named : { ...named, resource: change.resource }
}

function difference(now: readonly Json[], then: readonly Json[], what: string): string | null {
  const wanted = then.map(canonicalJson)
  const at = now.map(canonicalJson).findIndex((text, index) => text !== wanted[index])
  if (at === -1 && now.length === then.length) return null
  const place = at === -1 ? Math.min(now.length, then.length) : at
  return `its ${what} differ from what is recorded, first number ${place}`
}

function callerIn({ participantInvoking, identityUsed }: JsonObject): Caller {
  const participant =
    typeof participantInvoking === 'string' ? targetOfCanonical(participantInvoking) : null
  const identity = typeof identityUsed === 'string' ? targetOfCanonical(identityUsed) : null
  if (participant === null) return ADMIN
  return { participant, identity: identity?.id ?? null }
}
