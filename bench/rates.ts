// Measures the throughput of `GET /` of the rate feed, compared with a bare Fastify route that sends a constant body of
// the same size, and the latency of a reply while every source hangs. Run: node bench/rates.ts
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import fastify from 'fastify'
import { pino } from 'pino'
import { systemClock } from '../src/base/clock.ts'
import { startListener } from '../src/http/index.ts'
import { outboundGet } from '../src/http/outbound.ts'
import { parseSourceList, rateFeedComponent } from '../src/rate-feed/index.ts'

const CONNECTIONS = 64
/** Number of starts of both processes. Several are needed, because processes differ more than rounds in one process. */
const STARTS = 4
const ROUNDS = 5
const ROUND_S = 1
const WARM_UP_S = 1

/** Measures both programs in alternating rounds, and prints the results. */
export async function run(): Promise<void> {
  const rates = { product: [] as number[], peer: [] as number[] }
  const ms: number[] = []
  let bytes = 0
  for (let start = 0; start < STARTS; start += 1) {
    const product = await child('product')
    bytes = (await (await fetch(product.url)).text()).length
    const peer = await child('peer', bytes)
    try {
      const urls = { product: product.url, peer: peer.url }
      for (const name of ORDER) await load(urls[name], WARM_UP_S)
      for (let round = 0; round < ROUNDS; round += 1) {
        // The order of the two programs alternates, because the second program runs on a warmer computer.
        for (const name of round % 2 === 0 ? ORDER : ORDER.toReversed()) {
          rates[name].push(await load(urls[name], ROUND_S))
        }
      }
      ms.push(...(await latencies(product.url, 200)))
    } finally {
      product.process.kill()
      peer.process.kill()
    }
  }
  const ratios = rates.product.map((rate, round) => rate / (rates.peer[round] ?? Number.NaN))
  print(`GET / · ${CONNECTIONS} connections · ${bytes} bytes · one server process and the load`)
  print(
    `generator share the processors · medians of ${STARTS} starts × ${ROUNDS} interleaved rounds`,
  )
  print(`  rate feed, all sources hanging   ${Math.round(median(rates.product))} requests/s`)
  print(`  bare Fastify, constant           ${Math.round(median(rates.peer))} requests/s`)
  print(`  ratio of the medians             ${ratio(rates.product, rates.peer)}`)
  print(`  median of the rounds' ratios     ${median(ratios).toFixed(3)}`)
  print(`  rounds                           ${ratios.map((r) => r.toFixed(2)).join(' ')}`)
  print(`one request at a time, all sources hanging, ${ms.length} requests: median`)
  print(`${median(ms).toFixed(2)} ms, 99 of 100 within ${quantile(ms, 0.99).toFixed(2)} ms`)
}

function ratio(left: readonly number[], right: readonly number[]): string {
  return (median(left) / median(right)).toFixed(3)
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN
}

const ORDER = ['product', 'peer'] as const

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5)
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

/** Starts the feed like `daicho serve`, with sources that accept a connection and send nothing. */
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
      staleAfterMs: 5 * 86_400_000,
      folder: null,
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
  const logger = pino({ level: 'error' }, pino.destination(2))
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
