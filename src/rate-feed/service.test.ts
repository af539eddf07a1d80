import type { RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  answerOf,
  ecbFile,
  FeedFixture,
  feedWith,
  frankfurterBody,
  type ManualClock,
  MemoryLog,
  PER_EUR,
  type SourceServer,
  send,
} from '../../test/rates/feeds.ts'

const MINUTE = 60_000
const DAY = 86_400_000
const GOOD_DATE = '2026-10-07'
const NEXT_DATE = '2026-10-08'

let fixture: FeedFixture
let server: SourceServer
let clock: ManualClock
let opened: FeedFixture['openFeed']

beforeEach(async () => {
  fixture = new FeedFixture()
  server = fixture.server
  clock = fixture.clock
  opened = fixture.openFeed
  await server.open()
})
afterEach(async () => {
  await fixture.close()
})

/** The body of each source for the rates in `PER_EUR`. */
const REPLIES: Readonly<Record<string, string>> = {
  ecb: ecbFile(GOOD_DATE),
  frankfurter: frankfurterBody(GOOD_DATE),
}

describe('each source, simulated by a local server', () => {
  const zero = { ...PER_EUR, USD: 0 }
  const negative = { ...PER_EUR, USD: -1.13 }
  const { ZAR: _, ...incomplete } = PER_EUR
  const later = (name: string, perEur: Record<string, number>, date = NEXT_DATE): string =>
    name === 'ecb' ? ecbFile(date, perEur) : frankfurterBody(date, perEur)
  const bad: readonly (readonly [string, (name: string) => RequestListener, string])[] = [
    ['status 429', () => send('', 429, { 'retry-after': '3600' }), 'HTTP_STATUS'],
    ['status 503', () => send('', 503), 'HTTP_STATUS'],
    ['a connection reset', () => (request) => request.socket.destroy(), 'UNREACHABLE'],
    ['no reply', () => () => {}, 'TIMEOUT'],
    ['an incomplete reply', () => (_, response) => void response.write('<'), 'TIMEOUT'],
    ['a redirect', () => send('', 302, { location: '/other' }), 'REDIRECTED'],
    [
      'a gzip bomb',
      () => send(gzipSync(Buffer.alloc(8_000_000)), 200, { 'content-encoding': 'gzip' }),
      'BODY_TOO_LARGE',
    ],
    ['an endless body', () => endless, 'BODY_TOO_LARGE'],
    ['HTML with status 200', () => send('<!doctype html><h1>Sorry</h1>'), 'MALFORMED'],
    ['bytes that are not UTF-8', () => send(Buffer.from([0xff, 0xfe, 0x00])), 'MALFORMED'],
    ['an empty body with status 200', () => send(''), 'MALFORMED'],
    ['a missing currency', (name) => send(later(name, incomplete)), 'INCOMPLETE'],
    ['a rate of zero', (name) => send(later(name, zero)), 'VALUE_INVALID'],
    ['a negative rate', (name) => send(later(name, negative)), 'VALUE_INVALID'],
    ['a future date', (name) => send(later(name, PER_EUR, '2026-10-20')), 'DATE_FUTURE'],
  ]
  const cases = Object.keys(REPLIES).flatMap((name) =>
    bad.map(([reply, answer, code]) => ({ name, reply, answer, code })),
  )

  it.each(cases)(
    '$name: keeps the last good set of rates after $reply',
    async ({ name, answer, code }) => {
      const feed = await opened(name, {}, { get: server.get(code === 'TIMEOUT' ? 400 : 5_000) })
      server.answer = send(REPLIES[name] ?? '')
      await feed.refresh()
      const before = await feed.detail()
      expect(before.meta).toMatchObject({ source: name, stale: false })

      server.answer = answer(name)
      clock.advance(7 * 60 * MINUTE)
      await feed.refresh()
      const after = await feed.detail()
      expect(after.result.rate).toEqual(before.result.rate)
      expect(after.meta).toMatchObject({ source: name, asOf: before.meta.asOf })
      expect(feed.health().sources[0]?.lastError).toBe(code)
    },
  )

  it.each(Object.keys(REPLIES))(
    '%s: does not replace rates with rates of an earlier date',
    async (name) => {
      const feed = await opened(name)
      server.answer = send(REPLIES[name] ?? '')
      await feed.refresh()
      server.answer = send(later(name, { ...PER_EUR, USD: 1.12 }, '2026-10-05'))
      clock.advance(7 * 60 * MINUTE)
      await feed.refresh()
      expect((await feed.detail()).result.rate.EURUSD).toBe(1.13)
    },
  )

  it.each(Object.keys(REPLIES))(
    '%s: treats a reply with status 200 and `success: false` as a failure',
    async (name) => {
      const feed = await opened(`${name},snapshot`)
      server.answer = send('{"success":false,"error":{"code":104}}')
      await feed.refresh()
      expect(feed.health().sources[0]?.lastError).toBe(name === 'ecb' ? 'MALFORMED' : 'REFUSED')
      expect((await feed.detail()).meta.source).toBe('snapshot')
    },
  )

  it('sends conditional requests, and a reply 304 confirms the served rates', async () => {
    const feed = await opened('ecb')
    server.answer = send(REPLIES.ecb ?? '', 200, {
      etag: '"v1"',
      'last-modified': 'Wed, 07 Oct 2026 14:00:00 GMT',
    })
    await feed.refresh()
    const first = await feed.detail()
    server.answer = (request, response) => {
      const same = request.headers['if-none-match'] === '"v1"'
      response.writeHead(same ? 304 : 500).end()
    }
    clock.advance(30 * MINUTE)
    await feed.refresh()
    const second = await feed.detail()
    expect(server.requests.length).toBe(2)
    expect(server.requests[1]?.headers).toMatchObject({
      'if-none-match': '"v1"',
      'if-modified-since': 'Wed, 07 Oct 2026 14:00:00 GMT',
      'user-agent': 'daicho/test',
      accept: 'application/xml, text/xml',
    })
    expect(second.result.rate).toEqual(first.result.rate)
    expect(second.meta.confirmedAt).toBe(new Date(clock.now()).toISOString())
  })

  it('treats an unexpected 304 as a failure', async () => {
    const feed = await opened('ecb,snapshot')
    server.answer = send('', 304)
    await feed.refresh()
    expect(feed.health().sources[0]?.lastError).toBe('HTTP_STATUS')
  })

  it('sends no conditional request after a rejected body', async () => {
    const feed = await opened('ecb,snapshot')
    server.answer = send('<html>', 200, { etag: '"bad"' })
    await feed.refresh()
    server.answer = send(REPLIES.ecb ?? '', 200, { etag: '"good"' })
    clock.advance(30 * MINUTE)
    await feed.refresh()
    expect(server.requests.at(-1)?.headers).not.toHaveProperty('if-none-match')
    expect((await feed.detail()).meta.source).toBe('ecb')
  })

  it('waits for the requested time after a 429, and retries once after a 503', async () => {
    const feed = await opened('ecb,snapshot')
    server.answer = send('', 503)
    await feed.refresh()
    expect(server.requests.length).toBe(2)
    server.answer = send('', 429, { 'retry-after': '7200' })
    clock.advance(MINUTE)
    await feed.refresh()
    expect(server.requests.length).toBe(3)
    clock.advance(119 * MINUTE)
    await feed.refresh()
    expect(server.requests.length).toBe(3)
    clock.advance(2 * MINUTE)
    await feed.refresh()
    expect(server.requests.length).toBe(4)
  })
})

