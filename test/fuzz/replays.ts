// Many clients request the whole chain: `since=0` on the gateway's WebSockets and `since=start` on the
// change feed. The clients read, disconnect at once, or read nothing. Usage, on Linux, with the output of `npm run build`:
//
//   node scripts/run.mjs test/fuzz/replays.ts [blocks, 10000] [seconds for each attack, 10]
//
// Prints a line for each attack. Exits with code 1 if the process tree takes 600 MB, if the 99th percentile of the
// latency of other requests reaches 100 ms, or if the node is busy 5 seconds after the clients have disconnected.
// Takes three minutes, and removes its files.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { startProgram } from '../support/program.ts'
import { watch } from './watch.ts'

const PEAK_BYTES_MAX = 600e6
const P99_MS_MAX = 100
/** Time after the last client disconnects until the node must be idle, milliseconds. */
const SETTLE_MS = 5_000
/** Maximum fraction of one processor that an idle node uses. */
const IDLE_SHARE = 0.2

const BEHAVIOURS = ['read', 'leave', 'ignore'] as const

interface Attack {
  readonly url: string
  readonly path: string
  readonly isWebSocket: boolean
  readonly clients: number
  readonly behaviour: (typeof BEHAVIOURS)[number]
}

/** Opens the clients of `attack` in a thread of their own, so that they do not delay the measurements. */
function runClients({ url, path, isWebSocket, clients, behaviour }: Attack): void {
  const { hostname, port, host } = new URL(url)
  const upgrade =
    'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n' +
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
  const head = `GET ${path} HTTP/1.1\r\nhost: ${host}\r\n${isWebSocket ? upgrade : ''}\r\n`
  const sockets: Socket[] = []
  let bytes = 0
  for (let n = 0; n < clients; n += 1) {
    const socket = connect(Number(port), hostname, () => socket.write(head))
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      bytes += chunk.length
      if (behaviour === 'leave') socket.destroy()
      else if (behaviour === 'ignore') socket.pause()
    })
    sockets.push(socket)
  }
  parentPort?.once('message', () => {
    for (const socket of sockets) socket.destroy()
    parentPort?.postMessage(bytes)
    parentPort?.close()
  })
}

/** Returns the processor time that the process `pid` has used, milliseconds. */
function processorMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return (user + system) * 10
}

async function post(url: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const json = body === undefined ? {} : { headers, body: JSON.stringify(body) }
  const reply = await fetch(url, { method: 'POST', ...json })
  if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`)
  await reply.arrayBuffer()
}

/**
 * Creates about `blocks` blocks. One in ten contains a transaction that emits an event, and the others
 * contain 20 items.
 */
async function fill(ledger: string, gateway: string, blocks: number): Promise<void> {
  await post(`${gateway}/api/Trader`, { tradeId: 'T', firstName: 'A', lastName: 'B' })
  const commodity = { description: 'd', mainExchange: 'e', quantity: 1, owner: 'T' }
  await post(`${gateway}/api/Commodity`, { tradingSymbol: 'C', ...commodity })
  await post(`${ledger}/api/items`, undefined)
  const items = Array.from({ length: 20 }, (_, n) => ({ n, text: 'x'.repeat(200) }))
  for (let n = 0; n < blocks; n += 1) {
    if (n % 10 === 0) await post(`${gateway}/api/Trade`, { commodity: 'C', newOwner: 'T' })
    else await post(`${ledger}/api/items`, items)
  }
}

async function main(blocks: number, seconds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-replays-'))
  const ports = ['--port', '0', '--gateway-port', '0']
  const daicho = startProgram(['serve', '--only', 'ledger,gateway', '--json', ...ports], {
    SYSTEM_FOLDER: folder,
    LOG_LEVEL: 'error',
  })
  // An interrupted run also removes its processes and files.
  process.once('exit', () => {
    daicho.child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  try {
    const pid = daicho.child.pid ?? 0
    const { ledger, gateway } = JSON.parse(await daicho.firstLine)
    const reply = await fetch(`${ledger}/api/serverid`)
    const { serverid } = JSON.parse(await reply.text())
    await fill(ledger, gateway, blocks)
    const targets = [
      { url: gateway, path: '/?since=0', isWebSocket: true },
      { url: ledger, path: `/api/ledgers/${serverid}/changes?since=start`, isWebSocket: false },
    ]
    const attacks = targets.flatMap((target) =>
      [20, 1_000].flatMap((clients) =>
        BEHAVIOURS.map((behaviour): Attack => ({ ...target, clients, behaviour })),
      ),
    )
    console.log(`${blocks} blocks; ${seconds} s for each attack`)
    for (const attack of attacks) {
      const watched = watch(pid, `${gateway}/api/Trader`)
      const worker = new Worker(new URL(import.meta.url), { workerData: attack })
      const bytes = new Promise<number>((resolve) => {
        worker.once('message', resolve)
      })
      await sleep(seconds * 1_000)
      worker.postMessage('leave')
      const received = await bytes
      await sleep(SETTLE_MS)
      const { peakBytes, p99Ms, failures } = await watched.stop()
      const before = processorMs(pid)
      await sleep(1_000)
      const busy = (processorMs(pid) - before) / 1_000
      const isFine =
        peakBytes < PEAK_BYTES_MAX && p99Ms < P99_MS_MAX && failures === 0 && busy < IDLE_SHARE
      if (!isFine) process.exitCode = 1
      const { clients, behaviour, isWebSocket } = attack
      console.log(
        `${isWebSocket ? 'WebSocket' : 'changes'}: ${clients} clients ${behaviour}: ` +
          `peak ${Math.round(peakBytes / 1e6)} MB, others p99 ${p99Ms.toFixed(1)} ms, ` +
          `${failures} failed, ${Math.round(received / 1e6)} MB sent, ` +
          `busy afterwards ${Math.round(busy * 100)} % ${isFine ? '' : '  <-- out of bounds'}`,
      )
      // Waits until the node is idle, so that one attack does not distort the measurements of the next.
      for (let waited = 0; waited < 60 && busy >= IDLE_SHARE; waited += 1) {
        const start = processorMs(pid)
        await sleep(1_000)
        if (processorMs(pid) - start < IDLE_SHARE * 1_000) break
      }
    }
  } finally {
    daicho.child.kill('SIGKILL')
    await daicho.ended
    rmSync(folder, { recursive: true, force: true })
  }
}

if (isMainThread) {
  const [blocks = '10000', seconds = '10'] = process.argv.slice(2)
  await main(Number(blocks), Number(seconds))
} else {
  runClients(workerData)
}
