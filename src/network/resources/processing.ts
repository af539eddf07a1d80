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
import { Overlay } from './overlay.ts'
import { missingReferences } from './references.ts'
import { TransactionSession } from './session.ts'
import { spoken } from './spoken.ts'
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

/** A transaction whose processors are to run. */
export interface ProcessorsRun {
  /** What the transaction starts from. */
  readonly state: ResourceReader
  /** Names of functions, in the order in which they run. */
  readonly processors: readonly string[]
  readonly transaction: TransactionRecord
  readonly caller: Caller
}

/**
 * Runs the processors of a transaction: what they changed is not recorded yet.
 *
 * Most transactions are refused nothing. So processors first go on after a write as if it had been
 * made, which saves a turn to this thread and back for each. When one is refused after all, they run
 * again and ask for each write: since time and chance are fixed, they do the same up to there.
 * Errors: TRANSACTION_FAILED, ACCESS_DENIED, RESOURCE_INVALID, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
 */
export async function process(workplace: Workplace, run: ProcessorsRun): Promise<Processed> {
  const first = await attempt(workplace, run, false)
  const last = first.session.misled ? await attempt(workplace, run, true) : first
  const { session, answer, refused, overlay } = last
  const { changes } = overlay
  if (session.defect !== null) throw session.defect
  for (const { level, text } of session.logged) workplace.log(level, text)
  if (!('value' in answer)) throw failure(answer, session.denied)
  if (refused !== null) throw refused
  const { definition } = workplace
  if (definition.strictReferences) await checkReferences(changes, overlay, definition)
  const { returned = null, events = [] } = spoken(answer.value)
  const instances = { model: definition.model, strictness: definition }
  return { changes, events: checkedEvents(events, run.transaction, instances), returned }
}

/** One call of the processors, and the writes that they had not told of when they ended. */
async function attempt(
  { definition, control, scripts }: Workplace,
  { state, processors, transaction, caller }: ProcessorsRun,
  areWritesAsked: boolean,
) {
  const { model, queries } = definition
  const overlay = new Overlay(state)
  const guard = { control, model, caller }
  const instances = { model, strictness: definition }
  const session = new TransactionSession({
    ...{ guard, transaction, overlay, instances, scripts, queries },
  })
  const { identity } = caller
  const { answer, told } = await scripts.process(
    {
      transaction: transaction.resource,
      known: await session.named(),
      processors,
      participant: caller.participant,
      identity: identity === null ? null : { type: systemType('Identity'), id: identity },
      nowMs: Date.parse(transaction.timestamp),
      seed: createHash('sha256').update(transaction.target.id).digest().readInt32LE(),
    },
    areWritesAsked,
    (request, told, evaluate) => session.answer(request, told, evaluate),
  )
  const refused = await session.finish(told)
  return { session, answer, refused, overlay }
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
