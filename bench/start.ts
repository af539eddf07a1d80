// Measures how long commands take until they end, and how long `serve` takes until all five components answer. Builds
// the package first, because users start the built program. Rounds alternate; results are medians.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildPackage } from '../scripts/build.ts'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { median, printTable } from './support/load.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 11)
const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PORTS = ['--port', '--converter-port', '--rates-port', '--sample-port', '--gateway-port']
const SERVE = ['serve', '--json', ...PORTS.flatMap((flag) => [flag, '0'])]

export async function run(): Promise<void> {
  await buildPackage()
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const main = join(ROOT, 'dist/cli/main.js')
  const cases: Record<string, (round: number) => Promise<number>> = {
    'node, an empty program': () => untilEnd(['-e', '0']),
    'daicho --help': () => untilEnd([main, '--help']),
    'daicho load --help': () => untilEnd([main, 'load', '--help']),
    'daicho network upgrade --help': () => untilEnd([main, 'network', 'upgrade', '--help']),
    'daicho --version': () => untilEnd([main, '--version']),
    'serve, all five, warm': () => untilServed(main, {}),
    'serve, all five, empty compile cache': (round) =>
      untilServed(main, { NODE_COMPILE_CACHE: join(folder, `cache-${round}`) }),
  }
  const taken: Record<string, number[]> = {}
  try {
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const [name, start] of Object.entries(cases)) {
        const ms = await start(round)
        // Round 0 fills the compile cache and is not counted.
        if (round > 0) taken[name] = [...(taken[name] ?? []), ms]
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const bare = median(taken['node, an empty program'] ?? [])
  const rows = Object.entries(taken).map(([name, list]) => {
    const ms = median(list)
    return [name, ms.toFixed(0), (ms / bare).toFixed(1)]
  })
  printTable([['start', 'ms', 'of node'], ...rows])
}

async function untilEnd(args: readonly string[]): Promise<number> {
  const start = performance.now()
  const { status } = spawnSync(process.execPath, [...NODE_FLAGS, ...args], { stdio: 'ignore' })
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}`)
  return performance.now() - start
}

/** Returns the milliseconds until all components of a new node answer. */
async function untilServed(main: string, variables: Record<string, string>): Promise<number> {
  const start = performance.now()
  const child = spawn(process.execPath, [...NODE_FLAGS, main, ...SERVE], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: process.env.PATH, LOG_LEVEL: 'error', ...variables },
  })
  const ended = once(child, 'exit')
  try {
    const [line]: unknown[] = await once(child.stdout, 'data')
    const addresses: Record<string, string> = JSON.parse(String(line))
    await Promise.all(Object.values(addresses).map((url) => fetch(url)))
    return performance.now() - start
  } finally {
    child.kill()
    await ended
  }
}
