import { describe, expect, it } from 'vitest'
import { ManualClock, MemoryLog, PER_EUR } from '../../test/rates/feeds.ts'
import { CurrentRates } from './current-rates.ts'
import { HourlyWarning, SourceError } from './errors.ts'
import { SourcePoller } from './poller.ts'
import { type Quote, quoteOf, type RateVector, SNAPSHOT } from './rates.ts'
import type { RateSource } from './sources.ts'

const MINUTE = 60_000

/** A source with configurable replies that counts its requests. */
class Puppet implements RateSource {
  readonly name: string
  readonly family: string
  readonly refreshMs = 30 * MINUTE
  readonly isPartial: boolean
  readonly isLocal = false
  says: Quote | 'unchanged' | SourceError
  asked = 0

  constructor(name: string, says: Quote | SourceError, family = name, partial = false) {
    this.name = name
    this.says = says
    this.family = family
    this.isPartial = partial
  }

  async read(): Promise<Quote | 'unchanged'> {
    this.asked += 1
    if (this.says instanceof SourceError) throw this.says
    return this.says
  }
}

const quote = (asOf: string, changes: Record<string, number> = {}) =>
  quoteOf(asOf, Object.entries({ ...PER_EUR, ...changes }))
const down = () => new SourceError('UNREACHABLE', 'no', { isTransient: true })

function world(puppets: readonly Puppet[], options: { kept?: Quote; banded?: boolean } = {}) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const warning = new HourlyWarning(log, clock)
  const tools = { clock, schedule: clock, random: () => 0.5, warning }
  const pollers = puppets.map((puppet) => new SourcePoller(puppet, tools))
  const accepted: RateVector[] = []
  const pollerOf = (name: string) => pollers.find(({ source }) => source.name === name) ?? null
  const rates = new CurrentRates(pollers, {
    clock,
    schedule: clock,
    staleAfterMs: 7 * 24 * 60 * MINUTE,
    banded: options.banded ?? true,
    overlay: pollerOf('exchange-api'),
    bridge: pollerOf('ecb'),
    onAccepted: (vector) => accepted.push(vector),
  })
  if (options.kept !== undefined) rates.serveStored('lastgood', options.kept)
  const served = () => rates.served?.vector
  return { clock, log, pollers, rates, accepted, served }
}

describe('the order of sources', () => {
  it('asks only the first source while it answers', async () => {
    const [first, second] = [
      new Puppet('ecb', quote('2026-10-07')),
      new Puppet('other', quote('2026-10-07')),
    ]
    const { rates, served } = world([first, second])
    await rates.refresh()
    expect(served()?.source).toBe('ecb')
    expect([first.asked, second.asked]).toEqual([1, 0])
  })

  it('asks the next source if one fails after a retry', async () => {
    const [first, second] = [new Puppet('ecb', down()), new Puppet('other', quote('2026-10-07'))]
    const { rates, served } = world([first, second])
    await rates.refresh()
    expect(served()?.source).toBe('other')
    expect([first.asked, second.asked]).toEqual([2, 1])
  })

  it('backs off a failing source exponentially, and returns to it', async () => {
    const [first, second] = [new Puppet('ecb', down()), new Puppet('other', quote('2026-10-07'))]
    const { rates, served, clock, pollers } = world([first, second])
    const waits: number[] = []
    for (let failure = 1; failure <= 8; failure += 1) {
      await rates.refresh()
      waits.push((pollers[0]?.dueAt ?? 0) - clock.now())
      if (failure === 8) first.says = quote('2026-10-07')
      clock.advance(waits.at(-1) ?? 0)
    }
    expect(waits.map((ms) => ms / 1_000)).toEqual([30, 60, 120, 240, 480, 960, 1800, 1800])
    await rates.refresh()
    expect(served()?.source).toBe('ecb')
    expect(pollers[0]?.state()).toMatchObject({ failures: 0, lastError: null, backOffUntil: null })
  })

  it('respects the delay that a source asks for', async () => {
    const first = new Puppet(
      'ecb',
      new SourceError('HTTP_STATUS', '429', { retryAfterMs: 7_200_000 }),
    )
    const { rates, clock, pollers } = world([first])
    await rates.refresh()
    expect(first.asked).toBe(1)
    expect(pollers[0]?.dueAt).toBe(clock.now() + 7_200_000)
    clock.advance(7_199_000)
    await rates.refresh()
    expect(first.asked).toBe(1)
  })

  it('starts the next refresh when a source is due', async () => {
    const first = new Puppet('ecb', quote('2026-10-07'))
    const { rates, clock, served } = world([first])
    await rates.refresh()
    first.says = quote('2026-10-08', { JPY: 180 })
    clock.advance(29 * MINUTE)
    await rates.refresh()
    expect(served()?.asOf).toBe('2026-10-07')
    clock.advance(MINUTE)
    await rates.refresh()
    expect(served()?.asOf).toBe('2026-10-08')
    expect(first.asked).toBe(2)
  })

  it('runs one refresh at a time for concurrent callers', async () => {
    const first = new Puppet('ecb', quote('2026-10-07'))
    const { rates } = world([first])
    await Promise.all(Array.from({ length: 500 }, () => rates.refresh()))
    expect(first.asked).toBe(1)
  })
})

