// Attacks on the connections of a listener. Usage, on Linux, with the output of `npm run build`:
//
//   node scripts/run.mjs test/fuzz/connections.ts [pipelined | chunks | bodies | idle]
//
// pipelined: one connection sends 200 requests for a list of 20 items of 10 MB, and reads nothing.
// chunks:    one body of 3,000,000 one-byte chunks, then one of 8,000,000.
// bodies:    60 bodies of 10 MiB, one after the other. Afterwards the idle node must use less than 600 MB
//            (docs/reference/operation.md, “Memory after long bodies”).
// idle:      3,000 idle connections from one address, then 60 requests from another.
//
// Prints a line for each attack. Exits with code 1 if the process tree takes 600 MB, if the 99th percentile of the
// latency of other requests reaches 100 ms, or if an attack finds another violation. Takes two minutes, and
// removes its files.
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Served, serve } from './served.ts'
import { watch } from './watch.ts'

const PEAK_BYTES_MAX = 600e6
const P99_MS_MAX = 100
/** How long a client that reads nothing stays connected, milliseconds. */
const UNREAD_MS = 10_000
/** Maximum time that an attack waits for its reply, and for the node to release memory, milliseconds. */
const WAIT_MS = 60_000
const IDLE_MEMORY_MIB_MAX = 570

/** Attacks a node. Resolves to a description of the violation, or null. */
type Attack = (served: Served) => Promise<string | null>

async function pipelined({ url }: Served): Promise<string | null> {
  const socket = connectTo(url)
  socket.pause()
  socket.write(`GET /api/d?docs=1 HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`.repeat(200))
  await sleep(UNREAD_MS)
  socket.destroy()
  return null
}

async function chunks(served: Served): Promise<string | null> {
  const statuses = [await sendChunks(served, 3_000_000), await sendChunks(served, 8_000_000)]
  console.log(`  replies: ${statuses.join(', ')}`)
  // On a slow computer, the longer body does not arrive within the request timeout of 30 seconds, so only the first
  // status counts.
  return statuses[0] === 200 ? null : 'a body of 3,000,000 chunks was refused'
}

/** Sends an item whose text arrives in `count` chunks of one byte. Returns the status of the reply. */
async function sendChunks({ url }: Served, count: number): Promise<number> {
  const socket = connectTo(url)
  const head = `POST /api/d HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: close\r\n`
  socket.write(`${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`)
  socket.write(`9\r\n{"text":"\r\n`)
  const many = '1\r\nx\r\n'.repeat(10_000)
  for (let sent = 0; sent < count && socket.writable; sent += 10_000) {
    if (!socket.write(many)) await event(socket, 'drain')
  }
  socket.write('2\r\n"}\r\n0\r\n\r\n')
  const reply = await event(socket, 'data')
  socket.destroy()
  return Number(/^HTTP\/1.1 (\d+)/.exec(String(reply))?.[1])
}

async function bodies({ url, size }: Served): Promise<string | null> {
  const body = JSON.stringify({ text: 'x'.repeat(10 * 1024 * 1024 - 1_000) })
  for (let count = 0; count < 60; count += 1) {
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${url}/api/d`, { method: 'POST', headers, body })
    await reply.arrayBuffer()
    if (reply.status !== 200) return `a body of 10 MiB was answered with ${reply.status}`
  }
  const memory = () => size()?.memoryMiB ?? 0
  for (let waited = 0; waited < WAIT_MS && memory() >= IDLE_MEMORY_MIB_MAX; waited += 1_000) {
    await sleep(1_000)
  }
  const left = memory()
  console.log(`  memory of the idle node: ${left} MiB`)
  return left < IDLE_MEMORY_MIB_MAX ? null : `the idle node uses ${left} MiB`
}

async function idle({ url }: Served): Promise<string | null> {
  const sockets: Socket[] = []
  while (sockets.length < 3_000) {
    const more = Array.from({ length: 50 }, () => connectTo(url))
    await Promise.all(more.map((socket) => event(socket, 'connect')))
    sockets.push(...more)
  }
  let refused = 0
  for (let count = 0; count < 60; count += 1) {
    const status = await new Promise<number>((resolve) => {
      const clientRequest = request(`${url}/api/serverid`, {
        agent: false,
        localAddress: '127.0.0.2',
      })
      clientRequest.on('response', (reply) => resolve(reply.resume().statusCode ?? 0))
      clientRequest.on('error', () => resolve(0)).end()
    })
    if (status !== 200) refused += 1
    await sleep(100)
  }
  while (sockets.length > 0) {
    for (const socket of sockets.splice(0, 50)) socket.destroy()
    await sleep(10)
  }
  return refused === 0 ? null : `${refused} of 60 requests were refused`
}

/** Resolves to the arguments of the event `name`, or null if `socket` closes first or a time limit passes. */
function event(socket: Socket, name: string): Promise<unknown> {
  if (socket.closed) return Promise.resolve(null)
  return new Promise((resolve) => {
    const timer = setTimeout(settle, WAIT_MS, null)
    const leave = () => settle(null)
    function settle(value: unknown): void {
      clearTimeout(timer)
      socket.off(name, settle).off('close', leave)
      resolve(value)
    }
    socket.on(name, settle).on('close', leave)
  })
}

function connectTo(url: string): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  return socket
}

/** Creates the database `d` with `items` items of 10 MB. */
async function fill(url: string, items: number): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  await fetch(`${url}/api/d`, { method: 'POST' })
  const body = JSON.stringify({ text: 'x'.repeat(10_000_000) })
  for (let count = 0; count < items; count += 1) {
    const reply = await fetch(`${url}/api/d`, { method: 'POST', headers, body })
    if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`)
    await reply.arrayBuffer()
  }
}

/** Runs `attack` on a new node, and measures the node. */
async function run(name: string, attack: Attack): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-connections-'))
  const served = await serve('ledger', folder)
  try {
    await fill(served.url, name === 'pipelined' ? 20 : 0)
    const watched = watch(served.daicho.child.pid ?? 0, `${served.url}/api/serverid`)
    const failure = await attack(served)
    const { peakBytes, p99Ms, failures } = await watched.stop()
    // The latency does not count for `bodies`, because parsing a body of 10 MiB blocks other requests.
    const isQuick = name === 'bodies' || p99Ms < P99_MS_MAX
    const isFine = failure === null && peakBytes < PEAK_BYTES_MAX && isQuick && failures === 0
    if (!isFine) process.exitCode = 1
    const measured = `peak ${Math.round(peakBytes / 1e6)} MB, others p99 ${p99Ms.toFixed(1)} ms`
    console.log(`${name}: ${measured}, ${failures} failed${isFine ? '' : `  <-- ${failure ?? ''}`}`)
  } finally {
    served.daicho.child.kill('SIGKILL')
    await served.daicho.ended
    rmSync(folder, { recursive: true })
  }
}

const ATTACKS: Readonly<Record<string, Attack>> = { pipelined, chunks, bodies, idle }
const [which] = process.argv.slice(2)
for (const [name, attack] of Object.entries(ATTACKS)) {
  if (which === undefined || which === name) await run(name, attack)
}
