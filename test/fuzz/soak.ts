// Soak test: all components under mixed load, to find errors and memory leaks. Usage, on Linux,
// with the output of `npm run build`:
//
//   npm run -s soak -- [minutes, 10]
//
// Starts the built program with every component on free ports and a temporary folder, sends requests for `minutes`
// minutes, stops the program and verifies the folder. Prints a table of all operations and the memory of each minute,
// and exits with code 1 if
//
// - a reply has a status of 500 or more, or a status that the operation does not expect;
// - a subscriber misses, repeats or reorders an entry or event;
// - resident memory of the process tree at the end is more than 15 % above that after the first minute
//   (medians of 15 seconds; runs under 3 minutes compare with the end of their first third);
// - the program does not exit with code 0, or `daicho verify` finds a fault.
//
// The number of items, resources and attachments is constant, because each loop deletes its oldest data when it
// creates more. The chain grows, and so does the permanent data of the ledger: replaced attachments, and a
// record of each transaction. All of this is on disk ("disk" in the output), and no part of the program keeps an
// index of it in memory. Caches of bounded size fill during the first minute, so memory is compared with the usage
// after this minute.
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { WebSocket } from 'ws'
import { FeedClient } from '../support/feed-client.ts'
import { startProgram } from '../support/program.ts'
import { treeBytes } from './watch.ts'

const GROWTH_MAX = 1.15
/** Length of the window whose median is the memory usage, seconds. */
const WINDOW_S = 15
/** Maximum number of existing items, resources or attachments of each kind. */
const LIVE_MAX = 200
const SUBSCRIBERS = 5

const minutes = Number(process.argv[2] ?? 10)
const durationMs = minutes * 60_000
const baselineS = minutes < 3 ? (minutes * 60) / 3 : 60 + WINDOW_S

/** Maximum number of findings that are printed. */
const PRINTED_MAX = 50

let findings = 0
function finding(text: string): void {
  findings += 1
  if (findings <= PRINTED_MAX) console.log(`--- ${text}`)
}

interface Operation {
  readonly statuses: Map<number, number>
  readonly waits: number[]
}
const operations = new Map<string, Operation>()

interface Call {
  readonly method?: string
  readonly json?: unknown
  readonly body?: string | Buffer | FormData
  readonly headers?: Record<string, string>
  /** Statuses that are not findings. Default: 200. */
  readonly expected?: readonly number[] | undefined
}

/** Sends a request, and counts the reply under `name`. Returns the body. */
async function call(name: string, url: string, options: Call = {}): Promise<Buffer> {
  const { json, expected = [200] } = options
  const body = json === undefined ? options.body : JSON.stringify(json)
  const type = json === undefined ? {} : { 'content-type': 'application/json' }
  const operation: Operation = operations.get(name) ?? { statuses: new Map(), waits: [] }
  operations.set(name, operation)
  const startedAt = performance.now()
  let status = 0
  try {
    const reply = await fetch(url, {
      method: options.method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { ...type, ...options.headers },
      redirect: 'manual',
      ...(body === undefined ? {} : { body }),
    })
    status = reply.status
    const bytes = Buffer.from(await reply.arrayBuffer())
    if (!expected.includes(status)) {
      finding(`${name}: ${status} ${bytes.toString('utf8').slice(0, 200)}`)
    }
    return bytes
  } catch (error) {
    finding(`${name}: ${String(error)} ${String(error instanceof Error ? error.cause : '')}`)
    return Buffer.alloc(0)
  } finally {
    operation.waits.push(performance.now() - startedAt)
    operation.statuses.set(status, (operation.statuses.get(status) ?? 0) + 1)
  }
}

let isOver = false

/** Calls `step` every `everyMs` milliseconds until the soak ends. `n` counts the calls from 0. */
async function repeat(everyMs: number, step: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; !isOver; n += 1) {
    const next = performance.now() + everyMs
    await step(n)
    await sleep(Math.max(0, next - performance.now()))
  }
}

/** Appends `id` to `ids`. Returns the oldest id if there are now too many; the caller deletes its item. */
function rotate(ids: string[], id: string): string | undefined {
  ids.push(id)
  return ids.length > LIVE_MAX ? ids.shift() : undefined
}

const expectThat = (holds: boolean, problem: string) => {
  if (!holds) finding(problem)
}
const parseJson = (bytes: Buffer) => JSON.parse(bytes.toString('utf8') || 'null')

