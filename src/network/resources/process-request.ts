import { hash } from 'node:crypto'
import type { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { isA, type TypeDeclaration } from '../model/model.ts'
import { targetOfCanonical } from '../model/relationship.ts'
import { systemType } from '../model/system.ts'
import type { Known } from '../runtime/messages.ts'
import { type ProcessRequest, processText, type ScriptRunner } from '../runtime/script-runner.ts'
import { asInstance, type Caller } from './caller.ts'
import type { ResourceReader } from './database.ts'
import type { TransactionRecord } from './transaction-record.ts'

/** What processors work with. */
export interface Workplace {
  readonly definition: NetworkDefinition
  readonly control: AccessControl
  readonly scripts: ScriptRunner
  /** Takes what processors say to the console. */
  readonly log: (level: string, text: string) => void
}

/** A transaction whose processors are to run. */
export interface Drafted {
  readonly transaction: TransactionRecord
  readonly caller: Caller
  /** Names of functions, in the order in which they run. */
  readonly processors: readonly string[]
}

/** The names of the functions that run for a transaction of `type`, in their order. */
export function processorsFor(type: TypeDeclaration, { processors }: NetworkDefinition): string[] {
  return processors.filter(({ transaction }) => isA(type, transaction)).map(({ name }) => name)
}

/** What the processors of a transaction are called with where `state` is what there is. */
export async function processRequest(
  workplace: Pick<Workplace, 'definition' | 'control'>,
  drafted: Drafted,
  state: Pick<ResourceReader, 'read'>,
): Promise<ProcessRequest> {
  const { transaction, processors, caller } = drafted
  const { participant, identity } = caller
  const text = processText({
    transaction: transaction.resource,
    processors,
    participant,
    identity: identity === null ? null : { type: systemType('Identity'), id: identity },
    nowMs: Date.parse(transaction.timestamp),
    seed: hash('sha256', transaction.target.id, 'buffer').readInt32LE(),
  })
  return { text, known: await named(workplace, drafted, state) }
}

/**
 * The resources that the transaction names and that the caller may read whatever they hold: the
 * processors most likely ask for them first.
 */
async function named(
  { definition: { model }, control }: Pick<Workplace, 'definition' | 'control'>,
  { transaction: { target, resource }, caller }: Drafted,
  state: Pick<ResourceReader, 'read'>,
): Promise<Known[]> {
  const participant = asInstance(caller.participant, model)
  const transaction = asInstance(target, model)
  const known: Known[] = []
  if (participant === null || transaction === null) return known
  for (const { name, relationship } of transaction.type.properties.values()) {
    const value = resource[name]
    const found = relationship && typeof value === 'string' ? targetOfCanonical(value) : null
    const type = found === null ? null : model.type(found.type)
    if (found === null || type?.identifier == null) continue
    if (control.allowsAll('READ', type, { participant, transaction }) !== true) continue
    const { text } = (await state.read(found)) ?? { text: null }
    known.push({ ...found, identifier: type.identifier, text })
  }
  return known
}
