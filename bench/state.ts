// Measures the signed state. Single items are written to a node of the same build whose state is off, and to a node that
// is asked for a proof of the newest revision once per second, or not at all; rounds alternate. Then a million items are
// loaded into both. Prints the ratios, the processor time per entry, the proofs, the size of the state, and the start without it.
//
// BENCH_WITHOUT: the main program of the first node, such as <worktree>/src/cli/main.ts for another version, or `same`
// for a node of this build with its state, which nobody asks for it.
import {
  cpSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  type Block,
  nodeVerifySignature,
  parseVerifierKey,
  type VerifierKey,
  verifyStateProof,
} from '../src/chain/index.ts'
import { recomputeState } from '../src/ledger/log/recomputed-state.ts'
import { StateFollower } from '../src/ledger/log/state-follower.ts'
import { CHANGES_MAX } from '../src/ledger/log/state-keeper.ts'
import { openStoreReader, STATE_FILE, StateFile } from '../src/storage/index.ts'
import { interleaved, load, median, perSecond, printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { type Server, settled, startLedger } from './support/server.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 5)
const ITEMS = Number(process.env.BENCH_ITEMS ?? 1_000_000)
const ITEMS_PER_REQUEST = 500
const PROOFS = 200
const MAIN_DB = 'bench'

async function textAt(url: string, init?: RequestInit): Promise<string> {
  const reply = await fetch(url, init)
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${text}`)
  return text
}

interface Ledger extends Server {
  readonly key: VerifierKey
  readonly stateUrl: string
}

async function started(folder: string, main?: string): Promise<Ledger> {
  const server = await startLedger(folder, {}, main)
  await textAt(`${server.url}/api/${MAIN_DB}`, { method: 'POST' })
  const { serverid } = JSON.parse(await textAt(`${server.url}/api/serverid`))
  const vkey = await textAt(`${server.url}/api/ledgers/${serverid}/vkey`)
  const stateUrl = `${server.url}/api/ledgers/${serverid}/state`
  return { ...server, key: parseVerifierKey(vkey.trim()), stateUrl }
}

/** Copies this build to `folder`, with the state turned off. Returns its main program. */
function buildWithout(folder: string): string {
  const root = fileURLToPath(new URL('..', import.meta.url))
  for (const name of ['src', 'package.json']) {
    cpSync(join(root, name), join(folder, name), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const path = join(folder, 'src/ledger/node/open.ts')
  const text = readFileSync(path, 'utf8')
  const changed = text.replace('followsState = true', 'followsState = false')
  if (changed === text) throw new Error(`${path} has no default for followsState`)
  writeFileSync(path, changed)
  return join(folder, 'src/cli/main.ts')
}

/** Requests a proof every second until `signal` is aborted. Returns the milliseconds of each request. */
async function askEachSecond({ url, key }: Ledger, signal: AbortSignal): Promise<number[]> {
  const times: number[] = []
  while (!signal.aborted) {
    const before = performance.now()
    const reply = await fetch(`${url}/api/${MAIN_DB}/none/proof?current=1`)
    if (reply.ok) await verifyStateProof(nodeVerifySignature, key, await reply.text())
    // A refused request counts as infinitely late.
    times.push(reply.ok ? performance.now() - before : Number.POSITIVE_INFINITY)
    await setTimeout(1_000 - ((performance.now() - before) % 1_000), null, { signal }).catch(
      () => {},
    )
  }
  return times
}

/** Compares writes to `plain` and to `kept`, which is asked for a proof each second meanwhile if `isAsked`. */
async function compareWrites(plain: Ledger, kept: Ledger, isAsked: boolean): Promise<void> {
  const rows = [[isAsked ? `POST, ${ASKED}` : 'POST', ...COLUMNS]]
  for (const connections of [64, 1]) {
    const body = JSON.stringify(sampleItem())
    const post = ({ url }: Ledger) =>
      load({ url: `${url}/api/${MAIN_DB}`, method: 'POST', body, connections, seconds: SECONDS })
    const times: number[] = []
    for (const server of [plain, kept]) {
      await post(server)
      await settled(server)
    }
    const cpu = [0, 0]
    const counted = async (server: Ledger, at: number, work = () => post(server)) => {
      const before = server.cpuSeconds()
      const run = await work()
      await settled(server)
      cpu[at] = (cpu[at] ?? 0) + (server.cpuSeconds() - before) / (run.perSecond * SECONDS * ROUNDS)
      return run
    }
    const posting = isAsked ? () => whileAsking(kept, times, () => post(kept)) : undefined
    const runs = await interleaved(ROUNDS, {
      plain: () => counted(plain, 0),
      kept: () => counted(kept, 1, posting),
    })
    const rates = [perSecond(runs.plain), perSecond(runs.kept)]
    rows.push(ratioRow(`${connections} connections`, rates, cpu, times))
  }
  printTable(rows)
}

const ASKED = 'a proof each second'
const COLUMNS = [
  ...['without state/s', 'with/s', 'ratio', 'without, µs of CPU each', 'with', 'ratio'],
  ...['proof, ms', 'most, ms'],
]

/** Runs `work` while a proof is requested each second. Adds the milliseconds of each request to `times`. */
async function whileAsking<Result>(
  ledger: Ledger,
  times: number[],
  work: () => Promise<Result>,
): Promise<Result> {
  const stop = new AbortController()
  const asking = askEachSecond(ledger, stop.signal)
  const result = await work()
  stop.abort()
  times.push(...(await asking))
  return result
}

function ratioRow(
  label: string,
  [plain = 0, kept = 0]: readonly number[],
  [cpuPlain = 0, cpuKept = 0]: readonly number[],
  times: readonly number[],
): string[] {
  return [
    ...[label, plain.toFixed(0), kept.toFixed(0), (kept / plain).toFixed(2)],
    ...[(cpuPlain * 1e6).toFixed(0), (cpuKept * 1e6).toFixed(0), (cpuPlain / cpuKept).toFixed(2)],
    ...(times.length === 0 ? [] : [median(times), Math.max(...times)].map(formatMs)),
  ]
}

function formatMs(ms: number): string {
  return ms === Number.POSITIVE_INFINITY ? 'refused' : ms.toFixed(0)
}

interface Loaded {
  /** Items per second. */
  readonly rate: number
  /** Seconds of processor time per item. */
  readonly cpu: number
  /** Some of the ids. */
  readonly ids: readonly string[]
}

/** Loads `items` items over 4 connections. */
async function loadItems(server: Ledger, items: number): Promise<Loaded> {
  const { url, cpuSeconds } = server
  const body = JSON.stringify(Array.from({ length: ITEMS_PER_REQUEST }, sampleItem))
  const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } }
  const ids: string[] = []
  const [start, cpu] = [performance.now(), cpuSeconds()]
  let left = items / ITEMS_PER_REQUEST
  const client = async () => {
    while (left-- > 0) ids.push(JSON.parse(await textAt(`${url}/api/${MAIN_DB}`, init)).ids[0])
  }
  await Promise.all(Array.from({ length: 4 }, client))
  const rate = items / ((performance.now() - start) / 1_000)
  await settled(server)
  return { rate, cpu: (cpuSeconds() - cpu) / items, ids }
}

/** Compares the load of `items` items as `compareWrites` does. Returns the ids of some of them. */
async function compareLoads(
  plain: Ledger,
  kept: Ledger,
  { items, isAsked }: { readonly items: number; readonly isAsked: boolean },
): Promise<readonly string[]> {
  const times: number[] = []
  const before = await loadItems(plain, items)
  const after = await (isAsked
    ? whileAsking(kept, times, () => loadItems(kept, items))
    : loadItems(kept, items))
  printTable([
    [isAsked ? `load, ${ASKED}` : 'load', ...COLUMNS],
    ratioRow(`${items} items`, [before.rate, after.rate], [before.cpu, after.cpu], times),
  ])
  return after.ids
}

/** Measures the start of a node with its state, and without, and the time until the state is computed again. */
async function compareStarts(folder: string): Promise<void> {
  const rows = [['start', 'first write, ms', 'state, ms']]
  for (const label of ['with its state', 'without', 'with', 'without']) {
    if (label === 'without') rmSync(join(folder, STATE_FILE))
    const before = performance.now()
    const server = await startLedger(folder)
    await textAt(`${server.url}/api/${MAIN_DB}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(sampleItem()),
    })
    const write = performance.now() - before
    const { serverid } = JSON.parse(await textAt(`${server.url}/api/serverid`))
    const state = `${server.url}/api/ledgers/${serverid}/state`
    while (!(await fetch(state)).ok) await setTimeout(20)
    rows.push([label, write.toFixed(0), (performance.now() - before).toFixed(0)])
    await server.stop()
  }
  printTable(rows)
}