function ledgerLoad(url: string, serverId: number): Promise<void>[] {
  const items = `${url}/api/items`
  const log = `${url}/api/ledgers/${serverId}`
  const [live, ended]: [string[], string[]] = [[], []]
  return [
    repeat(40, async (n) => {
      const id = `i${n}`
      await call('ledger create', items, { json: { id, n, kind: n % 7, text: 'x'.repeat(300) } })
      await call('ledger read', `${items}/${id}`)
      await call('ledger update', `${items}/${id}`, { json: { n, kind: n % 5, text: 'y' } })
      const patch = { 'content-type': 'application/merge-patch+json' }
      const body = JSON.stringify({ text: null, patched: n })
      await call('ledger patch', `${items}/${id}`, { method: 'PATCH', headers: patch, body })
      const old = rotate(live, id)
      if (old === undefined) return
      await call('ledger delete', `${items}/${old}`, { method: 'DELETE' })
      ended.splice(0, ended.length, old)
    }),
    repeat(250, async (n) => {
      const ids = Array.from({ length: 20 }, (_, at) => `b${n}-${at}`)
      await call('ledger bulk create', items, { json: ids.map((id) => ({ id, n })) })
      const changes = ids.map((id) => ({ method: 'delete_item', db: 'items', id }))
      await call('ledger bulk delete', `${url}/api/ledgers`, { json: { entries: changes } })
    }),
    repeat(100, async (n) => {
      const filters = [
        'filter[where][kind]=3&filter[limit]=10&docs=true',
        'filter[where][n][gt]=10&filter[order]=n%20DESC&filter[limit]=20',
        'filter={"where":{"or":[{"kind":1},{"patched":{"lt":50}}]},"fields":["n"]}',
        'limit=50&docs=true',
      ]
      await call('ledger query', `${items}?${filters[n % filters.length]}`)
    }),
    repeat(200, async () => {
      const [id] = live
      if (id === undefined) return
      await call('ledger history', `${items}/${id}/history`, { expected: [200, 404] })
      await call('ledger proof', `${items}/${id}/proof`, { expected: [200, 404] })
      for (const old of ended)
        await call('ledger read deleted', `${items}/${old}`, { expected: [404] })
      await call('ledger preconditions', `${items}/${id}`, {
        json: { n: 0 },
        headers: { 'if-match': '"0.0"' },
        expected: [412, 404],
      })
    }),
    repeat(300, async () => {
      const checkpoint = (await call('ledger checkpoint', `${log}/checkpoint`)).toString('utf8')
      const size = Number(checkpoint.split('\n')[1])
      const path = `consistency?from=${Math.max(1, size - 10)}&to=${size}`
      if (size > 1) await call('ledger consistency', `${log}/${path}`)
      const blocks = `${url}/api/ledgers?serverid=${serverId}&offset=${size - 1}&limit=1&proof=1`
      await call('ledger block', blocks)
      const width = size % 256
      const tile = `000${Math.floor(size / 256)}`.slice(-3)
      if (width > 0 && size < 256_000) await call('ledger tile', `${log}/tile/0/${tile}.p/${width}`)
    }),
    repeat(1_000, async (n) => {
      await call('ledger create database', `${url}/api/d${n}`, { method: 'POST' })
      await call('ledger delete database', `${url}/api/d${n}`, { method: 'DELETE' })
      await call('ledger metrics', `${url}/metrics`)
      await call('ledger page', `${url}/`, { expected: [401] })
      const headers = { 'content-type': 'application/json' }
      const invalid = { body: '{"a":1,"a":2}', headers, expected: [400, 422] }
      await call('ledger invalid', items, invalid)
    }),
  ]
}

function attachmentLoad(url: string): Promise<void>[] {
  const path = (id: string) => `${url}/api/files/${id}`
  const live: string[] = []
  return [
    repeat(500, async (n) => {
      const id = `f${n}`
      const bytes = randomBytes(1_000 + Math.floor(Math.random() * 200_000))
      await call('attachment item', `${url}/api/files`, { json: { id } })
      await call('attachment put', `${path(id)}/attachments/a`, { method: 'PUT', body: bytes })
      const read = await call('attachment get', `${path(id)}/attachments/a`)
      const hash = (of: Buffer) => createHash('sha256').update(of).digest('hex')
      expectThat(hash(read) === hash(bytes), `attachment ${id} was returned with other bytes`)
      const range = { range: 'bytes=10-99' }
      const options = { headers: range, expected: [206] }
      const part = await call('attachment range', `${path(id)}/attachments/a`, options)
      expectThat(
        part.equals(bytes.subarray(10, 100)),
        `a range of ${id} was returned with other bytes`,
      )
      const old = rotate(live, id)
      if (old === undefined) return
      await call('attachment delete', `${path(old)}/attachments/a`, { method: 'DELETE' })
      await call('attachment item delete', path(old), { method: 'DELETE' })
    }),
  ]
}

