import { setImmediate as nextIteration } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Thread } from '../../base/worker/worker.ts'
import { packPosition } from '../../chain/index.ts'
import type { FromWriter } from './messages.ts'
import type { Precondition } from './request-conditions.ts'
import { FakeThread } from './test-thread.ts'
import type { UnitOfWork } from './unit-of-work.ts'
import { firstPosition, LedgerWriter } from './writer.ts'

const MIB = 1024 * 1024
const ANY: Precondition = { match: '*', noneMatch: null }
const START = { location: '/none', serverId: 7, durable: true }

/** Returns a unit of `entries` changes, which the writer counts as at least `bytes` bytes. */
function toUnit(entries: number, bytes = 0): UnitOfWork {
  const plain = { kind: 'delete_item', db: 'a', id: 'x' } as const
  const first = { kind: 'update_item', db: 'a', id: 'x' } as const
  const text = 'x'.repeat(Math.max(0, bytes - entries * 129))
  return [{ ...first, text }, ...Array.from({ length: entries - 1 }, () => plain)]
}

/** Returns the result or the error of a promise. */
function outcomeOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) => error)
}

/** Waits until the writer has closed its open block. */
async function untilBatchCloses(): Promise<void> {
  for (let iterations = 0; iterations < 20; iterations += 1) await nextIteration()
}

let thread: FakeThread
let writer: LedgerWriter
async function startWriter(
  firstMessage: FromWriter,
  first: () => void = () => {},
): Promise<LedgerWriter> {
  thread = new FakeThread()
  const platform = { startThread: () => thread as unknown as Thread }
  const starting = LedgerWriter.start(START, { now: () => 5_000 }, platform)
  first()
  thread.send(firstMessage)
  return starting
}
beforeEach(async () => {
  writer = await startWriter({ ready: true })
})

it('reports the reason if the writer cannot start', async () => {
  const tooNew = startWriter({ code: 'STORE_FORMAT', failed: 'of another format' })
  await expect(tooNew).rejects.toMatchObject({
    code: 'STORE_FORMAT',
    message: 'of another format',
  })
  const starting = startWriter({ ready: true }, () => thread.emit('error', new Error('no memory')))
  await expect(starting).rejects.toMatchObject({
    code: 'STORE_FAILED',
    message: 'the writer thread cannot start: no memory',
  })
})

