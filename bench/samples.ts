// Measures the token-gated sample API under load, and whether its response times reveal which user names exist. Client
// and server are two processes that share the processors of one computer.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../src/base/clock.ts'
import { openTokens } from '../src/tokens/index.ts'

const LOGINS_AT_ONCE = 50
/** Duration of the login load, milliseconds. */
const LOAD_MS = 6_000
/** Number of failed logins per round for the known name, and also for the unknown name. */
const FAILURES_EACH = 30
const ROUNDS = 5

type Kind = 'known' | 'unknown'

interface Server {
  readonly port: number
  readonly child: ChildProcess
}

async function startServer(): Promise<Server> {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const flags = ['serve', '--only', 'samples', '--sample-port', '0', '--json']
  const child = spawn(process.execPath, [main, ...flags], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: process.env.PATH, LOG_LEVEL: 'warn' },
  })
  if (child.stdout === null) throw new Error('no output of the server')
  const [line]: unknown[] = await once(child.stdout, 'data')
  const addresses: { samples: string } = JSON.parse(String(line))
  return { port: Number(new URL(addresses.samples).port), child }
}

interface Timed {
  readonly ms: number
  readonly status: number
  readonly text: string
}

function call(
  port: number,
  options: { path: string; body?: object; agent?: Agent; localAddress?: string },
): Promise<Timed> {
  const { path, body, agent, localAddress } = options
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        path,
        agent: agent ?? false,
        method: body === undefined ? 'GET' : 'POST',
        ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' } }),
        ...(localAddress === undefined ? {} : { localAddress }),
      },
      (incoming) => {
        let text = ''
        incoming.setEncoding('utf8').on('data', (part: string) => {
          text += part
        })
        incoming.once('end', () =>
          resolve({ ms: performance.now() - started, status: incoming.statusCode ?? 0, text }),
        )
      },
    )
    outgoing.once('error', reject)
    outgoing.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[
    Math.min(values.length - 1, Math.floor(values.length * share))
  ] ?? Number.NaN

/** Sends GET / one after the other until `until` returns true, and returns the response times. */
async function readHome(port: number, until: () => boolean): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const times: number[] = []
  while (!until()) times.push((await call(port, { path: '/', agent })).ms)
  agent.destroy()
  return times
}

async function underLogins(port: number): Promise<void> {
  const quietEnd = performance.now() + 1_000
  const quiet = await readHome(port, () => performance.now() > quietEnd)

  const end = performance.now() + LOAD_MS
  const over = () => performance.now() > end
  const agent = new Agent({ keepAlive: true, maxSockets: LOGINS_AT_ONCE })
  const logins: number[] = []
  let refused = 0
  const clients = Array.from({ length: LOGINS_AT_ONCE }, async () => {
    while (!over()) {
      const body = { name: 'demo', password: 'demo' }
      const login = await call(port, { path: '/api/authenticate', body, agent })
      if (login.text.includes('"token"')) logins.push(login.ms)
      else refused += 1
    }
  })
  const busy = await readHome(port, over)
  await Promise.all(clients)
  agent.destroy()

  console.log(`\nGET / while ${LOGINS_AT_ONCE} logins are in flight, for ${LOAD_MS / 1000} s`)
  console.table({
    'GET / alone': row(quiet, 1_000),
    'GET / under logins': row(busy, LOAD_MS),
    login: row(logins, LOAD_MS),
  })
  console.log(`logins refused: ${refused}; p99 of GET / must be below 200 ms`)
}

function row(times: readonly number[], windowMs: number): Record<string, number> {
  return {
    count: times.length,
    'per second': Math.round((times.length * 1000) / windowMs),
    'median ms': rounded(quantile(times, 0.5)),
    'p99 ms': rounded(quantile(times, 0.99)),
    'max ms': rounded(Math.max(...times)),
  }
}

