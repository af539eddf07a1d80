// Measures whether slow witnesses slow down writes: compares a node with two witnesses, each of which answers after
// five seconds, with a node without witnesses.
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rawPublicKey, witnessKeyText } from '../src/chain/index.ts'
import { load, median } from './support/load.ts'
import { startLedger } from './support/server.ts'

const WITNESSES = 2
const DELAY_MS = 5_000
const CONNECTIONS = 32
const ROUNDS = 24
const ROUND_S = 1

/** Starts a witness that answers late and without a cosignature. Returns its entry for the setting WITNESSES. */
async function slowWitness(number: number) {
  const state = { requests: 0 }
  const server = createServer((request, reply) => {
    state.requests += 1
    request.resume()
    setTimeout(() => reply.writeHead(500).end(), DELAY_MS)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const { publicKey } = generateKeyPairSync('ed25519')
  const key = { name: `w.example/${number}`, publicKey: rawPublicKey(publicKey) }
  return { state, server, setting: `${witnessKeyText(key)} http://127.0.0.1:${port}` }
}

/** Measures with and without witnesses in alternating rounds, and prints the results. */
export async function run(): Promise<void> {
  const witnesses = await Promise.all(Array.from({ length: WITNESSES }, (_, n) => slowWitness(n)))
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const variables = {
    WITNESSES: witnesses.map(({ setting }) => setting).join(','),
    PEERS_ALLOW_PRIVATE: '1',
    LOG_LEVEL: 'fatal',
  }
  const servers = {
    with: await startLedger(join(folder, 'with'), variables),
    without: await startLedger(join(folder, 'without')),
  }
  const rates = { with: [] as number[], without: [] as number[] }
  const micros = { with: [] as number[], without: [] as number[] }
  const names = ['with', 'without'] as const
  for (const name of names) await fetch(`${servers[name].url}/api/bench`, { method: 'POST' })
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const before = servers[name].cpuSeconds()
      const { perSecond } = await load({
        ...{ url: `${servers[name].url}/api/bench`, method: 'POST', body: '{"name":"apple"}' },
        ...{ connections: CONNECTIONS, seconds: ROUND_S },
      })
      // Round -1 is a warm-up and is not counted.
      if (round < 0) continue
      rates[name].push(perSecond)
      micros[name].push(((servers[name].cpuSeconds() - before) * 1e6) / (perSecond * ROUND_S))
    }
  }
  for (const { server } of witnesses) {
    server.closeAllConnections()
    server.close()
  }
  for (const name of names) await servers[name].stop()
  rmSync(folder, { recursive: true })
  const requests = witnesses.map(({ state }) => state.requests).join(' and ')
  const number = (value: number) => Math.round(value).toLocaleString('en')
  console.log(`POST · ${CONNECTIONS} connections · medians of ${ROUNDS} rounds by turns`)
  console.log(`  two witnesses, 5 s each      ${number(median(rates.with))} requests/s`)
  console.log(`  without witnesses            ${number(median(rates.without))} requests/s`)
  console.log(
    `  ratio of the medians         ${(median(rates.with) / median(rates.without)).toFixed(3)}`,
  )
  const ratios = rates.with.map((rate, at) => rate / (rates.without[at] ?? Number.NaN))
  console.log(`  median of the rounds' ratios ${median(ratios).toFixed(3)}`)
  console.log(
    `  processor time per request   ${number(median(micros.with))} and ${number(median(micros.without))} µs`,
  )
  console.log(`  requests to the witnesses    ${requests}`)
}
