import assert from 'node:assert/strict'
import type { Json, JsonObject } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { GuestAnswer } from '../runtime/guest.ts'
import { type Answerer, type Ended, failed } from '../runtime/run.ts'
import { busy } from '../runtime/script-runner.ts'
import type { Begun } from './ahead.ts'
import type { ResourceChange, ResourceReader } from './database.ts'
import { checkedEvents } from './events.ts'
import { invalid } from './instances.ts'
import { Overlay } from './overlay.ts'
import { type Drafted, processRequest, type Workplace } from './process-request.ts'
import { missingReferences } from './references.ts'
import { TransactionSession } from './session.ts'
import { spoken } from './spoken.ts'

/** What the processors of one transaction came to. */
export interface Processed {
  readonly changes: readonly ResourceChange[]
  readonly events: readonly JsonObject[]
  readonly returned: Json
}

/**
 * Runs the processors of a transaction, which start from `state`: what they changed is not recorded
 * yet. What of them was begun before is finished, if it counts.
 *
 * Most transactions are refused nothing. So processors first go on after a write as if it had been
 * made, which saves a turn to this thread and back for each. When one is refused after all, they run
 * again and ask for each write: since time and chance are fixed, they do the same up to there.
 * Errors: TRANSACTION_FAILED, ACCESS_DENIED, RESOURCE_INVALID, PROCESSOR_DEADLINE, PROCESSOR_MEMORY,
 * NETWORK_BUSY.
 */
export async function process(
  workplace: Workplace,
  drafted: Drafted,
  state: ResourceReader,
  begun: Begun | null = null,
): Promise<Processed> {
  const inItsTurn = (areWritesAsked: boolean) => async (answer: Answerer) => {
    const request = await processRequest(workplace, drafted, state)
    const [run] = await workplace.scripts.begin([request], { areWritesAsked })
    return (await run?.finish(answer)) ?? failed('LOST', 'the sandbox has ended')
  }
  const attempt = (finish: Finish) => attempted(workplace, drafted, state, finish)
  const ahead = begun === null ? null : await attempt((answer) => begun.finish(answer))
  // What was begun behind it may wait for its own turn in the sandbox, where this is to run.
  if (ahead === null) begun?.abandon()
  const first = ahead ?? (await attempt(inItsTurn(false)))
  if (first?.session.misled) begun?.abandon()
  const last = first?.session.misled ? await attempt(inItsTurn(true)) : first
  assert(last !== null)
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
  return { changes, events: checkedEvents(events, drafted.transaction, instances), returned }
}

/** Has a call of the processors run to its end; null when it was begun in vain. */
type Finish = (answer: Answerer) => Promise<Ended | null>

/** One call of the processors, and the writes that they had not told of when they ended. */
async function attempted(
  { definition, control, scripts }: Workplace,
  { transaction, caller }: Drafted,
  state: ResourceReader,
  finish: Finish,
) {
  const { model, queries } = definition
  const overlay = new Overlay(state)
  const guard = { control, model, caller }
  const instances = { model, strictness: definition }
  const session = new TransactionSession({
    ...{ guard, transaction, overlay, instances, scripts, queries },
  })
  const ended = await finish((request, told, evaluate) => session.answer(request, told, evaluate))
  if (ended === null) return null
  const refused = await session.finish(ended.told)
  return { session, answer: ended.answer, refused, overlay }
}

function failure(
  { failed, message }: Extract<GuestAnswer, { failed: unknown }>,
  denied: NetworkError | null,
): NetworkError {
  switch (failed) {
    case 'DEADLINE':
      return new NetworkError('PROCESSOR_DEADLINE', `the transaction took too long: ${message}`)
    case 'BUSY':
      return busy(message)
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
