// Compares the ledger with bare Fastify on the same schemas, with Fastify that inserts a row into PostgreSQL on the same
// disk, and with pouchdb-server. Rounds alternate; results are medians. The load generator, the servers and the writer thread share the processors.
// If BENCH_BEFORE is the folder of an earlier version with its dependencies, writes are also compared with that version.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { PostgresPrograms } from '../test/postgres/programs.ts'
import { PostgresServer } from '../test/postgres/server.ts'
import { interleaved, load, p99, perSecond, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import {
  type Server,
  serverOf,
  settled,
  startBare,
  startBarePostgres,
  startLedger,
} from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
const CONNECTIONS = [1, 16, 64, 256]
const BEFORE = process.env.BENCH_BEFORE
const MILLION = Number(process.env.BENCH_ITEMS ?? 1_000_000)
const ITEMS_PER_REQUEST = 500
const body = JSON.stringify(sampleItem())

const folders: string[] = []
function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-bench-'))
  folders.push(folder)
  return folder
}

async function post(url: string, text?: string): Promise<{ id?: string }> {
  const reply = await fetch(url, {
    method: 'POST',
    ...(text === undefined ? {} : { body: text, headers: { 'content-type': 'application/json' } }),
  })
  if (!reply.ok) throw new Error(`POST ${url}: ${reply.status} ${await reply.text()}`)
  return JSON.parse(await reply.text())
}

const rate = (value: number) => Math.round(value).toLocaleString('en')
const ratio = (value: number) => value.toFixed(2)

/** Starts Fastify with a PostgreSQL server, whose data is on the same disk as that of the ledger. */
async function startOnPostgres() {
  const programs = await PostgresPrograms.create({ below: tmpdir() })
  const database = await PostgresServer.create(programs, 'bench')
  await database.start()
  const server = await startBarePostgres(database.url())
  const stop = async () => {
    await server.stop('SIGKILL')
    await database.stop()
    await programs.remove()
  }
  return { server, stop }
}

/** Measures requests for single items, compared with bare Fastify, and writes with Fastify and PostgreSQL. */
async function singleItems(bare: Server, ledger: Server): Promise<void> {
  const postgres = await startOnPostgres()
  const main = BEFORE === undefined ? null : join(BEFORE, 'src/cli/main.ts')
  const before = main === null ? null : await startLedger(freshFolder(), {}, main)
  try {
    await compareSingleItems({ bare, ledger, postgres: postgres.server, before })
  } finally {
    await before?.stop()
    await postgres.stop()
  }
}

interface Compared {
  readonly bare: Server
  readonly ledger: Server
  readonly postgres: Server
  /** An earlier version, or null. */
  readonly before: Server | null
}

async function compareSingleItems({ bare, ledger, postgres, before }: Compared): Promise<void> {
  await post(`${ledger.url}/api/bench`)
  if (before !== null) await post(`${before.url}/api/bench`)
  const { id } = await post(`${ledger.url}/api/bench`, body)
  const names = ['bare/s', 'with pg/s', 'daicho/s', 'of bare', 'of pg', 'bare p99', 'daicho p99']
  const rows = [['', ...names, ...(before === null ? [] : ['of before'])]]
  for (const connections of CONNECTIONS) {
    const options = { connections, seconds: SECONDS }
    const posting = (server: Server) => async () => {
      const run = await load({ url: `${server.url}/api/bench`, method: 'POST', body, ...options })
      await settled(server)
      return run
    }
    const getting = (server: Server) => () =>
      load({ url: `${server.url}/api/bench/${id}`, method: 'GET', ...options })
    await posting(ledger)()
    const runs = await interleaved(ROUNDS, {
      'bare POST': posting(bare),
      'pg POST': posting(postgres),
      'daicho POST': posting(ledger),
      ...(before === null ? {} : { 'before POST': posting(before) }),
      'bare GET': getting(bare),
      'daicho GET': getting(ledger),
    })
    for (const method of ['POST', 'GET']) {
      const [theirs, ours] = [runs[`bare ${method}`], runs[`daicho ${method}`]]
      const onPostgres = runs[`pg ${method}`]
      const earlier = runs[`before ${method}`]
      rows.push([
        `${method}, ${connections} connections`,
        rate(perSecond(theirs)),
        onPostgres === undefined ? '' : rate(perSecond(onPostgres)),
        rate(perSecond(ours)),
        ratio(perSecond(ours) / perSecond(theirs)),
        onPostgres === undefined ? '' : ratio(perSecond(ours) / perSecond(onPostgres)),
        p99(theirs).toFixed(1),
        p99(ours).toFixed(1),
        ...(earlier === undefined ? [] : [ratio(perSecond(ours) / perSecond(earlier))]),
      ])
    }
  }
  printTable(rows)
}

/** Measures requests with lists of a hundred items, compared with bare Fastify. */
async function lists(bare: Server, ledger: Server): Promise<void> {
  const list = JSON.stringify(Array.from({ length: 100 }, sampleItem))
  const posting = (server: Server) => () =>
    load({
      url: `${server.url}/api/bench`,
      method: 'POST',
      body: list,
      connections: 16,
      seconds: SECONDS,
    })
  const runs = await interleaved(ROUNDS, { bare: posting(bare), daicho: posting(ledger) })
  printTable([
    ['100 items a request, 16 connections', 'bare items/s', 'daicho items/s', 'ratio'],
    [
      '',
      rate(perSecond(runs.bare) * 100),
      rate(perSecond(runs.daicho) * 100),
      ratio(perSecond(runs.daicho) / perSecond(runs.bare)),
    ],
  ])
}

