import { expect, it } from 'vitest'
import { checkStates, type FaultCode } from '../../src/dashboard/browser/verification/checks.ts'

/**
 * Returns the first letter of the state of each check (o: open, h: holds, f: fails, n: nothing to compare), in this
 * order: the key, the signature, five checks of the blocks, the signed root, and the comparison with the last
 * verification.
 */
const states = (fault: [FaultCode, number | null] | null, isDone = true, hadMemory = true) =>
  checkStates(
    fault === null ? null : { code: fault[0], height: fault[1], index: null },
    isDone,
    hadMemory,
  )
    .map(([, state]) => state[0])
    .join('')

it.each<[string, string, string]>([
  ['an unfinished verification', states(null, false), 'ooooooooo'],
  ['a valid chain', states(null), 'hhhhhhhhh'],
  ['a valid chain without a previous verification', states(null, true, false), 'hhhhhhhhn'],
  ['another key', states(['keyChanged', null]), 'foooooooo'],
  ['an unsigned checkpoint', states(['unsigned', null]), 'hfooooooo'],
  ['a wrong root in a block', states(['root', 5]), 'hhooofooo'],
  ['a wrong entry in the first block', states(['commitment', 0]), 'hhoofoooo'],
  ['a signed root of other blocks', states(['log', null]), 'hhhhhhhfo'],
  ['a chain that is shorter than before', states(['rolledBack', null]), 'oooooooof'],
  ['a chain that contradicts the previous verification', states(['forked', null]), 'hhhhhhhhf'],
])('%s: reports the state of each check', (_, verdict, expected) => {
  expect(verdict).toBe(expected)
})

it('reports each fault in the check that is responsible for it', () => {
  const broken = (code: FaultCode) =>
    checkStates({ code, height: 1, index: null }, true, true).find(([, is]) => is === 'fails')?.[0]
  const checks: Record<FaultCode, string> = {
    ...{ key: 'key', keyChanged: 'key' },
    ...{ signature: 'signature', checkpoint: 'signature', unsigned: 'signature' },
    ...{ link: 'links', missing: 'links', unreadable: 'links', shape: 'links' },
    ...{ counts: 'links', serverid: 'links', time: 'times', commitment: 'commitments' },
    ...{ root: 'roots', id: 'ids', log: 'log', rolledBack: 'memory', forked: 'memory' },
  }
  const codes = Object.keys(checks) as FaultCode[]
  expect(Object.fromEntries(codes.map((code) => [code, broken(code)]))).toEqual(checks)
})
