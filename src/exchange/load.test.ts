import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { HandClock, startLedgerNode } from '../../test/support/ledger-node.ts'
import { CodedError } from '../base/coded-error.ts'
import type { Operation } from '../ledger/core.ts'
import { IDEMPOTENCY_RECORDS_KEPT_MS } from '../storage/index.ts'
import { BATCH_RECORDS } from './batch.ts'
import type { ConflictPolicy } from './choices.ts'
import type { RevisionRecord, SourceRecord } from './formats/record.ts'
import { type LoadOptions, loadRecords } from './load.ts'
import { type LoadCounts, type LoadPosition, LoadProgress, type LoadRefusal } from './progress.ts'
import { type LoadTarget, serviceTarget } from './target.ts'

async function* pages(
  records: readonly SourceRecord[],
  perPage = 300,
): AsyncGenerator<SourceRecord[]> {
  for (let at = 0; at < records.length; at += perPage) yield records.slice(at, at + perPage)
}

const items = (count: number, from = 0): SourceRecord[] =>
  Array.from({ length: count }, (_, at) => ({
    ...{ kind: 'item', line: from + at + 1, item: { id: `i${from + at}` }, attachments: [] },
  }))

/** A ledger in memory with one database. Applies a unit of work completely or not at all, and once per key. */
class FakeTarget implements LoadTarget {
  readonly stored = new Map<string, string>()
  readonly keys = new Set<string>()
  readonly units: Operation[][] = []
  /** Called before each unit. */
  before: (number: number) => Promise<void> | void = () => {}
  mostInFlight = 0
  #inFlight = 0

  async findCreation(): Promise<string | null> {
    return '0.0'
  }

  async createDatabase(): Promise<boolean> {
    return false
  }

  async record(unit: readonly Operation[], key: string): Promise<void> {
    this.#inFlight += 1
    this.mostInFlight = Math.max(this.mostInFlight, this.#inFlight)
    try {
      await this.before(Number(key.split('-')[1]))
      await turn()
      if (!this.keys.has(key)) this.#apply(unit)
      this.keys.add(key)
    } finally {
      this.#inFlight -= 1
    }
  }

  #apply(unit: readonly Operation[]): void {
    const next = new Map(this.stored)
    for (const operation of unit) {
      if (!('id' in operation)) continue
      const { kind, id } = operation
      const exists = next.has(id)
      if (kind === 'create_item' && exists) throw new CodedError('ITEM_EXISTS', `${id} exists`)
      if (kind !== 'create_item' && !exists) throw new CodedError('ITEM_NOT_FOUND', `no ${id}`)
      if (kind === 'delete_item') next.delete(id)
      else if ('text' in operation) next.set(id, operation.text)
    }
    this.units.push([...unit])
    this.stored.clear()
    for (const [id, text] of next) this.stored.set(id, text)
  }

  async read(_db: string, id: string): Promise<string | null> {
    await turn()
    return this.stored.get(id) ?? null
  }

  async attach(): Promise<void> {}
}

interface Loaded {
  readonly counts: LoadCounts | null
  readonly error: unknown
  readonly positions: LoadPosition[]
  readonly refusals: LoadRefusal[]
}

/** Returns a function that returns `<prefix>1`, then `<prefix>2`, and so on. */
function idsOf(prefix: string): () => string {
  let made = 0
  return () => {
    made += 1
    return `${prefix}${made}`
  }
}

async function load(
  target: LoadTarget,
  records: readonly SourceRecord[],
  options: Partial<LoadOptions> = {},
): Promise<Loaded> {
  const positions: LoadPosition[] = []
  const refusals: LoadRefusal[] = []
  const all: LoadOptions = {
    ...{ chooseDatabase: () => 'fruit', idMember: null, onConflict: 'fail', loadId: 'load' },
    newId: idsOf('new'),
    write: async () => {},
    finished(position, refused) {
      positions.push(position)
      refusals.push(...refused)
    },
    ...options,
  }
  try {
    return {
      counts: await loadRecords(pages(records), target, all),
      error: null,
      positions,
      refusals,
    }
  } catch (error) {
    return { counts: null, error, positions, refusals }
  }
}