function converterLoad(url: string): Promise<void>[] {
  const file = fileURLToPath(new URL('../../examples/mountain.png', import.meta.url))
  const image = new Blob([readFileSync(file)], { type: 'image/png' })
  return [0, 1].map((loop) =>
    repeat(400, async (n) => {
      const form = new FormData()
      form.set('file', image, 'mountain.png')
      form.set('width', `${20 + ((n * 7 + loop) % 80)}`)
      const sheet = await call('converter image', `${url}/image`, { body: form })
      expectThat(sheet.subarray(0, 2).toString() === 'PK', 'the converter returned no spreadsheet')
      if (n % 10 > 0) return
      const broken = new FormData()
      broken.set('file', new Blob([randomBytes(500)]), 'broken.png')
      await call('converter broken', `${url}/image`, { body: broken, expected: [400, 415, 422] })
    }),
  )
}

function ratesLoad(url: string): Promise<void>[] {
  return [
    repeat(50, () => call('rates read', `${url}/`)),
    repeat(1_000, async () => {
      await call('rates health', `${url}/healthz`)
      await call('rates history', `${url}/history?pair=USDJPY&limit=5`)
      await call('rates page', `${url}/page`)
    }),
  ]
}

function samplesLoad(url: string): Promise<void>[] {
  const basic = (text: string) => ({ authorization: `Basic ${btoa(text)}` })
  return [
    repeat(1_000, async () => {
      const json = { name: 'demo', password: 'demo' }
      const { token } = parseJson(await call('sample login', `${url}/api/authenticate`, { json }))
      const headers = { 'x-access-token': String(token) }
      for (let n = 0; n < 5; n += 1) await call('sample users', `${url}/api/users`, { headers })
      await call('sample bad token', `${url}/api/users?token=x`)
      await call('sample no token', `${url}/api/users`, { expected: [403] })
    }),
    repeat(100, async () => {
      const good = { headers: basic('demo:demo') }
      await call('guarded path', `${url}/hello/there?id=demo`, good)
      await call('guarded path refused', `${url}/hello?id=other`, { ...good, expected: [401] })
    }),
  ]
}

/** Number of submitted trades. Each trade emits one event. */
let trades = 0

function networkLoad(url: string): Promise<void>[] {
  const trader = (n: number) => `T${n % 50}`
  const commodity = (n: number) => `C${n % 50}`
  const live: string[] = []
  const fields = { description: 'd', mainExchange: 'e', quantity: 1, owner: trader(0) }
  return [
    repeat(50, async (n) => {
      const json = { commodity: commodity(n), newOwner: trader(n * 3) }
      await call('network trade', `${url}/api/Trade`, { json })
      trades += 1
    }),
    repeat(200, async (n) => {
      await call(
        'network list',
        `${url}/api/Commodity?filter[where][quantity][lt]=5&filter[limit]=20`,
      )
      await call('network resolve', `${url}/api/Commodity/${commodity(n)}?filter[include]=resolve`)
      await call('network historian', `${url}/api/system/historian?filter[limit]=5`)
      const tradingSymbol = `X${n}`
      await call('network create', `${url}/api/Commodity`, { json: { tradingSymbol, ...fields } })
      const changed = { tradingSymbol, ...fields, quantity: n }
      const path = `${url}/api/Commodity/${tradingSymbol}`
      await call('network update', path, { method: 'PUT', json: changed })
      const old = rotate(live, tradingSymbol)
      if (old === undefined) return
      const expected = [200, 204]
      await call('network delete', `${url}/api/Commodity/${old}`, { method: 'DELETE', expected })
    }),
  ]
}