describe('blocks', () => {
  it('blocks contain concurrent changes, and are sent with the time and the preconditions of the requests', async () => {
    const idempotency = { key: 'k', fingerprint: 'f' }
    void writer.record(toUnit(1))
    void writer.record(toUnit(1), { precondition: null, idempotency })
    void writer.record(toUnit(1), { precondition: ANY, idempotency: null })
    expect(thread.sent).toEqual([])
    await untilBatchCloses()
    expect(thread.sent).toEqual([
      {
        units: expect.any(Array),
        nowMs: 5_000,
        conditions: new Map([
          [1, { precondition: null, idempotency }],
          [2, { precondition: ANY, idempotency: null }],
        ]),
      },
    ])
    expect(thread.blocks()).toEqual([3])
  })

  it('blocks stay open while each event-loop iteration brings more requests, for at most 16 iterations', async () => {
    for (let n = 0; n < 2; n += 1) void writer.record(toUnit(1))
    await nextIteration()
    void writer.record(toUnit(1))
    expect(thread.blocks()).toEqual([])
    await untilBatchCloses()
    expect(thread.blocks()).toEqual([3])
    thread.sendCommitted(0, 3)
    for (let n = 0; n < 40; n += 1) {
      void writer.record(toUnit(1))
      void writer.record(toUnit(1))
      await nextIteration()
    }
    expect(thread.blocks()).toEqual([3, 32])
  })

  it('blocks wait for a fraction of the concurrent requests while another block is written; at most two blocks are in flight', async () => {
    const come = (count: number) => {
      for (let n = 0; n < count; n += 1) void writer.record(toUnit(1))
    }
    come(10)
    await untilBatchCloses()
    come(10)
    await untilBatchCloses()
    expect(thread.blocks()).toEqual([10])
    // With 20 concurrent requests, 0.4 × 20 = 8 requests are enough for a block.
    thread.sendCommitted(0, 10)
    expect(thread.blocks()).toEqual([10, 10])
    come(7)
    expect(thread.blocks()).toEqual([10, 10])
    come(1)
    expect(thread.blocks()).toEqual([10, 10, 8])
    come(30)
    await untilBatchCloses()
    expect(thread.blocks()).toEqual([10, 10, 8])
    expect(writer.depth).toBe(48)
    thread.sendCommitted(1, 10)
    expect(thread.blocks()).toEqual([10, 10, 8, 30])
    expect(writer.depth).toBe(38)
  })

  it('blocks wait for the next requests of clients that were just answered', async () => {
    void writer.record(toUnit(1))
    await untilBatchCloses()
    for (let n = 0; n < 2; n += 1) void writer.record(toUnit(1))
    thread.sendCommitted(0, 1)
    expect(thread.blocks()).toEqual([1])
    void writer.record(toUnit(1))
    await untilBatchCloses()
    expect(thread.blocks()).toEqual([1, 3])
  })

  it('blocks are not split while only seven requests are concurrent', async () => {
    for (let n = 0; n < 7; n += 1) void writer.record(toUnit(1))
    await untilBatchCloses()
    thread.sendCommitted(0, 7)
    for (let n = 0; n < 6; n += 1) void writer.record(toUnit(1))
    await untilBatchCloses()
    void writer.record(toUnit(1))
    expect(thread.blocks()).toEqual([7, 6])
  })

  it('blocks are sent at once if they are almost full, even with few concurrent requests, until two are in flight', async () => {
    for (let n = 0; n < 4; n += 1) void writer.record(toUnit(1_000))
    expect(thread.blocks()).toEqual([1, 1])
    thread.sendCommitted(0, 1)
    expect(thread.blocks()).toEqual([1, 1, 1])
    thread.sendCommitted(1, 1)
    thread.sendCommitted(2, 1)
    void writer.record(toUnit(1, 3 * MIB))
    expect(thread.blocks()).toEqual([1, 1, 1, 1, 1])
  })

  it.each([
    ['1,024 entries', [[600], [424], [1]], [2, 1]],
    ['4 MiB', [[1, 2 * MIB], [1, 2 * MIB], [1]], [2, 1]],
    ['one unit that is larger', [[1_025], [1], [1, 5 * MIB], [1]], [1, 1, 1, 1]],
  ] as const)('blocks contain at most %s', async (_, units, blocks) => {
    for (const [entries, bytes] of units) void writer.record(toUnit(entries, bytes))
    await untilBatchCloses()
    for (const height of blocks.keys()) {
      thread.sendCommitted(height, 1)
      await untilBatchCloses()
    }
    expect([thread.blocks(), writer.depth, writer.queueBytes]).toEqual([blocks, 0, 0])
  })
})

