// Measures the latency of the ledger while the same `daicho serve` converts images, and the memory and processes that
// are left after clients disconnect during conversions. Run: `node bench/converter-beside-ledger.ts`.
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { connect } from 'node:net'
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'

const SECONDS = 10
/** Requests to the ledger per second, over four connections with one request at a time. */
const RATE = 200
const LEAVERS = 6
/** Size of the grid of each conversion: just below ten million cells, the maximum. */
const COLUMNS = 3_651
const ROWS = 2_738

interface Served {
  readonly process: ChildProcess
  readonly ledger: string
  readonly converter: string
}

async function serve(): Promise<Served> {
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const flags = ['--only', 'ledger,converter', '--port', '0', '--converter-port', '0', '--json']
  const child = spawn(process.execPath, [main, 'serve', ...flags], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, LOG_LEVEL: 'error' },
  })
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (bytes: Buffer) => resolve(bytes.toString()))
    child.once('exit', () => reject(new Error('daicho serve did not start')))
  })
  const { ledger, converter } = JSON.parse(line)
  return { process: child, ledger, converter }
}

/** Returns a form with `image` and a grid of COLUMNS × ROWS cells. */
function formOf(image: Buffer): { readonly type: string; readonly body: Buffer } {
  const boundary = 'daicho-bench'
  const field = (name: string, value: number) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
  const head =
    field('width', COLUMNS) +
    field('height', ROWS) +
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n`
  const body = Buffer.concat([Buffer.from(head), image, Buffer.from(`\r\n--${boundary}--\r\n`)])
  return { type: `multipart/form-data; boundary=${boundary}`, body }
}

/** Sends `GET /api/dbs`, and returns the milliseconds until the reply. */
function ask(url: string, agent: Agent): Promise<number> {
  const started = performance.now()
  return new Promise((resolve, reject) => {
    get(`${url}/api/dbs`, { agent }, (reply) => {
      reply.resume().on('end', () => resolve(performance.now() - started))
    }).on('error', reject)
  })
}

/**
 * Starts requests at a constant rate, even if earlier replies are late, and returns their latencies, sorted. So the
 * latencies include the time that requests wait for a free connection.
 */
async function latencies(url: string): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const requests: Promise<number>[] = []
  const started = performance.now()
  for (let at = 0; at < SECONDS * RATE; at += 1) {
    const due = started + (at * 1_000) / RATE
    const early = due - performance.now()
    if (early > 0) await wait(early)
    requests.push(ask(url, agent))
  }
  const all = await Promise.all(requests)
  agent.destroy()
  return all.sort((a, b) => a - b)
}

function shown(name: string, sorted: readonly number[]): void {
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]?.toFixed(1) ?? '?'
  console.log(
    `${name.padEnd(34)} median ${at(0.5)} ms  p99 ${at(0.99)} ms  max ${at(1)} ms  ` +
      `(load ${loadavg()[0]?.toFixed(1)})`,
  )
}

/** Converts `image` again and again until `until` is aborted. Returns the number of conversions. */
async function keepConverting(url: string, image: Buffer, until: AbortSignal): Promise<number> {
  const { type, body } = formOf(image)
  let done = 0
  while (!until.aborted) {
    const headers = { 'content-type': type }
    const reply = await fetch(`${url}/image`, {
      method: 'POST',
      headers,
      body: new Uint8Array(body),
    })
    if (reply.body !== null) for await (const _ of reply.body);
    done += 1
  }
  return done
}

/** Sends a form, reads part of the reply and disconnects. */
function leave(url: string, image: Buffer, bytesMax: number): Promise<void> {
  const { hostname, port } = new URL(url)
  const { type, body } = formOf(image)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    let received = 0
    socket.on('data', (bytes) => {
      received += bytes.length
      if (received > bytesMax) socket.destroy()
    })
    socket.on('error', () => {}).on('close', () => resolve())
    socket.write(
      `POST /image HTTP/1.1\r\nHost: bench\r\nContent-Type: ${type}\r\n` +
        `Content-Length: ${body.length}\r\n\r\n`,
    )
    socket.write(body)
  })
}

/** Returns the resident memory of a process with its children in megabytes, and the number of children. */
function held(pid: number): { megabytes: number; workers: number } {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const family = [String(pid), ...pids.filter((name) => parentOf(name) === pid)]
  const megabytes = family.map((name) => {
    const status = readFileSync(`/proc/${name}/status`, 'utf8')
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
  })
  const sum = Math.round(megabytes.reduce((all, one) => all + one, 0))
  return { megabytes: sum, workers: family.length - 1 }
}

function parentOf(pid: string): number | null {
  try {
    return Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  } catch {
    return null // the process has ended
  }
}

export async function run(): Promise<void> {
  const width = 4_000
  const noise = { type: 'gaussian', mean: 128, sigma: 40 } as const
  const create = { width, height: 3_000, channels: 3, background: 'white', noise } as const
  const image = await sharp({ create }).blur(2).jpeg({ quality: 85 }).toBuffer()
  const served = await serve()
  const pid = served.process.pid ?? 0
  try {
    console.log(`${availableParallelism()} processors, shared by service, workers and this program`)
    shown('GET /api/dbs, nothing else', await latencies(served.ledger))
    const stop = new AbortController()
    const converting = [1, 2].map(() => keepConverting(served.converter, image, stop.signal))
    await wait(1_000)
    shown('GET /api/dbs, two conversions', await latencies(served.ledger))
    stop.abort()
    const done = (await Promise.all(converting)).reduce((all, one) => all + one, 0)
    console.log(`conversions of ${COLUMNS * ROWS} cells finished in that time: ${done}`)
    for (let round = 1; round <= 4; round += 1) {
      const before = held(pid)
      await Promise.all(Array.from({ length: LEAVERS }, () => leave(served.converter, image, 3e6)))
      await wait(1_000)
      const after = held(pid)
      console.log(
        `${LEAVERS} clients disconnected mid-way, round ${round}: before ${JSON.stringify(before)}, ` +
          `one second later ${JSON.stringify(after)}`,
      )
    }
  } finally {
    served.process.kill()
  }
}

if (import.meta.main) await run()
