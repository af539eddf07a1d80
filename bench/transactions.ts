// Compares transactions, which the gateway runs with a processor, with plain writes to the same ledger. Rounds
// alternate; results are medians. Also measures the time of a call in a fresh sandbox, and the latency of the ledger
// while hostile scripts run.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { defaultNetwork, requireDefinition } from '../src/network/index.ts'
import { compiledEngine } from '../src/network/runtime/engine.ts'
import { Guest } from '../src/network/runtime/guest.ts'
import { GuestClock } from '../src/network/runtime/guest-clock.ts'
import { guestScripts } from '../src/network/runtime/program.ts'
import { load, median, printTable, type Run } from './support/load.ts'
import { startGateway } from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
const CONNECTIONS = 16
/** Resources of the network before the first transaction. */
const RESOURCES = 10_000
const MAIN = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
const CALLS = 1_000

export async function run(parts: readonly string[]): Promise<void> {
  if (parts.length === 0 || parts.includes('restore')) await restores()
  if (parts.length === 0 || parts.includes('trades')) await trades()
  if (parts.length === 0 || parts.includes('abuse')) await abuse()
}

async function post(url: string, body?: unknown): Promise<void> {
  const sent = { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  const reply = await fetch(url, { method: 'POST', ...(body === undefined ? {} : sent) })
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${await reply.text()}`)
}

async function trades(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  try {
    await compareTrades(folder)
    // Throws if the replay of a transaction differs from the ledger.
    const words = [MAIN, 'network', 'verify', '--folder', folder]
    console.log(execFileSync(process.execPath, [...NODE_FLAGS, ...words], { encoding: 'utf8' }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function compareTrades(folder: string): Promise<void> {
  const { ledger, gateway } = await startGateway(folder)
  const trade = { commodity: 'RICE', newOwner: 'bob' }
  try {
    await post(`${ledger.url}/api/plain`)
    const names = { firstName: 'First', lastName: 'Last' }
    const about = { description: 'Rice', mainExchange: 'Osaka', quantity: 100, owner: 'ann' }
    const others = Array.from({ length: RESOURCES / 2 - 2 }, (_, at) => `other-${at}`)
    const traders = ['ann', 'bob', ...others].map((tradeId) => ({ tradeId, ...names }))
    const symbols = ['RICE', 'CORN', ...others]
    const commodities = symbols.map((tradingSymbol) => ({ tradingSymbol, ...about }))
    await post(`${gateway.url}/api/Trader`, traders)
    await post(`${gateway.url}/api/Commodity`, commodities)
    const urls = { item: `${ledger.url}/api/plain`, trade: `${gateway.url}/api/Trade` }
    const runs: Record<keyof typeof urls, Run[]> = { item: [], trade: [] }
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const kind of ['item', 'trade'] as const) {
        const body = JSON.stringify(trade)
        const options = { connections: CONNECTIONS, seconds: SECONDS }
        const done = await load({ url: urls[kind], method: 'POST', body, ...options })
        // Round 0 is a warm-up and is not counted.
        if (round > 0) runs[kind].push(done)
      }
    }
    const rate = (kind: keyof typeof urls) => median(runs[kind].map(({ perSecond }) => perSecond))
    const p99 = (kind: keyof typeof urls) => median(runs[kind].map(({ p99Ms }) => p99Ms))
    const ratio = (kind: keyof typeof urls) => (rate(kind) / rate('item')).toFixed(2)
    printTable([
      [`${CONNECTIONS} connections, durable`, 'per second', 'p99 ms', 'ratio'],
      ['POST /api/plain (ledger)', rate('item').toFixed(0), p99('item').toFixed(0), '1.00'],
      [
        'POST /api/Trade (gateway)',
        rate('trade').toFixed(0),
        p99('trade').toFixed(0),
        ratio('trade'),
      ],
    ])
  } finally {
    await gateway.stop()
  }
}

async function restores(): Promise<void> {
  const nowMs = () => performance.now()
  const engine = await compiledEngine()
  const options = { engine, clock: new GuestClock(), memoryBytes: 64 * 1024 * 1024 }
  const guest = await Guest.boot({ ...guestScripts(defaultNetwork()), ...options }, 2_000)
  const host = { answer: async () => 'null', log: () => {} }
  const nobody = { participant: null, transaction: null, resources: [null] }
  const nothing = { ...nobody, resolved: [] }
  const request = JSON.stringify({ condition: '(() => true)', ...nothing })
  const taken: number[] = []
  for (let call = 0; call < CALLS; call += 1) {
    const start = nowMs()
    await guest.call(request, host, 1_000)
    taken.push(nowMs() - start)
  }
  printTable([
    ['a fresh sandbox', 'median ms'],
    ['restored, with one condition evaluated', median(taken).toFixed(3)],
  ])
}

const MODEL =
  'namespace org.bench asset Thing identified by id { o String id } transaction Run { o String code }'
const SCRIPT = `/** @param {org.bench.Run} tx the transaction
 *  @transaction */
async function run(tx) { await (0, eval)('(async () => {' + tx.code + '})')() }`
const WORST = {
  'an endless loop': 'for (;;);',
  'endless awaits': 'for (;;) await null',
  'endless queries':
    'const r = await getAssetRegistry("org.bench.Thing"); for (;;) await r.exists("a")',
  'growing arrays': 'const a = []; for (;;) a.push(new Array(100000).fill(1))',
  'growing buffers': 'const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))',
  'a giant string': 'let s = "x"; for (;;) s += s',
  'endless recursion': 'const f = () => f() + 1; f()',
  'a catastrophic pattern': '/^(a+)+$/.test("a".repeat(50) + "b")',
}
/** Interval of the requests that measure the latency of the ledger. */
const ASK_EVERY_MS = 5

async function abuse(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const { ledger, gateway } = await startGateway(folder)
  try {
    const about = JSON.stringify({ name: 'abused', version: '1.0.0' })
    const texts = { 'package.json': about, 'models/m.cto': MODEL, 'lib/run.js': SCRIPT }
    const entries = Object.entries(texts).map(([path, text]) => [path, Buffer.from(text)] as const)
    const { archive } = requireDefinition({ packed: null, files: new Map(entries) })
    const headers = { 'content-type': 'application/octet-stream' }
    const body = new Uint8Array(archive)
    await fetch(`${gateway.url}/networks`, { method: 'POST', headers, body })
    const run = async (code: string) => {
      const sent = {
        body: JSON.stringify({ code }),
        headers: { 'content-type': 'application/json' },
      }
      return (await fetch(`${gateway.url}/abused/api/Run`, { method: 'POST', ...sent })).status
    }
    await run('')
    const rows = [
      ['the ledger beside it: GET /api/dbs', 'status', 'requests', 'p99 ms', 'resident MB'],
    ]
    rows.push([
      '(nothing else)',
      '',
      ...(await latencyDuring(ledger.url, quietly)),
      mb(gateway.residentMb()),
    ])
    for (const [name, code] of Object.entries(WORST)) {
      let status = 0
      const taken = await latencyDuring(ledger.url, async () => {
        status = await run(code)
      })
      // After a hostile script, the next transaction must succeed.
      if ((await run('')) !== 200) throw new Error(`transactions fail after ${name}`)
      rows.push([name, String(status), ...taken, mb(gateway.residentMb())])
    }
    printTable(rows)
  } finally {
    await gateway.stop()
    rmSync(folder, { recursive: true })
  }
}

const mb = (value: number) => value.toFixed(0)
const quietly = () => new Promise<void>((resolve) => setTimeout(resolve, 1_000))

/** Returns the number of requests that the ledger answered while `work` ran, and their latencies. */
async function latencyDuring(url: string, work: () => Promise<void>): Promise<string[]> {
  let done = false
  const taken: number[] = []
  const asking = (async () => {
    while (!done) {
      const start = performance.now()
      await (await fetch(`${url}/api/dbs`)).arrayBuffer()
      taken.push(performance.now() - start)
      await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
    }
  })()
  await work()
  done = true
  await asking
  const sorted = taken.toSorted((one, other) => one - other)
  const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0
  return [String(taken.length), p99.toFixed(1)]
}