it('the first request after the computer was suspended requests the rates of its sources', async () => {
  let suspendedMs = 0
  server.answer = send(ecbFile(GOOD_DATE))
  const feed = await opened('ecb', {}, { clock: { now: () => clock.now() + suspendedMs } })
  await feed.refresh()
  server.answer = send(ecbFile(NEXT_DATE))
  suspendedMs = DAY
  expect((await answerOf(feed)).headers['x-rates-as-of']).toBe(GOOD_DATE)
  await vi.waitFor(async () => {
    expect((await answerOf(feed)).headers['x-rates-as-of']).toBe(NEXT_DATE)
  })
})

describe('rates older than RATES_STALE_AFTER', () => {
  it('rates older than RATES_STALE_AFTER are marked as stale in the body, with their date, as soon as they are one second older', async () => {
    const feed = await opened('snapshot')
    const asOfMs = Date.parse('2026-10-06')
    clock.advance(asOfMs + 5 * DAY - clock.now())
    const { body } = await answerOf(feed)
    expect(Object.keys(JSON.parse(body).result)).toEqual(['datetime', 'rate'])
    clock.advance(1_000)
    const old = JSON.parse((await answerOf(feed)).body)
    const { rate, ...rest } = old.result
    expect(rest).toEqual({ datetime: '2026-10-11 00:00:01+0', stale: true, as_of: '2026-10-06' })
    expect(Object.keys(rate).length).toBe(20)
    expect((await feed.detail()).result).toEqual(old.result)
  })

  it('rates older than RATES_STALE_AFTER are answered with an error in strict mode, even if a live source confirms them', async () => {
    server.answer = send(ecbFile('2026-10-07'))
    const feed = await opened('ecb', { strict: true })
    await feed.refresh()
    expect(answerOf(feed)).toMatchObject({ headers: { 'x-rates-stale': 'false' } })
    clock.advance(5 * DAY)
    await feed.refresh()
    expect(() => answerOf(feed)).toThrow(expect.objectContaining({ code: 'RATES_STALE' }))
  })

  it('rates older than RATES_STALE_AFTER are marked as stale if RATES_STALE_AFTER is one day', async () => {
    const feed = await opened('snapshot', { staleAfterMs: DAY })
    expect(JSON.parse((await answerOf(feed)).body).result.stale).toBe(true)
  })
})

