import type { BlockFault } from '../../../chain/portable.ts'
import type { Texts } from '../language/english.ts'

/** All possible faults. `Texts.faults` has a sentence for each fault. */
export type FaultCode =
  | BlockFault['code']
  | 'unreadable'
  | 'shape'
  | 'missing'
  | 'serverid'
  | 'unsigned'
  | 'signature'
  | 'checkpoint'
  | 'key'
  | 'keyChanged'
  | 'log'
  | 'rolledBack'
  | 'forked'

/** The first fault of a chain. */
export interface Fault {
  readonly code: FaultCode
  /** Height of the block, or null if the fault does not concern a block. */
  readonly height: number | null
  /** Index of the entry, or null if the fault does not concern an entry. */
  readonly index: number | null
}

/** Thrown by a check that finds a fault. */
export class FaultFound extends Error {
  override readonly name = 'FaultFound'
  readonly fault: Fault

  constructor(code: FaultCode, height: number | null = null, index: number | null = null) {
    super(code)
    this.fault = { code, height, index }
  }
}

/** The name of a check, which is also the name of its text. */
export type CheckName = keyof Texts['checks']
/** The result of a check: `open` if the check is not complete, `none` if there was nothing to compare with. */
export type CheckState = 'holds' | 'fails' | 'open' | 'none'

/** The checks in the order of a verification, each with the faults that the check reports. */
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
/** Checks that are made for each block, and so are complete only after the last block. */
const BLOCK_CHECKS = new Set<CheckName>(['links', 'times', 'commitments', 'roots', 'ids'])

/**
 * Returns the state of each check. A verification stops at the first fault. Checks that were not started, or that saw
 * only the blocks before the fault, are `open`.
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
    const isPassed = at < failing && !(BLOCK_CHECKS.has(name) && fault.height !== null)
    return [name, isPassed && fault.code !== 'rolledBack' ? 'holds' : 'open']
  })
}
