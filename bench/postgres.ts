// Compares the ledger on PostgreSQL with an application that inserts one row per request into the same server. Rounds
// alternate; results are medians. BENCH_PG_URL is the URL of a server on which databases can be created. Without the
// variable, the benchmark starts a server from the npm binaries, in a folder in memory if there is one.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { PostgresPrograms } from '../test/postgres/programs.ts'
import { PostgresServer, queryOnce } from '../test/postgres/server.ts'
import { interleaved, load, p99, perSecond, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { type Server, startBarePostgres, startLedger } from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
const ITEMS = Number(process.env.BENCH_ITEMS ?? 200_000)
const CONNECTIONS = [1, 16, 64, 256]
const ITEMS_PER_REQUEST = 500
const body = JSON.stringify(sampleItem())
const rate = (value: number) => Math.round(value).toLocaleString('en')

interface Setup {
  /** Creates a database and returns its URL. */
  newDatabase(): Promise<string>
  /** Creates a folder for the node `name`. */
  newFolder(name: string): string
}

async function post(url: string, text?: string): Promise<{ id?: string }> {
  const reply = await fetch(url, {
    method: 'POST',
    ...(text === undefined ? {} : { body: text, headers: { 'content-type': 'application/json' } }),
  })
  if (!reply.ok) throw new Error(`POST ${url}: ${reply.status} ${await reply.text()}`)
  return JSON.parse(await reply.text())
}

/** Starts a node with its store in the database `url` and its key in `folder`. */
function startOn(url: string, folder: string): Promise<Server> {
  return startLedger(folder, { STORE: url, SECRET: 'bench-secret-of-32-characters-or-more' })
}

/** Measures requests for single items with one node process, then writes with two that share the connections. */
async function singleItems({ newDatabase, newFolder }: Setup): Promise<void> {
  const [first, second] = [newFolder('first'), newFolder('second')]
  const store = await newDatabase()
  const bare = await startBarePostgres(await newDatabase())
  const sqlite = await startLedger(newFolder('sqlite'))
  const one = await startOn(store, first)
  await post(`${one.url}/api/bench`)
  await post(`${sqlite.url}/api/bench`)
  const { id } = await post(`${one.url}/api/bench`, body)
  const { id: bareId } = await post(`${bare.url}/api/bench`, body)
  const posting = ({ url }: Server, connections: number) =>
    load({ url: `${url}/api/bench`, method: 'POST', body, connections, seconds: SECONDS })
  const getting = (url: string, connections: number) =>
    load({ url, method: 'GET', connections, seconds: SECONDS })
  const header = ['', 'bare/s', 'daicho/s', 'ratio', 'on SQLite/s', 'bare p99 ms', 'daicho p99 ms']
  const rows = [header]
  for (const connections of CONNECTIONS) {
    const runs = await interleaved(ROUNDS, {
      'bare POST': () => posting(bare, connections),
      'daicho POST': () => posting(one, connections),
      'SQLite POST': () => posting(sqlite, connections),
      'bare GET': () => getting(`${bare.url}/api/bench/${bareId}`, connections),
      'daicho GET': () => getting(`${one.url}/api/bench/${id}`, connections),
    })
    for (const method of ['POST', 'GET']) {
      const [theirs, ours] = [runs[`bare ${method}`], runs[`daicho ${method}`]]
      const onSqlite = runs[`SQLite ${method}`]
      rows.push([
        `${method}, ${connections} connections`,
        rate(perSecond(theirs)),
        rate(perSecond(ours)),
        (perSecond(ours) / perSecond(theirs)).toFixed(2),
        onSqlite === undefined ? '' : rate(perSecond(onSqlite)),
        p99(theirs).toFixed(1),
        p99(ours).toFixed(1),
      ])
    }
  }
  printTable(rows)
  // Started only now, because a second process follows the blocks of the first process, which needs processor time.
  copyFileSync(join(first, 'node.key'), join(second, 'node.key'))
  const two = await startOn(store, second)
  const pairs = [['two processes', 'daicho/s', 'p99 ms']]
  for (const connections of CONNECTIONS.filter((count) => count > 1)) {
    const { both } = await interleaved(ROUNDS, {
      both: async () => {
        const each = [one, two].map((server) => posting(server, connections / 2))
        const [left, right] = await Promise.all(each)
        const p99Ms = Math.max(left?.p99Ms ?? 0, right?.p99Ms ?? 0)
        return { perSecond: (left?.perSecond ?? 0) + (right?.perSecond ?? 0), p99Ms }
      },
    })
    pairs.push([`POST, ${connections} connections`, rate(perSecond(both)), p99(both).toFixed(1)])
  }
  printTable(pairs)
  await bare.stop('SIGKILL')
  await Promise.all([sqlite, one, two].map((server) => server.stop()))
}

/** Measures loading, verification and copying, compared with SQLite. */
async function wholeStores({ newDatabase, newFolder }: Setup): Promise<void> {
  const rows = [[`${rate(ITEMS)} items`, 'load s', 'verify s', 'verify entries/s']]
  const folder = newFolder('loaded')
  const url = await newDatabase()
  for (const [name, location] of [
    ['SQLite', folder],
    ['PostgreSQL', url],
  ] as const) {
    const server = await (name === 'SQLite'
      ? startLedger(folder)
      : startOn(url, newFolder('loaded-node')))
    const loadSeconds = await seconds(() => fill(server))
    await server.stop()
    const verifySeconds = await seconds(async () => command(['verify', location]))
    const perSecond = rate(ITEMS / verifySeconds)
    rows.push([name, loadSeconds.toFixed(1), verifySeconds.toFixed(1), perSecond])
  }
  printTable(rows)
  const target = await newDatabase()
  const copySeconds = await seconds(async () => command(['copy', folder, target]))
  console.log(`copy from SQLite to PostgreSQL, verified: ${copySeconds.toFixed(1)} s`)
}

async function fill(server: Server): Promise<void> {
  await post(`${server.url}/api/bench`)
  const list = JSON.stringify(Array.from({ length: ITEMS_PER_REQUEST }, sampleItem))
  let left = ITEMS / ITEMS_PER_REQUEST
  const client = async () => {
    while (left-- > 0) await post(`${server.url}/api/bench`, list)
  }
  await Promise.all(Array.from({ length: 8 }, client))
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const start = performance.now()
  await work()
  return (performance.now() - start) / 1_000
}

function command(args: readonly string[]): void {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  execFileSync(process.execPath, [...NODE_FLAGS, main, ...args], {
    stdio: 'ignore',
  })
}

/** Runs all parts, or only those in `parts`: single, stores. */
export async function run(parts: readonly string[]): Promise<void> {
  const wanted = (part: string) => parts.length === 0 || parts.includes(part)
  console.log(
    `${cpus().length} processors (${cpus()[0]?.model.trim()}), Node ${process.version}; shared by the load ` +
      `generator, the servers and the database. Medians of ${ROUNDS} rounds of ${SECONDS} s, interleaved.\n`,
  )
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  const configuredUrl = process.env.BENCH_PG_URL
  const programs = configuredUrl === undefined ? await PostgresPrograms.create() : null
  const server = programs === null ? null : await PostgresServer.create(programs, 'bench')
  await server?.start()
  const admin = configuredUrl ?? server?.url() ?? ''
  const databases: string[] = []
  const setup: Setup = {
    newDatabase: async () => {
      const name = `daicho_bench_${process.pid}_${databases.length}`
      databases.push(name)
      await queryOnce(admin, `CREATE DATABASE ${name}`)
      const url = new URL(admin)
      url.pathname = `/${name}`
      return url.href
    },
    newFolder: (name) => {
      const path = join(folder, name)
      mkdirSync(path)
      return path
    },
  }
  try {
    if (wanted('single')) await singleItems(setup)
    if (wanted('stores')) await wholeStores(setup)
  } finally {
    rmSync(folder, { recursive: true, force: true })
    for (const name of databases) await queryOnce(admin, `DROP DATABASE ${name} WITH (FORCE)`)
    await server?.stop()
    await programs?.remove()
  }
}

if (import.meta.main) await run(process.argv.slice(2))
