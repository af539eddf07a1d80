import { canonicalJson } from '../../base/canonical-json.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { Model } from '../model/model.ts'
import { parseTarget, type Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import {
  type NetworkBlock,
  type ResourceChange,
  type ResourceDatabase,
  type ResourceReader,
  toWrite,
} from '../resources/database.ts'
import { parseNetworkItem } from '../resources/network-item.ts'
import { ADMIN, type Caller, historianTarget } from '../resources/transaction.ts'
import { Decider } from './decider.ts'
import type { NetworkVerification, VerificationProgress } from './messages.ts'
import { ReplayedState } from './replayed-state.ts'
import { type ScriptSettings, Scripts } from './scripts.ts'

interface RecordedTransaction {
  readonly target: Target
  readonly resource: JsonObject
  /** The historian record of the transaction. */
  readonly record: JsonObject
  readonly writes: readonly ResourceChange[]
}

interface VerifyNetworkOptions {
  readonly settings: ScriptSettings
  /**
   * Height of the last block that was restored from another chain, or null. These blocks contain the resources of
   * networks without the order of the transactions, so they are not replayed.
   */
  readonly restoredHeight: number | null
  /** Called before each transaction. */
  readonly onProgress: (progress: VerificationProgress) => void
}

/**
 * Decides every transaction in `database` again, on top of the changes recorded before the transaction, and
 * compares the resulting writes and events with the recorded writes and events. Keeps the resources of the network in
 * memory, but not its transactions and their historian records.
 * Errors: NETWORK_INVALID if the scripts cannot be loaded.
 */
export async function verifyNetwork(
  database: ResourceDatabase,
  { settings, restoredHeight, onProgress }: VerifyNetworkOptions,
): Promise<NetworkVerification> {
  const { name } = database
  const state = new ReplayedState(database)
  let network: DeployedNetwork | null = null
  let isRemoved = false
  let count = 0
  let restored = 0
  let transactions = 0
  const replayBlock = async ({ height, changes, deployed, removed }: NetworkBlock) => {
    if (isRemoved) return 'the block changes a network that was removed'
    isRemoved = removed
    state.begin(height)
    if (deployed !== null) {
      const next = deployedNetwork(deployed, name, state.reader, settings)
      if (typeof next === 'string') return next
      network = next
      state.model = next.model
    }
    if (height <= (restoredHeight ?? -1)) {
      restored += 1
      state.apply(changes)
      return null
    }
    if (network === null) return 'the block changes a network that is not deployed yet'
    const { before, recorded } = splitTransactions(changes, network.model)
    state.apply(before)
    for (const transaction of recorded) {
      transactions += 1
      onProgress({ height, transactions })
      const finding = await replayTransaction(transaction, network.decider)
      if (finding !== null) return `transaction ${transaction.target.id}: ${finding}`
      const { target, resource, record, writes } = transaction
      state.apply([
        toWrite('create', target, resource),
        toWrite('create', historianTarget(target), record),
        ...writes,
      ])
    }
    return null
  }
  for await (const block of database.changesFrom(0)) {
    count += 1
    const finding = await replayBlock(block)
    if (finding !== null) {
      return { blocks: count, restored, transactions, finding: `block ${block.height}: ${finding}` }
    }
  }
  return { blocks: count, restored, transactions, finding: null }
}

/** The version of a network deployed at some height. */
interface DeployedNetwork {
  readonly model: Model
  readonly decider: Decider
}

/** Returns the network recorded in `item`, with the resources in `state`, or the reason why `item` cannot be read. */
function deployedNetwork(
  item: JsonObject,
  name: string,
  database: ResourceReader,
  settings: ScriptSettings,
): DeployedNetwork | string {
  try {
    const definition = parseNetworkItem(JSON.stringify(item), name)
    const { model } = definition
    const scripts = new Scripts(definition, settings)
    const parts = { definition, scripts, database, deployment: [], log: () => {} }
    return { model, decider: new Decider(parts) }
  } catch (error) {
    if (error instanceof NetworkError) return error.message
    throw error
  }
}

/** Decides a recorded transaction again. Returns the first difference, or null. */
async function replayTransaction(
  { target, resource, record, writes }: RecordedTransaction,
  decider: Decider,
): Promise<string | null> {
  const { $class, transactionId, timestamp, ...fields } = resource
  if (target.type.startsWith(systemType(''))) {
    const registered = registeredWrites(target.type, fields)
    return registered === null
      ? null
      : findDifference(registered, writes.map(writtenContent), 'writes')
  }
  const stamp = { transactionId: String(transactionId), nowMs: Date.parse(String(timestamp)) }
  const change = { kind: 'submit', type: target.type, text: JSON.stringify(fields) } as const
  try {
    const { draft, events = [] } = await decider.outcome({
      caller: toCaller(record),
      stamp,
      change,
    })
    const { eventsEmitted } = record
    const emitted = Array.isArray(eventsEmitted) ? eventsEmitted : []
    return (
      findDifference(draft.changes.map(toJson), writes.map(toJson), 'writes') ??
      findDifference([...events], emitted, 'events')
    )
  } catch (error) {
    if (!(error instanceof NetworkError) || error.code === 'NETWORK_INVALID') throw error
    return `the transaction was recorded, but its replay fails: ${error.message}`
  }
}

/**
 * Splits the changes of a block into transactions. Each element has the transaction itself, its historian record, and
 * the writes up to the next transaction.
 */
function splitTransactions(changes: readonly ResourceChange[], model: Model) {
  const before: ResourceChange[] = []
  const recorded: (RecordedTransaction & { writes: ResourceChange[] })[] = []
  for (let at = 0; at < changes.length; at += 1) {
    const change = changes[at]
    const next = changes[at + 1]
    if (change === undefined) break
    const isTransaction =
      change.kind === 'create' && model.type(change.target.type)?.kind === 'transaction'
    if (isTransaction && next?.kind === 'create' && next.target.type === HISTORIAN_RECORD) {
      const { target, resource } = change
      recorded.push({ target, resource, record: next.resource, writes: [] })
      at += 1
    } else {
      const last = recorded.at(-1)
      if (last === undefined) before.push(change)
      else last.writes.push(change)
    }
  }
  return { before, recorded }
}

const HISTORIAN_RECORD = systemType('HistorianRecord')

/** Returns the resources or ids that a registry transaction lists; null for other system transactions. */
function registeredWrites(type: string, { resources, resourceIds }: JsonObject): Json[] | null {
  const [, verb] = /(Add|Update|Remove)(?:Asset|Participant)$/.exec(type) ?? []
  if (verb === undefined) return null
  const list = verb === 'Remove' ? resourceIds : resources
  return Array.isArray(list) ? list : []
}

/** Returns the content of a recorded write for comparison: the resource, or the id of a deleted resource. */
function writtenContent(change: ResourceChange): Json {
  return change.kind === 'delete' ? change.target.id : change.resource
}

function toJson(change: ResourceChange): Json {
  const { type, id } = change.target
  return [change.kind, type, id, writtenContent(change)]
}

function findDifference(
  now: readonly Json[],
  recorded: readonly Json[],
  kind: 'writes' | 'events',
): string | null {
  const expected = recorded.map(canonicalJson)
  const found = now.map(canonicalJson)
  const length = Math.max(found.length, expected.length)
  for (let at = 0; at < length; at += 1) {
    if (found[at] === expected[at]) continue
    return `the ${kind} of the replay differ from the recorded ${kind}, starting with number ${at}`
  }
  return null
}

function toCaller({ participantInvoking, identityUsed }: JsonObject): Caller {
  const participant =
    typeof participantInvoking === 'string' ? parseTarget(participantInvoking) : null
  const identity = typeof identityUsed === 'string' ? parseTarget(identityUsed) : null
  if (participant === null) return ADMIN
  return { participant, identity: identity?.id ?? null }
}
