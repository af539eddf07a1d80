// Attacks with replies that clients do not read, abandon or only ask the size of. Usage, on Linux, with the output of
// `npm run build`:
//
//   node scripts/run.mjs test/fuzz/replies.ts [name]
//
// The node has the largest legal items: 20 of 10 MB in a database; or in a network, with as many revisions of a resource,
// events of 5 MB, and a resource that refers to 49,000 others. CLIENTS clients, in a network with an identity each, run
// each attack at the same time, for ATTACK_MS. Prints a line for each attack. Exits with code 1 if the process tree takes
// PEAK_BYTES_MAX, if the 99th percentile of the latency of other requests reaches P99_MS_MAX, if one of them fails, or if
// the node does not serve a long reply afterwards. Removes its files.
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { networkOf } from '../support/gateway.ts'
import { type Served, serve } from './served.ts'
import { treeBytes, watch } from './watch.ts'

const PEAK_BYTES_MAX = 900e6
const P99_MS_MAX = 200
const CLIENTS = 40
const ATTACK_MS = 10_000
const ITEMS = 20

interface Attack {
  /** The requests that each client pipelines on each of its connections. `$SECRET` is the client's secret in a network. */
  readonly requests: readonly string[]
  /** Whether the attack is one on a network. */
  readonly isNetwork?: boolean
  /** Runs beside the clients. */
  readonly beside?: (url: string, until: number) => Promise<void>
  /** What a client does with the reply. Default: it reads nothing. */
  readonly reads?: 'all' | 'some'
  readonly clients?: number
}

const get = (path: string, headers = '') =>
  `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`

const API = '/test-network/api'
const OWN = 'Authorization: Bearer $SECRET\r\n'
const LISTEN =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
const MODEL = `namespace org.attack
asset Thing identified by id { o String id o Integer n default=0 o String text optional o Double[] numbers optional --> Thing[] parts optional }
participant Person identified by name { o String name }
transaction Say { o String text }
event Said { o String text }`
const LIB = `async function onSay(tx) {
  const said = getFactory().newEvent('org.attack', 'Said')
  said.text = tx.text
  emit(said)
}`
const RULES = `rule Own { description: "" participant(p): "org.attack.Person" operation: ALL resource(r): "org.attack.**" condition: (r.getIdentifier() !== p.name) action: ALLOW }
rule System { description: "" participant: "ANY" operation: ALL resource: "org.hyperledger.composer.system.**" action: ALLOW }
rule Admin { description: "" participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`

function ofNetwork(attacks: Readonly<Record<string, Attack>>): Record<string, Attack> {
  const once = (text: string) =>
    text.includes('Upgrade') ? text : text.replace('\r\n', '\r\nConnection: close\r\n')
  return Object.fromEntries(
    Object.entries(attacks).map(([name, each]) => [
      `network ${name}`,
      { ...each, requests: each.requests.map(once), isNetwork: true },
    ]),
  )
}

/** Submits transactions with an event of 5 MB. */
async function sayAll(url: string, until: number): Promise<void> {
  while (performance.now() < until) {
    await post(`${url}${API}/Say`, { text: 'y'.repeat(5_000_000) })
    await sleep(200)
  }
}

/** The body of a resource with five million numbers. */
const NUMBERS = `{"id":"numbers","numbers":[${'1,'.repeat(4_999_000)}1]}`
const put = `PUT ${API}/Thing/numbers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${NUMBERS.length}\r\n\r\n${NUMBERS}`

const NETWORK = ofNetwork({
  lists: { requests: [get(`${API}/Thing`)] },
  'lists, read': { requests: [get(`${API}/Thing`)], reads: 'all' },
  'own lists, read': { requests: [get(`${API}/Thing`, OWN)], reads: 'all' },
  fields: { requests: [get(`${API}/Thing?filter[fields][n]=true`)], reads: 'all' },
  items: { requests: [get(`${API}/Thing/i0`)], clients: 60 },
  'items, read': { requests: [get(`${API}/Thing/i0`)], reads: 'all' },
  'own items, read': { requests: [get(`${API}/Thing/i0`, OWN)], reads: 'all' },
  histories: { requests: [get(`${API}/Thing/i0/history?limit=1000`)], reads: 'all' },
  'own histories': { requests: [get(`${API}/Thing/i0/history?limit=1000`, OWN)], reads: 'all' },
  'histories of an event': { requests: [get(`${API}/Thing/p1/history`)], reads: 'all' },
  groups: { requests: [get(`${API}/Thing/aggregate?group=n`)], reads: 'all' },
  resolve: { requests: [get(`${API}/Thing/parts?filter[include]=resolve`)], reads: 'all' },
  'own resolve': {
    requests: [get(`${API}/Thing/parts?filter[include]=resolve`, OWN)],
    reads: 'all',
  },
  order: {
    requests: [get(`${API}/queries/all?filter[order]=id%20DESC&filter[limit]=1`)],
    reads: 'all',
  },
  historian: { requests: [get(`${API}/system/historian`)], reads: 'all' },
  'explorer document': { requests: [get('/test-network/explorer/openapi.json')], reads: 'all' },
  archive: { requests: [get(`${API}/system/archive`)], reads: 'all' },
  'past events': { requests: [get('/test-network?since=0', LISTEN + OWN)] },
  'past events, read': { requests: [get('/test-network?since=0', LISTEN + OWN)], reads: 'all' },
  events: { requests: [get('/test-network', LISTEN + OWN)], beside: sayAll },
  'events, read': { requests: [get('/test-network', LISTEN + OWN)], reads: 'all', beside: sayAll },
  bodies: { requests: [put], reads: 'all' },
})

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
  ...NETWORK,
}