describe('500 requests before the first rates', () => {
  it('500 requests before the first rates cause one request to the source', async () => {
    const feed = feedWith(server, clock, 'ecb')
    onTestFinished(() => feed.close())
    server.answer = send(REPLIES.ecb ?? '')
    const answers = await Promise.all(Array.from({ length: 500 }, async () => answerOf(feed)))
    expect(server.requests.length).toBe(1)
    expect(new Set(answers.map(({ body }) => body)).size).toBe(1)
    expect(answers[0]?.headers['x-rates-source']).toBe('ecb')
  })

  it('500 requests before the first rates fail after ten seconds if no source replies', async () => {
    const feed = feedWith(server, clock, 'ecb', {}, { get: () => new Promise(() => {}) })
    const waiting = answerOf(feed)
    clock.advance(10_000)
    await expect(waiting).rejects.toMatchObject({ code: 'RATES_NONE_YET' })
  })
})

describe('if no source replies', () => {
  it('serves the built-in rates without waiting for a source', async () => {
    server.answer = () => {}
    const feed = await opened('ecb,frankfurter,snapshot')
    const answer = answerOf(feed)
    expect(answer).not.toBeInstanceOf(Promise)
    expect(answer).toMatchObject({ headers: { 'x-rates-source': 'snapshot' } })
  })
})

describe('without a network', () => {
  const offline = () => ({ get: server.get(60) })

  it('replies with an error in strict mode until a live source provides rates', async () => {
    server.answer = (request) => request.socket.destroy()
    const feed = await opened('ecb,snapshot', { strict: true }, offline())
    expect(() => answerOf(feed)).toThrow(expect.objectContaining({ code: 'RATES_STALE' }))
    expect(feed.health()).toMatchObject({ status: false, health: 'down' })
    server.answer = send(REPLIES.ecb ?? '')
    clock.advance(MINUTE)
    await feed.refresh()
    expect(answerOf(feed)).toMatchObject({ headers: { 'x-rates-stale': 'false' } })
  })

  it('logs a warning that the rates are stale at most once an hour', async () => {
    const log = new MemoryLog()
    const feed = await opened('snapshot', {}, { log })
    for (let minute = 0; minute < 121; minute += 1) {
      await answerOf(feed)
      clock.advance(MINUTE)
    }
    const warnings = log.lines.filter((line) => line.startsWith('warn the rates are stale'))
    expect(warnings.length).toBe(3)
    expect(warnings[0]).toContain('"source":"snapshot","asOf":"2026-10-06"')
  })
})

const endless: RequestListener = (_request, response) => {
  const block = Buffer.alloc(65_536, 0x20)
  const more = () => {
    while (!response.destroyed && response.write(block)) {
      // Writes until the client closes the connection.
    }
  }
  response.on('drain', more)
  more()
}
