// Compares lists of the state at a height with the same lists of the current state. A fifth of the items was replaced
// after that height. Requests alternate. BENCH_ITEMS: number of items, 200,000 by default.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { interleaved, load, median, perSecond, printTable } from './support/load.ts'
import { type Server, startLedger } from './support/server.ts'

const ITEMS = Number(process.env.BENCH_ITEMS ?? 200_000)
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const PER_REQUEST = 1_000
/** One item in so many was replaced. */
const REPLACED = 5
const PAGE = 'docs=true&limit=20'
/** Lists per second while changes are measured. */
const LISTS_PER_SECOND = 50

async function send(url: string, body?: unknown): Promise<{ block?: { height: number } }> {
  const headers = { 'content-type': 'application/json' }
  const request = body === undefined ? {} : { body: JSON.stringify(body), headers }
  const reply = await fetch(url, { method: 'POST', ...request })
  if (!reply.ok) throw new Error(`${url}: ${await reply.text()}`)
  return JSON.parse(await reply.text())
}

const item = (n: number, version: number) => ({
  id: `item-${n}`,
  version,
  name: `name ${(n * 7_919) % 100_003}`,
  group: n % 1_000,
  text: 'some text of an item that makes it as long as usual items are '.repeat(3),
})

/** Creates the items, and replaces some of them. Returns the height before the first replacement. */
async function fill({ url }: Server): Promise<number> {
  await send(`${url}/api/items`)
  const numbers = (from: number, step: number) =>
    Array.from({ length: PER_REQUEST }, (_, at) => from + at * step).filter((n) => n < ITEMS)
  for (let from = 0; from < ITEMS; from += PER_REQUEST) {
    await send(
      `${url}/api/items`,
      numbers(from, 1).map((n) => item(n, 1)),
    )
  }
  let height = Number.NaN
  for (let from = 0; from < ITEMS; from += PER_REQUEST * REPLACED) {
    const entries = numbers(from, REPLACED).map((n) => {
      return { method: 'update_item', db: 'items', item: item(n, 2) }
    })
    const { block } = await send(`${url}/api/ledgers`, { entries })
    if (Number.isNaN(height)) height = (block?.height ?? 0) - 1
  }
  return height
}

/** Returns the milliseconds of requests to both URLs, by turns. */
async function timed(urls: readonly [string, string], count: number) {
  const times: [number[], number[]] = [[], []]
  const texts: string[] = []
  for (let round = -2; round < count; round += 1) {
    for (const [at, url] of urls.entries()) {
      const start = performance.now()
      const reply = await fetch(url)
      const text = await reply.text()
      if (!reply.ok) throw new Error(`${url}: ${text}`)
      if (round >= 0) times[at]?.push(performance.now() - start)
      else texts.push(text)
    }
  }
  const [live = '', former = ''] = texts.map((text) =>
    text.replaceAll('"version":2', '"version":1'),
  )
  const end = ',"limit":'
  if (live.split(end)[0] !== former.split(end)[0]) throw new Error(`different items: ${urls[0]}`)
  return times
}

const p95 = (times: readonly number[]) =>
  times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.95) - 1] ?? 0

/** Measures the lists named in `parts`, or all, and prints each as soon as it is measured. */
async function lists(server: Server, height: number, parts: readonly string[]): Promise<void> {
  const print = (cells: readonly string[]) =>
    console.log(cells.map((cell, at) => (at === 0 ? cell.padEnd(16) : cell.padStart(14))).join(''))
  print(['', 'live p95 ms', 'at p95 ms', 'ratio p95', 'ratio median', 'RSS MB'])
  const cases: [string, string, number][] = [
    ['first page', PAGE, 400],
    ['page of 1,000', 'docs=true&limit=1000', 60],
    ['last page', `${PAGE}&offset=${ITEMS - 20}`, 100],
    ['ids, first page', 'limit=20', 400],
    ['count', 'count=true&limit=1', 60],
    ['order, 20 items', `${PAGE.replace('&limit=20', '')}&filter={"order":"name","limit":20}`, 8],
    ['filter, 0.1 %', 'docs=true&filter={"where":{"group":7}}', 8],
  ]
  const isAll = !cases.some(([name]) => parts.includes(name))
  for (const [name, query, count] of cases) {
    if (!isAll && !parts.includes(name)) continue
    const url = `${server.url}/api/items?${query}`
    const [live, former] = await timed([url, `${url}&at=${height}`], count * ROUNDS)
    print([
      name,
      p95(live).toFixed(2),
      p95(former).toFixed(2),
      (p95(former) / p95(live)).toFixed(2),
      (median(former) / median(live)).toFixed(2),
      server.residentMb().toFixed(0),
    ])
  }
}

/** Measures changes alone, and while lists are read at a fixed rate. */
async function writes({ url }: Server, height: number): Promise<void> {
  await send(`${url}/api/written`)
  const write = () =>
    load({
      ...{ url: `${url}/api/written`, method: 'POST', body: '{"n":1,"text":"a small item"}' },
      ...{ connections: 32, seconds: 4 },
    })
  const beside = (query: string) => async () => {
    const listed = `${url}/api/items?${PAGE}${query}`
    const reading = load({
      ...{ url: listed, method: 'GET', connections: 2, seconds: 4 },
      overallRate: LISTS_PER_SECOND,
    })
    const [run] = await Promise.all([write(), reading])
    return run
  }
  const runs = await interleaved(ROUNDS, {
    alone: write,
    live: beside(''),
    former: beside(`&at=${height}`),
  })
  const rate = (name: string) => perSecond(runs[name])
  printTable([
    [
      'changes per second',
      'alone',
      'beside live lists',
      'beside lists at',
      'at ÷ alone',
      'at ÷ live',
    ],
    [
      `${LISTS_PER_SECOND} lists per second`,
      rate('alone').toFixed(0),
      rate('live').toFixed(0),
      rate('former').toFixed(0),
      (rate('former') / rate('alone')).toFixed(2),
      (rate('former') / rate('live')).toFixed(2),
    ],
  ])
}

/** Runs both parts, or only those in `parts`: lists or the names of some lists, writes. */
export async function run(parts: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const server = await startLedger(folder)
  try {
    const height = await fill(server)
    console.log(`${ITEMS} items, a fifth of them replaced after height ${height}`)
    if (parts.some((part) => part !== 'writes') || parts.length === 0) {
      await lists(server, height, parts)
    }
    if (parts.length === 0 || parts.includes('writes')) await writes(server, height)
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