it('sends up to four batches of 1,000 records at the same time, and finishes them in order', async () => {
  const target = new FakeTarget()
  // The first batches take longest, so the batches finish in the wrong order.
  target.before = async (number) => {
    for (let turns = 20 - 4 * number; turns > 0; turns -= 1) await turn()
  }
  const { counts, positions } = await load(target, items(4_500))
  expect(counts).toMatchObject({ records: 4_500, created: 4_500, refused: 0 })
  expect(target.units.map(({ length }) => length).toSorted()).toEqual([
    1_000, 1_000, 1_000, 1_000, 500,
  ])
  expect(positions.map(({ batches, counts }) => [batches, counts.created])).toEqual([
    [1, 1_000],
    [2, 2_000],
    [3, 3_000],
    [4, 4_000],
    [5, 4_500],
  ])
  expect(target.mostInFlight).toBe(4)
})

it('reports refused records with their lines, and loads the other records of the batch', async () => {
  const target = new FakeTarget()
  const records: SourceRecord[] = [
    ...items(1),
    { kind: 'refused', line: 2, reason: 'it is not JSON' },
    { kind: 'item', line: 3, item: { id: 'a/b' }, attachments: [] },
    { kind: 'item', line: 4, item: { id: 5 }, attachments: [] },
    { kind: 'left-out', line: 5, reason: 'design documents' },
    { kind: 'item', line: 6, file: 'b.json', item: { name: 'without id' }, attachments: [] },
    {
      kind: 'item',
      line: 7,
      file: 'b.json',
      item: { text: 'x'.repeat(10_485_761) },
      attachments: [],
    },
  ]
  const { counts, refusals } = await load(target, records)
  expect(counts).toMatchObject({
    records: 7,
    created: 2,
    refused: 4,
    leftOut: { 'design documents': 1 },
  })
  expect(refusals).toEqual([
    { kind: 'refused', line: 2, reason: 'it is not JSON' },
    expect.objectContaining({ line: 3, reason: expect.stringContaining('slash') }),
    expect.objectContaining({
      line: 4,
      reason: 'its id is a number; --id id converts the id to a string',
    }),
    expect.objectContaining({
      line: 7,
      file: 'b.json',
      reason: expect.stringContaining('10485760 bytes'),
    }),
  ])
  expect([...target.stored.keys()]).toEqual(['i0', 'new1'])
})

it('finishes batches that contain only refused records, so that refusals do not collect in memory', async () => {
  const refused = Array.from({ length: 2_500 }, (_, at): SourceRecord => {
    return { kind: 'refused', line: at + 1, reason: 'no' }
  })
  const { positions } = await load(new FakeTarget(), refused)
  expect(positions.map(({ counts }) => counts.refused)).toEqual([1_000, 2_000, 2_500])
})

