// Measures `daicho load` of NDJSON into a folder and into a running node, compared with a program that inserts the same
// lines into SQLite, by turns; the size of the store; and the build of an index. BENCH_ITEMS sets the number of items.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { median, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { cpuSecondsOf, startLedger } from './support/server.ts'

const ITEMS = Number(process.env.BENCH_ITEMS ?? 1_000_000)
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const SAMPLE_MS = 100
const LINES_PER_WRITE = 1_000

interface Measured {
  readonly seconds: number
  readonly cpuSeconds: number
  readonly residentMb: number
}

async function writeItems(file: string, count: number): Promise<void> {
  const out = createWriteStream(file)
  for (let at = 0; at < count; at += LINES_PER_WRITE) {
    let text = ''
    for (let n = at; n < Math.min(at + LINES_PER_WRITE, count); n += 1) {
      // Multiplying by a prime gives an order without a pattern, for the index.
      const population = (n * 7_368_787) % 1_000_003
      text += `${JSON.stringify({ id: `item-${n}`, ...sampleItem(), population })}\n`
    }
    if (!out.write(text)) await once(out, 'drain')
  }
  out.end()
  await once(out, 'finish')
}

/** Runs a program to its end, and measures its memory and processor time. */
async function measured(
  program: string,
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Measured> {
  const path = fileURLToPath(new URL(program, import.meta.url))
  const flags = ['--disable-warning=ExperimentalWarning', ...NODE_FLAGS]
  const startedAt = performance.now()
  const child = spawn(process.execPath, [...flags, path, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, ...variables },
  })
  let problem = ''
  child.stderr.on('data', (bytes) => {
    problem = String(bytes)
  })
  let cpuSeconds = 0
  let residentMb = 0
  const sampler = setInterval(() => {
    if (child.exitCode !== null) return
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    residentMb = Math.max(residentMb, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
    cpuSeconds = cpuSecondsOf(child.pid)
  }, SAMPLE_MS)
  const [code] = await once(child, 'exit')
  clearInterval(sampler)
  if (code !== 0) throw new Error(`${program} exits with ${code}: ${problem}`)
  return { seconds: (performance.now() - startedAt) / 1_000, cpuSeconds, residentMb }
}

const MAIN = '../src/cli/main.ts'

async function call(url: string, body?: unknown): Promise<{ indexes?: { state: string }[] }> {
  const headers = { 'content-type': 'application/json' }
  const request = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body), headers }
  return (await (await fetch(url, request)).json()) as { indexes?: { state: string }[] }
}

/** Returns the seconds to build an index over the items in `folder`. */
async function indexSeconds(folder: string): Promise<number> {
  const node = await startLedger(folder)
  const startedAt = performance.now()
  await call(`${node.url}/api/config/indexes`, { db: 'bench', path: 'population' })
  for (;;) {
    const { indexes = [] } = await call(`${node.url}/api/config/indexes`)
    if (indexes.every(({ state }) => state === 'ready')) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const seconds = (performance.now() - startedAt) / 1_000
  await node.stop()
  return seconds
}

/** Loads `file` with each program once, each into a new folder below `folder`. */
async function round(folder: string, file: string) {
  const [data, served] = [join(folder, 'data'), join(folder, 'served')]
  for (const name of ['bare.db', 'data', 'served']) {
    rmSync(join(folder, name), { recursive: true, force: true })
  }
  mkdirSync(data)
  const bare = await measured('./support/bare-load.ts', [folder, file])
  const load = ['load', 'bench', file]
  const direct = await measured(MAIN, load, { SYSTEM_FOLDER: data })
  const node = await startLedger(served)
  const remote = await measured(MAIN, [...load, '--url', node.url])
  const nodeMb = node.residentMb()
  await node.stop()
  return { bare, direct, remote, nodeMb }
}

export async function run(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  try {
    const [file, few] = [join(folder, 'items.ndjson'), join(folder, 'few.ndjson')]
    const [data, small] = [join(folder, 'data'), join(folder, 'small')]
    mkdirSync(small)
    await writeItems(file, ITEMS)
    await writeItems(few, ITEMS / 10)
    const rounds: Awaited<ReturnType<typeof round>>[] = []
    for (let at = 0; at < ROUNDS; at += 1) rounds.push(await round(folder, file))
    const bytes = statSync(join(data, 'ledger.db')).size / ITEMS
    const verified = await measured(MAIN, ['verify', data])
    const dump = ['dump', 'bench', '--out', join(folder, 'out.ndjson')]
    const dumped = await measured(MAIN, dump, { SYSTEM_FOLDER: data })
    await measured(MAIN, ['load', 'bench', few], { SYSTEM_FOLDER: small })
    const [tenth, whole] = [await indexSeconds(small), await indexSeconds(data)]
    const row = (name: string, runs: readonly Measured[]) => {
      const seconds = median(runs.map((each) => each.seconds))
      const cpuSeconds = median(runs.map((each) => each.cpuSeconds))
      const residentMb = Math.max(...runs.map((each) => each.residentMb))
      return [
        ...[name, seconds.toFixed(1), Math.round(ITEMS / seconds).toLocaleString('en')],
        ...[cpuSeconds.toFixed(1), residentMb.toFixed(0)],
      ]
    }
    printTable([
      [`${ITEMS.toLocaleString('en')} items`, 's', 'items/s', 'CPU s', 'most MB'],
      row(
        'bare SQLite',
        rounds.map(({ bare }) => bare),
      ),
      row(
        'load into a folder',
        rounds.map(({ direct }) => direct),
      ),
      row(
        'load by URL',
        rounds.map(({ remote }) => remote),
      ),
      row('verify of a folder', [verified]),
      row('dump of a folder', [dumped]),
    ])
    const ratio = (which: 'direct' | 'remote') =>
      median(rounds.map((each) => each[which].seconds / each.bare.seconds)).toFixed(2)
    console.log(`load into a folder ÷ bare SQLite: ${ratio('direct')}`)
    console.log(`load by URL ÷ bare SQLite: ${ratio('remote')}`)
    console.log(`on the disk: ${bytes.toFixed(0)} bytes per item`)
    const growth = `${(whole / tenth).toFixed(1)} times that of a tenth of the items`
    console.log(`index: ${whole.toFixed(1)} s, ${growth}`)
    const nodeMb = Math.max(...rounds.map((each) => each.nodeMb))
    console.log(`the node that was loaded by URL has ${nodeMb.toFixed(0)} MB afterwards`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
