import { expect, it } from 'vitest'
import { AccessControl } from '../access/control.ts'
import { defaultNetwork } from '../default-network.ts'
import { ScriptRunner } from '../runtime/script-runner.ts'
import { Ahead, type Row, type Submission } from './ahead.ts'
import { ADMIN } from './caller.ts'
import { transactionOf } from './transaction-record.ts'

/** Hands nothing to a sandbox, but says how many transactions began with each message. */
function counted() {
  const definition = defaultNetwork()
  const begun: number[] = []
  const scripts = new ScriptRunner(definition, 1)
  scripts.begin = async (requests) => {
    begun.push(requests.length)
    return []
  }
  const workplace = { definition, control: new AccessControl(null), scripts, log: () => {} }
  return { workplace, begun }
}

const transaction = transactionOf('org.acme.mynetwork.Trade', 'a', 0, {})
const submitted = (): Submission => ({
  draft: async () => ({ transaction, caller: ADMIN, processors: ['trade'] }),
  begun: null,
})

function rowOf(waiting: readonly Submission[]): Row {
  const nothing = { read: async () => null, count: async () => 0, async *select() {} }
  return { state: nothing, line: {}, waiting: (max) => waiting.slice(0, max) }
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
