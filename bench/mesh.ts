// Measures the speed and the memory of restoring a node from a mirror, and how far a mirror lags behind a node under
// constant write load.
//   npm run bench -- mesh [entries] [writes per second]
import { spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { printTable } from './support/load.ts'
import { sampleItem } from './support/sample-item.ts'
import { type Server, serverOf, startLedger } from './support/server.ts'

const ITEMS_PER_REQUEST = 500
/** Concurrent requests while the chain is created. While the lag is measured, there are eight times as many. */
const CLIENTS = 4
/** Duration of the lag measurement. */
const WATCHED_MS = 15_000
/** Interval between samples of the mirror's height. */
const LOOK_MS = 20
const SAMPLE_MS = 50
const PEERS = { PEERS_ALLOW_PRIVATE: '1' }
const JSON_TYPE = { 'content-type': 'application/json' }

const number = (value: number) => Math.round(value).toLocaleString('en')
const folderFor = () => mkdtempSync(join(tmpdir(), 'daicho-bench-'))
const restFor = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function textAt(url: string, init?: RequestInit): Promise<string> {
  const reply = await fetch(url, init)
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${text}`)
  return text
}

async function serverIdOf({ url }: Server): Promise<number> {
  return JSON.parse(await textAt(`${url}/api/serverid`)).serverid
}

/** Returns the number of blocks that the checkpoint of chain `serverId` covers on the node at `url`. */
async function signedBlocks(url: string, serverId: number): Promise<number> {
  const reply = await fetch(`${url}/api/ledgers/${serverId}/checkpoint`)
  return reply.ok ? Number((await reply.text()).split('\n')[1]) : 0
}

/** Writes items until there are `entries` entries. */
async function load({ url }: Server, entries: number): Promise<void> {
  await textAt(`${url}/api/bench`, { method: 'POST' })
  const body = JSON.stringify(Array.from({ length: ITEMS_PER_REQUEST }, sampleItem))
  let left = Math.ceil((entries - 1) / ITEMS_PER_REQUEST)
  const client = async () => {
    while (left-- > 0)
      await textAt(`${url}/api/bench`, { method: 'POST', body, headers: JSON_TYPE })
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
}

/** Runs `daicho restore` in `folder`. Returns the seconds, the peak resident memory in MB, and the output. */
async function restored(folder: string, from: string, serverId: number) {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const flags = ['restore', '--from', from, '--serverid', `${serverId}`, '--json']
  const startedAt = performance.now()
  const child = spawn(process.execPath, [...NODE_FLAGS, main, ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...PEERS, SYSTEM_FOLDER: folder },
  })
  const { residentMb } = serverOf(child, '')
  let most = 0
  const timer = setInterval(() => {
    if (child.exitCode === null) most = Math.max(most, residentMb() || 0)
  }, SAMPLE_MS)
  let output = ''
  child.stdout?.on('data', (text) => {
    output += text
  })
  // Progress lines are captured and shown only after an error, because they would clutter the tables.
  let progress = ''
  child.stderr?.on('data', (text) => {
    progress += text
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  clearInterval(timer)
  if (code !== 0) throw new Error(`restore ended with ${code}: ${progress}`)
  return { seconds: (performance.now() - startedAt) / 1000, most, done: JSON.parse(output) }
}

/** Measures the restoring of two chains: one with a tenth of `entries`, and one with `entries`. */
async function restores(entries: number): Promise<void> {
  const rows = [['entries', 'blocks', 'seconds', 'entries/s', 'most MB']]
  for (const size of [Math.ceil(entries / 10), entries]) {
    const [folder, target] = [folderFor(), folderFor()]
    const server = await startLedger(folder)
    try {
      await load(server, size)
      const serverId = await serverIdOf(server)
      const { blocks } = await chainOf(server, serverId)
      while ((await signedBlocks(server.url, serverId)) < blocks) await restFor(SAMPLE_MS)
      copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
      const { seconds, most, done } = await restored(target, server.url, serverId)
      rows.push([
        number(done.entries),
        number(done.blocks),
        seconds.toFixed(1),
        number(done.entries / seconds),
        number(most),
      ])
    } finally {
      await server.stop()
      for (const each of [folder, target]) rmSync(each, { recursive: true, force: true })
    }
  }
  printTable(rows)
}

async function chainOf({ url }: Server, serverId: number): Promise<{ blocks: number }> {
  const metrics = await textAt(`${url}/metrics`)
  const blocks = Number(/^daicho_chain_blocks (\d+)/m.exec(metrics)?.[1])
  if (!(blocks > 0)) throw new Error(`no blocks found for the chain of ${serverId}`)
  return { blocks }
}

/** Writes `perSecond` items per second, one by one, and measures the time until the mirror has each block. */
async function lag(perSecond: number): Promise<void> {
  const [folder, other] = [folderFor(), folderFor()]
  const node = await startLedger(folder, PEERS)
  const mirror = await startLedger(other, PEERS)
  try {
    const serverId = await serverIdOf(node)
    const vkey = (await textAt(`${node.url}/api/ledgers/${serverId}/vkey`)).trim()
    await textAt(`${node.url}/api/bench`, { method: 'POST' })
    const body = JSON.stringify({ vkey, url: node.url })
    await textAt(`${mirror.url}/api/config/peers`, { method: 'POST', body, headers: JSON_TYPE })
    while ((await signedBlocks(mirror.url, serverId)) === 0) await restFor(SAMPLE_MS)
    const { answered, count, ended } = writing(node, perSecond)
    const late: number[] = []
    let looked = 0
    let hasEnded = false
    void ended.then(() => {
      hasEnded = true
    })
    while (!hasEnded || answered.length > 0) {
      await restFor(LOOK_MS)
      const { peers } = JSON.parse(await textAt(`${mirror.url}/api/config/peers`))
      const nowMs = performance.now()
      looked += 1
      while (answered[0] !== undefined && answered[0].height < peers[0].blocks) {
        late.push(nowMs - (answered.shift()?.atMs ?? nowMs))
      }
    }
    late.sort((one, next) => one - next)
    const at = (share: number) => number(late[Math.floor(share * (late.length - 1))] ?? Number.NaN)
    printTable([
      ['writes/s', 'mirrored', 'lag ms, half', '99 %', 'most', 'samples'],
      [
        number((1000 * count()) / WATCHED_MS),
        number(late.length),
        at(0.5),
        at(0.99),
        at(1),
        number(looked),
      ],
    ])
  } finally {
    await Promise.all([node.stop(), mirror.stop()])
    for (const each of [folder, other]) rmSync(each, { recursive: true, force: true })
  }
}

/** Writes at a constant rate while the mirror is measured. `answered` collects height and time of each write. */
function writing({ url }: Server, perSecond: number) {
  const answered: { height: number; atMs: number }[] = []
  let sent = 0
  let done = 0
  const startedAt = performance.now()
  const endedAt = startedAt + WATCHED_MS
  const body = JSON.stringify(sampleItem())
  const client = async () => {
    for (;;) {
      const dueAt = startedAt + (1000 * sent) / perSecond
      if (dueAt > endedAt) return
      sent += 1
      const waitMs = dueAt - performance.now()
      if (waitMs > 0) await restFor(waitMs)
      const reply = await fetch(`${url}/api/bench`, { method: 'POST', body, headers: JSON_TYPE })
      await reply.arrayBuffer()
      const [, height] = /\/(\d+)\./.exec(reply.headers.get('ledger-position') ?? '') ?? []
      answered.push({ height: Number(height), atMs: performance.now() })
      done += 1
    }
  }
  const ended = Promise.all(Array.from({ length: 8 * CLIENTS }, client))
  return { answered, count: () => done, ended }
}

export async function run([
  entries = '1000000',
  perSecond = '1000',
]: readonly string[]): Promise<void> {
  await restores(Number(entries))
  await lag(Number(perSecond))
}