async function knownAndUnknown(port: number): Promise<void> {
  const rows: Record<string, Record<string, number>> = {}
  const all: Record<Kind, number[]> = { known: [], unknown: [] }
  // Round 0 is discarded, because the code is not compiled and the caches are empty.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const times = await failedLogins(port, round)
    if (round === 0) continue
    rows[`round ${round}`] = compared(times)
    all.known.push(...times.known)
    all.unknown.push(...times.unknown)
  }
  const together = compared(all)
  console.log(`\nFailed logins, ${FAILURES_EACH} of each kind, interleaved in every round`)
  console.table({ ...rows, 'all rounds': together })
  // All rounds count together, because other load on the computer makes either name slower in single rounds, while a
  // leak would make the same name slower in all rounds.
  console.log(`unknown is ${together['slower %']} % slower; must be within 10 % either way`)
}

function compared({ known, unknown }: Record<Kind, readonly number[]>): Record<string, number> {
  const [ofKnown, ofUnknown] = [quantile(known, 0.5), quantile(unknown, 0.5)]
  return {
    'known, median ms': rounded(ofKnown),
    'unknown, median ms': rounded(ofUnknown),
    'slower %': rounded((ofUnknown / ofKnown - 1) * 100),
  }
}

/** Returns the response times of one round in milliseconds. */
async function failedLogins(port: number, round: number): Promise<Record<Kind, number[]>> {
  const times: Record<Kind, number[]> = { known: [], unknown: [] }
  for (let count = 1; count <= FAILURES_EACH; count += 1) {
    // The order of the known and the unknown name alternates.
    const kinds: readonly Kind[] = count % 2 === 0 ? ['known', 'unknown'] : ['unknown', 'known']
    for (const kind of kinds) {
      const name = kind === 'known' ? 'demo' : 'eve0'
      // Each login has its own address, because after ten failures the throttle would reject logins unchecked.
      const localAddress = `127.0.${round + 2}.${count}`
      const body = { name, password: 'wrong' }
      const { ms, status, text } = await call(port, {
        path: '/api/authenticate',
        body,
        localAddress,
      })
      if (status !== 200 || text.includes('token')) throw new Error(`unexpected: ${status} ${text}`)
      times[kind].push(ms)
    }
  }
  return times
}

async function verifying(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'daicho-bench-'))
  const rates: Record<string, Record<string, number>> = {}
  for (const [name, where] of [
    ['in memory', null],
    ['in a folder', folder],
  ] as const) {
    const tokens = await openTokens({ clock: systemClock, folder: where, secret: null })
    const grant = { audience: 'bench', subject: 'ada', lifeSeconds: 3_600 }
    const fresh = await Promise.all(Array.from({ length: 2_000 }, () => tokens.issue(grant)))
    for (const [kind, list] of [
      ['first time', fresh.slice(1_000)],
      ['again', Array.from({ length: 20_000 }, () => fresh[0])],
    ] as const) {
      const warmUp = kind === 'again' ? list.slice(0, 1_000) : fresh.slice(0, 1_000)
      for (const issued of warmUp) await tokens.verify(issued?.token ?? '', 'bench')
      const started = performance.now()
      for (const issued of list) await tokens.verify(issued?.token ?? '', 'bench')
      const us = ((performance.now() - started) * 1000) / list.length
      const perSecond = Math.round(1_000_000 / us)
      rates[`${name}, ${kind}`] = { 'µs per token': rounded(us), 'per second': perSecond }
    }
  }
  await rm(folder, { recursive: true })
  console.log('\nVerifying a token, with a check of keys and revocations each time')
  console.table(rates)
}

const rounded = (value: number): number => Math.round(value * 100) / 100

/** Runs for about ten seconds. */
export async function run(): Promise<void> {
  console.log(`Node ${process.versions.node}, ${availableParallelism()} processors, shared by both`)
  const { port, child } = await startServer()
  try {
    await knownAndUnknown(port)
    await underLogins(port)
  } finally {
    child.kill()
    await once(child, 'exit')
  }
  await verifying()
}

if (import.meta.main) await run()