/** Compares writes with pouchdb-server on LevelDB. Installs pouchdb-server in its own folder if it is missing. */
async function againstPouchdb(ledger: Server): Promise<void> {
  const folder = fileURLToPath(new URL('./peers/pouchdb-server', import.meta.url))
  if (!existsSync(join(folder, 'node_modules'))) {
    spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: ['ignore', 2, 2] })
  }
  const data = freshFolder()
  const program = join(folder, 'node_modules/pouchdb-server/bin/pouchdb-server')
  const port = 40_000 + (process.pid % 20_000)
  const child: ChildProcess = spawn(
    process.execPath,
    ['--no-deprecation', program, '--port', `${port}`, '--host', '127.0.0.1', '--dir', data],
    { cwd: data, stdio: 'ignore' },
  )
  const peer = serverOf(child, `http://127.0.0.1:${port}`)
  for (let tries = 0; tries < 100; tries += 1) {
    const up = await fetch(`${peer.url}/bench`, { method: 'PUT' }).catch(() => null)
    if (up !== null) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  const posting = (url: string) => () =>
    load({ url, method: 'POST', body, connections: 64, seconds: SECONDS })
  const runs = await interleaved(ROUNDS, {
    pouchdb: posting(`${peer.url}/bench`),
    daicho: posting(`${ledger.url}/api/bench`),
  })
  await peer.stop()
  printTable([
    ['POST, 64 connections', 'pouchdb-server/s', 'daicho/s', 'times'],
    [
      '',
      rate(perSecond(runs.pouchdb)),
      rate(perSecond(runs.daicho)),
      (perSecond(runs.daicho) / perSecond(runs.pouchdb)).toFixed(0),
    ],
  ])
}

/** Measures a ledger with a million items: memory while loading, writes compared with an empty ledger, `verify`. */
async function aMillion(): Promise<void> {
  const fullFolder = freshFolder()
  const full = await startLedger(fullFolder)
  await post(`${full.url}/api/bench`)
  const list = JSON.stringify(Array.from({ length: ITEMS_PER_REQUEST }, sampleItem))
  let residentMb = 0
  const watch = setInterval(() => {
    residentMb = Math.max(residentMb, full.residentMb())
  }, 100)
  let left = MILLION / ITEMS_PER_REQUEST
  const start = performance.now()
  const client = async () => {
    while (left-- > 0) await post(`${full.url}/api/bench`, list)
  }
  await Promise.all(Array.from({ length: 8 }, client))
  const seconds = (performance.now() - start) / 1000
  clearInterval(watch)
  console.log(
    `${rate(MILLION)} items loaded in ${seconds.toFixed(1)} s (${rate(MILLION / seconds)}/s), ` +
      `resident memory at most ${residentMb.toFixed(0)} MB`,
  )

  const empty = await startLedger(freshFolder())
  await post(`${empty.url}/api/bench`)
  const posting = (server: Server) => () =>
    load({
      url: `${server.url}/api/bench`,
      method: 'POST',
      body,
      connections: 64,
      seconds: SECONDS,
    })
  const runs = await interleaved(ROUNDS, { empty: posting(empty), full: posting(full) })
  printTable([
    ['POST, 64 connections', 'empty/s', `with ${rate(MILLION)} items/s`, 'ratio'],
    [
      '',
      rate(perSecond(runs.empty)),
      rate(perSecond(runs.full)),
      ratio(perSecond(runs.full) / perSecond(runs.empty)),
    ],
  ])
  await empty.stop()
  await full.stop()
  verifyFolder(fullFolder)
}

function verifyFolder(folder: string): void {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const start = performance.now()
  const usageAtExit = `process.on('exit', () => { const u = process.resourceUsage()
    process.stdout.write(JSON.stringify({ cpu: (u.userCPUTime + u.systemCPUTime) / 1e6, mb: u.maxRSS / 1024 })) })`
  const output = execFileSync(
    process.execPath,
    [
      ...NODE_FLAGS,
      `--import=data:text/javascript,${encodeURIComponent(usageAtExit)}`,
      main,
      'verify',
      folder,
      '--json',
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const seconds = (performance.now() - start) / 1000
  const [result = '', usage = ''] = output.split('\n')
  const { entries, finding }: { entries: number; finding: unknown } = JSON.parse(result)
  const { cpu, mb }: { cpu: number; mb: number } = JSON.parse(usage)
  if (finding !== null) throw new Error(`verify found ${result}`)
  console.log(
    `verify: ${rate(entries)} entries in ${seconds.toFixed(1)} s, ${rate(entries / seconds)}/s; ` +
      `${rate(entries / cpu)} per second of processor time; ${mb.toFixed(0)} MB at most`,
  )
}

/** Runs all parts, or only those in `parts`: single, lists, pouchdb, million. */
export async function run(parts: readonly string[]): Promise<void> {
  const wanted = (part: string) => parts.length === 0 || parts.includes(part)
  console.log(
    `${cpus().length} processors (${cpus()[0]?.model.trim()}), Node ${process.version}; shared by the load ` +
      `generator and the servers. Medians of ${ROUNDS} rounds of ${SECONDS} s, interleaved.\n`,
  )
  try {
    const bare = await startBare()
    const ledger = await startLedger(freshFolder())
    if (wanted('single')) await singleItems(bare, ledger)
    if (wanted('lists')) {
      await post(`${ledger.url}/api/bench`).catch(() => null)
      await lists(bare, ledger)
    }
    if (wanted('pouchdb')) {
      await post(`${ledger.url}/api/bench`).catch(() => null)
      await againstPouchdb(ledger)
    }
    await bare.stop('SIGKILL')
    await ledger.stop()
    if (wanted('million')) await aMillion()
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) await run(process.argv.slice(2))
