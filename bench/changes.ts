// Measures writers while 1,000 clients subscribe to the change feed and 10 more clients have stopped reading. Compares
// them with the same writers without subscribers, in alternating rounds, and prints medians. Writers, subscribers and
// the node share the processors, so the cost of a subscriber includes both sending and receiving.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { load, median, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { cpuSecondsOf, type Server, startLedger } from './support/server.ts'
import type { Seen } from './support/subscribers.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 8)
/** Seconds of writes per round. Short, because delivering one second of writes to all subscribers takes ten seconds. */
const SECONDS = Number(process.env.BENCH_SECONDS ?? 1)
/** Seconds of writes before each measurement, so that the cost of opening a thousand connections is not measured. */
const SETTLING_SECONDS = 1
const SUBSCRIBERS = Number(process.env.BENCH_FOLLOWERS ?? 1_000)
const STALLED = 10
/** Maximum time after the writes of a round until every subscriber has received every entry. */
const CATCH_UP_MS_MAX = 120_000
const body = JSON.stringify(sampleItem())

/** Subscribers in a separate process. */
class SubscriberProcess {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  private constructor(child: ChildProcess) {
    if (child.stdout === null) throw new Error('the subscriber process has no output')
    this.#child = child
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  }

  static async start(url: string, path: string): Promise<SubscriberProcess> {
    const file = fileURLToPath(new URL('./support/subscribers.ts', import.meta.url))
    const args = [file, url, path, `${SUBSCRIBERS}`, `${STALLED}`]
    const subscribers = new SubscriberProcess(
      spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] }),
    )
    await subscribers.#lines.next()
    return subscribers
  }

  async seen(): Promise<Seen> {
    this.#child.stdin?.write('count\n')
    const { value } = await this.#lines.next()
    return JSON.parse(value)
  }

  cpuSeconds(): number {
    return cpuSecondsOf(this.#child.pid)
  }

  end(): void {
    this.#child.stdin?.write('end\n')
  }
}

async function json(url: string, method = 'GET'): Promise<Record<string, unknown>> {
  return JSON.parse(await (await fetch(url, { method })).text())
}

/** Returns the value of a metric in `/metrics`. */
async function metric(server: Server, name: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text()
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])
}

interface Case {
  readonly name: string
  /** Requests per second, or null for no limit. */
  readonly perSecond: number | null
  /** Query with which the subscribers subscribe. */
  readonly query: string
  /** Whether the subscribers receive the writes, because the writes match `query`. */
  readonly sent: boolean
}

const CASES: readonly Case[] = [
  {
    name: 'full speed, subscribed to another database',
    perSecond: null,
    query: '?db=other',
    sent: false,
  },
  { name: 'full speed, subscribed to everything', perSecond: null, query: '', sent: true },
  { name: '200 writes/s, subscribed to everything', perSecond: 200, query: '', sent: true },
]

interface Result {
  readonly alone: number
  readonly followed: number
  /** Processor time of the node per write, microseconds: without and with subscribers. */
  readonly aloneUs: number
  readonly followedUs: number
  /** Processors that the subscriber process used during the writes. */
  readonly subscribers: number
  readonly residentMb: number
  /** Fraction of the entries that the slowest subscriber had received when the writers stopped. */
  readonly atOnce: number
  /** Seconds until every subscriber had received every entry. */
  readonly lagS: number
}

/** Runs the writers. Returns requests per second, and the node's processor time per request in microseconds. */
async function write(server: Server, { perSecond }: Case): Promise<{ rate: number; us: number }> {
  const writing = (seconds: number) =>
    load({
      url: `${server.url}/api/bench`,
      method: 'POST',
      body,
      connections: 64,
      seconds,
      ...(perSecond === null ? {} : { overallRate: perSecond }),
    })
  await writing(SETTLING_SECONDS)
  const before = server.cpuSeconds()
  const { perSecond: rate } = await writing(SECONDS)
  return { rate, us: (1e6 * (server.cpuSeconds() - before)) / (rate * SECONDS) }
}

