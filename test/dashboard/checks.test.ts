import { expect, it } from 'vitest'
import {
  checkStates,
  type FaultCode,
} from '../../src/dashboard/browser/verification/verify-chain.ts'

/** First letters of the states: key, signature, five of blocks, log, memory. */
const states = (fault: [FaultCode, number | null] | null, isDone = true, hadMemory = true) =>
  checkStates(
    fault === null ? null : { code: fault[0], height: fault[1], index: null },
    isDone,
    hadMemory,
  )
    .map(([, state]) => state[0])
    .join('')

it.each<[string, string, string]>([
  ['before the end nothing is said', states(null, false), 'ooooooooo'],
  ['a chain that holds', states(null), 'hhhhhhhhh'],
  ['of which nothing is remembered', states(null, true, false), 'hhhhhhhhn'],
  ['whose key is another', states(['keyChanged', null]), 'foooooooo'],
  ['whose checkpoint is not signed', states(['unsigned', null]), 'hfooooooo'],
  ['with a wrong root in a block', states(['root', 5]), 'hhooofooo'],
  ['with a wrong entry in the first block', states(['commitment', 0]), 'hhoofoooo'],
  ['whose signed root is of other blocks', states(['log', null]), 'hhhhhhhfo'],
  ['that is shorter than it was', states(['rolledBack', null]), 'oooooooof'],
  ['that was another', states(['forked', null]), 'hhhhhhhhf'],
])('%s: a check fails, passes or is open', (_, verdict, expected) => {
  expect(verdict).toBe(expected)
})

it('every fault fails its own check', () => {
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
