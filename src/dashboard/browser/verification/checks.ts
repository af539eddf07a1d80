import type { Texts } from '../language/english.ts'
import type { Fault, FaultCode } from './verify-chain.ts'

/** What is checked, by the name of its sentence. */
export type CheckName = keyof Texts['checks']
/** How one check came out; `none`: there was nothing to compare with. */
export type CheckState = 'holds' | 'fails' | 'open' | 'none'

/** In the order in which a verification comes to them, each with what breaks it. */
const CHECKS: readonly (readonly [CheckName, readonly FaultCode[]])[] = [
  ['key', ['key', 'keyChanged']],
  ['signature', ['signature', 'checkpoint', 'unsigned']],
  ['links', ['link', 'missing', 'unreadable', 'shape', 'counts', 'serverid']],
  ['times', ['time']],
  ['commitments', ['commitment']],
  ['roots', ['root']],
  ['ids', ['id']],
  ['log', ['log']],
  ['memory', ['rolledBack', 'forked']],
]
/** Done for the whole chain only when all blocks were gone through. */
const OF_BLOCKS = new Set<CheckName>(['links', 'times', 'commitments', 'roots', 'ids'])

/**
 * How each check came out. A verification ends at the first fault: what comes after it, and what holds of
 * the blocks before it only, is open.
 */
export function checkStates(
  fault: Fault | null,
  isDone: boolean,
  hadMemory: boolean,
): readonly (readonly [CheckName, CheckState])[] {
  const failing = CHECKS.findIndex(([, codes]) => fault !== null && codes.includes(fault.code))
  return CHECKS.map(([name], at) => {
    if (!isDone) return [name, 'open']
    if (at === failing) return [name, 'fails']
    if (name === 'memory' && !hadMemory) return [name, 'none']
    if (fault === null) return [name, 'holds']
    const isPassed = at < failing && !(OF_BLOCKS.has(name) && fault.height !== null)
    return [name, isPassed && fault.code !== 'rolledBack' ? 'holds' : 'open']
  })
}
