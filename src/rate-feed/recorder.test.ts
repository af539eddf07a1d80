import { describe, expect, it } from 'vitest'
import { ManualClock, MemoryLog, PER_EUR } from '../../test/rates/feeds.ts'
import { HourlyWarning } from './errors.ts'
import { createQuote } from './rates.ts'
import {
  parseVectorRecord,
  type RateLedger,
  Recorder,
  toRecord,
  type VectorRecord,
} from './recorder.ts'

const vector = (changes: Record<string, number> = {}) => ({
  source: 'ecb',
  ...createQuote('2026-10-07', Object.entries({ ...PER_EUR, ...changes })),
})

/** A ledger that accepts all records, or rejects them while `refuses` is set. */
class FakeLedger implements RateLedger {
  records: VectorRecord[] = []
  refuses = false

  async record(record: VectorRecord): Promise<void> {
    if (this.refuses) throw new Error('the disk is full')
    if (!this.records.some(({ id }) => id === record.id)) this.records.push(record)
  }

  async history() {
    return this.records.map((record) => ({ record, position: '1/0.0' }))
  }
}

function recorder() {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const ledger = new FakeLedger()
  const under = new Recorder(ledger, clock, clock, new HourlyWarning(log, clock))
  return { clock, log, ledger, under }
}

describe('toRecord', () => {
  it('gives equal sets of rates the same id at any time, and different sets different ids', () => {
    const record = toRecord(vector(), 1)
    expect(record.id).toMatch(/^2026-10-07\.ecb\.[0-9a-f]{12}$/)
    expect(toRecord(vector(), 2).id).toBe(record.id)
    expect(toRecord(vector({ USD: 1.131 }), 1).id).not.toBe(record.id)
    expect(record.perEur).toMatchObject({ USD: 1.13, CNY: 7.56 })
    expect(record.rate.EURUSD).toBe(1.13)
  })

  it('returns an item that `parseVectorRecord` parses, and `parseVectorRecord` rejects other items', () => {
    const { id, source, asOf, acceptedAt, perEur, rate } = toRecord(vector(), 0)
    const item = { id, source, asOf, acceptedAt, perEur: { ...perEur }, rate: { ...rate } }
    expect(parseVectorRecord(item)).toEqual(item)
    const { USDJPY: _, ...fewer } = item.rate
    for (const other of [
      null,
      [],
      {},
      { ...item, rate: fewer },
      { ...item, rate: { ...item.rate, USDJPY: '1' } },
      { ...item, perEur: null },
      { ...item, asOf: 1 },
    ]) {
      expect(parseVectorRecord(other)).toBeNull()
    }
  })
})

describe('Recorder', () => {
  it('records each set of rates once, in order', async () => {
    const { under, ledger } = recorder()
    under.add(vector())
    under.add(vector({ USD: 1.131 }))
    under.add(vector())
    await under.flush()
    expect(ledger.records.map(({ rate }) => rate.EURUSD)).toEqual([1.13, 1.131])
    expect(under.pending).toBe(0)
  })

  it('keeps rejected records, warns once, and retries after a minute', async () => {
    const { under, ledger, clock, log } = recorder()
    ledger.refuses = true
    under.add(vector())
    await under.flush()
    under.add(vector({ USD: 1.131 }))
    await under.flush()
    expect(under.pending).toBe(2)
    expect(log.lines.length).toBe(1)
    ledger.refuses = false
    clock.advance(60_000)
    await under.flush()
    expect(ledger.records.length).toBe(2)
    expect(log.lines.at(-1)).toBe('info rates are recorded again')
  })

  it('keeps at most 1,000 pending records, and drops the oldest ones first', async () => {
    const { under, ledger } = recorder()
    ledger.refuses = true
    for (let n = 0; n < 1_005; n += 1) under.add(vector({ USD: 1 + n / 1e5 }))
    await under.flush()
    expect(under.pending).toBe(1_000)
    ledger.refuses = false
    await under.flush()
    expect(ledger.records[0]?.rate.EURUSD).toBe(1.00005)
  })

  it('records all other sets if a set is dropped while it is being recorded', async () => {
    const { under, ledger } = recorder()
    for (let n = 0; n <= 1_000; n += 1) under.add(vector({ USD: 1 + n / 1e5 }))
    await under.flush()
    expect(ledger.records.map(({ rate }) => rate.EURUSD)).toEqual(
      Array.from({ length: 1_001 }, (_, n) => Number((1 + n / 1e5).toFixed(5))),
    )
  })
})
