import { hash } from 'node:crypto'
import type { JsonObject } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { TypeDeclaration } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { Guard } from '../resources/guard.ts'
import type { Resource } from '../resources/instances.ts'
import type { Caller } from '../resources/transaction.ts'
import type { GuestAnswer } from '../runtime/guest.ts'
import { Draft, type DraftedChange } from './draft.ts'
import { parseGuestMessage } from './guest-message.ts'
import type { LogLine } from './messages.ts'
import { checkedEvents, checkedReturn, declaredReturn, type Returned } from './results.ts'
import { isUnresolved, LEVELS_MAX, type Scripts } from './scripts.ts'
import { TransactionSession } from './session.ts'

/**
 * Returns the names of the functions that run for a transaction of `type`, in order.
 * Errors: TRANSACTION_FAILED if there are none.
 */
function processorsFor(
  type: TypeDeclaration,
  id: string,
  { processors }: NetworkDefinition,
): string[] {
  const own = processors.filter(({ transaction }) => transaction === type.qualifiedName)
  if (own.length > 0) return own.map(({ name }) => name)
  const transaction = `transaction ${type.qualifiedName}#${id}`
  const message = `Could not find any functions to execute for ${transaction}`
  throw new NetworkError('TRANSACTION_FAILED', message)
}

/**
 * Runs the processors of `transaction`, a transaction of `type`. `guard` checks the rights of the caller; the right to
 * submit the transaction must have been checked before. `log` receives the console output.
 *
 * Scripts follow relationships synchronously, so the transaction is sent together with the resources to which it
 * refers. If a script needs a resource that was not sent, the script runs again from the start with more levels of
 * relationships. Time and random numbers are fixed, so both runs are equal up to this point.
 * Errors: TRANSACTION_FAILED, ACCESS_DENIED, RESOURCE_INVALID, PROCESSOR_DEADLINE, PROCESSOR_MEMORY.
 */
export async function runProcessors(
  scripts: Scripts,
  guard: Guard,
  type: TypeDeclaration,
  transaction: Resource,
  log: (line: LogLine) => void,
): Promise<DraftedChange> {
  const processors = processorsFor(type, transaction.target.id, guard.definition)
  const declared = declaredReturn(type, guard.definition.model)
  const request = toGuestRequest(transaction, guard.caller, processors, declared)
  const untilMs = scripts.clock.now() + scripts.deadlineMs
  for (let levels = 1; ; levels *= 2) {
    const draft = new Draft(guard, transaction)
    const session = new TransactionSession(draft, levels)
    const resolved = await session.resolved(levels > 1 || scripts.nameCaller)
    const text = JSON.stringify({ ...request, resolved })
    const answer = await scripts.call('processors', text, session, untilMs - scripts.clock.now())
    if (session.defect !== null) throw session.defect
    if (isUnresolved(answer) && levels < LEVELS_MAX) continue
    for (const line of session.logged) log(line)
    if (!('value' in answer)) throw failure(answer, session.denied)
    if (isUnresolved(answer)) {
      const message = `a script can follow relationships at most ${LEVELS_MAX} levels deep; read the resources from registries instead`
      throw new NetworkError('TRANSACTION_FAILED', message)
    }
    await draft.requireReferences()
    const { returned = null, events = [] } = parseGuestMessage(answer.value)
    const emitted = checkedEvents(events, transaction, guard.definition)
    const reply =
      declared === null
        ? transaction.value
        : checkedReturn(type, declared, returned, guard.definition)
    return { draft, events: emitted, reply }
  }
}

function toGuestRequest(
  { target, value }: Resource,
  { participant, identity }: Caller,
  processors: readonly string[],
  declared: Returned | null,
): JsonObject {
  return {
    transaction: value,
    processors: [...processors],
    returns: declared && { name: declared.name, array: declared.array },
    participant: { ...participant },
    identity: identity === null ? null : { type: systemType('Identity'), id: identity },
    nowMs: Date.parse(String(value.timestamp)),
    // The random seed: 32 bits of a hash of the transaction's id.
    seed: hash('sha256', target.id, 'buffer').readInt32LE(),
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
      // Removes the class `Error` from the message. The names of other classes stay in the message.
      const text = message.replace(/^Error: /, '')
      if (denied !== null && text === denied.message) return denied
      return new NetworkError('TRANSACTION_FAILED', text)
    }
  }
}