describe('replies', () => {
  it('replies contain the position of each change, and are sent after `onCommit` was called', async () => {
    const committed: unknown[] = []
    writer.onCommit = (last) => committed.push(last)
    const answers = [toUnit(1), toUnit(1)].map(async (unit) =>
      committed.push(await writer.record(unit)),
    )
    await untilBatchCloses()
    thread.sendCommitted(3, 2)
    await Promise.all(answers)
    expect(committed).toEqual([
      packPosition(3, 1),
      { height: 3, index: 0, blockId: 'block 3' },
      { height: 3, index: 1, blockId: 'block 3' },
    ])
  })

  it('replies tell for each change whether it was executed, was executed earlier, or was rejected', async () => {
    const units = [toUnit(1), toUnit(1), toUnit(1), toUnit(1)]
    const answers = units.map((unit) => outcomeOf(writer.record(unit)))
    await untilBatchCloses()
    const earlier = { position: 9, entries: 2 }
    thread.send({
      block: { height: 0, id: 'b', entries: 3, bytes: 1, ms: 1 },
      outcomes: [
        { index: 0 },
        earlier,
        { code: 'ITEM_NOT_FOUND', message: 'there is no item x in a' },
        { index: 2, freed: ['aa'] },
      ],
    })
    expect(await Promise.all(answers)).toEqual([
      { height: 0, index: 0, blockId: 'b' },
      earlier,
      expect.objectContaining({ code: 'ITEM_NOT_FOUND', message: 'there is no item x in a' }),
      { height: 0, index: 2, blockId: 'b', freed: ['aa'] },
    ])
  })

  it('replies report a full disk as one failure until a block can be stored again', async () => {
    const full = async () => {
      const answer = outcomeOf(writer.record(toUnit(1)))
      await untilBatchCloses()
      thread.send({ refused: 'STORE_FULL', reason: 'no room', stopped: false, unknown: false })
      return answer
    }
    const first = await full()
    expect(first).toMatchObject({ code: 'STORE_FULL', message: 'nothing was written: no room' })
    expect(await full()).toMatchObject({ cause: first })
    expect(writer.failure).toBe(first)
    // A rejected batch makes no block, so the state of the disk stays unknown.
    const answer = outcomeOf(writer.record(toUnit(1)))
    await untilBatchCloses()
    const refusal = { code: 'ITEM_NOT_FOUND', message: 'none' } as const
    thread.send({ block: null, outcomes: [refusal] })
    expect(await answer).toMatchObject({ code: 'ITEM_NOT_FOUND' })
    expect(writer.failure).toBe(first)
    void writer.record(toUnit(1))
    await untilBatchCloses()
    thread.sendCommitted(0, 1)
    expect(writer.failure).toBeNull()
  })

  it('replies are WRITER_STOPPED errors for all pending and later changes after a write with an unknown outcome', async () => {
    const written = outcomeOf(writer.record(toUnit(1)))
    await untilBatchCloses()
    const waiting = [
      outcomeOf(writer.record(toUnit(1))),
      outcomeOf(writer.changeIndex('add', INDEX)),
    ]
    thread.send({ refused: 'WRITER_STOPPED', reason: 'torn', stopped: true, unknown: true })
    expect(await written).toMatchObject({
      code: 'WRITER_STOPPED',
      message: 'the outcome of the write is unknown: torn',
    })
    const stopped = { code: 'WRITER_STOPPED', message: 'torn' }
    const later = [outcomeOf(writer.record(toUnit(1))), outcomeOf(writer.changeIndex('add', INDEX))]
    expect(await Promise.all([...waiting, ...later])).toMatchObject(Array(4).fill(stopped))
    expect([writer.depth, writer.queueBytes, thread.blocks()]).toEqual([0, 0, [1]])
    await writer.close()
    expect(thread.isTerminated).toBe(true)
  })

  it.each([
    { code: 'STORE_UNAVAILABLE', unknown: false, message: 'nothing was written: no reply' },
    {
      code: 'OUTCOME_UNKNOWN',
      unknown: true,
      message: 'the outcome of the write is unknown: no reply',
    },
  ] as const)('replies are $code errors until the database server answers again', async (each) => {
    const written = outcomeOf(writer.record(toUnit(1)))
    await untilBatchCloses()
    thread.send({ refused: each.code, reason: 'no reply', stopped: false, unknown: each.unknown })
    expect(await written).toMatchObject({ code: each.code, message: each.message })
    expect(writer.failure).toMatchObject({ code: each.code })
    thread.send({ available: true })
    expect(writer.failure).toBeNull()
  })

  it('replies are STORE_FULL errors until the disk has space', async () => {
    const written = outcomeOf(writer.record(toUnit(1)))
    await untilBatchCloses()
    thread.send({ refused: 'STORE_FULL', reason: 'full', stopped: false, unknown: false })
    expect(await written).toMatchObject({ code: 'STORE_FULL' })
    thread.send({ available: true })
    expect(writer.failure).toMatchObject({ code: 'STORE_FULL' })
    thread.send({ hasSpace: true })
    expect(writer.failure).toBeNull()
  })

  it('replies are STORE_ROLLED_BACK errors permanently if the database lacks acknowledged blocks', async () => {
    const written = outcomeOf(writer.record(toUnit(1)))
    await untilBatchCloses()
    const refused = 'STORE_ROLLED_BACK'
    thread.send({ refused, reason: 'block 7 is missing', stopped: true, unknown: false })
    expect(await written).toMatchObject({ code: refused })
    expect(writer.failure).toMatchObject({ code: refused, message: 'block 7 is missing' })
    await expect(writer.record(toUnit(1))).rejects.toMatchObject({ code: refused })
  })

  it('replies are WRITER_STOPPED errors with the reason as soon as maintenance fails', async () => {
    thread.send({ maintenanceFailed: 'the store failed: disk I/O error', code: 'WRITER_STOPPED' })
    const stopped = { code: 'WRITER_STOPPED', message: 'the store failed: disk I/O error' }
    expect(writer.failure).toMatchObject(stopped)
    await expect(writer.record(toUnit(1))).rejects.toMatchObject(stopped)
    expect(thread.sent).toEqual([])
  })

  it('replies are WRITER_STOPPED errors after an index change with an unknown outcome', async () => {
    const changed = outcomeOf(writer.changeIndex('add', INDEX))
    thread.send({ indexed: null, refused: 'WRITER_STOPPED', reason: 'torn', stopped: true })
    expect(await changed).toMatchObject({
      code: 'WRITER_STOPPED',
      message: 'it is unknown whether the index was changed: torn',
    })
    await expect(writer.record(toUnit(1))).rejects.toMatchObject({ message: 'torn' })
  })

  it.each([
    ['error', new Error('out of memory'), 'the writer thread failed: out of memory'],
    ['exit', 1, 'the writer thread has ended'],
  ])(
    'replies are WRITER_STOPPED errors for all pending changes if the thread emits `%s`',
    async (event, value, message) => {
      const sent = outcomeOf(writer.record(toUnit(1)))
      await untilBatchCloses()
      const waiting = outcomeOf(writer.record(toUnit(1)))
      thread.emit(event, value)
      const stopped = { code: 'WRITER_STOPPED', message }
      expect(await Promise.all([sent, waiting])).toMatchObject([stopped, stopped])
    },
  )
})

