import { expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import { AccessControl } from '../access/control.ts'
import { defaultNetwork } from '../default-network.ts'
import type { Target } from '../model/relationship.ts'
import type { Foreseen } from '../runtime/messages.ts'
import type { Ended, Run } from '../runtime/run.ts'
import { ScriptRunner } from '../runtime/script-runner.ts'
import { Ahead, type Row, type Submission } from './ahead.ts'
import { ADMIN } from './caller.ts'
import { transactionOf } from './transaction-record.ts'

const ENDED: Ended = { answer: { value: '{}' }, told: [] }
/** A run that has ended, or goes on. */
const runThat = (hasEnded: boolean, foreseen: readonly Foreseen[], left: string[]): Run => ({
  hasEnded,
  ...{ foreseen: Promise.resolve(foreseen), finish: () => Promise.resolve(ENDED) },
  ...{ leave: () => left.push('left'), abandon: () => {} },
})

/**
 * Hands nothing to a sandbox, but says how many transactions began with each message, and whether behind
 * others; the first `ended` of each have ended at once. Those behind others are given `foreseen`.
 */
function counted(ended = 0, foreseen: readonly Foreseen[] = []) {
  const definition = defaultNetwork()
  const begun: (number | string)[] = []
  const left: string[] = []
  const scripts = new ScriptRunner(definition, 1)
  scripts.begin = async (requests, { follow = false } = {}) => {
    begun.push(follow ? `${requests.length} behind them` : requests.length)
    return requests.map((_request, at) => runThat(at < ended, follow ? foreseen : [], left))
  }
  const workplace = { definition, control: new AccessControl(null), scripts, log: () => {} }
  return { workplace, begun, left }
}

const RICE = { type: 'org.acme.mynetwork.Commodity', id: 'RICE' }
const rice = (owner: string) => ({ $class: RICE.type, owner, tradingSymbol: RICE.id })
const traded = { commodity: `resource:${RICE.type}#${RICE.id}` }
const transaction = transactionOf('org.acme.mynetwork.Trade', 'a', 0, traded)
const submitted = (): Submission => ({
  draft: async () => ({ transaction, caller: ADMIN, processors: ['trade'] }),
  begun: null,
})

function rowOf(waiting: readonly Submission[]): Row {
  const stored = { id: RICE.id, revision: 1, text: canonicalJson(rice('ann')) }
  const state = {
    read: async ({ id }: Target) => (id === RICE.id ? stored : null),
    count: async () => 0,
    async *select() {},
  }
  return { state, line: {}, waiting: (max) => waiting.slice(0, max) }
}

/** Puts `count` into `waiting`, one in each turn of the event loop. */
function arrive(waiting: Submission[], count: number): void {
  if (count === 0) return
  waiting.push(submitted())
  setImmediate(() => arrive(waiting, count - 1))
}

it.each([
  ['nobody', 0, 1],
  ['five that arrive one after the other', 5, 6],
  ['as many as there may be, of a hundred', 100, 16],
])('with a transaction whose turn it is %s begin', async (_who, arriving, together) => {
  const { workplace, begun } = counted()
  const waiting: Submission[] = []
  arrive(waiting, arriving)
  await new Ahead().begin(workplace, submitted(), rowOf(waiting))
  expect(begun).toEqual([together])
})

it.each([
  ['while more than two of them have to run', 2, []],
  ['once two of them have to run', 3, ['4 behind them']],
  ['once all of them have run', 5, ['4 behind them']],
])('what arrives behind five that have begun: %s', async (_when, ended, then) => {
  const { workplace, begun } = counted(ended)
  const waiting = [submitted(), submitted(), submitted(), submitted()]
  const row = rowOf(waiting)
  const ahead = new Ahead()
  await ahead.begin(workplace, submitted(), row)
  const [second = submitted()] = waiting.splice(0, 1)
  waiting.push(submitted(), submitted(), submitted(), submitted())
  // Once they have begun, nothing more begins behind those that they follow.
  for (let turn = 0; turn < 2; turn += 1) await ahead.begin(workplace, second, row)
  expect(begun).toEqual([5, ...then])
})

it.each([
  ['counts if those before it really left that', 'bob', ENDED],
  ['does not count if those before it left something else', 'eve', null],
  ['does not count if those before it left nothing', null, null],
])('what began behind others, with what those would leave, %s', async (_what, owner, end) => {
  const foreseen = [{ at: 0, text: canonicalJson(rice('bob')) }]
  const { workplace } = counted(5, foreseen)
  const behind = submitted()
  const waiting = [submitted()]
  const row = rowOf(waiting)
  const ahead = new Ahead()
  await ahead.begin(workplace, submitted(), row)
  const [second = submitted()] = waiting.splice(0, 1, behind)
  const begun = await ahead.begin(workplace, second, row)
  if (owner !== null) begun.note([{ kind: 'update', target: RICE, resource: rice(owner) }])
  expect(await behind.begun?.finish(async () => '')).toEqual(end)
})

it('a transaction that cannot have its turn, because nothing can be read, holds up nobody in the sandbox', async () => {
  const { workplace, left } = counted(5)
  const second = submitted()
  const row = rowOf([second])
  const ahead = new Ahead()
  await ahead.begin(workplace, submitted(), row)
  const state = { ...row.state, read: () => Promise.reject(new Error('the disk is gone')) }
  const turn = { ...row, state, waiting: () => [submitted()] }
  await expect(ahead.begin(workplace, second, turn)).rejects.toThrow('the disk is gone')
  expect(left).toEqual(['left'])
})