async function runWithSubscribers(
  server: Server,
  testCase: Case,
): Promise<Omit<Result, 'alone' | 'aloneUs'>> {
  const { serverid } = await json(`${server.url}/api/serverid`)
  const subscribers = await SubscriberProcess.start(
    server.url,
    `/api/ledgers/${serverid}/changes${testCase.query}`,
  )
  const before = await metric(server, 'daicho_chain_entries')
  let residentMb = 0
  const watch = setInterval(() => {
    residentMb = Math.max(residentMb, server.residentMb())
  }, 100)
  const subscribersBefore = subscribers.cpuSeconds()
  const { rate, us } = await write(server, testCase)
  const subscribersS = subscribers.cpuSeconds() - subscribersBefore
  const stoppedAt = performance.now()
  // Waits until the node has written the requests that were in flight when the writers stopped.
  while ((await metric(server, 'daicho_queue_units')) > 0);
  const written = (await metric(server, 'daicho_chain_entries')) - before
  let seen = await subscribers.seen()
  const atOnce = seen.least / written
  while (testCase.sent && seen.least < written && performance.now() - stoppedAt < CATCH_UP_MS_MAX) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    seen = await subscribers.seen()
  }
  const lagS = (performance.now() - stoppedAt) / 1_000
  clearInterval(watch)
  const expected = testCase.sent ? written : 0
  if (seen.least !== expected || seen.most !== expected || seen.wrong > 0) {
    throw new Error(
      `${testCase.name}: of ${expected} entries the subscribers received ${JSON.stringify(seen)}`,
    )
  }
  subscribers.end()
  while ((await metric(server, 'daicho_feed_followers')) > 0) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return {
    ...{ followed: rate, followedUs: us, subscribers: subscribersS / (SETTLING_SECONDS + SECONDS) },
    ...{ residentMb, atOnce, lagS },
  }
}

/** Measures with and without subscribers, in alternating order, so that changes of the computer's speed affect both. */
async function round(alone: Server, server: Server, testCase: Case, turn: number): Promise<Result> {
  const before = turn % 2 === 1 ? await write(alone, testCase) : null
  const result = await runWithSubscribers(server, testCase)
  const { rate, us } = before ?? (await write(alone, testCase))
  return { ...result, alone: rate, aloneUs: us }
}

/** Runs all cases, or only the cases whose numbers, from 1 on, are in `parts`. */
export async function run(parts: readonly string[]): Promise<void> {
  console.log(
    `${cpus().length} processors (${cpus()[0]?.model.trim()}), Node ${process.version}; shared by the writers, ` +
      `${SUBSCRIBERS} subscribers that read, ${STALLED} that do not, and the node. 64 connections write items of ` +
      `300 bytes. Medians of ${ROUNDS} rounds of ${SECONDS} s, each after a second that is not counted.\n`,
  )
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const rows = [
    [
      ...['writers', 'alone/s', 'subscribed/s', 'ratio', 'node µs/write alone', 'subscribed'],
      ...['subscribers’ processors', 'memory MB', 'received at once', 'all after s'],
    ],
  ]
  try {
    const alone = await startLedger(join(folder, 'alone'))
    const server = await startLedger(join(folder, 'followed'))
    for (const { url } of [alone, server]) {
      await json(`${url}/api/bench`, 'POST')
      await load({ url: `${url}/api/bench`, method: 'POST', body, connections: 64, seconds: 3 })
    }
    for (const [at, what] of CASES.entries()) {
      if (parts.length > 0 && !parts.includes(`${at + 1}`)) continue
      const results: Result[] = []
      for (let turn = 0; turn < ROUNDS; turn += 1) {
        results.push(await round(alone, server, what, turn))
      }
      const middle = (of: (result: Result) => number) => median(results.map(of))
      rows.push([
        what.name,
        middle(({ alone }) => alone).toFixed(0),
        middle(({ followed }) => followed).toFixed(0),
        middle(({ alone, followed }) => followed / alone).toFixed(2),
        middle(({ aloneUs }) => aloneUs).toFixed(0),
        middle(({ followedUs }) => followedUs).toFixed(0),
        middle(({ subscribers }) => subscribers).toFixed(2),
        Math.max(...results.map(({ residentMb }) => residentMb)).toFixed(0),
        what.sent ? `${(middle(({ atOnce }) => atOnce) * 100).toFixed(0)} %` : 'nothing to receive',
        what.sent ? middle(({ lagS }) => lagS).toFixed(1) : '',
      ])
    }
    await alone.stop()
    await server.stop()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  printTable(rows)
}

if (import.meta.main) await run(process.argv.slice(2))