describe('--on-conflict', () => {
  const twice: SourceRecord[] = [
    { kind: 'item', line: 1, item: { id: 'a', n: 1 }, attachments: [] },
    { kind: 'item', line: 2, item: { id: 'b', n: 1 }, attachments: [] },
    { kind: 'item', line: 3, item: { id: 'a', n: 2 }, attachments: [] },
  ]
  const run = async (onConflict: ConflictPolicy) => {
    const target = new FakeTarget()
    target.stored.set('b', 'before')
    return { target, ...(await load(target, twice, { onConflict })) }
  }

  it('with `fail`, ends the load at an existing item, and records nothing of that batch', async () => {
    const { target, error } = await run('fail')
    expect(error).toMatchObject({
      name: 'LoadError',
      message: 'line 2: item b of fruit exists already; use --on-conflict skip or replace',
      counts: { records: 0, created: 0 },
    })
    expect([...target.stored]).toEqual([['b', 'before']])
  })

  it('with `skip`, keeps existing items, and the first of several records with the same id', async () => {
    const { target, counts } = await run('skip')
    expect(counts).toMatchObject({ records: 3, created: 1, skipped: 2, replaced: 0 })
    expect([...target.stored]).toEqual([
      ['b', 'before'],
      ['a', '{"id":"a","n":1}'],
    ])
  })

  it('with `replace`, replaces existing items, and stores the last of several records with the same id', async () => {
    const { target, counts } = await run('replace')
    expect(counts).toMatchObject({ records: 3, created: 1, replaced: 2, skipped: 0 })
    expect([...target.stored]).toEqual([
      ['b', '{"id":"b","n":1}'],
      ['a', '{"id":"a","n":2}'],
    ])
  })

  it('with `replace`, stores the last of two records with the same id in different batches', async () => {
    const target = new FakeTarget()
    // Delays the first batch. If the load did not wait, the second batch would be recorded first.
    target.before = async (number) => {
      for (let turns = number === 0 ? 50 : 0; turns > 0; turns -= 1) await turn()
    }
    const last: SourceRecord = {
      kind: 'item',
      line: 1_001,
      item: { id: 'i7', n: 2 },
      attachments: [],
    }
    const { counts } = await load(target, [...items(BATCH_RECORDS), last], {
      onConflict: 'replace',
    })
    expect(counts).toMatchObject({ created: 1_000, replaced: 1 })
    expect(target.stored.get('i7')).toBe('{"id":"i7","n":2}')
  })
})

it('keeps no texts of existing items, which can be much larger than the records', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const target = new FakeTarget()
  const heapBytes: number[] = []
  let reads = 0
  target.read = async () => {
    reads += 1
    if (reads % 250 === 0) {
      collect()
      heapBytes.push(process.memoryUsage().heapUsed)
    }
    return Buffer.alloc(100_000, 97 + (reads % 2)).toString('latin1')
  }
  target.before = (number) => {
    if (number === 0) throw new CodedError('ITEM_EXISTS', 'i0 exists')
  }
  const { counts } = await load(target, items(1_000), { onConflict: 'skip' })
  expect([counts?.skipped, heapBytes.length]).toEqual([1_000, 4])
  expect(Math.max(...heapBytes) - Math.min(...heapBytes)).toBeLessThan(30_000_000)
})

it('applies revisions in order, even if the first revisions of an item are missing', async () => {
  const target = new FakeTarget()
  const revision = (line: number, id: string, n: number | null): RevisionRecord => {
    const item = n === null ? null : { n }
    return { kind: 'revision', line, table: 't', id, isFirst: n === 0, item }
  }
  // The first revision of b was redacted, and c was deleted before the export began.
  const records = [
    ...[revision(1, 'a', 0), revision(2, 'a', 1), revision(3, 'b', 1), revision(4, 'b', 2)],
    ...[revision(5, 'a', null), revision(6, 'c', null), revision(7, 'a', 0)],
  ]
  const chooseDatabase = (table: string | null) => `db-${table}`
  const { counts } = await load(target, records, { chooseDatabase })
  expect(counts).toMatchObject({ records: 7, created: 3, replaced: 2, deleted: 1 })
  expect([...target.stored]).toEqual([
    ['b', '{"id":"b","n":2}'],
    ['a', '{"id":"a","n":0}'],
  ])
  expect(target.units.flat().map(({ kind, db }) => [kind, db])).toEqual([
    ['create_item', 'db-t'],
    ['update_item', 'db-t'],
    ['create_item', 'db-t'],
    ['update_item', 'db-t'],
    ['delete_item', 'db-t'],
    ['create_item', 'db-t'],
  ])
})