describe('the served vector', () => {
  it('never becomes older', async () => {
    const first = new Puppet('ecb', quote('2026-10-07'))
    const { rates, clock, served } = world([first])
    await rates.refresh()
    first.says = quote('2026-10-06', { JPY: 177 })
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(served()?.asOf).toBe('2026-10-07')
    expect(served()?.perEur.JPY).toBe(178.9)
  })

  it('is replaced by its own source at the same date, and only confirmed by a lower-ranked one', async () => {
    const [first, second] = [
      new Puppet('ecb', quote('2026-10-07')),
      new Puppet('other', quote('2026-10-07', { JPY: 179.5 })),
    ]
    const { rates, clock, served, accepted } = world([first, second])
    await rates.refresh()
    first.says = quote('2026-10-07', { JPY: 178.8 })
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(served()?.perEur.JPY).toBe(178.8)
    first.says = down()
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(served()?.perEur.JPY).toBe(178.8)
    expect(rates.served?.confirmed?.by).toBe('other')
    expect(accepted.length).toBe(2)
  })

  it('is stale if no source has confirmed it for two hours', async () => {
    const first = new Puppet('ecb', quote('2026-10-07'))
    const { rates, clock } = world([first])
    await rates.refresh()
    expect(rates.served?.staleFrom).toBe(clock.now() + 2 * 60 * MINUTE)
    first.says = 'unchanged'
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(rates.served?.staleFrom).toBe(clock.now() + 2 * 60 * MINUTE)
  })

  it('is stale if its date is a week old, even if it was confirmed', async () => {
    const first = new Puppet('ecb', quote('2026-10-01'))
    const { rates } = world([first], { kept: quote('2026-09-30') })
    await rates.refresh()
    expect(rates.served?.staleFrom).toBe(Date.parse('2026-10-08'))
  })

  it('stays live over a weekend on which the better source is closed', async () => {
    const live = new Puppet('live', quote('2026-10-08T09:00:00Z'))
    const first = new Puppet('ecb', quote('2026-10-07'))
    const { rates, clock, served } = world([live, first])
    await rates.refresh()
    live.says = new SourceError('MARKET_CLOSED', 'closed', { retryAfterMs: 600_000 })
    clock.advance(3 * 60 * MINUTE)
    await rates.refresh()
    expect(served()?.source).toBe('live')
    expect(rates.served?.confirmed).toEqual({ by: 'ecb', at: clock.now() })
  })

  it('is the stored one while a live source has an older date, and is confirmed by it', async () => {
    const first = new Puppet('ecb', quote('2026-10-06'))
    const { rates, served } = world([first], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe('lastgood')
    expect(rates.served?.confirmed?.by).toBe('ecb')
  })
})

describe('the sanity band', () => {
  it.each([
    ['USD', 1.13 * 1.109, true],
    ['USD', 1.13 * 1.112, false],
    ['USD', 1.13 / 1.109, true],
    ['USD', 1.13 / 1.112, false],
    ['TRY', 55.5 * 1.199, true],
    ['TRY', 55.5 * 1.202, false],
    ['JPY', 178.9 * 100, false],
    ['JPY', 178.9 / 100, false],
    ['CNY', 75.6, false],
  ])('one day later, %s at %d is believed: %s', async (currency, value, believed) => {
    const first = new Puppet('ecb', quote('2026-10-08', { [currency]: value }))
    const { rates, served, pollers } = world([first], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe(believed ? 'ecb' : 'lastgood')
    expect(pollers[0]?.state().lastError).toBe(believed ? null : 'OUT_OF_BAND')
  })

  it('widens by one percent for each day between the vectors', async () => {
    const first = new Puppet('ecb', quote('2026-10-07', { USD: 1.13 * 1.19 }))
    const { rates, served } = world([first], { kept: quote('2026-09-27') })
    await rates.refresh()
    expect(served()?.source).toBe('ecb')
  })

  it.each([
    [1.199, true],
    [1.201, false],
    [1.4, false],
  ])(
    'stops widening at 20 %%: a year later, a factor of %d is believed: %s',
    async (factor, believed) => {
      const first = new Puppet('ecb', quote('2026-10-07', { USD: 1.13 * factor }))
      const { rates, served, log } = world([first], { kept: quote('2025-10-07') })
      await rates.refresh()
      expect(served()?.source).toBe(believed ? 'ecb' : 'lastgood')
      const warning =
        /^warn no rates from ecb: USD is .* a second source must agree, or RATES_BAND=off/
      if (!believed) expect(log.lines).toEqual([expect.stringMatching(warning)])
    },
  )

  it('uses the bundled vector as the reference if no other is stored', async () => {
    const first = new Puppet('ecb', quote('2026-10-07', { JPY: 1.789 }))
    const { rates, served } = world([first])
    await rates.refresh()
    expect(served()).toBeUndefined()
  })

  it('accepts a vector if two independent sources agree within one percent', async () => {
    const crash = { CHF: 0.7 }
    const first = new Puppet('ecb', quote('2026-10-08', crash))
    const second = new Puppet('openexchangerates', quote('2026-10-08T09:00:00Z', { CHF: 0.706 }))
    const { rates, served } = world([first, second], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()).toMatchObject({ source: 'ecb', perEur: { CHF: 0.7 } })
  })

  it('rejects a vector if they differ by more', async () => {
    const first = new Puppet('ecb', quote('2026-10-08', { CHF: 0.7 }))
    const second = new Puppet('openexchangerates', quote('2026-10-08T09:00:00Z', { CHF: 0.708 }))
    const { rates, served } = world([first, second], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe('lastgood')
  })

  it('does not count a mirror as a second source', async () => {
    const poison = { CHF: 0.7 }
    const first = new Puppet('ecb', quote('2026-10-08', poison), 'ecb')
    const mirror = new Puppet('frankfurter', quote('2026-10-08', poison), 'ecb')
    const { rates, served } = world([first, mirror], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe('lastgood')
  })

  it('does not count a live source that was completed by the implausible one', async () => {
    const poison = { NOK: 20 }
    const { NOK: _, ...traded } = PER_EUR
    const first = new Puppet('ecb', quote('2026-10-08', poison))
    const partial = new Puppet(
      'gmo',
      quoteOf('2026-10-08T09:00:00Z', Object.entries(traded)),
      'gmo',
      true,
    )
    const { rates, served } = world([first, partial], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe('lastgood')
  })

  it('keeps an implausible vector, which another source can confirm later', async () => {
    const first = new Puppet('ecb', quote('2026-10-08', { CHF: 0.7 }))
    const second = new Puppet('openexchangerates', down())
    const { rates, served, clock } = world([first, second], { kept: quote('2026-10-07') })
    await rates.refresh()
    second.says = quote('2026-10-08T09:00:00Z', { CHF: 0.702 })
    clock.advance(MINUTE)
    await rates.refresh()
    expect(served()?.source).toBe('ecb')
    expect(first.asked).toBe(1)
  })

  it('can be switched off', async () => {
    const first = new Puppet('ecb', quote('2026-10-08', { JPY: 1.789 }))
    const { rates, served } = world([first], { kept: quote('2026-10-07'), banded: false })
    await rates.refresh()
    expect(served()?.perEur.JPY).toBe(1.789)
  })
})

describe('an invalid source', () => {
  it('is rejected for a future date, which “unchanged” does not make valid later', async () => {
    const first = new Puppet('ecb', quote('2026-10-07'))
    const { rates, served, clock, pollers } = world([first])
    await rates.refresh()
    first.says = quote('2026-10-20', { JPY: 180 })
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(pollers[0]?.state().lastError).toBe('DATE_FUTURE')
    first.says = 'unchanged'
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(pollers[0]?.state().lastError).toBe('DATE_FUTURE')
    expect(served()?.asOf).toBe('2026-10-07')
  })

  it('is rejected if a currency is missing; vectors are never served partially', async () => {
    const { NOK: _, ...rest } = PER_EUR
    const first = new Puppet('ecb', quoteOf('2026-10-08', Object.entries(rest)))
    const { rates, served, pollers } = world([first], { kept: quote('2026-10-07') })
    await rates.refresh()
    expect(served()?.source).toBe('lastgood')
    expect(pollers[0]?.state().lastError).toBe('INCOMPLETE')
  })

  it('is logged once an hour, and once when it works again', async () => {
    const first = new Puppet('ecb', down())
    const { rates, clock, log } = world([first])
    for (let minutes = 0; minutes < 59; minutes += 1) {
      await rates.refresh()
      clock.advance(MINUTE)
    }
    expect(log.lines.length).toBe(1)
    first.says = quote('2026-10-07')
    clock.advance(30 * MINUTE)
    await rates.refresh()
    expect(log.lines.at(-1)).toBe('info the source answers again')
    expect(log.lines.length).toBe(2)
  })
})

describe('the CNH overlay', () => {
  it('refines the vector when it arrives, without delaying a reply', async () => {
    const first = new Puppet('ecb', quote('2026-10-07'))
    const overlay = new Puppet('exchange-api', quote('2026-10-07', { CNY: 8, CNH: 8.08 }))
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const read = overlay.read.bind(overlay)
    overlay.read = () => held.then(read)
    const { rates, served } = world([first, overlay])
    await rates.refresh()
    expect(served()).toMatchObject({ source: 'ecb', cnhIsCny: true })
    release()
    await held
    await new Promise(setImmediate)
    await rates.refresh()
    expect(served()).toMatchObject({ source: 'ecb+exchange-api', cnhIsCny: false })
    expect(served()?.perEur.CNH).toBeCloseTo(7.56 * 1.01, 12)
    expect(first.asked).toBe(1)
  })
})

describe('the bundled vector', () => {
  it('is replaced by any live vector of the same or a later date, and not confirmed by an older one', async () => {
    for (const [date, source] of [
      ['2026-10-05', 'snapshot'],
      ['2026-10-06', 'ecb'],
      ['2026-10-07', 'ecb'],
    ] as const) {
      const { rates, served, log, pollers } = world([new Puppet('ecb', quote(date))])
      rates.serveStored('snapshot', SNAPSHOT)
      await rates.refresh()
      expect(served()?.source).toBe(source)
      expect(rates.served?.confirmed === null).toBe(source === 'snapshot')
      const old = source === 'snapshot'
      expect(pollers[0]?.state().lastError).toBe(old ? 'DATE_OLD' : null)
      const warning =
        /^warn no rates from ecb: its rates of 2026-10-05 are older than the built-in ones of 2026-10-06/
      expect(log.lines).toEqual(old ? [expect.stringMatching(warning)] : [])
    }
  })
})
