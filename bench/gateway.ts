// Measures filtered lists of the gateway with 100,000 Commodities: the latency, and the throughput compared with
// LoopBack 4 and its memory connector with the same Commodities. Rounds alternate; results are medians.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { load, median, printTable, type Run } from './support/load.ts'

const COUNT = Number(process.env.BENCH_ITEMS ?? 100_000)
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 5)
const PER_REQUEST = 2_000
const REQUESTS = 200
/** Maximum duration of the latency measurement of one filter. */
const LATENCY_MS = 5_000
const CONNECTIONS = 4

const CASES = [
  { name: 'mainExchange = …, limit 20', where: { mainExchange: 'X7' } },
  { name: 'quantity < 1,000, limit 20', where: { quantity: { lt: 1_000 } } },
  { name: 'quantity < 500,000, limit 20', where: { quantity: { lt: 500_000 } } },
] as const

const path = (where: object) =>
  `/api/Commodity?filter=${encodeURIComponent(JSON.stringify({ where, limit: 20 }))}`
const addressesOf = async (child: ChildProcess): Promise<Record<string, string>> => {
  if (child.stdout === null) throw new Error('no output of the server')
  const [line]: unknown[] = await once(child.stdout, 'data')
  return JSON.parse(String(line))
}

/** Measures both servers alternately and prints the results. */
export async function run(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const children: ChildProcess[] = []
  try {
    const product = startProduct(folder)
    children.push(product)
    const { ledger = '', gateway = '' } = await addressesOf(product)
    await fill(gateway)
    for (const field of ['mainExchange', 'quantity']) await declareIndex(ledger, field)
    await latencies(gateway)
    const peer = startPeer()
    children.push(peer)
    const { ledger: peerUrl = '' } = await addressesOf(peer)
    await against(gateway, peerUrl)
  } finally {
    for (const child of children) {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

function startProduct(folder: string): ChildProcess {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const flags = [
    'serve',
    '--only',
    'ledger,gateway',
    '--port',
    '0',
    '--gateway-port',
    '0',
    '--json',
  ]
  return spawn(process.execPath, [...NODE_FLAGS, main, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, LOG_LEVEL: 'error', SYSTEM_FOLDER: folder },
  })
}

/** Starts LoopBack in its own folder. Installs LoopBack if it is missing. */
function startPeer(): ChildProcess {
  const folder = fileURLToPath(new URL('./peers/loopback4', import.meta.url))
  if (!existsSync(join(folder, 'node_modules'))) {
    const npm = ['ci', '--no-audit', '--no-fund', '--ignore-scripts']
    spawnSync('npm', npm, { cwd: folder, stdio: ['ignore', 2, 2] })
  }
  const program = join(folder, 'server.mjs')
  return spawn(process.execPath, ['--no-deprecation', program, String(COUNT)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function fill(url: string): Promise<void> {
  const start = performance.now()
  for (let at = 0; at < COUNT; at += PER_REQUEST) {
    const list = Array.from({ length: PER_REQUEST }, (_, n) => commodity(at + n))
    await post(`${url}/api/Commodity`, list)
  }
  const seconds = (performance.now() - start) / 1000
  console.log(`${COUNT} Commodities in arrays of ${PER_REQUEST}: ${seconds.toFixed(1)} s`)
}

function commodity(n: number) {
  return {
    tradingSymbol: `S${n}`,
    description: `commodity ${n}`,
    mainExchange: `X${n % 1_000}`,
    quantity: (n * 7_919) % 1_000_003,
    owner: `T${n % 100}`,
  }
}

async function post(url: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!reply.ok) throw new Error(`POST ${url}: ${reply.status} ${await reply.text()}`)
  await reply.arrayBuffer()
}

async function declareIndex(url: string, field: string): Promise<void> {
  await post(`${url}/api/config/indexes`, { db: 'mynetwork', path: `resource.${field}` })
  for (;;) {
    const text = await (await fetch(`${url}/api/config/indexes`)).text()
    const { indexes }: { indexes: { state: string }[] } = JSON.parse(text)
    if (indexes.every(({ state }) => state === 'ready')) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** Measures each filter with one request at a time, and prints the latencies. */
async function latencies(url: string): Promise<void> {
  const rows = [['one at a time', 'matches', 'median ms', 'p99 ms']]
  for (const { name, where } of [...CASES, { name: 'everything, limit 20', where: {} }]) {
    const ms: number[] = []
    let matches = ''
    const endsAt = performance.now() + LATENCY_MS
    for (let n = 0; n < REQUESTS && performance.now() < endsAt; n += 1) {
      const start = performance.now()
      const reply = await fetch(url + path(where))
      await reply.text()
      ms.push(performance.now() - start)
      matches = reply.headers.get('x-total-count') ?? ''
    }
    const sorted = ms.toSorted((one, other) => one - other)
    const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? 0
    rows.push([name, matches, median(ms).toFixed(2), p99.toFixed(2)])
  }
  printTable(rows)
}

async function against(gateway: string, peer: string): Promise<void> {
  const rows = [[`${CONNECTIONS} connections`, 'LoopBack 4/s', 'daicho/s', 'times']]
  // Only the first two filters are measured, because LoopBack scans all items for each request, which takes seconds.
  for (const { name, where } of CASES.slice(0, 2)) {
    const runs: Record<'gateway' | 'peer', Run[]> = { gateway: [], peer: [] }
    const loadOptions = { method: 'GET', connections: CONNECTIONS, seconds: SECONDS } as const
    for (let round = 0; round < ROUNDS; round += 1) {
      runs.peer.push(await load({ ...loadOptions, url: peer + path(where) }))
      runs.gateway.push(await load({ ...loadOptions, url: gateway + path(where) }))
    }
    const [theirs, ours] = [runs.peer, runs.gateway].map((list) =>
      median(list.map(({ perSecond }) => perSecond)),
    )
    const times = (ours ?? 0) / (theirs ?? 1)
    rows.push([name, (theirs ?? 0).toFixed(1), (ours ?? 0).toFixed(1), times.toFixed(1)])
  }
  printTable(rows)
}