const INDEX = { db: 'a', path: 'n' }
const BUSY = { code: 'WRITER_BUSY' }

describe('the queue', () => {
  it('accepts 20,000 changes', async () => {
    const unit = toUnit(1)
    for (let n = 0; n < 20_000; n += 1) void writer.record(unit)
    await expect(writer.record(unit)).rejects.toMatchObject(BUSY)
    expect(writer.depth).toBe(20_000)
  })

  it('accepts 128 MiB, of which one request uses at most half', async () => {
    const half = toUnit(1, 64 * MIB)
    await expect(writer.record(toUnit(1, 64 * MIB + 1))).rejects.toMatchObject({
      code: 'UNIT_TOO_LARGE',
    })
    await expect(writer.record([])).rejects.toMatchObject({ code: 'UNIT_EMPTY' })
    void writer.record(half)
    void writer.record(half)
    expect(writer.queueBytes).toBe(128 * MIB)
    await expect(writer.record(toUnit(1))).rejects.toMatchObject(BUSY)
    await untilBatchCloses()
    thread.sendCommitted(0, 1)
    void writer.record(toUnit(1))
    expect(writer.queueBytes).toBe(64 * MIB + 129)
  })

  it('counts a patch as long as the item that it changes', async () => {
    const patch = {
      kind: 'patch_item',
      db: 'a',
      id: 'x',
      text: '{}',
      currentBytes: 9 * MIB,
    } as const
    for (let n = 0; n < 14; n += 1) void writer.record([patch])
    await expect(writer.record([patch])).rejects.toMatchObject(BUSY)
  })

  it('accepts 100 index changes, which are answered in order', async () => {
    const committed: unknown[] = []
    writer.onCommit = (last) => committed.push(last)
    const changes = Array.from({ length: 100 }, () => outcomeOf(writer.changeIndex('add', INDEX)))
    await expect(writer.changeIndex('remove', INDEX)).rejects.toMatchObject(BUSY)
    expect(thread.sent).toEqual(Array(100).fill({ index: 'add', ...INDEX }))
    thread.send({ indexed: 'done' })
    thread.send({ indexed: null, refused: 'STORE_FULL', reason: 'no room', stopped: false })
    expect(await Promise.all(changes.slice(0, 2))).toMatchObject([
      'done',
      { code: 'STORE_FULL', message: 'nothing was changed: no room' },
    ])
    expect(committed).toEqual([null])
    void outcomeOf(writer.changeIndex('remove', INDEX))
    expect(thread.sent.at(-1)).toEqual({ index: 'remove', ...INDEX })
  })
})