/** Measures proofs of an idle node. */
async function idleProofs({ url, key, stateUrl }: Ledger, ids: readonly string[]): Promise<void> {
  await textAt(stateUrl)
  const times: number[] = []
  const bytes: number[] = []
  for (let n = 0; n < PROOFS; n += 1) {
    const id = ids[Math.floor((n * ids.length) / PROOFS)] ?? ''
    const before = performance.now()
    const file = await textAt(`${url}/api/${MAIN_DB}/${id}/proof?current=1`)
    times.push(performance.now() - before)
    bytes.push(file.length)
    const { kind } = await verifyStateProof(nodeVerifySignature, key, file)
    if (kind !== 'current') throw new Error(`the proof of ${id} says ${kind}`)
  }
  const p95 = times.toSorted((a, b) => a - b)[Math.floor(PROOFS * 0.95)] ?? 0
  printTable([
    ['proof of an idle node', 'median', 'p95', 'most'],
    ['ms', median(times).toFixed(2), p95.toFixed(2), Math.max(...times).toFixed(2)],
    ['bytes', median(bytes).toFixed(0), '', Math.max(...bytes).toFixed(0)],
  ])
}

/**
 * Measures the processor time to follow the state in this process as a node does, and to compute it as `verify` does,
 * without the time to read the blocks.
 */
