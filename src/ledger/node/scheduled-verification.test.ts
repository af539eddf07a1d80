import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import { HandClock, startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { tamper } from '../../../test/support/tampered.ts'
import type { Schedule } from '../../base/clock.ts'
import { issueApiToken, openTokens } from '../../tokens/index.ts'
import {
  FIRST_VERIFICATION_MS,
  type FinishedVerification,
  ScheduledVerification,
} from './scheduled-verification.ts'
import type { VerificationResult } from './verification-thread.ts'

const DAY_MS = 86_400_000

/** Runs scheduled functions on demand. */
class HandSchedule implements Schedule {
  readonly pending = new Map<() => void, number>()

  after(ms: number, run: () => void): () => void {
    this.pending.set(run, ms)
    return () => this.pending.delete(run)
  }

  /** Runs the only function with this delay. */
  run(ms: number): void {
    const [due, ...others] = [...this.pending].filter(([, delay]) => delay === ms)
    expect([due?.[1], others]).toEqual([ms, []])
    if (due === undefined) return
    this.pending.delete(due[0])
    due[0]()
  }
}

it('a node verifies its store at intervals, and shows the result in /readyz and metrics', async () => {
  const folder = temporaryFolder()
  const schedule = new HandSchedule()
  const clock = new HandClock(1_800_000_000_000)
  let report: (state: FinishedVerification) => void = () => {}
  const verified = (delayMs: number) =>
    new Promise<FinishedVerification>((resolve) => {
      report = resolve
      schedule.run(delayMs)
      clock.time += 2_500
    })
  const verification = { everyMs: DAY_MS, report: (state: FinishedVerification) => report(state) }
  const node = await startLedgerNode({ folder, clock, schedule, verification })
  onTestFinished(() => node.close())
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [{ id: 'plum' }, { id: 'fig' }])
  const ready = async () => {
    const { status, json } = await node.send('GET', '/readyz')
    return [status, json]
  }
  const metrics = async () => {
    const { text } = await node.send('GET', '/metrics')
    return text.split('\n').filter((line) => line.startsWith('daicho_verification_'))
  }
  expect(await ready()).toEqual([200, { status: true, verification: { result: 'pending' } }])
  expect(await metrics()).toEqual([
    'daicho_verification_failed 0',
    'daicho_verification_unfinished 0',
  ])

  const passed = { result: 'passed', blocks: 2, entries: 3, time: clock.time + 2_500, seconds: 2.5 }
  expect(await verified(FIRST_VERIFICATION_MS)).toEqual(passed)
  const lastPassed = { last_passed: passed.time }
  expect(await ready()).toEqual([200, { status: true, verification: { ...passed, ...lastPassed } }])
  expect(await metrics()).toEqual([
    'daicho_verification_passed_timestamp_seconds 1800000002.5',
    'daicho_verification_failed 0',
    'daicho_verification_unfinished 0',
    'daicho_verification_seconds 2.5',
  ])

  tamper(folder, `UPDATE items SET item = '{"id":"plum","price":1}' WHERE id = 'plum'`)
  const failed = { result: 'failed', finding: expect.stringMatching(/^1\.0: .*plum/), seconds: 2.5 }
  expect(await verified(DAY_MS)).toMatchObject(failed)
  expect(await ready()).toMatchObject([
    200,
    { status: true, verification: { ...failed, ...lastPassed } },
  ])
  expect(await metrics()).toContain('daicho_verification_failed 1')
  expect(await metrics()).toContain('daicho_verification_passed_timestamp_seconds 1800000002.5')
})

it('a node that requires tokens shows no details of a verification in /readyz', async () => {
  const folder = temporaryFolder()
  const schedule = new HandSchedule()
  const clock = new HandClock(1_800_000_000_000)
  const tokens = await openTokens({ clock, folder: null, secret: null })
  let report: (state: FinishedVerification) => void = () => {}
  const verification = { everyMs: DAY_MS, report: (state: FinishedVerification) => report(state) }
  const node = await startLedgerNode({ folder, clock, schedule, tokens, verification })
  onTestFinished(() => node.close())
  const scopes = ['db:fruit:admin']
  const { token } = await issueApiToken(tokens, { subject: 'a', scopes, lifeSeconds: 60 })
  await node.send('POST', `/api/fruit?token=${token}`)
  await node.send('POST', `/api/fruit?token=${token}`, { id: 'plum' })
  tamper(folder, `UPDATE items SET item = '{"id":"plum","price":1}' WHERE id = 'plum'`)
  const { time, finding } = await new Promise<FinishedVerification & { finding?: string }>(
    (resolve) => {
      report = resolve
      schedule.run(FIRST_VERIFICATION_MS)
    },
  )
  expect(finding).toContain('plum')
  const { json } = await node.send('GET', '/readyz')
  const shown = { result: 'failed', time, seconds: 0 }
  expect(json).toEqual({ status: true, verification: shown })
})

/** A thread that ends on demand. */
class FakeThread extends EventEmitter {
  readonly threadId = 1
  isTerminated = false

  postMessage(): void {}
  ref(): void {}
  unref(): void {}

  async terminate(): Promise<number> {
    this.isTerminated = true
    this.end()
    return 1
  }

  end(result?: VerificationResult): void {
    if (result !== undefined) this.emit('message', result)
    this.emit('exit', 0)
  }
}

const passed = { result: 'passed', blocks: 1, entries: 1 } as const
const failed = { result: 'failed', blocks: 1, entries: 1, finding: '1.0: wrong' } as const

function scheduled(everyMs: number) {
  const threads: FakeThread[] = []
  const startThread = (): FakeThread => {
    const thread = new FakeThread()
    threads.push(thread)
    return thread
  }
  const end = (result?: VerificationResult) => threads.pop()?.end(result)
  const schedule = new HandSchedule()
  const reported: string[] = []
  const verification = new ScheduledVerification(
    { location: '/nowhere', folder: null },
    { everyMs, report: ({ result }) => reported.push(result) },
    { clock: new HandClock(), schedule, threads: { startThread } },
  )
  return { threads, end, schedule, reported, verification }
}

it('starts the next verification an interval after the end of the previous verification', () => {
  const { threads, end, schedule } = scheduled(60_000)
  for (let round = 0; round < 3; round += 1) {
    expect([...schedule.pending.values()]).toEqual([60_000])
    schedule.run(60_000)
    expect([threads.length, schedule.pending.size]).toEqual([1, 0])
    end(passed)
  }
})

it('an unfinished verification does not replace the result of a failed verification', () => {
  const { end, schedule, reported, verification } = scheduled(60_000)
  const results: string[] = []
  const unfinished = { result: 'unfinished', reason: 'the server is down' } as const
  for (const result of [unfinished, failed, unfinished, undefined, passed, undefined]) {
    schedule.run(60_000)
    end(result)
    results.push(verification.state.result)
  }
  expect(results).toEqual(['unfinished', 'failed', 'failed', 'failed', 'passed', 'unfinished'])
  expect(reported).toEqual([
    ...['unfinished', 'failed', 'unfinished', 'unfinished', 'passed', 'unfinished'],
  ])
  expect(verification.state).toMatchObject({ reason: 'the thread ended without a result' })
})

it('closing stops a running verification, and no other verification starts', async () => {
  const { threads, schedule, reported, verification } = scheduled(60_000)
  schedule.run(60_000)
  await verification.close()
  expect([threads[0]?.isTerminated, schedule.pending.size, reported]).toEqual([true, 0, []])
  const idle = scheduled(60_000)
  await idle.verification.close()
  expect(idle.schedule.pending.size).toBe(0)
})
