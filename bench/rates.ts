// How fast `GET /` of the rate feed is beside a bare Fastify route that sends a constant of the same
// size, and how long an answer takes while every source hangs. Run: node bench/rates.ts
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import fastify from 'fastify'
import { pino } from 'pino'
import { systemClock } from '../src/base/clock.ts'
import { outboundGet, startListener } from '../src/http/index.ts'
import { parseSourceList, rateFeedComponent } from '../src/rate-feed/index.ts'

const CONNECTIONS = 64
const ROUNDS = 7
const ROUND_S = 3
const WARM_UP_S = 2

/** Measures, interleaved, and prints. */
export async function run(): Promise<void> {
  const product = await child('product')
  const body = await (await fetch(product.url)).text()
  const peer = await child('peer', body.length)
  try {
    for (const { url } of [product, peer]) await load(url, WARM_UP_S)
    const figures = { product: [] as number[], peer: [] as number[] }
    for (let round = 0; round < ROUNDS; round += 1) {
      // Each starts every other round, so that neither always runs on the warmer machine.
      for (const name of round % 2 === 0 ? ORDER : ORDER.toReversed()) {
        figures[name].push(await load(name === 'product' ? product.url : peer.url, ROUND_S))
      }
    }
    const ratios = figures.product.map((rate, round) => rate / (figures.peer[round] ?? Number.NaN))
    print(`GET / · ${CONNECTIONS} connections · ${body.length} bytes · 1 server process and the`)
    print(`load generator share the processors · medians of ${ROUNDS} interleaved rounds`)
    print(`  rate feed, all sources hanging   ${Math.round(median(figures.product))} requests/s`)
    print(`  bare Fastify, constant           ${Math.round(median(figures.peer))} requests/s`)
    print(`  ratio                            ${median(ratios).toFixed(3)}`)
    print(`  rounds                           ${ratios.map((r) => r.toFixed(2)).join(' ')}`)
    const ms = await latencies(product.url, 500)
    print(`one request at a time, all sources hanging: median ${median(ms).toFixed(2)} ms, longest`)
    print(`of ${ms.length}: ${Math.max(...ms).toFixed(2)} ms`)
  } finally {
    product.process.kill()
    peer.process.kill()
  }
}

const ORDER = ['product', 'peer'] as const

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

async function load(url: string, duration: number): Promise<number> {
  const { requests, non2xx, errors } = await autocannon({ url, connections: CONNECTIONS, duration })
  if (non2xx + errors > 0) throw new Error(`${non2xx} other statuses, ${errors} errors`)
  return requests.average
}

async function latencies(url: string, count: number): Promise<number[]> {
  const ms: number[] = []
  for (let n = 0; n < count; n += 1) {
    const start = performance.now()
    await (await fetch(url)).text()
    ms.push(performance.now() - start)
  }
  return ms
}

async function child(
  role: 'product' | 'peer',
  bytes = 0,
): Promise<{ url: string; process: ChildProcess }> {
  const started = fork(fileURLToPath(import.meta.url), [role, String(bytes)])
  const [url] = await once(started, 'message')
  return { url: String(url), process: started }
}

/** The feed as `daicho serve` runs it, with sources that take the connection and say nothing. */
async function serveProduct(): Promise<string> {
  const silent = createServer(() => {})
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : null
  const component = rateFeedComponent({
    settings: {
      sources: parseSourceList('ecb,frankfurter,lastgood,snapshot'),
      strict: false,
      maxStaleMs: null,
      folder: null,
      openExchangeRatesAppId: null,
      banded: true,
    },
    clock: systemClock,
    random: Math.random,
    log: { info: () => {}, warn: () => {} },
    get: (_url, headers) =>
      outboundGet(new URL(`http://127.0.0.1:${port}/`), headers, {
        schemes: ['http:'],
        allowPrivate: true,
        timeoutMs: 5_000,
        bodyBytesMax: 1_048_576,
      }),
    ledger: null,
    version: '0.0.0',
  })
  const logger = pino({ level: 'info' }, pino.destination(2))
  const where = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  return (await startListener(component, where)).url
}

async function servePeer(bytes: number): Promise<string> {
  const constant = JSON.stringify({ text: 'x'.repeat(bytes - '{"text":""}'.length) })
  const app = fastify()
  app.get('/', async (_request, reply) => reply.type('application/json').send(constant))
  return app.listen({ host: '127.0.0.1', port: 0 })
}

const [role, bytes] = process.argv.slice(2)
if (role === 'product') process.send?.(await serveProduct())
else if (role === 'peer') process.send?.(await servePeer(Number(bytes)))
else if (process.argv[1] === fileURLToPath(import.meta.url)) await run()
