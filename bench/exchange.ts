// Measures `daicho load` of NDJSON into a folder and into a running node, compared with a program that inserts the same
// lines into SQLite. BENCH_ITEMS sets the number of items.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { cpuSecondsOf, startLedger } from './support/server.ts'

const ITEMS = Number(process.env.BENCH_ITEMS ?? 1_000_000)
const SAMPLE_MS = 100
const LINES_PER_WRITE = 1_000

interface Measured {
  readonly seconds: number
  readonly cpuSeconds: number
  readonly residentMb: number
}

async function writeItems(file: string): Promise<void> {
  const out = createWriteStream(file)
  for (let at = 0; at < ITEMS; at += LINES_PER_WRITE) {
    let text = ''
    for (let n = at; n < Math.min(at + LINES_PER_WRITE, ITEMS); n += 1) {
      text += `${JSON.stringify({ id: `item-${n}`, ...sampleItem() })}\n`
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

export async function run(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  try {
    const file = join(folder, 'items.ndjson')
    const data = join(folder, 'data')
    const served = join(folder, 'served')
    mkdirSync(data)
    await writeItems(file)
    const main = '../src/cli/main.ts'
    const bare = await measured('./support/bare-load.ts', [folder, file])
    const load = ['load', 'bench', file]
    const direct = await measured(main, load, { SYSTEM_FOLDER: data })
    const node = await startLedger(served)
    const remote = await measured(main, [...load, '--url', node.url])
    const nodeMb = node.residentMb()
    await node.stop()
    const dump = ['dump', 'bench', '--out', join(folder, 'out.ndjson')]
    const dumped = await measured(main, dump, { SYSTEM_FOLDER: data })
    const row = (name: string, { seconds, cpuSeconds, residentMb }: Measured) => [
      ...[name, seconds.toFixed(1), Math.round(ITEMS / seconds).toLocaleString('en')],
      ...[(seconds / bare.seconds).toFixed(1), cpuSeconds.toFixed(1), residentMb.toFixed(0)],
    ]
    printTable([
      [`${ITEMS.toLocaleString('en')} items`, 's', 'items/s', 'times bare', 'CPU s', 'most MB'],
      row('bare SQLite', bare),
      row('load into a folder', direct),
      row('load by URL', remote),
      row('dump of a folder', dumped),
    ])
    console.log(`the node that was loaded by URL has ${nodeMb.toFixed(0)} MB afterwards`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