/** Subscribes to the change feed. Most subscribers stay connected, and one reconnects again and again. */
function feedLoad(url: string, serverId: number): { load: Promise<void>[]; check: () => void } {
  const path = `/api/ledgers/${serverId}/changes`
  const staying = Array.from(
    { length: SUBSCRIBERS },
    () => new FeedClient(url, `${path}?since=now`),
  )
  let seen = 0
  let last = ''
  const load = [
    repeat(2_000, async () => {
      const client = new FeedClient(url, `${path}?since=${last || 'now'}`)
      await sleep(1_500)
      for (const { position } of client.entries) {
        expectThat(position !== last, `an entry was received twice: ${position}`)
        last = position
        seen += 1
      }
      expectThat(!client.closed, `a subscriber was disconnected: ${client.head.slice(0, 200)}`)
      client.leave()
    }),
  ]
  return {
    load,
    check() {
      const positions = staying.map(({ entries }) => entries.map(({ position }) => position))
      const [first = []] = positions
      for (const each of positions) {
        const same = Math.min(first.length, each.length)
        const isSame = first.slice(-same).join() === each.slice(-same).join()
        expectThat(isSame, 'subscribers saw different entries')
      }
      const numbers = first.map((position) => position.split('.').map(Number))
      const isGapless = numbers.every(([height = 0, index = 0], at) => {
        const [before = 0, beforeIndex = 0] = numbers[at - 1] ?? [height, index - 1]
        return height === before ? index === beforeIndex + 1 : height === before + 1 && index === 0
      })
      expectThat(isGapless, 'a subscriber missed or repeated an entry')
      expectThat(first.length > 0, 'subscribers saw no entry')
      for (const client of staying) {
        expectThat(!client.closed, 'a subscriber that stays connected was disconnected')
        client.leave()
      }
      console.log(
        `change feed: ${first.length} entries to each subscriber, ${seen} to the subscriber that reconnects`,
      )
    },
  }
}

/** Listens to events. Most listeners stay connected, and one replays the latest blocks again and again. */
function eventLoad(gateway: string, height: () => Promise<number>) {
  const url = gateway.replace('http', 'ws')
  const counts = Array.from({ length: SUBSCRIBERS }, () => 0)
  const sockets = counts.map((_, at) => {
    const socket = new WebSocket(url)
    socket.on('message', () => {
      counts[at] = (counts[at] ?? 0) + 1
    })
    socket.on('error', (error) => finding(`a WebSocket failed: ${error.message}`))
    return socket
  })
  let replayed = 0
  const load = [
    repeat(3_000, async () => {
      const ids = new Set<string>()
      const socket = new WebSocket(`${url}/?since=${Math.max(0, (await height()) - 500)}`)
      socket.on('message', (data) => {
        const { eventId } = JSON.parse(String(data))
        expectThat(!ids.has(eventId), `an event was received twice: ${eventId}`)
        ids.add(eventId)
      })
      socket.on('error', (error) => finding(`a WebSocket failed: ${error.message}`))
      await sleep(2_000)
      replayed += ids.size
      socket.terminate()
    }),
  ]
  return {
    load,
    opened: Promise.all(
      sockets.map((each) => new Promise((resolve) => each.once('open', resolve))),
    ),
    check() {
      const isComplete = counts.every((count) => count === trades)
      expectThat(isComplete, `${trades} trades, but listeners got ${counts} events`)
      for (const socket of sockets) socket.terminate()
      console.log(`events: ${trades} to each listener, ${replayed} replayed`)
    },
  }
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
const mb = (bytes: number) => Math.round(bytes / 1e6)

function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => {
      const { size = 0 } = statSync(join(parentPath, name), { throwIfNoEntry: false }) ?? {}
      return sum + size
    }, 0)
}

/** Resident memory of the process by kind. "Anonymous" memory is heap and stacks, and "files" are mapped files. */
function memoryKinds(pid: number): string {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kind = (name: string) => mb(Number(RegExp(`${name}:\\s*(\\d+)`).exec(status)?.[1]) * 1024)
  return `main process ${kind('RssAnon')} MB anonymous, ${kind('RssFile')} MB files`
}