it('answers the changes of a batch block by block if the thread divides the batch', async () => {
  const changes = [1, 1, 1].map((entries) => outcomeOf(writer.record(toUnit(entries))))
  await untilBatchCloses()
  const block = { height: 0, id: 'block 0', entries: 1, bytes: 1, ms: 1 }
  thread.send({ block, outcomes: [{ code: 'ITEM_NOT_FOUND', message: 'none' }, { index: 0 }] })
  expect(writer.depth).toBe(1)
  void writer.record(toUnit(1))
  thread.send({ block: { ...block, height: 1 }, outcomes: [{ index: 0 }] })
  expect(await Promise.all(changes)).toMatchObject([
    { code: 'ITEM_NOT_FOUND' },
    ...[
      { height: 0, index: 0 },
      { height: 1, index: 0 },
    ],
  ])
  await untilBatchCloses()
  expect(thread.blocks()).toEqual([3, 1])
})

it('answers an index change while a block is written, before the changes of that block', async () => {
  const written = writer.record(toUnit(1))
  await untilBatchCloses()
  const changed = writer.changeIndex('add', INDEX)
  thread.send({ indexed: 'done' })
  expect([await changed, writer.depth]).toEqual(['done', 1])
  thread.sendCommitted(0, 1)
  expect(await written).toMatchObject({ height: 0, index: 0 })
})

describe('closing', () => {
  it('writes pending changes, then index changes, then closes the store', async () => {
    void writer.record(toUnit(1))
    const closed = writer.close()
    expect(thread.blocks()).toEqual([1])
    for (const refused of [writer.record(toUnit(1)), writer.changeIndex('add', INDEX)]) {
      await expect(refused).rejects.toMatchObject({
        code: 'WRITER_STOPPED',
        message: 'the node is closing',
      })
    }
    thread.sendCommitted(0, 1)
    expect(thread.sent.at(-1)).toEqual({ close: true })
    thread.send({ closed: true })
    thread.emit('exit', 0)
    await closed
  })

  it('waits for an index change in flight', async () => {
    const changed = writer.changeIndex('add', INDEX)
    void writer.close()
    expect(thread.sent).toEqual([{ index: 'add', ...INDEX }])
    thread.send({ indexed: 'done' })
    await changed
    expect(thread.sent.at(-1)).toEqual({ close: true })
  })
})

it('returns the original position of a repeated change', () => {
  expect(firstPosition({ position: 9, entries: 2 })).toBe(9)
  expect(firstPosition({ height: 3, index: 1, blockId: 'b' })).toBe(packPosition(3, 1))
})

it("accepts changes of a network's databases only from the network", async () => {
  writer.owned.add('a')
  await expect(writer.record(toUnit(1))).rejects.toMatchObject({
    code: 'OWNED_BY_NETWORK',
    message: 'database a can be changed only through its network',
  })
  const network = { db: 'a', since: null }
  void writer.record(toUnit(1), { precondition: null, idempotency: null, network })
  void writer.record([{ kind: 'create_db', db: 'b' }])
  expect(writer.depth).toBe(2)
})

it('after `suspend`, rejects new changes but still writes pending changes', async () => {
  const waiting = writer.record(toUnit(1))
  const why = Object.assign(new Error('evidence'), { code: 'CHAIN_FROZEN' })
  writer.suspend(why as never)
  await expect(writer.record(toUnit(1))).rejects.toBe(why)
  expect(writer.failure).toBe(why)
  await untilBatchCloses()
  thread.sendCommitted(0, 1)
  expect(await waiting).toMatchObject({ height: 0 })
})
