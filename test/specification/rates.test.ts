// Every statement of the specification about the rates, over a real socket. The name of a test quotes the statement.
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Listener, startListener } from '../../src/http/index.ts'
import { PAIRS, type RateFeedDeps, rateFeedComponent } from '../../src/rate-feed/index.ts'
import { depsWith, ecbFile, ManualClock, PER_EUR, SourceServer } from '../rates/feeds.ts'

let server: SourceServer
let clock: ManualClock
let listeners: Listener[]

beforeEach(async () => {
  server = new SourceServer()
  await server.open()
  clock = new ManualClock(Date.parse('2026-10-08T21:05:09.999Z'))
  listeners = []
})
afterEach(async () => {
  for (const listener of listeners) await listener.close()
  server.close()
})

async function listen(
  sources: string,
  settings: Partial<RateFeedDeps['settings']> = {},
  deps: Partial<RateFeedDeps> = {},
): Promise<string> {
  const component = rateFeedComponent({
    ...depsWith(server, clock, sources, settings, { get: server.get(3_000), ...deps }),
    version: '0.0.0',
  })
  const logger = pino({ level: 'silent' })
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  const listener = await startListener(component, options)
  listeners.push(listener)
  return listener.url
}

interface Reply {
  status: boolean
  result: { datetime: string; rate: Record<string, number> }
  [more: string]: unknown
}

/** Requests `url`, and returns the body as the contract defines it. The tests below check every member. */
async function get(url: string): Promise<{ http: Response; body: Reply }> {
  const http = await fetch(url)
  return { http, body: (await http.json()) as Reply }
}

