import { hash } from 'node:crypto'
import type { Json, JsonObject } from '../../base/json.ts'
import type { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Target } from '../model/model.ts'
import { isA, type TypeDeclaration } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { ResourceChange, ResourceReader } from '../resources/database.ts'
import { invalid } from '../resources/instances.ts'
import { Overlay } from '../resources/overlay.ts'
import { missingReferences } from '../resources/references.ts'
import type { Caller, TransactionRecord } from '../resources/transaction.ts'
import type { GuestAnswer } from '../runtime/guest.ts'
import { parseGuestMessage } from './guest-message.ts'
import type { LogLine } from './messages.ts'
import { checkedEvents } from './results.ts'
import { isUnresolved, LEVELS_MAX, requestText, type Scripts } from './scripts.ts'
import { TransactionSession } from './session.ts'

export interface ProcessingParts {
  readonly definition: NetworkDefinition
  readonly control: AccessControl
  readonly scripts: Scripts
}

/** A transaction whose processors are to run. */
export interface SubmittedTransaction {
  readonly transaction: TransactionRecord
  readonly caller: Caller
  /** Names of functions, in the order in which they run. */
  readonly processors: readonly string[]
}

/** The outcome of the processors of a transaction; nothing of it is recorded yet. */
export interface Processed {
  readonly changes: readonly ResourceChange[]
  readonly events: readonly JsonObject[]
  readonly returned: Json
}

/** The names of the functions that run for a transaction of `type`, in their order. */
export function processorsFor(type: TypeDeclaration, { processors }: NetworkDefinition): string[] {
  return processors.filter(({ transaction }) => isA(type, transaction)).map(({ name }) => name)
}

/**
 * Runs the processors of a transaction, which start from `state`. `logged` takes the lines of their console.
 *
 * Scripts read relationships without waiting, so the transaction is sent with the resources that its
 * relationships lead to. A script that needs another resource, at a deeper level or of one that it has
 * read itself, runs again from the start and is sent more levels. Time and chance are fixed, so it
 * does the same up to there.
 * Errors: TRANSACTION_FAILED, ACCESS_DENIED, RESOURCE_INVALID, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
 */
export async function process(
  parts: ProcessingParts,
  submitted: SubmittedTransaction,
  state: ResourceReader,
  logged: LogLine[],
): Promise<Processed> {
  const { definition, control, scripts } = parts
  const { model, queries } = definition
  const { transaction, caller } = submitted
  const untilMs = performance.now() + scripts.deadlineMs
  for (let reads = 0; ; reads = reads * 2 || 1) {
    const levels = { reads, transaction: Math.min(Math.max(1, 2 * reads), LEVELS_MAX) }
    const overlay = new Overlay(state)
    const evaluate = (condition: Parameters<Scripts['evaluate']>[0]) =>
      scripts.evaluate(condition, overlay)
    const session = new TransactionSession({
      guard: { control, model, caller, evaluate },
      instances: { model, strictness: definition },
      ...{ transaction, overlay, queries, levels },
    })
    const request = requestText(requestOf(submitted), await session.resolved())
    const answer = await scripts.process(request, session, untilMs - performance.now())
    if (session.defect !== null) throw session.defect
    if (isUnresolved(answer) && reads < LEVELS_MAX) continue
    logged.push(...session.logged)
    return processed(parts, submitted, session, overlay, answer)
  }
}

async function processed(
  { definition }: ProcessingParts,
  { transaction }: SubmittedTransaction,
  { changes, denied }: TransactionSession,
  overlay: Overlay,
  answer: GuestAnswer,
): Promise<Processed> {
  if (!('value' in answer)) throw failure(answer, denied)
  if (isUnresolved(answer)) {
    const message = `relationships are followed ${LEVELS_MAX} levels deep at most: use registries`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }
  const { model } = definition
  if (definition.strictReferences) {
    const exists = async (target: Target) => (await overlay.read(target)) !== null
    for (const change of changes) {
      if (change.kind === 'delete') continue
      const problems = await missingReferences(change.resource, '', model, exists)
      if (problems.length > 0) throw invalid(problems)
    }
  }
  const { returned = null, events = [] } = parseGuestMessage(answer.value)
  const rules = { model, strictness: definition }
  return { changes, events: checkedEvents(events, transaction, rules), returned }
}

/** The request to the guest. */
function requestOf({ transaction, caller, processors }: SubmittedTransaction): JsonObject {
  const { participant, identity } = caller
  return {
    transaction: transaction.resource,
    processors: [...processors],
    participant: { ...participant },
    identity: identity === null ? null : { type: systemType('Identity'), id: identity },
    nowMs: Date.parse(transaction.timestamp),
    // Chance follows from the id: 32 bits.
    seed: hash('sha256', transaction.target.id, 'buffer').readInt32LE(),
  }
}

function failure(
  { failed, message }: Extract<GuestAnswer, { failed: unknown }>,
  denied: NetworkError | null,
): NetworkError {
  switch (failed) {
    case 'DEADLINE':
      return new NetworkError('PROCESSOR_DEADLINE', `the transaction took too long: ${message}`)
    case 'MEMORY':
    case 'LOST':
      return new NetworkError('PROCESSOR_MEMORY', `the transaction was ended: ${message}`)
    case 'THROWN': {
      // A plain error is reported by its message, others also by their kind.
      const said = message.replace(/^Error: /, '')
      if (denied !== null && said === denied.message) return denied
      return new NetworkError('TRANSACTION_FAILED', said)
    }
  }
}
