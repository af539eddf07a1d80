import { request } from 'node:http'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import type { HttpComponent } from './component.ts'
import { type Listener, startListener } from './listener.ts'
import { addGauge, addLabeledGauge, Registry, RequestMetrics, registerMetrics } from './metrics.ts'
import { statusFalseReply } from './refusal.ts'

let listener: Listener | null = null
afterEach(async () => {
  await listener?.close()
  listener = null
})

/** Starts a listener with a quick route, a failing route, and `/slow`, which replies after a call of `release`. */
async function listen(): Promise<{ url: string; arrived: Promise<void>; release: () => void }> {
  const arrived = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const component: HttpComponent = {
    name: 'tested',
    limits: { bodyBytesMax: 1, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    async register(app) {
      const registry = new Registry()
      registerMetrics(app, registry)
      addGauge(registry, 'tested_gauge', 'Read on each scrape', () => 42)
      app.get('/items/:id', async () => ({ status: true }))
      app.get('/broken', async () => {
        throw new Error('a defect')
      })
      app.get('/slow', async () => {
        arrived.resolve()
        await released.promise
        return { status: true }
      })
    },
  }
  const logger = pino({ level: 'silent' })
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  listener = await startListener(component, options)
  return { url: listener.url, arrived: arrived.promise, release: () => released.resolve() }
}

const scrape = async (url: string) => (await fetch(`${url}/metrics`)).text()

describe('/metrics', () => {
  it('counts requests by method, pattern and status, and never shows a path or a query', async () => {
    const { url } = await listen()
    for (const path of ['/items/1?token=hidden', '/items/hidden', '/broken', '/hidden/x']) {
      await (await fetch(url + path)).text()
    }
    const text = await scrape(url)
    expect(text).toContain('_count{method="GET",route="/items/:id",status="200"} 2\n')
    expect(text).toContain('_count{method="GET",route="/broken",status="500"} 1\n')
    expect(text).toContain('_count{method="ANY",route="none",status="404"} 1\n')
    expect(text).toContain('tested_gauge 42\n')
    expect(text).toMatch(/process_resident_memory_bytes \d+\n/)
    expect(text).not.toContain('hidden')
  })

  it('counts a request as 499 if the client disconnects before the reply', async () => {
    const { url, arrived, release } = await listen()
    const aborted = request(`${url}/slow`)
    const failed = Promise.withResolvers<void>()
    aborted.on('error', () => failed.resolve())
    aborted.end()
    await arrived
    aborted.destroy()
    await failed.promise
    let text = ''
    while (!text.includes('status="499"')) text = await scrape(url)
    release()
    expect(text).toContain('_count{method="GET",route="/slow",status="499"} 1\n')
  })

  it('completes requests in progress when the listener closes', async () => {
    const { url, arrived, release } = await listen()
    const pending = fetch(`${url}/slow`)
    await arrived
    const closed = listener?.close()
    release()
    const reply = await pending
    expect(await reply.json()).toEqual({ status: true })
    expect(reply.headers.get('connection')).toBe('close')
    await closed
  })
})

describe('RequestMetrics', () => {
  it('counts each request in its bucket and in all larger buckets', async () => {
    const registry = new Registry()
    const requests = new RequestMetrics(registry)
    const count = requests.counter('GET', '/a"b\\c')
    for (const ms of [0, 1, 1.1, 5, 30_000, 30_001]) count(200, ms)
    const text = await registry.metrics()
    const name = 'daicho_http_request_seconds'
    expect(text).toMatch(new RegExp(`^# HELP ${name} .+\n# TYPE ${name} histogram\n`))
    const labels = 'method="GET",route="/a\\"b\\\\c",status="200"'
    expect(text).toContain(`${name}_bucket{le="0.001",${labels}} 2\n`)
    expect(text).toContain(`${name}_bucket{le="0.0025",${labels}} 3\n`)
    expect(text).toContain(`${name}_bucket{le="30",${labels}} 5\n`)
    expect(text).toContain(`${name}_bucket{le="+Inf",${labels}} 6\n`)
    expect(text).toContain(`${name}_sum{${labels}} 60.0081\n`)
    expect(text).toContain(`${name}_count{${labels}} 6\n`)
  })
})

it('reads gauges on each scrape and escapes their labels', async () => {
  let count: number | null = 1
  const registry = new Registry()
  addGauge(registry, 'one', 'A \\ and\na line', async () => count)
  addLabeledGauge(registry, 'each', 'By name', ['name', 'url'], () => {
    if (count !== 1) return []
    return [
      [{ name: 'a', url: '' }, Number.NaN],
      [{ name: 'b', url: 'say "\\" \n' }, Number.POSITIVE_INFINITY],
      [{ name: 'a', url: '' }, 0.5],
    ]
  })
  const one = '# HELP one A \\\\ and\\na line\n# TYPE one gauge\n'
  const each = '# HELP each By name\n# TYPE each gauge\n'
  expect(await registry.metrics()).toBe(
    `${one}one 1\n\n${each}each{name="a",url=""} 0.5\neach{name="b",url="say \\"\\\\\\" \\n"} +Inf\n`,
  )
  count = 2
  expect(await registry.metrics()).toBe(`${one}one 2\n\n${each}`)
  count = null
  expect(await registry.metrics()).toBe(`${one}\n${each}`)
})