describe('“One GET returns the current rates of 20 currency pairs as JSON.”', () => {
  it('GET / · Request: none · “The object described under Resources (`status`, `result.datetime`, `result.rate`)”', async () => {
    const url = await listen('snapshot')
    const { http, body } = await get(`${url}/`)
    expect(http.status).toBe(200)
    expect(http.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(http.headers.get('cache-control')).toBe('no-store')
    expect(Object.keys(body)).toEqual(['status', 'result'])
    expect(Object.keys(body.result)).toEqual(['datetime', 'rate'])
  })

  it('“status | boolean | true on success”', async () => {
    const { body } = await get(`${await listen('snapshot')}/`)
    expect(body.status).toBe(true)
  })

  it('“result | object | Present on success”', async () => {
    const { body } = await get(`${await listen('snapshot')}/`)
    expect(typeof body.result).toBe('object')
  })

  it('“result.datetime | string, layout `YYYY-MM-DD hh:mm:ss+0` | Time of the call, in GMT”', async () => {
    const url = await listen('snapshot')
    expect((await get(`${url}/`)).body.result.datetime).toBe('2026-10-08 21:05:09+0')
    clock.advance(1)
    expect((await get(`${url}/`)).body.result.datetime).toBe('2026-10-08 21:05:10+0')
    clock.advance(3 * 3_600_000)
    expect((await get(`${url}/`)).body.result.datetime).toBe('2026-10-09 00:05:10+0')
  })

  it('“result.rate | object of 20 numbers | Current rate per currency pair”', async () => {
    const { body } = await get(`${await listen('snapshot')}/`)
    const values = Object.values(body.result.rate)
    expect(values.length).toBe(20)
    expect(values.every((value) => typeof value === 'number' && value > 0)).toBe(true)
  })

  it('“The 20 keys of `result.rate` are: USDJPY, EURJPY, EURUSD, AUDJPY, GBPJPY, NZDJPY, CADJPY, CHFJPY, HKDJPY, GBPUSD, USDCHF, ZARJPY, AUDUSD, NZDUSD, EURAUD, TRYJPY, CNHJPY, NOKJPY, SEKJPY, MXNJPY.”', async () => {
    const { body } = await get(`${await listen('snapshot')}/`)
    expect(Object.keys(body.result.rate).join(', ')).toBe(
      'USDJPY, EURJPY, EURUSD, AUDJPY, GBPJPY, NZDJPY, CADJPY, CHFJPY, HKDJPY, GBPUSD, USDCHF, ZARJPY, AUDUSD, NZDUSD, EURAUD, TRYJPY, CNHJPY, NOKJPY, SEKJPY, MXNJPY',
    )
  })

  it('“A value for pair ABCXYZ means one unit of ABC equals that many units of XYZ.”', async () => {
    server.answer = (_request, response) => response.end(ecbFile('2026-10-08'))
    const url = await listen('ecb')
    const { rate } = (await get(`${url}/`)).body.result
    const perEur: Record<string, number> = { EUR: 1, ...PER_EUR, CNH: PER_EUR.CNY ?? 0 }
    for (const pair of PAIRS) {
      const oneUnit = (perEur[pair.slice(3)] ?? 0) / (perEur[pair.slice(0, 3)] ?? 0)
      expect(rate[pair]).toBe(Number(oneUnit.toFixed(pair.endsWith('JPY') ? 3 : 5)))
    }
  })
})

describe('“R | Failure | `status` false; the rest of the failure body: not shown.”', () => {
  const failure = (code: string) => ({ status: false, code, message: expect.any(String) })

  it('a feed that has no rates yet returns 503 with Retry-After', async () => {
    server.answer = (request) => request.socket.destroy()
    const { http, body } = await get(`${await listen('ecb')}/`)
    expect(http.status).toBe(503)
    expect(http.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(body).toEqual(failure('RATES_NONE_YET'))
  })

  it('returns 503 for stale rates in strict mode', async () => {
    const url = await listen('snapshot', { strict: true })
    for (const path of ['/', '/?detail=1']) {
      const { http, body } = await get(`${url}${path}`)
      expect(http.status).toBe(503)
      expect(body).toEqual(failure('RATES_STALE'))
    }
  })

  it.each([
    ['GET', '/nothing', 404, 'PATH_UNKNOWN'],
    ['POST', '/', 405, 'METHOD_NOT_ALLOWED'],
    ['GET', '/?detail=maybe', 400, 'REQUEST_INVALID'],
    ['GET', '/?detail=1&detail=1', 400, 'REQUEST_INVALID'],
    ['GET', '/history?pair=USDJPY', 404, 'HISTORY_OFF'],
    ['GET', '/history', 400, 'REQUEST_INVALID'],
    ['GET', '/history?pair=usdjpy', 400, 'REQUEST_INVALID'],
    ['GET', '/history?pair=USDJPY&limit=0', 400, 'REQUEST_INVALID'],
    ['GET', '/history?pair=USDJPY&limit=1001', 400, 'REQUEST_INVALID'],
    ['GET', '/history?pair=USDJPY&offset=-1', 400, 'REQUEST_INVALID'],
    ['GET', '/%', 400, 'URL_MALFORMED'],
  ])('%s %s returns %i with %s', async (method, path, status, code) => {
    const reply = await fetch(`${await listen('snapshot')}${path}`, { method })
    expect(reply.status).toBe(status)
    expect(await reply.json()).toEqual(failure(code))
  })

  it('returns 405 to a POST whatever its body', async () => {
    const url = await listen('snapshot')
    for (const body of ['{}', 'a', 'b'.repeat(100_000)]) {
      const reply = await fetch(url, { method: 'POST', body })
      expect([reply.status, reply.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    }
  })

  it('ignores unknown query parameters', async () => {
    const { http, body } = await get(`${await listen('snapshot')}/?x=1&detail=0`)
    expect(http.status).toBe(200)
    expect(Object.keys(body)).toEqual(['status', 'result'])
  })
})

describe('the origin of the rates, which is not in the specification', () => {
  it('without a network, a new feed returns the built-in rates and marks them as stale', async () => {
    server.answer = (request) => request.socket.destroy()
    const { http, body } = await get(`${await listen('ecb,frankfurter,lastgood,snapshot')}/`)
    expect(body.status).toBe(true)
    expect(body.result.rate).toMatchObject({ USDJPY: 158.089, MXNJPY: 8.81 })
    expect(Object.fromEntries(http.headers)).toMatchObject({
      'x-rates-stale': 'true',
      'x-rates-as-of': '2026-10-06',
      'x-rates-source': 'snapshot',
      'x-rates-proxy': 'CNHJPY=CNYJPY',
    })
  })

  it('without a network, a new feed returns every digit of the built-in rates', async () => {
    const { body } = await get(`${await listen('snapshot')}/`)
    expect(JSON.stringify(body.result.rate)).toBe(
      '{"USDJPY":158.089,"EURJPY":178.15,"EURUSD":1.1269,"AUDJPY":110.378,"GBPJPY":209.885,' +
        '"NZDJPY":88.804,"CADJPY":110.942,"CHFJPY":190.352,"HKDJPY":20.144,"GBPUSD":1.32764,' +
        '"USDCHF":0.83051,"ZARJPY":9.587,"AUDUSD":0.6982,"NZDUSD":0.56174,"EURAUD":1.614,' +
        '"TRYJPY":3.215,"CNHJPY":23.579,"NOKJPY":16.529,"SEKJPY":15.846,"MXNJPY":8.81}',
    )
  })

  it('sends one request to the source for 500 concurrent first requests', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    server.answer = (_request, response) =>
      void released.then(() => response.end(ecbFile('2026-10-08')))
    const url = await listen('ecb', {}, { get: server.get() })
    const replies = Array.from({ length: 500 }, () => get(`${url}/`))
    // The listener has received all 500 requests when it answers this later request.
    await get(`${url}/healthz`)
    release()
    const bodies = await Promise.all(replies)
    expect(bodies.filter(({ http }) => http.status === 200).length).toBe(500)
    expect(server.requests.length).toBe(1)
  })

  it('names a live source in the headers', async () => {
    const perEur = { ...PER_EUR, CNH: 7.57 }
    server.answer = (_request, response) =>
      response.end(JSON.stringify({ base: 'EUR', date: '2026-10-08', rates: perEur }))
    const { http } = await get(`${await listen('frankfurter')}/`)
    const headers = Object.fromEntries(http.headers)
    expect(headers).toMatchObject({
      'x-rates-stale': 'false',
      'x-rates-as-of': '2026-10-08',
      'x-rates-source': 'frankfurter',
    })
    expect(headers).not.toHaveProperty('x-rates-proxy')
  })

  it('?detail=1 adds a sibling `meta` and leaves `result` unchanged', async () => {
    const url = await listen('snapshot')
    const plain = (await get(`${url}/`)).body
    const { http, body } = await get(`${url}/?detail=1`)
    expect(http.headers.get('cache-control')).toBe('no-store')
    expect(Object.keys(body)).toEqual(['status', 'result', 'meta'])
    expect(body.result).toEqual(plain.result)
    expect(body.meta).toMatchObject({
      source: 'snapshot',
      origin: 'ecb',
      asOf: '2026-10-06',
      ageSeconds: 2 * 86_400 + 75_909,
      stale: true,
      proxies: ['CNHJPY=CNYJPY'],
      perEur: { USD: 1.1269, CNH: 7.5554 },
    })
  })

  it('/healthz reports the last success, the date of the rates, and the back-off of each source', async () => {
    server.answer = (request, response) => {
      if (request.url === '/ecb') response.writeHead(429, { 'retry-after': '600' }).end()
      else response.end(JSON.stringify({ base: 'EUR', date: '2026-10-08', rates: PER_EUR }))
    }
    const url = await listen('ecb,frankfurter')
    await get(`${url}/`)
    const { http, body } = await get(`${url}/healthz`)
    expect(http.status).toBe(200)
    expect(body).toMatchObject({
      status: true,
      health: 'ok',
      sources: [
        {
          name: 'ecb',
          lastSuccessAt: null,
          asOf: null,
          failures: 1,
          lastError: 'HTTP_STATUS',
          backOffUntil: '2026-10-08T21:15:09.999Z',
        },
        {
          name: 'frankfurter',
          lastSuccessAt: '2026-10-08T21:05:09.999Z',
          asOf: '2026-10-08',
          failures: 0,
          lastError: null,
          backOffUntil: null,
        },
      ],
    })
  })

  it('/healthz reports degraded with stale rates, and returns 503 when GET / would return 503', async () => {
    const degraded = await get(`${await listen('snapshot')}/healthz`)
    expect(degraded.http.status).toBe(200)
    expect(degraded.body).toMatchObject({ status: true, health: 'degraded' })
    const down = await get(`${await listen('snapshot', { strict: true })}/healthz`)
    expect(down.http.status).toBe(503)
    expect(down.body).toMatchObject({ status: false, health: 'down' })
  })

  it('/metrics counts requests by route, and /doc/json lists every route with its replies', async () => {
    const url = await listen('snapshot')
    await get(`${url}/?token=secret`)
    await fetch(`${url}/unknown/secret`)
    const metrics = await (await fetch(`${url}/metrics`)).text()
    expect(metrics).toMatch(/_count\{method="GET",route="\/",status="200"\} 1\n/)
    expect(metrics).toMatch(/_count\{method="ANY",route="none",status="404"\} 1\n/)
    expect(metrics).toMatch(/daicho_rates_stale 1\n/)
    expect(metrics).toMatch(/daicho_event_loop_delay_seconds\{quantile="0\.99"\} /)
    expect(metrics).not.toMatch(/secret|denials/)
    const document = await (await fetch(`${url}/doc/json`)).json()
    expect(document).toMatchObject({
      openapi: '3.1.0',
      paths: { '/': {}, '/history': {}, '/healthz': {} },
    })
  })

  it('`GET /` and `HEAD /` send the same headers', async () => {
    const url = await listen('snapshot')
    const [one, other] = await Promise.all([fetch(url), fetch(url, { method: 'HEAD' })])
    const without = (headers: Headers) =>
      [...headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name))
    expect(without(other.headers)).toEqual(without(one.headers))
  })
})
