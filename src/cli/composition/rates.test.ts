import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import { type OpenLedger, openLedger } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { PAIRS, RATES_DATABASE, type RateLedger, type VectorRecord } from '../../rate-feed/index.ts'
import { createRateLedger } from './rates.ts'

let opened: OpenLedger
let rates: RateLedger

beforeEach(async () => {
  opened = await openLedger({ folder: null, clock: systemClock })
  rates = createRateLedger(opened.service)
})
afterEach(() => opened.close())

const record = (asOf: string, value = 1): VectorRecord => ({
  id: `${asOf}.ecb.0123456789ab`,
  source: 'ecb',
  asOf,
  acceptedAt: '2026-10-08T09:00:00.000Z',
  perEur: { USD: 1.13 },
  rate: Object.fromEntries(PAIRS.map((pair) => [pair, value])),
})
const all = { from: null, to: null, limit: 100, offset: 0 }

describe('the rate ledger', () => {
  it('the rate ledger is empty, and creates no database, before rates are recorded', async () => {
    expect(await rates.history(all)).toEqual([])
    expect(await opened.service.read.databases()).toEqual([])
  })

  it('creates the database when the first rates are recorded, and returns each record with its position', async () => {
    await rates.record(record('2026-10-07'))
    await rates.record(record('2026-10-08', 2))
    expect(await opened.service.read.databases()).toEqual([RATES_DATABASE])
    const { serverId } = opened.service
    expect(await rates.history(all)).toEqual([
      { record: record('2026-10-07'), position: `${serverId}/1.0` },
      { record: record('2026-10-08', 2), position: `${serverId}/2.0` },
    ])
  })

  it('accepts concurrent records while the database does not exist yet', async () => {
    const days = Array.from({ length: 9 }, (_, n) => `2026-10-0${n + 1}`)
    await Promise.all(days.map((day) => rates.record(record(day))))
    expect((await rates.history(all)).length).toBe(9)
  })

  it('does not record a set of rates twice', async () => {
    await rates.record(record('2026-10-07'))
    await rates.record(record('2026-10-07'))
    expect((await rates.history(all)).length).toBe(1)
  })

  it('returns the records of a range of dates, page by page', async () => {
    for (let day = 1; day <= 9; day += 1) await rates.record(record(`2026-10-0${day}`))
    await rates.record(record('2026-10-10T12:00:00Z'))
    const dates = async (query: object) =>
      (await rates.history({ ...all, ...query })).map(({ record: { asOf } }) => asOf.slice(8, 10))
    expect(await dates({ from: '2026-10-08' })).toEqual(['08', '09', '10'])
    expect(await dates({ to: '2026-10-02' })).toEqual(['01', '02'])
    expect(await dates({ from: '2026-10-10', to: '2026-10-10' })).toEqual(['10'])
    expect(await dates({ from: '2026-10-03', limit: 2, offset: 1 })).toEqual(['04', '05'])
    expect(await dates({ offset: 10 })).toEqual([])
  })

  it('skips items that are not rates', async () => {
    await rates.record(record('2026-10-07'))
    await opened.service.write.createItem(RATES_DATABASE, { id: 'note', text: 'not a vector' })
    await opened.service.write.createItem(RATES_DATABASE, { id: '2026-10-08.fake', rate: 'none' })
    expect((await rates.history(all)).length).toBe(1)
  })
})

it('returns an empty history if the database of the rates is deleted while it is read', async () => {
  const ledger = {
    read: { ids: async () => [[{ id: '2026-01-02 desk', created: 1 }]] },
    reader: { readItem: async () => null },
  }
  // The history calls only these methods.
  const rates = createRateLedger(ledger as unknown as LedgerService)
  expect(await rates.history({ from: null, to: null, limit: 9, offset: 0 })).toEqual([])
})
