// Measures the cost of tokens: compares a ledger that requires tokens with a ledger that does not. Both get the same
// requests, with a token in a header. Rounds alternate; results are medians. If BENCH_BEFORE is the folder of an earlier
// version with its packages, also compares the rates and the processor time with that version, which requires tokens.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../src/base/clock.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { load, median, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { type Server, settled, startLedger } from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 2)
const BEFORE = process.env.BENCH_BEFORE
const CONNECTIONS = 64
const SECRET = 'a secret that is only for this benchmark'

export async function run(): Promise<void> {
  const folders = ['off', 'required'].map(() => mkdtempSync(join(tmpdir(), 'daicho-bench-')))
  const [off = '', required = ''] = folders
  const servers = {
    off: await startLedger(off),
    required: await startLedger(required, { TOKENS: 'required', SECRET }),
  }
  try {
    await measure(servers)
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()))
    for (const folder of folders) rmSync(folder, { recursive: true })
  }
  if (BEFORE !== undefined) await compare(BEFORE)
}

/** Compares `POST` with the version in the folder `before`. Both begin with an empty store. Processor time includes work put off. */
async function compare(before: string): Promise<void> {
  const folders = ['before', 'now'].map(() => mkdtempSync(join(tmpdir(), 'daicho-bench-')))
  const [ofBefore = '', ofNow = ''] = folders
  const settings = { TOKENS: 'required', SECRET }
  const servers = {
    before: await startLedger(ofBefore, settings, join(before, 'src/cli/main.ts')),
    now: await startLedger(ofNow, settings),
  }
  try {
    const headers = await tokenHeaders()
    for (const { url } of Object.values(servers)) {
      await fetch(`${url}/api/bench`, { method: 'POST', headers })
    }
    const rates: Record<'before' | 'now', number[]> = { before: [], now: [] }
    const cpu: Record<'before' | 'now', number[]> = { before: [], now: [] }
    // The code of both versions must be compiled before the first measurement.
    for (const server of Object.values(servers)) {
      await post(server, headers)
      await settled(server)
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const name of ['before', 'now'] as const) {
        const used = servers[name].cpuSeconds()
        const { perSecond } = await post(servers[name], headers)
        await settled(servers[name])
        rates[name].push(perSecond)
        cpu[name].push((servers[name].cpuSeconds() - used) / (perSecond * SECONDS))
      }
    }
    const ratio = (a: number[], b: number[]) => (median(a) / median(b)).toFixed(3)
    printTable([
      ['POST with tokens', 'now / before'],
      ['requests per second', ratio(rates.now, rates.before)],
      ['requests per processor second', ratio(cpu.before, cpu.now)],
    ])
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()))
    for (const folder of folders) rmSync(folder, { recursive: true })
  }
}

async function tokenHeaders(): Promise<Record<string, string>> {
  const tokens = await openTokens({ clock: systemClock, folder: null, secret: SECRET })
  const scopes = ['db:*:admin', 'ledger:read']
  const { token } = await issueApiToken(tokens, { subject: 'bench', scopes, lifeSeconds: 3_600 })
  return { authorization: `Bearer ${token}` }
}

const post = (server: Server, headers: Record<string, string>) =>
  load({
    url: `${server.url}/api/bench`,
    method: 'POST',
    body: JSON.stringify(sampleItem()),
    headers,
    connections: CONNECTIONS,
    seconds: SECONDS,
  })

async function measure(servers: Record<'off' | 'required', Server>): Promise<void> {
  const headers = await tokenHeaders()
  for (const { url } of Object.values(servers)) {
    await fetch(`${url}/api/bench`, { method: 'POST', headers })
    const item = JSON.stringify({ id: 'x', ...sampleItem() })
    const typed = { ...headers, 'content-type': 'application/json' }
    await fetch(`${url}/api/bench`, { method: 'POST', headers: typed, body: item })
  }
  const get = (server: Server, sent: Record<string, string>) =>
    load({
      url: `${server.url}/api/bench/x`,
      method: 'GET',
      headers: sent,
      connections: CONNECTIONS,
      seconds: SECONDS,
    })
  const rows = [['', 'off/s', 'required/s', 'ratio']]
  for (const [name, request] of Object.entries({ GET: get, POST: post })) {
    const rates: Record<'off' | 'required', number[]> = { off: [], required: [] }
    for (let round = 0; round < ROUNDS; round += 1) {
      rates.off.push((await request(servers.off, headers)).perSecond)
      rates.required.push((await request(servers.required, headers)).perSecond)
    }
    const [without, withThem] = [median(rates.off), median(rates.required)]
    rows.push([
      `${name}, ${CONNECTIONS} connections`,
      String(Math.round(without)),
      String(Math.round(withThem)),
      (withThem / without).toFixed(2),
    ])
  }
  printTable(rows)
}
