// Measures proofs of one item among many: the size, the time to create a proof, and the time to verify a proof. Also
// measures the verification of a folder: with and without threads, and the memory at two sizes of the chain.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import {
  nodeVerifySignature,
  type ProvenEntry,
  parseVerifierKey,
  verifyProofFile,
} from '../src/chain/index.ts'
import { median, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { type Server, startLedger } from './support/server.ts'

const ITEMS = Number(process.env.BENCH_ITEMS ?? 1_000_000)
const ITEMS_PER_REQUEST = 500
const PROOFS = 200

const number = (value: number, digits = 0) =>
  value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits })

async function textAt(url: string, init?: RequestInit): Promise<string> {
  const reply = await fetch(url, init)
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${text}`)
  return text
}

/** Loads `items` items. Returns the folder, the server, and the ids of some of the items. */
async function loaded(items: number): Promise<{ folder: string; server: Server; ids: string[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const server = await startLedger(folder)
  await textAt(`${server.url}/api/bench`, { method: 'POST' })
  const body = JSON.stringify(Array.from({ length: ITEMS_PER_REQUEST }, sampleItem))
  const headers = { 'content-type': 'application/json' }
  const every = Math.max(1, Math.floor(items / ITEMS_PER_REQUEST / PROOFS))
  const ids: string[] = []
  let left = items / ITEMS_PER_REQUEST
  const client = async () => {
    while (left-- > 0) {
      const some = left % every === 0
      const reply = JSON.parse(
        await textAt(`${server.url}/api/bench`, { method: 'POST', body, headers }),
      )
      if (some) ids.push(reply.ids[Math.abs(left) % ITEMS_PER_REQUEST])
    }
  }
  await Promise.all(Array.from({ length: 4 }, client))
  return { folder, server, ids }
}

/** Measures sizes and times of proofs for items across the chain. */
async function proofs(server: Server, ids: readonly string[], items: number): Promise<void> {
  const { serverid } = JSON.parse(await textAt(`${server.url}/api/serverid`))
  const vkey = await textAt(`${server.url}/api/ledgers/${serverid}/vkey`)
  const key = parseVerifierKey(vkey.trim())
  const start = performance.now()
  // Each proof needs a signed head that covers its block, so this loop makes the node sign a head for all blocks.
  for (const id of ids) await textAt(`${server.url}/api/bench/${id}/proof`)
  const signedMs = performance.now() - start
  const [, size] = (await textAt(`${server.url}/api/ledgers/${serverid}/checkpoint`)).split('\n')
  const made: number[] = []
  const baseline: number[] = []
  const verified: number[] = []
  const beside: number[] = []
  for (const id of ids) {
    const before = performance.now()
    const item = await textAt(`${server.url}/api/bench/${id}`)
    const between = performance.now()
    const file = await textAt(`${server.url}/api/bench/${id}/proof`)
    const after = performance.now()
    const proven: ProvenEntry = await verifyProofFile(nodeVerifySignature, key, file)
    verified.push(performance.now() - after)
    made.push(after - between)
    baseline.push(between - before)
    beside.push(file.length - JSON.stringify(proven.entry?.item).length)
    if (!item.includes(id)) throw new Error('wrong item in the proof')
  }
  const p99 = (values: number[]) =>
    values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0
  const row = (label: string, values: number[], digits: number) => [
    label,
    number(median(values), digits),
    number(p99(values), digits),
    number(Math.max(...values), digits),
  ]
  console.log(
    `one of ${number(items)} items in ${number(Number(size))} blocks; ${ids.length} proofs; ` +
      `all proofs once, with the first signature after loading, took ${number(signedMs)} ms`,
  )
  printTable([
    ['', 'median', 'p99', 'most'],
    row('bytes beside the item', beside, 0),
    row('GET of the item, ms', baseline, 2),
    row('GET of its proof, ms', made, 2),
    row('verified, ms', verified, 2),
  ])
}

/** Runs `daicho verify <folder>`, and returns time and memory. */
function verifyFolder(folder: string): {
  entries: number
  seconds: number
  cpu: number
  mb: number
} {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const usageAtExit = `import{isMainThread}from'node:worker_threads';if(isMainThread)process.on('exit',()=>{const u=process.resourceUsage();
    process.stdout.write(JSON.stringify({cpu:(u.userCPUTime+u.systemCPUTime)/1e6,mb:u.maxRSS/1024}))})`
  const preload = `--import=data:text/javascript,${encodeURIComponent(usageAtExit)}`
  const start = performance.now()
  const output = execFileSync(
    process.execPath,
    [...NODE_FLAGS, preload, main, 'verify', folder, '--json'],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const seconds = (performance.now() - start) / 1000
  const [result = '', usage = ''] = output.split('\n')
  const { status, entries } = JSON.parse(result)
  if (status !== true) throw new Error(`verify found ${result}`)
  return { entries, seconds, ...JSON.parse(usage) }
}

export async function run(): Promise<void> {
  const folders: string[] = []
  const verifications: [number, ReturnType<typeof verifyFolder>][] = []
  try {
    for (const items of [ITEMS / 10, ITEMS]) {
      const { folder, server, ids } = await loaded(items)
      folders.push(folder)
      await proofs(server, ids, items)
      await server.stop()
      verifications.push([items, verifyFolder(folder)])
    }
    console.log(`\nverify of a folder, ${availableParallelism()} processors`)
    printTable([
      ['items', 's', 'entries/s', 'per s of processor time', 'MB at most'],
      ...verifications.map(([items, { entries, seconds, cpu, mb }]) => [
        number(items),
        number(seconds, 1),
        number(entries / seconds),
        number(entries / cpu),
        number(mb),
      ]),
    ])
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) await run()