it('counts a database whose creation got no reply as a change that may be recorded', async () => {
  const target = new FakeTarget()
  target.findCreation = async () => null
  target.createDatabase = async () => {
    throw new CodedError('OUTCOME_UNKNOWN', 'no reply')
  }
  const { error } = await load(target, items(1))
  expect(error).toMatchObject({ message: 'no reply', counts: { created: 0 }, unknown: 1 })
})

it('finishes no batch after a failed batch, but counts all recorded items', async () => {
  const target = new FakeTarget()
  target.before = (number) => {
    if (number === 1) throw new CodedError('STORE_FULL', 'the disk is full')
  }
  const { error, positions } = await load(target, items(6_000))
  expect(error).toMatchObject({
    message: 'the batch that starts at line 1001 was not loaded: the disk is full',
    counts: { created: target.stored.size },
  })
  expect(positions.map(({ batches }) => batches)).toEqual([1])
})

it('finishes no batch after a failed batch, even if later batches were recorded before the failure', async () => {
  const target = new FakeTarget()
  const isLastSent = Promise.withResolvers<void>()
  target.before = async (number) => {
    if (number === 3) isLastSent.resolve()
    if (number !== 1) return
    await isLastSent.promise
    for (let count = 0; count < 10; count += 1) await turn()
    throw new CodedError('STORE_FULL', 'the disk is full')
  }
  const { positions } = await load(target, items(4_000))
  expect([...target.keys].filter((key) => key.startsWith('load-3-'))).toHaveLength(1)
  expect(positions.map(({ batches }) => batches)).toEqual([1])
})

it('loads each batch into one block of a ledger, with attachments, and a repeated load changes nothing', async () => {
  const clock = new HandClock()
  const { service } = await startLedgerNode({ clock })
  const target = serviceTarget(service)
  const bytes = Buffer.from('hello')
  const records: SourceRecord[] = [
    ...items(1_500),
    {
      ...{ kind: 'item', line: 1_501, item: { name: 'with a note' } },
      attachments: [
        { name: 'note.txt', contentType: 'text/plain', bytes },
        { name: 'bad.txt', contentType: 'not a type', bytes },
      ],
    },
  ]
  const first = await load(target, records)
  expect(first.counts).toMatchObject({ created: 1_501, attachments: 1, refused: 1 })
  expect(first.refusals).toMatchObject([
    { line: 1_501, reason: expect.stringContaining('bad.txt') },
  ])
  const size = await service.read.chainSize()
  // A block each for the database, the two batches and the attachment.
  expect(size).toEqual({ blocks: 4, entries: 1_503 })
  const attached = await service.attachments.read('fruit', 'new1', 'note.txt')
  expect(attached).toMatchObject({ length: 5, content_type: 'text/plain' })
  await load(target, records)
  expect(await service.read.chainSize()).toEqual(size)
})

it('creates no item twice, even if it is resumed after a day, and an item with a generated id has changed', async () => {
  const clock = new HandClock()
  const { service } = await startLedgerNode({ clock })
  const target = serviceTarget(service)
  const records: SourceRecord[] = [1, 2].map((line) => ({
    ...{ kind: 'item', line, item: { line }, attachments: [] },
  }))
  const progress = new LoadProgress()
  const stopped = await load(target, records, {
    async write(note) {
      if ('isRecorded' in note) throw new Error('the process was killed')
      progress.add(note)
    },
  })
  expect(String(stopped.error)).toContain('the process was killed')
  clock.time += 2 * IDEMPOTENCY_RECORDS_KEPT_MS
  const changed = { kind: 'update_item', db: 'fruit', id: 'new1', text: '{"id":"new1"}' } as const
  await target.record([changed], 'change')
  const size = await service.read.chainSize()
  const resumed = await load(target, records, { progress, onConflict: 'skip' })
  expect(resumed.counts).toMatchObject({ created: 0, skipped: 2 })
  expect(await service.read.chainSize()).toEqual(size)
})
