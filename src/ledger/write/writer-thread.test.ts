import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { ThreadPort } from '../../base/worker/worker.ts'
import { openStore, type Store, StoreError, type StoreErrorCode } from '../../storage/index.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import { type FromWriter, type PackedCommit, type ToWriter, unpackReply } from './messages.ts'
import { pauseAfter, serveWriter } from './writer-thread.ts'

/** Starts the writer thread with a real store. `overrides` replaces some methods of the store. */
async function startThread(overrides: Partial<Store>) {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const sent: FromWriter[] = []
  let receive: (message: ToWriter) => void = () => {}
  let answered: () => void = () => {}
  const port = {
    postMessage(packed: FromWriter | PackedCommit) {
      const message = unpackReply(packed)
      sent.push(message)
      answered()
    },
    on(_: string, listener: typeof receive) {
      receive = listener
    },
    close() {},
  }
  const due: (() => void)[] = []
  let isClosed = false
  const platform: Platform = {
    ...systemPlatform,
    async openStore(options) {
      const store = await openStore(options)
      const close = async () => {
        isClosed = true
        await store.close()
      }
      return new Proxy(store, {
        get(target, name) {
          const value = Reflect.get({ close, ...overrides }, name) ?? Reflect.get(target, name)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    },
    schedule: {
      after(_, run) {
        due.push(run)
        return () => {}
      },
    },
  }
  const start = { location: folder, serverId: 7, durable: true }
  // `port` has only the members that the thread uses.
  await serveWriter(start, port as unknown as ThreadPort, platform)
  return {
    sent,
    /** Scheduled maintenance, which the test runs. */
    due,
    isClosed: () => isClosed,
    ask: (message: ToWriter) =>
      new Promise<FromWriter | undefined>((resolve) => {
        answered = () => resolve(sent.at(-1))
        receive(message)
      }),
  }
}

const unit = () => ({ units: [[{ kind: 'create_db' as const, db: 'd' }]], nowMs: 1 })
const failing = (code: StoreErrorCode) => async () => {
  throw new StoreError(code, 'the store failed: disk I/O error')
}
const nextIteration = () => new Promise((resolve) => setImmediate(resolve))

it('reports failed maintenance at once, closes the store and writes nothing more', async () => {
  const { sent, due, ask, isClosed } = await startThread({ maintain: failing('STORE_FAILED') })
  due.shift()?.()
  await nextIteration()
  expect(sent.at(-1)).toEqual({
    ...{ maintenanceFailed: 'the store failed: disk I/O error', code: 'WRITER_STOPPED' },
  })
  expect([isClosed(), due]).toEqual([true, []])
  expect(await ask(unit())).toMatchObject({ refused: 'WRITER_STOPPED', stopped: true })
})

it('retries maintenance after the disk was full, and stores blocks in between', async () => {
  const { sent, due, ask, isClosed } = await startThread({ maintain: failing('STORE_FULL') })
  due.shift()?.()
  await nextIteration()
  expect([sent, due.length, isClosed()]).toEqual([[{ ready: true }], 1, false])
  expect(await ask(unit())).toMatchObject({ block: { height: 0 } })
  await ask({ close: true })
})

it.each([true, false])(
  'maintains a store without blocks only if other processes may leave work (shared: %s)',
  async (isShared) => {
    let steps = 0
    const maintain = async () => {
      steps += 1
      return false
    }
    const { due, ask } = await startThread({ isShared, maintain })
    // Each run either maintains the store or schedules this.
    for (let runs = 0; runs < 5; runs += 1) {
      due.shift()?.()
      await nextIteration()
    }
    expect(steps).toBe(isShared ? 3 : 1)
    await ask({ close: true })
  },
)

it('stops after an index change has failed with a disk error', async () => {
  const { ask, isClosed } = await startThread({ addIndex: failing('STORE_FAILED') })
  expect(await ask({ index: 'add', db: 'd', path: 'n' })).toEqual({
    ...{ indexed: null, refused: 'WRITER_STOPPED', stopped: true, unknown: true },
    reason: 'the store failed: disk I/O error',
  })
  expect(isClosed()).toBe(true)
  expect(await ask(unit())).toMatchObject({ refused: 'WRITER_STOPPED', stopped: true })
})

it('plans a batch again if another process has appended a block first', async () => {
  let appends = 0
  const { ask } = await startThread({
    async append() {
      appends += 1
      if (appends < 4) throw new StoreError('HEAD_MOVED', 'another process was first')
    },
  })
  expect(await ask(unit())).toMatchObject({ block: { height: 0 }, outcomes: [{ index: 0 }] })
  expect(appends).toBe(4)
  await ask({ close: true })
})

it('rejects a batch with a temporary error if other processes always append first', async () => {
  let appends = 0
  const { ask, isClosed } = await startThread({
    async append() {
      appends += 1
      throw new StoreError('HEAD_MOVED', 'another process was first')
    },
  })
  expect(await ask(unit())).toEqual({
    ...{ refused: 'STORE_UNAVAILABLE', stopped: false, unknown: false },
    reason: 'another process was first',
  })
  expect([appends, isClosed()]).toEqual([8, false])
  await ask({ close: true })
})

it.each([
  { code: 'STORE_UNAVAILABLE', unknown: false },
  { code: 'OUTCOME_UNKNOWN', unknown: true },
] as const)(
  'after $code, reports the end of the outage and writes the next batch',
  async (each) => {
    let isOut = true
    const { ask, due, sent, isClosed } = await startThread({
      exclusive(work) {
        return isOut ? failing(each.code)() : work(null)
      },
    })
    due.shift()?.()
    await nextIteration()
    expect(await ask(unit())).toMatchObject({
      ...{ refused: each.code, stopped: false, unknown: each.unknown },
    })
    due.shift()?.()
    await nextIteration()
    expect([sent.length, due.length, isClosed()]).toEqual([2, 1, false])
    isOut = false
    due.shift()?.()
    await nextIteration()
    expect(sent.at(-1)).toEqual({ available: true })
    expect(await ask(unit())).toMatchObject({ block: { height: 0 } })
    await ask({ close: true })
  },
)

it('after STORE_FULL, reports new disk space without a change', async () => {
  const MIB = 1024 * 1024
  let freeBytes = 3 * MIB
  const { ask, due, sent } = await startThread({
    exclusive: failing('STORE_FULL'),
    diskUsage: async () => ({ fileBytes: 0, walBytes: 0, freeBytes }),
  })
  due.shift()?.()
  await nextIteration()
  expect(await ask(unit())).toMatchObject({ refused: 'STORE_FULL', stopped: false })
  for (const free of [3 * MIB, 35 * MIB - 1]) {
    freeBytes = free
    due.shift()?.()
    await nextIteration()
    expect([sent.length, due.length]).toEqual([2, 1])
  }
  freeBytes = 35 * MIB
  due.shift()?.()
  await nextIteration()
  expect(sent.slice(2)).toEqual([{ hasSpace: true }])
  expect(due).toEqual([])
  await ask({ close: true })
})

it('stops permanently if the database lacks acknowledged blocks', async () => {
  const { ask, isClosed } = await startThread({ exclusive: failing('STORE_ROLLED_BACK') })
  expect(await ask(unit())).toMatchObject({ refused: 'STORE_ROLLED_BACK', stopped: true })
  expect(isClosed()).toBe(true)
})

it('after a long maintenance step, leaves four fifths of the time to blocks, with a pause of at most a minute', () => {
  expect([0, 5, 99.9].map(pauseAfter)).toEqual([0, 0, 0])
  expect([100, 1_500, 15_000].map(pauseAfter)).toEqual([400, 6_000, 60_000])
  expect(pauseAfter(600_000)).toBe(60_000)
})

it('starts while another process writes the first blocks of the store', async () => {
  let isWritten = false
  const afterward = <Result>(before: Result, after: Result): Result => {
    const result = isWritten ? after : before
    isWritten = true
    return result
  }
  const { sent, ask } = await startThread({
    head: async () => afterward(null, { height: 0, id: 'a', timestamp: 1 }),
    databases: async () => afterward([], [{ name: 'fruit', created: 0 }]),
  })
  expect(sent).toEqual([{ ready: true }])
  await ask({ close: true })
})
