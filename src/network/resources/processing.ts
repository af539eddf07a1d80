import { createHash } from 'node:crypto'
import type { Json, JsonObject } from '../../base/json.ts'
import type { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { isA, type TypeDeclaration } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { GuestAnswer } from '../runtime/guest.ts'
import type { ScriptRunner } from '../runtime/script-runner.ts'
import type { Caller } from './caller.ts'
import type { ResourceChange, ResourceReader } from './database.ts'
import { checkedEvents } from './events.ts'
import { invalid } from './instances.ts'
import { objectIn } from './item.ts'
import { Overlay } from './overlay.ts'
import { missingReferences } from './references.ts'
import { TransactionSession } from './session.ts'
import type { TransactionRecord } from './transaction-record.ts'

/** What processors work with. */
export interface Workplace {
  readonly definition: NetworkDefinition
  readonly control: AccessControl
  readonly scripts: ScriptRunner
  /** Takes what processors say to the console. */
  readonly log: (level: string, text: string) => void
}

/** What the processors of one transaction came to. */
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
 * Runs `processors` for `transaction`: what they changed is not recorded yet.
 * Errors: TRANSACTION_FAILED, ACCESS_DENIED, RESOURCE_INVALID, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
 */
export async function process(
  workplace: Workplace & {
    /** What the transaction starts from. */
    readonly state: ResourceReader
  },
  processors: readonly string[],
  transaction: TransactionRecord,
  caller: Caller,
): Promise<Processed> {
  const { definition, control, state, scripts, log } = workplace
  const { model, queries } = definition
  const overlay = new Overlay(state)
  const guard = { control, model, caller }
  const instances = { model, strictness: definition }
  const parts = { guard, transaction, overlay, instances, scripts, queries, log }
  const session = new TransactionSession(parts)
  const { identity } = caller
  const answer = await scripts.process(
    {
      transaction: transaction.resource,
      known: await session.named(),
      processors,
      participant: caller.participant,
      identity: identity === null ? null : { type: systemType('Identity'), id: identity },
      nowMs: Date.parse(transaction.timestamp),
      seed: createHash('sha256').update(transaction.target.id).digest().readInt32LE(),
    },
    (request, evaluate) => session.answer(request, evaluate),
  )
  if (session.defect !== null) throw session.defect
  if (!('value' in answer)) throw failure(answer, session.denied)
  const { changes } = overlay
  if (definition.strictReferences) await checkReferences(changes, overlay, definition)
  const { returned = null, events = [] } = objectIn(answer.value)
  return { changes, events: checkedEvents(events, transaction, instances), returned }
}

function failure(
  { failed, message }: Extract<GuestAnswer, { failed: unknown }>,
  denied: NetworkError | null,
): NetworkError {
  switch (failed) {
    case 'DEADLINE':
      return new NetworkError('PROCESSOR_DEADLINE', `the transaction took too long: ${message}`)
    case 'CLOSED':
      return new NetworkError('NETWORK_BUSY', 'the network is being closed; try again')
    case 'MEMORY':
    case 'LOST':
      return new NetworkError('PROCESSOR_MEMORY', `the transaction was ended: ${message}`)
    case 'THROWN': {
      // Of a plain error only what its author wrote; of others also what kind they are.
      const said = message.replace(/^Error: /, '')
      if (denied !== null && said === denied.message) return denied
      return new NetworkError('TRANSACTION_FAILED', said)
    }
  }
}

async function checkReferences(
  changes: readonly ResourceChange[],
  overlay: Overlay,
  { model }: NetworkDefinition,
): Promise<void> {
  for (const change of changes) {
    if (change.kind === 'delete') continue
    const isThere = async (target: ResourceChange['target']) =>
      (await overlay.read(target)) !== null
    const problems = await missingReferences(change.resource, '', model, isThere)
    if (problems.length > 0) throw invalid(problems)
  }
}