function printOperations(): void {
  const width = Math.max(...[...operations.keys()].map((name) => name.length))
  console.log(
    `\n${'operation'.padEnd(width)}  ${'requests'.padStart(8)}    p50 ms    p99 ms  statuses`,
  )
  for (const [name, { statuses, waits }] of operations) {
    const sorted = waits.toSorted((a, b) => a - b)
    const at = (share: number) =>
      (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(1).padStart(8)
    const counts = [...statuses].toSorted(([a], [b]) => a - b).map(([code, n]) => `${code}×${n}`)
    const requests = `${waits.length}`.padStart(8)
    console.log(`${name.padEnd(width)}  ${requests}  ${at(0.5)}  ${at(0.99)}  ${counts.join(' ')}`)
  }
}

/** Returns a sample of the process tree's memory for each second until the soak ends. */
async function sampleMemory(pid: number, folder: string): Promise<number[]> {
  const samples: number[] = []
  await repeat(1_000, async (n) => {
    samples.push(treeBytes(pid))
    if (n % 60 > 0 || n === 0) return
    const recent = mb(median(samples.slice(-WINDOW_S)))
    const disk = mb(folderBytes(folder))
    console.log(`minute ${n / 60}: ${recent} MB; ${memoryKinds(pid)}; disk ${disk} MB`)
  })
  return samples
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-soak-'))
  const flags = ['--port', '--gateway-port', '--converter-port', '--rates-port', '--sample-port']
  const daicho = startProgram(['serve', '--json', ...flags.flatMap((flag) => [flag, '0'])], {
    SYSTEM_FOLDER: folder,
    LOG_LEVEL: 'error',
    RATES_SOURCES: 'snapshot',
    RATES_RECORD: '1',
  })
  // An interrupted run also removes its processes and files.
  process.once('exit', () => {
    daicho.child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  const pid = daicho.child.pid ?? 0
  try {
    const urls: Record<string, string> = JSON.parse(await daicho.firstLine)
    const { ledger = '', gateway = '', converter = '', rates = '', samples = '' } = urls
    const { serverid } = parseJson(await call('ledger server id', `${ledger}/api/serverid`))
    for (const db of ['items', 'files']) {
      await call('ledger create database', `${ledger}/api/${db}`, { method: 'POST' })
    }
    for (let n = 0; n < 50; n += 1) {
      const person = { tradeId: `T${n}`, firstName: 'A', lastName: 'B' }
      await call('network create', `${gateway}/api/Trader`, { json: person })
      const fields = { description: 'd', mainExchange: 'e', quantity: 1, owner: `T${n}` }
      const json = { tradingSymbol: `C${n}`, ...fields }
      await call('network create', `${gateway}/api/Commodity`, { json })
    }
    const height = async () => {
      const checkpoint = `${ledger}/api/ledgers/${serverid}/checkpoint`
      return Number((await call('ledger checkpoint', checkpoint)).toString('utf8').split('\n')[1])
    }
    const events = eventLoad(gateway, height)
    await events.opened
    const feed = feedLoad(ledger, serverid)
    console.log(`${minutes} minutes of load on process ${pid}`)
    const measured = sampleMemory(pid, folder)
    const load = [
      ...ledgerLoad(ledger, serverid),
      ...attachmentLoad(ledger),
      ...converterLoad(converter),
      ...ratesLoad(rates),
      ...samplesLoad(samples),
      ...networkLoad(gateway),
      ...feed.load,
      ...events.load,
    ]
    await sleep(durationMs)
    isOver = true
    await Promise.all(load)
    const memory = await measured
    // Waits for the last entries and events.
    await sleep(2_000)
    feed.check()
    events.check()
    printOperations()

    const before = median(memory.slice(Math.max(0, baselineS - WINDOW_S), baselineS))
    const after = median(memory.slice(-WINDOW_S))
    const growth = after / before
    const percent = `${growth < 1 ? '' : '+'}${((growth - 1) * 100).toFixed(1)} %`
    console.log(
      `\nresident memory: ${mb(before)} MB after ${Math.round(baselineS)} s, ` +
        `${mb(after)} MB at the end (${percent}), peak ${mb(Math.max(...memory))} MB; ` +
        `disk ${mb(folderBytes(folder))} MB`,
    )
    expectThat(growth <= GROWTH_MAX, `memory grew by ${percent}`)

    daicho.child.kill('SIGTERM')
    const { code, stderr } = await daicho.ended
    expectThat(code === 0, `the program exited with ${code}: ${stderr.slice(-500)}`)
    const verified = await startProgram(['verify', folder]).ended
    console.log(verified.stdout.trim())
    expectThat(verified.code === 0, `verify exited with ${verified.code}: ${verified.stderr}`)
  } finally {
    isOver = true
    daicho.child.kill('SIGKILL')
    await daicho.ended
    rmSync(folder, { recursive: true, force: true })
  }
  console.log(findings === 0 ? 'no findings' : `${findings} findings`)
  if (findings > 0) process.exitCode = 1
}

await main()
