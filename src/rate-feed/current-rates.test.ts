import { describe, expect, it } from 'vitest'
import { ManualClock, MemoryLog, PER_EUR } from '../../test/rates/feeds.ts'
import { CurrentRates } from './current-rates.ts'
import { HourlyWarning, RateSourceError } from './errors.ts'
import { SourcePoller } from './poller.ts'
import { createQuote, type Quote, type RateVector, SNAPSHOT } from './rates.ts'
import type { RateSource } from './sources.ts'

const MINUTE = 60_000

/** A source that returns `reply` and counts its requests. */
class FakeSource implements RateSource {
  readonly name: string
  readonly refreshMs = 30 * MINUTE
  readonly isLocal = false
  reply: Quote | RateSourceError
  requests = 0

  constructor(name: string, reply: Quote | RateSourceError) {
    this.name = name
    this.reply = reply
  }

  async read(): Promise<Quote> {
    this.requests += 1
    if (this.reply instanceof RateSourceError) throw this.reply
    return this.reply
  }
}

const quote = (asOf: string, changes: Record<string, number> = {}) =>
  createQuote(asOf, Object.entries({ ...PER_EUR, ...changes }))
const down = () => new RateSourceError('UNREACHABLE', 'no', { isTransient: true })

function setUp(sources: readonly FakeSource[], options: { stored?: Quote } = {}) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const warning = new HourlyWarning(log, clock)
  const tools = { clock, schedule: clock, random: () => 0.5, warning }
  const pollers = sources.map((source) => new SourcePoller(source, tools))
  const accepted: RateVector[] = []
  const rates = new CurrentRates(pollers, {
    clock,
    schedule: clock,
    staleAfterMs: 7 * 24 * 60 * MINUTE,
    onAccepted: (vector) => accepted.push(vector),
  })
  if (options.stored !== undefined) rates.serveStored({ source: 'lastgood', ...options.stored })
  const served = () => rates.served?.vector
  return { clock, log, pollers, rates, accepted, served }
}

it('requests a source again after the clock was set back', async () => {
  const source = new FakeSource('ecb', quote('2026-10-01'))
  const { clock, rates } = setUp([source])
  await rates.refresh()
  clock.advance(-2 * 24 * 60 * MINUTE)
  await rates.refresh()
  expect(source.requests).toBe(2)
  await rates.refresh()
  expect(source.requests).toBe(2)
})

describe('the order of sources', () => {
  it('requests only the first source while it works', async () => {
    const [first, second] = [
      new FakeSource('ecb', quote('2026-10-07')),
      new FakeSource('other', quote('2026-10-07')),
    ]
    const { rates, served } = setUp([first, second])
    await rates.refresh()
    expect(served()?.source).toBe('ecb')
    expect([first.requests, second.requests]).toEqual([1, 0])
  })

  it('requests the next source if a source fails twice', async () => {
    const [first, second] = [
      new FakeSource('ecb', down()),
      new FakeSource('other', quote('2026-10-07')),
    ]
    const { rates, served } = setUp([first, second])
    await rates.refresh()
    expect(served()?.source).toBe('other')
    expect([first.requests, second.requests]).toEqual([2, 1])
  })

  it('requests a failing source less and less often, and uses it again when it works', async () => {
    const [first, second] = [
      new FakeSource('ecb', down()),
      new FakeSource('other', quote('2026-10-07')),
    ]
    const { rates, served, clock, pollers } = setUp([first, second])
    const waits: number[] = []
    for (let failure = 1; failure <= 8; failure += 1) {
      await rates.refresh()
      waits.push((pollers[0]?.dueAt ?? 0) - clock.now())
      if (failure === 8) first.reply = quote('2026-10-07')
      clock.advance(waits.at(-1) ?? 0)
    }
    expect(waits.map((ms) => ms / 1_000)).toEqual([30, 60, 120, 240, 480, 960, 1800, 1800])
    await rates.refresh()
    expect(served()?.source).toBe('ecb')
    expect(pollers[0]?.state()).toMatchObject({ failures: 0, lastError: null, backOffUntil: null })
  })

  it('delays the next request for the time that a failing source asks for', async () => {
    const first = new FakeSource(
      'ecb',
      new RateSourceError('HTTP_STATUS', '429', { retryAfterMs: 7_200_000 }),
    )
    const { rates, clock, pollers } = setUp([first])
    await rates.refresh()
    expect(first.requests).toBe(1)
    expect(pollers[0]?.dueAt).toBe(clock.now() + 7_200_000)
    clock.advance(7_199_000)
    await rates.refresh()
    expect(first.requests).toBe(1)
  })

  it('requests a source again only when its refresh interval has passed', async () => {
    const first = new FakeSource('ecb', quote('2026-10-07'))
    const { rates, clock, served } = setUp([first])
    await rates.refresh()
    first.reply = quote('2026-10-08', { JPY: 180 })
    clock.advance(29 * MINUTE)
    await rates.refresh()
    expect(served()?.asOf).toBe('2026-10-07')
    clock.advance(MINUTE)
    await rates.refresh()
    expect(served()?.asOf).toBe('2026-10-08')
    expect(first.requests).toBe(2)
  })

  it('shares one refresh between concurrent callers', async () => {
    const first = new FakeSource('ecb', quote('2026-10-07'))
    const { rates } = setUp([first])
    await Promise.all(Array.from({ length: 500 }, () => rates.refresh()))
    expect(first.requests).toBe(1)
  })
})

