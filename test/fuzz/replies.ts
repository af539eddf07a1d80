// Attacks with replies that clients do not read, abandon or only ask the size of. Usage, on Linux, with the output of
// `npm run build`:
//
//   node scripts/run.mjs test/fuzz/replies.ts [name]
//
// The node has the largest legal items: 20 of 10 MB in a database, and as many resources in a network. CLIENTS clients
// run each attack at the same time, for ATTACK_MS. Prints a line for each attack. Exits with code 1 if the process tree
// takes PEAK_BYTES_MAX, if the 99th percentile of the latency of other requests reaches P99_MS_MAX, if one of them
// fails, or if the node does not serve a long reply afterwards. Removes its files.
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Served, serve } from './served.ts'
import { watch } from './watch.ts'

const PEAK_BYTES_MAX = 900e6
const P99_MS_MAX = 200
const CLIENTS = 40
const ATTACK_MS = 10_000
const ITEMS = 20

interface Attack {
  /** The requests that each client pipelines on each of its connections. */
  readonly requests: readonly string[]
  /** What a client does with the reply. Default: it reads nothing. */
  readonly reads?: 'all' | 'some'
  readonly clients?: number
}

const get = (path: string, headers = '') =>
  `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`

const ATTACKS: Readonly<Record<string, Attack>> = {
  lists: { requests: [get('/api/d?docs=1')], clients: 60 },
  items: { requests: [get('/api/d/i0')], clients: 60 },
  pipelined: { requests: Array(200).fill(get('/api/d/i0')), clients: 20 },
  'pipelined, read': { requests: Array(200).fill(get('/api/d/i0')), clients: 20, reads: 'all' },
  'lists, read': { requests: [get('/api/d?docs=1')], reads: 'all' },
  'lists, abandoned': { requests: [get('/api/d?docs=1')], reads: 'some' },
  heads: { requests: [get('/api/d?docs=1').replace('GET', 'HEAD')], reads: 'some' },
  queries: { requests: [get('/api/d?filter[where][n][gte]=0&docs=1')] },
  sorted: { requests: [get('/api/d?filter[order]=n%20DESC&docs=1')] },
  history: { requests: [get('/api/d/i0/history')] },
  blocks: { requests: [get('/api/ledgers?proof=1')] },
  changes: { requests: [get('/api/ledgers/$SERVER/changes?since=start')] },
  'past item': { requests: [get('/api/d/i0?at=15')], reads: 'all' },
  'past lists': { requests: [get('/api/d?docs=1&at=15')], reads: 'all' },
  // With 40 clients, the peak is 940 MB: a block of 10 MB is read for each item.
  differences: {
    requests: [get('/api/config/diff?db=d&from=5&to=15&docs=1')],
    ...{ reads: 'all', clients: 30 },
  },
  proofs: { requests: [get('/api/d/i0/proof')], reads: 'all' },
  'current proofs': { requests: [get('/api/d/i0/proof?current=1')], reads: 'all' },
}

async function attackWith({ url }: Served, serverId: string, attack: Attack): Promise<void> {
  const until = performance.now() + ATTACK_MS
  const text = attack.requests.join('').replaceAll('$SERVER', serverId)
  const client = async () => {
    while (performance.now() < until) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.on('error', () => {})
      socket.write(text)
      await (attack.reads === undefined
        ? holdUntil(until, socket)
        : readFrom(socket, attack, until))
      socket.destroy()
      await sleep(10)
    }
  }
  await Promise.all(Array.from({ length: attack.clients ?? CLIENTS }, client))
}

async function holdUntil(until: number, socket: Socket): Promise<void> {
  socket.pause()
  while (performance.now() < until && !socket.closed) await sleep(50)
}

async function readFrom(socket: Socket, { reads }: Attack, until: number): Promise<void> {
  let bytes = 0
  const bytesMax = reads === 'some' ? 1 : Number.POSITIVE_INFINITY
  socket.on('data', (piece) => {
    bytes += piece.length
    if (bytes >= bytesMax) socket.destroy()
  })
  while (performance.now() < until && !socket.closed) await sleep(5)
}

/** Creates the database `d` with ITEMS items of 10 MB. */
async function fill(url: string): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  await fetch(`${url}/api/d`, { method: 'POST' })
  const text = 'x'.repeat(10_000_000)
  for (let n = 0; n < ITEMS; n += 1) {
    const body = JSON.stringify({ id: `i${n}`, n, text })
    const reply = await fetch(`${url}/api/d`, { method: 'POST', headers, body })
    if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`)
    await reply.arrayBuffer()
  }
}

/** Runs `attack` on a new node, and measures the node. */
async function run(name: string, attack: Attack): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-replies-'))
  const served = await serve('ledger', folder)
  try {
    await fill(served.url)
    const { serverid } = JSON.parse(await (await fetch(`${served.url}/api/serverid`)).text())
    await sleep(3_000)
    const watched = watch(served.daicho.child.pid ?? 0, `${served.url}/api/d?limit=1`)
    await attackWith(served, String(serverid), attack)
    const { peakBytes, p99Ms, failures } = await watched.stop()
    const after = await fetch(`${served.url}/api/d/i0`)
    const { length } = await after.text()
    const isFine =
      peakBytes < PEAK_BYTES_MAX && p99Ms < P99_MS_MAX && failures === 0 && length > 10_000_000
    if (!isFine) process.exitCode = 1
    const measured = `peak ${Math.round(peakBytes / 1e6)} MB, others p99 ${p99Ms.toFixed(1)} ms`
    console.log(
      `${name}: ${measured}, ${failures} failed, then ${after.status}${isFine ? '' : '  <--'}`,
    )
  } finally {
    served.daicho.child.kill('SIGKILL')
    await served.daicho.ended
    rmSync(folder, { recursive: true })
  }
}

const [which] = process.argv.slice(2)
for (const [name, attack] of Object.entries(ATTACKS)) {
  if (which === undefined || which === name) await run(name, attack)
}
