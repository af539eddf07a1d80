// Fixtures for tests of the rate feed: a manual clock, and a local server in place of the public sources.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Schedule } from '../../src/base/clock.ts'
import { outboundGet } from '../../src/http/outbound.ts'
import { type CurrentReply, currentReply } from '../../src/rate-feed/api/routes.ts'
import { RateFeed, type RateFeedDeps, type RateFeedSettings } from '../../src/rate-feed/service.ts'
import { type Get, parseSourceList } from '../../src/rate-feed/sources.ts'

/** The built-in rates are two days old at this time. */
const START_MS: number = Date.parse('2026-10-08T09:10:11.500Z')

/**
 * A clock that only `advance` moves, with timers. Timers of up to a second run in the next iteration of the event
 * loop, without `advance`.
 */
export class ManualClock implements Schedule {
  #now: number
  #waiting: { at: number; run: () => void }[] = []

  constructor(now = START_MS) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  after(ms: number, run: () => void): () => void {
    const entry = { at: this.#now + ms, run }
    if (ms <= 1_000) {
      setImmediate(() => {
        if (this.#waiting.includes(entry)) run()
      })
    }
    this.#waiting.push(entry)
    return () => {
      this.#waiting = this.#waiting.filter((other) => other !== entry)
    }
  }

  /** Advances the time and runs the timers that are due. */
  advance(ms: number): void {
    this.#now += ms
    const due = this.#waiting.filter(({ at }) => at <= this.#now)
    this.#waiting = this.#waiting.filter(({ at }) => at > this.#now)
    for (const { run } of due) run()
  }
}

/** Path on the local server for the host of each public source. */
const PATHS: Readonly<Record<string, string>> = {
  'www.ecb.europa.eu': '/ecb',
  'api.frankfurter.dev': '/frankfurter',
}

/** A local server on a free port. Calls `answer` for each request, and records the request. */
export class SourceServer {
  answer: RequestListener = (_request, response) => response.writeHead(503).end()
  requests: { url: string; headers: Record<string, unknown> }[] = []
  readonly #server = createServer((request, response) => {
    this.requests.push({ url: request.url ?? '', headers: { ...request.headers } })
    this.answer(request, response)
  })

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  /** Returns a function that sends requests for public sources to this server. */
  get(timeoutMs?: number): Get {
    const get = loopbackGet(timeoutMs)
    return ({ hostname, search }, headers) =>
      get(new URL(this.at(`${PATHS[hostname]}${search}`)), headers)
  }

  /** Returns the URL of `path` on this server. */
  at(path: string): string {
    const { port } = this.#server.address() as AddressInfo
    return `http://127.0.0.1:${port}${path}`
  }
}

/** Returns a function that sends HTTP requests to loopback addresses. */
function loopbackGet(timeoutMs = 5_000): Get {
  return (url, headers) =>
    outboundGet(
      url,
      { ...headers, 'user-agent': 'daicho/test' },
      { schemes: ['http:'], allowPrivate: true, timeoutMs, bodyBytesMax: 1_048_576 },
    )
}

export class MemoryLog {
  lines: string[] = []
  info = (_fields: object, message: string): void => {
    this.lines.push(`info ${message}`)
  }
  warn = (fields: object, message: string): void => {
    this.lines.push(`warn ${message} ${JSON.stringify(fields)}`)
  }
}

/** Creates a feed. `server` replaces its public sources. */
export function feedWith(
  server: SourceServer,
  clock: ManualClock,
  sources: string,
  settings: Partial<RateFeedSettings> = {},
  deps: Partial<RateFeedDeps> = {},
): RateFeed {
  return new RateFeed(depsWith(server, clock, sources, settings, deps))
}

/** A server, a clock, and feeds that use both. */
export class FeedFixture {
  readonly server = new SourceServer()
  readonly clock = new ManualClock()
  readonly #feeds: RateFeed[] = []

  /** Opens a feed with `feedWith`. `close` closes it. */
  openFeed = async (
    sources: string,
    settings: Partial<RateFeedSettings> = {},
    deps: Partial<RateFeedDeps> = {},
  ): Promise<RateFeed> => {
    const feed = feedWith(this.server, this.clock, sources, settings, deps)
    this.#feeds.push(feed)
    await feed.open()
    return feed
  }

  async close(): Promise<void> {
    for (const feed of this.#feeds) await feed.close()
    this.server.close()
  }
}

/** Returns a request handler that always sends this reply. */
export const send =
  (body: string | Buffer, status = 200, headers: Record<string, string> = {}): RequestListener =>
  (_request, response) =>
    response.writeHead(status, headers).end(body)

/** Returns the dependencies of a feed for `feedWith`. */
export function depsWith(
  server: SourceServer,
  clock: ManualClock,
  sources: string,
  settings: Partial<RateFeedSettings> = {},
  deps: Partial<RateFeedDeps> = {},
): RateFeedDeps {
  return {
    settings: {
      sources: parseSourceList(sources),
      strict: false,
      staleAfterMs: 5 * 86_400_000,
      folder: null,
      ...settings,
    },
    clock,
    schedule: clock,
    random: () => 0.5,
    log: new MemoryLog(),
    get: server.get(),
    ledger: null,
    ...deps,
  }
}

/** Returns the body of `GET /`. */
export function answerOf(feed: RateFeed): CurrentReply | Promise<CurrentReply> {
  const detail = feed.current()
  return detail instanceof Promise ? detail.then(currentReply) : currentReply(detail)
}

/** Units of each currency per euro. The values are close to the built-in rates. */
export const PER_EUR: Readonly<Record<string, number>> = {
  USD: 1.13,
  JPY: 178.9,
  GBP: 0.8501,
  SEK: 11.25,
  CHF: 0.9361,
  NOK: 10.79,
  TRY: 55.5,
  AUD: 1.615,
  CAD: 1.606,
  CNY: 7.56,
  HKD: 8.85,
  MXN: 20.25,
  NZD: 2.007,
  ZAR: 18.6,
}

/** Returns a file in the format of the ECB's daily file. */
export function ecbFile(date: string, perEur = PER_EUR, quote = "'"): string {
  const cubes = Object.entries(perEur).map(
    ([code, rate]) => `<Cube currency=${quote}${code}${quote} rate=${quote}${rate}${quote}/>`,
  )
  return `<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
<gesmes:subject>Reference rates</gesmes:subject>
<gesmes:Sender><gesmes:name>European Central Bank</gesmes:name></gesmes:Sender>
<Cube><Cube time=${quote}${date}${quote}>${cubes.join('\n')}</Cube></Cube></gesmes:Envelope>`
}

/** Returns a body in the format of Frankfurter. */
export function frankfurterBody(date: string, rates = PER_EUR): string {
  return JSON.stringify({ amount: 1, base: 'EUR', date, rates })
}