describe('the served set of rates', () => {
  it('the served set of rates is never replaced by an older set', async () => {
    const first = new FakeSource('ecb', quote('2026-10-07'))
    const { rates, clock, served } = setUp([first])
    await rates.refresh()
    first.reply = quote('2026-10-06', { JPY: 177 })
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(served()?.asOf).toBe('2026-10-07')
    expect(served()?.perEur.JPY).toBe(178.9)
  })

  it('the served set of rates is replaced by newer rates of its own source for the same date; a lower source only confirms it', async () => {
    const [first, second] = [
      new FakeSource('ecb', quote('2026-10-07')),
      new FakeSource('other', quote('2026-10-07', { JPY: 179.5 })),
    ]
    const { rates, clock, served, accepted } = setUp([first, second])
    await rates.refresh()
    first.reply = quote('2026-10-07', { JPY: 178.8 })
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(served()?.perEur.JPY).toBe(178.8)
    first.reply = down()
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(served()?.perEur.JPY).toBe(178.8)
    expect(rates.served?.confirmed?.by).toBe('other')
    expect(accepted.length).toBe(2)
  })

  it('the served set of rates is stale if no source has confirmed it for two hours', async () => {
    const first = new FakeSource('ecb', quote('2026-10-07'))
    const { rates, clock } = setUp([first])
    await rates.refresh()
    expect(rates.served?.staleFrom).toBe(clock.now() + 2 * 60 * MINUTE)
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(rates.served?.staleFrom).toBe(clock.now() + 2 * 60 * MINUTE)
  })

  it('the served set of rates is stale if its date is older than `staleAfterMs` (a week), even if it is confirmed', async () => {
    const first = new FakeSource('ecb', quote('2026-10-01'))
    const { rates } = setUp([first], { stored: quote('2026-09-30') })
    await rates.refresh()
    expect(rates.served?.staleFrom).toBe(Date.parse('2026-10-08'))
  })

  it('the served set of rates is confirmed by the second source while the first source fails', async () => {
    const live = new FakeSource('live', quote('2026-10-08T09:00:00Z'))
    const first = new FakeSource('ecb', quote('2026-10-07'))
    const { rates, clock, served } = setUp([live, first])
    await rates.refresh()
    live.reply = new RateSourceError('REFUSED', 'closed')
    clock.advance(3 * 60 * MINUTE)
    await rates.refresh()
    expect(served()?.source).toBe('live')
    expect(rates.served?.confirmed).toEqual({ by: 'ecb', at: clock.now() })
  })

  it('the served set of rates is not replaced, but confirmed by a live source whose rates are one day older', async () => {
    const first = new FakeSource('ecb', quote('2026-10-06'))
    const { rates, served } = setUp([first], { stored: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe('lastgood')
    expect(rates.served?.confirmed?.by).toBe('ecb')
  })
})

describe('an invalid source', () => {
  it('an invalid source is rejected while its date is in the future', async () => {
    const first = new FakeSource('ecb', quote('2026-10-07'))
    const { rates, served, clock, pollers } = setUp([first])
    await rates.refresh()
    first.reply = quote('2026-10-20', { JPY: 180 })
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(pollers[0]?.state().lastError).toBe('DATE_FUTURE')
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(pollers[0]?.state().lastError).toBe('DATE_FUTURE')
    expect(served()?.asOf).toBe('2026-10-07')
  })

  it('an invalid source is logged at most once an hour, and once when it works again', async () => {
    const first = new FakeSource('ecb', down())
    const { rates, clock, log } = setUp([first])
    for (let minutes = 0; minutes < 59; minutes += 1) {
      await rates.refresh()
      clock.advance(MINUTE)
    }
    expect(log.lines.length).toBe(1)
    first.reply = quote('2026-10-07')
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(log.lines.at(-1)).toBe('info the source works again')
    expect(log.lines.length).toBe(2)
  })
})

describe('the built-in set of rates', () => {
  it('the built-in set of rates is replaced by live rates with the same or a later date, and not confirmed by older rates', async () => {
    for (const [date, source] of [
      ['2026-10-05', 'snapshot'],
      ['2026-10-06', 'ecb'],
      ['2026-10-07', 'ecb'],
    ] as const) {
      const { rates, served, log, pollers } = setUp([new FakeSource('ecb', quote(date))])
      rates.serveStored({ source: 'snapshot', ...SNAPSHOT })
      await rates.refresh()
      expect(served()?.source).toBe(source)
      expect(rates.served?.confirmed === null).toBe(source === 'snapshot')
      const old = source === 'snapshot'
      expect(pollers[0]?.state().lastError).toBe(old ? 'DATE_OLD' : null)
      const warning =
        /^warn no rates from ecb: the rates of 2026-10-05 are older than the built-in rates of 2026-10-06/
      expect(log.lines).toEqual(old ? [expect.stringMatching(warning)] : [])
    }
  })
})