async function cpuPerEntry(folder: string): Promise<void> {
  const store = await openStoreReader(folder, { frozen: false })
  const head = await store.head(store.serverId)
  const size = (head?.height ?? -1) + 1
  const cpuUs = async (work: () => Promise<number>) => {
    const before = process.cpuUsage()
    const entries = await work()
    const { user, system } = process.cpuUsage(before)
    return { us: user + system, entries }
  }
  const readAll = async (visit: (block: Block) => void = () => {}) => {
    let entries = 0
    for (let height = 0; height < size; ) {
      const blocks = await store.blocks(store.serverId, height, 64)
      for (const block of blocks) {
        entries += block.entries.length
        visit(block)
      }
      height += blocks.length
    }
    return entries
  }
  const read = await cpuUs(() => readAll())
  const file = StateFile.open(null)
  const follower = new StateFollower(file, store.serverId)
  const followed = await cpuUs(() =>
    readAll((block) => {
      follower.push(block)
      if (follower.changes >= CHANGES_MAX) follower.commit(() => null)
    }),
  )
  file.close()
  const computed = await cpuUs(async () => (await recomputeState(store, size)).size)
  await store.close()
  const state = statSync(join(folder, STATE_FILE)).size
  const perEntry = ({ us }: { us: number }) => ((us - read.us) / read.entries).toFixed(1)
  printTable([
    ['state', 'processor time per entry, µs: followed', 'verified', 'bytes on disk per item'],
    [
      `${read.entries} entries`,
      perEntry(followed),
      perEntry(computed),
      (state / read.entries).toFixed(0),
    ],
  ])
}

export async function run(): Promise<void> {
  const folders = [1, 2, 3].map(() => mkdtempSync(join(tmpdir(), 'daicho-bench-')))
  const [first = '', second = '', third = ''] = folders
  try {
    const { BENCH_WITHOUT: without } = process.env
    const main = without === 'same' ? undefined : (without ?? buildWithout(third))
    const plain = await started(first, main)
    const kept = await started(second)
    // A node that was asked follows the state under load for a minute.
    await compareWrites(plain, kept, false)
    const ids = await compareLoads(plain, kept, { items: ITEMS, isAsked: false })
    await compareWrites(plain, kept, true)
    await compareLoads(plain, kept, { items: ITEMS / 5, isAsked: true })
    await plain.stop()
    await settled(kept)
    await idleProofs(kept, ids)
    await kept.stop()
    await cpuPerEntry(second)
    await compareStarts(second)
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) await run()
