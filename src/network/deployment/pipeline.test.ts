import { expect, it } from 'vitest'
import { LedgerError } from '../../ledger/core.ts'
import type { Written } from '../../ledger/index.ts'
import { ADMIN } from '../resources/transaction.ts'
import type { ToThread } from '../transactions/messages.ts'
import type { NetworkThread, ThreadEvents } from './network-thread.ts'
import { Pipeline } from './pipeline.ts'

const START = { kind: 'start' } as const

/** A pipeline whose thread decides every request at once, with the steps that it takes. */
function turning() {
  const steps: string[] = []
  let pipeline: Pipeline | null = null
  const calls = {
    follow: async () => {},
    record: async (): Promise<Written> => ({ position: 0, height: 0, blockId: '' }),
    confirm: async () => {},
  }
  const startThread = async (): Promise<NetworkThread> => {
    let events: ThreadEvents | null = null
    const thread = {
      listen(receiver: ThreadEvents) {
        events = receiver
      },
      post(message: ToThread) {
        if (!('change' in message)) return
        const unit =
          message.change.kind === 'start' ? [{ kind: 'create_db', db: 'd' } as const] : null
        const decision = { reply: 'null', unit, transactionAt: 0, writeAt: 0, events: [] }
        queueMicrotask(() => events?.message({ id: message.id, decision }))
      },
      end: async () => {},
    }
    // The pipeline calls only these methods.
    return thread as unknown as NetworkThread
  }
  const turn = {
    timeline: 1,
    confirm: async () => {
      steps.push('confirm')
      await calls.confirm()
    },
    end: async () => void steps.push('end'),
  }
  const database = {
    turns: {
      take: async () => {
        steps.push('take')
        return turn
      },
      close() {},
    },
    record: async () => {
      steps.push('record')
      return calls.record()
    },
  }
  const parts = {
    ...{ database, startThread, clock: { now: () => 0 }, publish() {}, log() {} },
    timeline: () => 1,
    findAuthor: () => ({}),
    async follow() {
      steps.push('follow')
      await calls.follow()
      return 7
    },
  }
  pipeline = new Pipeline(parts, true)
  return { pipeline, steps, calls }
}

const overtaken = () => new LedgerError('DATABASE_CHANGED', 'another process was first')

it('follows the other processes at the start of a turn, and gives the turn back when nothing waits', async () => {
  const { pipeline, steps } = turning()
  await pipeline.request(START, ADMIN)
  await pipeline.request(START, ADMIN)
  const turn = ['take', 'follow', 'record', 'end']
  expect(steps.join()).toMatch(new RegExp(`^${turn.join()},${turn.slice(0, 3).join()}`))
})

it('decides again in another turn if the turn was lost, also what records nothing', async () => {
  const { pipeline, steps, calls } = turning()
  const { record, confirm } = calls
  calls.record = async () => {
    calls.record = record
    throw overtaken()
  }
  await pipeline.request(START, ADMIN)
  expect(steps.filter((step) => step === 'follow')).toHaveLength(2)
  calls.confirm = async () => {
    calls.confirm = confirm
    throw new Error('the connection ended')
  }
  const nothing = { kind: 'submit', type: 't', text: '{}' } as const
  expect((await pipeline.request(nothing, ADMIN)).recorded).toBeNull()
  expect(steps.filter((step) => step === 'confirm')).toHaveLength(2)
})

it('runs a task that waits for the end of a turn before the next turn, which waits for the task', async () => {
  const { pipeline, calls } = turning()
  const { record } = calls
  let task: Promise<void> | null = null
  calls.record = async () => {
    calls.record = record
    task = pipeline.whenIdle(async () => {})
    throw overtaken()
  }
  calls.follow = async () => {
    await task
  }
  expect((await pipeline.request(START, ADMIN)).recorded).not.toBeNull()
})

it('refuses a request with NETWORK_BUSY if its turn is lost again and again', async () => {
  const { pipeline, calls } = turning()
  calls.record = async () => {
    throw overtaken()
  }
  await expect(pipeline.request(START, ADMIN)).rejects.toMatchObject({ code: 'NETWORK_BUSY' })
})

it('sends the thread requests of about 16 Mi characters at a time, because it has a copy of each', async () => {
  const posted: number[] = []
  let events: ThreadEvents | null = null
  const thread = {
    listen: (receiver: ThreadEvents) => {
      events = receiver
    },
    post: (message: ToThread) => 'id' in message && posted.push(message.id),
    end: async () => {},
  } as unknown as NetworkThread
  const pipeline = new Pipeline(
    {
      database: { turns: null, record: async () => ({ position: 0, height: 0, blockId: '' }) },
      startThread: async () => thread,
      ...{ clock: { now: () => 0 }, publish() {}, log() {}, timeline: () => 1 },
      ...{ findAuthor: () => ({}), follow: async () => 0 },
    },
    true,
  )
  const change = { kind: 'create', type: 't', text: 'x'.repeat(10_000_000) } as const
  const requests = [1, 2, 3].map(() => pipeline.request(change, ADMIN))
  const answer = (id = 0) => {
    const decision = { reply: 'null', unit: null, transactionAt: 0, writeAt: 0, events: [] }
    events?.message({ id, decision })
  }
  await new Promise(setImmediate)
  expect(posted).toHaveLength(2)
  answer(posted[0])
  expect(posted).toHaveLength(3)
  for (const id of posted.slice(1)) answer(id)
  await Promise.all(requests)
})
