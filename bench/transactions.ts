// Transactions with a processor through the gateway, beside plain writes to the same ledger: by turns
// in one run, medians. And what it costs to begin with a fresh guest.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defaultNetwork } from '../src/network/index.ts'
import { Guest } from '../src/network/runtime/guest.ts'
import { guestScripts } from '../src/network/runtime/program.ts'
import { load, median, printTable, type Run } from './support/load.ts'
import { startGateway } from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
const CONNECTIONS = 16
const CALLS = 1_000

/** Prints the tables. */
export async function run(parts: readonly string[]): Promise<void> {
  if (parts.length === 0 || parts.includes('restore')) await restores()
  if (parts.length === 0 || parts.includes('trades')) await trades()
}

async function post(url: string, body?: unknown): Promise<void> {
  const sent = { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  const reply = await fetch(url, { method: 'POST', ...(body === undefined ? {} : sent) })
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${await reply.text()}`)
}

async function trades(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const { ledger, gateway } = await startGateway(folder)
  const trade = { commodity: 'RICE', newOwner: 'bob' }
  try {
    await post(`${ledger.url}/api/plain`)
    const names = { firstName: 'First', lastName: 'Last' }
    await post(`${gateway.url}/api/Trader`, [
      { tradeId: 'ann', ...names },
      { tradeId: 'bob', ...names },
    ])
    const about = { description: 'Rice', mainExchange: 'Osaka', quantity: 100, owner: 'ann' }
    await post(`${gateway.url}/api/Commodity`, { tradingSymbol: 'RICE', ...about })
    const urls = { item: `${ledger.url}/api/plain`, trade: `${gateway.url}/api/Trade` }
    const runs: Record<keyof typeof urls, Run[]> = { item: [], trade: [] }
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const kind of ['item', 'trade'] as const) {
        const body = JSON.stringify(trade)
        const options = { connections: CONNECTIONS, seconds: SECONDS }
        const done = await load({ url: urls[kind], method: 'POST', body, ...options })
        // The first round warms up.
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
    rmSync(folder, { recursive: true })
  }
}

async function restores(): Promise<void> {
  const { model, scripts } = defaultNetwork()
  const nowMs = () => performance.now()
  const options = { host: () => 'null', memoryBytes: 64 * 1024 * 1024, nowMs }
  const guest = await Guest.boot({ ...guestScripts(model, scripts), ...options }, 2_000)
  const nothing = { variables: {}, participant: null, transaction: null, resources: [null] }
  const request = JSON.stringify({ condition: 'true', ...nothing })
  const taken: number[] = []
  for (let call = 0; call < CALLS; call += 1) {
    const start = nowMs()
    guest.call(request, 1_000)
    taken.push(nowMs() - start)
  }
  printTable([
    ['a fresh guest', 'median ms'],
    ['restored, and one condition asked', median(taken).toFixed(3)],
  ])
}
