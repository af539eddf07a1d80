import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { Model } from '../model/model.ts'
import { parseTarget, type Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import {
  type NetworkBlock,
  parseStored,
  type ResourceChange,
  type ResourceDatabase,
  type ResourceReader,
  toWrite,
} from '../resources/database.ts'
import { changedMember } from '../resources/instances.ts'
import { parseNetworkItem } from '../resources/network-item.ts'
import { ADMIN, type Caller, historianTarget } from '../resources/transaction.ts'
import { Decider } from './decider.ts'
import type { NetworkChange, NetworkVerification, VerificationProgress } from './messages.ts'
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
    const isOfNetwork = deployed !== null || removed
    const stray = before.find(({ kind, target }) => !isOfNetwork || !isDeployment(kind, target))
    if (stray !== undefined)
      return `${formatTarget(stray.target)} was changed without a transaction`
    state.apply(before)
    for (const transaction of recorded) {
      transactions += 1
      onProgress({ height, transactions })
      const finding = await replayTransaction(transaction, network, isOfNetwork ? state : null)
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

/** Decides a recorded transaction again. `upgraded`: the state, if the block upgrades the network. Returns the first difference, or null. */
async function replayTransaction(
  { target, resource, record, writes }: RecordedTransaction,
  { decider, model }: DeployedNetwork,
  upgraded: ReplayedState | null,
): Promise<string | null> {
  const { $class, transactionId, timestamp, ...fields } = resource
  const change = toRequest(target, fields, writes)
  if (change === null) {
    // The values of new members are not recorded with the upgrade.
    if (target.type === START && upgraded !== null) return findReplaced(writes, upgraded)
    return findDifference(
      registeredWrites(target.type, fields, model),
      writes.map(toJson),
      'writes',
    )
  }
  const stamp = { transactionId: String(transactionId), nowMs: Date.parse(String(timestamp)) }
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
const START = systemType('StartBusinessNetwork')

/** Whether a change records the network itself, or its administrator. */
function isDeployment(kind: ResourceChange['kind'], { type, id }: Target): boolean {
  const { participant } = ADMIN
  if (type === systemType('Network')) return kind !== 'delete'
  return kind === 'create' && type === participant.type && id === participant.id
}

/** Returns the request of a recorded transaction; null for a change of a registry, or of the network itself. */
function toRequest(
  { type }: Target,
  fields: JsonObject,
  [write]: readonly ResourceChange[],
): NetworkChange | null {
  const { participant: owner, identityName, certificate, identity } = fields
  const participant = String(owner)
  // The transaction does not have the hash of the secret and the right of the identity.
  const id = write?.target.id ?? ''
  const canIssue =
    write !== undefined && write.kind !== 'delete' && write.resource.canIssue === true
  switch (type) {
    case systemType('IssueIdentity'):
      return {
        kind: 'issueIdentity',
        id,
        identity: { participant, name: String(identityName), canIssue },
      }
    case systemType('BindIdentity'):
      return { kind: 'bindIdentity', participant, certificate: String(certificate) }
    case systemType('RevokeIdentity'):
      return { kind: 'revokeIdentity', id: parseTarget(String(identity))?.id ?? '' }
  }
  if (type.startsWith(systemType(''))) return null
  return { kind: 'submit', type, text: JSON.stringify(fields) }
}

/** Returns the writes of a registry transaction, none of other system transactions. */
function registeredWrites(
  type: string,
  { resources, resourceIds, targetRegistry }: JsonObject,
  model: Model,
): Json[] {
  const [, verb] = /(Add|Update|Remove)(?:Asset|Participant)$/.exec(type) ?? []
  if (verb === undefined) return []
  const registry = parseTarget(String(targetRegistry))?.id ?? ''
  const kind = verb === 'Add' ? 'create' : 'update'
  const list = verb === 'Remove' ? resourceIds : resources
  return (Array.isArray(list) ? list : []).map((each) => {
    if (!isJsonObject(each)) return ['delete', registry, each, each]
    const type = String(each.$class)
    return [kind, type, each[model.type(type)?.identifier ?? ''] ?? null, each]
  })
}

/** Returns the first write of an upgrade that does more than add members to a resource of the network, or null. */
async function findReplaced(
  writes: readonly ResourceChange[],
  { reader }: ReplayedState,
): Promise<string | null> {
  for (const write of writes) {
    const { kind, target } = write
    const stored = await reader.read(target)
    const isFilled =
      kind === 'update' &&
      stored !== null &&
      !target.type.startsWith(systemType('')) &&
      changedMember(parseStored(stored.text), write.resource, '') === null
    if (!isFilled) return `the upgrade does more than add members to ${formatTarget(target)}`
  }
  return null
}

function formatTarget({ type, id }: Target): string {
  return `${type}#${id}`
}

/** Returns a recorded write for comparison. */
function toJson(change: ResourceChange): Json {
  const { type, id } = change.target
  return [change.kind, type, id, change.kind === 'delete' ? id : change.resource]
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