async function attackWith(
  { url }: Served,
  attack: Attack,
  names: Readonly<Record<string, string>>,
  secrets: readonly string[],
): Promise<void> {
  const until = performance.now() + ATTACK_MS
  const client = async (n: number) => {
    const all = { ...names, $SECRET: secrets[n % secrets.length] ?? '' }
    let text = attack.requests.join('')
    for (const [name, value] of Object.entries(all)) text = text.replaceAll(name, value)
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
  const clients = Array.from({ length: attack.clients ?? CLIENTS }, (_, n) => client(n))
  await Promise.all([attack.beside?.(url, until), ...clients])
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

async function post(url: string, body: unknown, method = 'POST'): Promise<string> {
  const isArchive = body instanceof Uint8Array
  const type = isArchive ? 'application/octet-stream' : 'application/json'
  const reply = await fetch(url, {
    ...{ method, headers: { 'content-type': type } },
    body: isArchive ? new Uint8Array(body) : JSON.stringify(body),
  })
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${reply.status} ${text}`)
  return text
}

/** Deploys and fills a network; returns the secrets of its identities. */
async function fillNetwork(url: string): Promise<string[]> {
  const queries = 'query all { statement: SELECT org.attack.Thing WHERE (n >= 0) }'
  const files = { 'lib/say.js': LIB, 'permissions.acl': RULES, 'queries.qry': queries }
  await post(`${url}/networks`, networkOf(MODEL, files).archive)
  const api = url + API
  await post(
    `${api}/Person`,
    Array.from({ length: CLIENTS }, (_, n) => ({ name: `p${n}` })),
  )
  const secrets: string[] = []
  for (let n = 0; n < CLIENTS; n += 1) {
    const identity = { participant: `org.attack.Person#p${n}`, userID: `p${n}` }
    secrets.push(JSON.parse(await post(`${api}/system/identities/issue`, identity)).userSecret)
  }
  const text = 'x'.repeat(9_900_000)
  for (let n = 0; n < ITEMS; n += 1) await post(`${api}/Thing`, { id: `i${n}`, text })
  for (let n = 0; n < ITEMS; n += 1) await post(`${api}/Thing/i0`, { n, text }, 'PUT')
  await post(`${api}/Thing/i0`, { n: 0, text }, 'PUT')
  for (let n = 0; n < 10; n += 1) await post(`${api}/Say`, { text: 'y'.repeat(5_000_000) })
  await post(`${api}/Thing`, { id: 'numbers' })
  const parts = Array.from({ length: 49_000 }, (_, n) => `p${n}`)
  for (let at = 0; at < parts.length; at += 7_000) {
    await post(
      `${api}/Thing`,
      parts.slice(at, at + 7_000).map((id) => ({ id })),
    )
  }
  await post(`${api}/Thing`, { id: 'parts', parts })
  return secrets
}

/** Runs `attack` on a new node, and measures the node. */
async function run(name: string, attack: Attack): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-replies-'))
  const { isNetwork = false } = attack
  const served = await serve(isNetwork ? 'gateway' : 'ledger', folder)
  try {
    const { url } = served
    const secrets = isNetwork ? await fillNetwork(url) : []
    if (!isNetwork) await fill(url)
    const serverId = isNetwork
      ? ''
      : JSON.parse(await (await fetch(`${url}/api/serverid`)).text()).serverid
    await sleep(3_000)
    const other = isNetwork ? `${API}/Person?filter[limit]=1` : '/api/d?limit=1'
    const pid = served.daicho.child.pid ?? 0
    const beforeMb = Math.round(treeBytes(pid) / 1e6)
    const watched = watch(pid, url + other)
    await attackWith(served, attack, { $SERVER: String(serverId) }, secrets)
    const { peakBytes, p99Ms, failures } = await watched.stop()
    const after = await fetch(url + (isNetwork ? `${API}/Thing/i0` : '/api/d/i0'))
    const { length } = await after.text()
    const isFine =
      peakBytes < PEAK_BYTES_MAX && p99Ms < P99_MS_MAX && failures === 0 && length > 9_900_000
    if (!isFine) process.exitCode = 1
    const measured = `${beforeMb} MB before, peak ${Math.round(peakBytes / 1e6)} MB, others p99 ${p99Ms.toFixed(1)} ms`
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
