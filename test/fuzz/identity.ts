// Attacks of an identity of a network on its gateway. Usage, on Linux, with the output of `npm run build`:
//
//   node scripts/run.mjs test/fuzz/identity.ts [requests] [seed]
//
// The identity owns 60 resources of 9.8 MB, and 500 that refer to one of them. It sends generated requests, 40 at a
// time: lists, HEAD, queries, include=resolve, transactions and writes. It reads some replies slowly, and leaves others.
//
// Exits with code 1 if the process ends, its tree takes 900 MB, or the 99th percentile of the latency of the
// administrator's requests reaches 200 ms. Removes its files. 10,000 requests, the default, take ten minutes.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { networkOf } from '../support/gateway.ts'
import { serve } from './served.ts'
import { watch } from './watch.ts'

const PEAK_BYTES_MAX = 900e6
const P99_MS_MAX = 200
const AT_ONCE = 40
/** Maximum time that the attacker spends on one reply, milliseconds. */
const REPLY_MS_MAX = 3_000

const MODEL = `namespace org.attack
asset Thing identified by id { o String id o Integer n default=0 o String text optional --> Thing part optional --> Person owner }
participant Person identified by name { o String name }
@returns(String[])
transaction Read { o String code }`
const LIB = `async function onRead(tx) {
  const things = await getAssetRegistry('org.attack.Thing')
  return (tx.code === 'all' ? await things.getAll() : tx.code === 'query' ? await query('all') : [await things.get(tx.code)]).map(({ id }) => id)
}`
const RULES = `rule Own { description: "" participant(p): "org.attack.Person" operation: ALL resource(r): "org.attack.Thing" condition: (r.owner.getIdentifier() === p.name) action: ALLOW }
rule Read { description: "" participant: "org.attack.Person" operation: ALL resource: "org.attack.Read" action: ALLOW }
rule System { description: "" participant: "ANY" operation: ALL resource: "org.hyperledger.composer.system.**" action: ALLOW }
rule Admin { description: "" participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`
const QUERIES = 'query all { description: "" statement: SELECT org.attack.Thing ORDER BY [n DESC] }'

const [count = 10_000, seed = 1] = process.argv.slice(2).map(Number)
/** Returns a number from 0 to `below` - 1; the generator mulberry32. */
let state = seed
function random(below: number): number {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) % below
}
function one<Value>(values: readonly [Value, ...Value[]]): Value {
  return values[random(values.length)] ?? values[0]
}

type Sent = readonly [method: string, path: string, body?: unknown]

function generated(): Sent {
  const id = one(['big0', 'big59', 's1', 's400', 'none', '%00', 'a/b'])
  const filter = one([
    ...(['{}', '{"include":"resolve"}', '{"order":"n DESC"}', '{"limit":5,"offset":3}'] as const),
    ...(['{"where":{"text":{"like":".*x.*y"}}}', '{"fields":{"id":true}}', '{"where":'] as const),
    ...([
      '{"include":"resolve","order":"text ASC"}',
      '{"where":{"n":{"gt":-1}},"limit":1e9}',
    ] as const),
  ])
  const code = one(['all', 'query', 'big1', 's1', 'none'])
  const listed = `filter=${encodeURIComponent(filter)}`
  return one<Sent>([
    ['GET', `Thing?${listed}`],
    ['HEAD', `Thing?${listed}`],
    ['GET', `Thing/${id}?${listed}`],
    ['GET', `queries/all?${listed}`],
    ['HEAD', `queries/all?${listed}`],
    ['POST', `system/query?${listed}`, { query: 'SELECT org.attack.Thing WHERE (n >= 0)' }],
    ['GET', `system/historian?${listed}`],
    ['GET', `system/identities?${listed}`],
    ['POST', 'Read', { code }],
    ['POST', 'Read', [{ code: 's1' }, { code: 's2' }]],
    ['PATCH', `Thing/s${random(500)}`, { n: random(1_000) }],
    ['PUT', `Thing/${id}`, { n: 'x', owner: one(['eve', 'nobody']) }],
    ['DELETE', 'Thing', ['none', 's9999']],
  ])
}

const folder = mkdtempSync(join(tmpdir(), 'daicho-identity-'))
const served = await serve('gateway', folder)
const api = `${served.url}/test-network/api`
const json = { 'content-type': 'application/json' }

async function post(path: string, body: unknown): Promise<string> {
  const reply = await fetch(`${api}/${path}`, {
    method: 'POST',
    headers: json,
    body: JSON.stringify(body),
  })
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${text}`)
  return text
}

async function prepare(): Promise<string> {
  const files = { 'lib/read.js': LIB, 'permissions.acl': RULES, 'queries.qry': QUERIES }
  const body = new Uint8Array(networkOf(MODEL, files).archive)
  const headers = { 'content-type': 'application/octet-stream' }
  await (await fetch(`${served.url}/networks`, { method: 'POST', headers, body })).arrayBuffer()
  await post('Person', [{ name: 'eve' }, { name: 'ann' }])
  await post('Thing', { id: 'calm', owner: 'ann' })
  const text = 'x'.repeat(9_800_000)
  for (let n = 0; n < 60; n += 1) await post('Thing', { id: `big${n}`, text, owner: 'eve' })
  const small = (_: unknown, n: number) => ({ id: `s${n}`, n, part: 'big0', owner: 'eve' })
  await post('Thing', Array.from({ length: 500 }, small))
  const issue = { participant: 'org.attack.Person#eve', userID: 'eve' }
  return JSON.parse(await post('system/identities/issue', issue)).userSecret
}

/** Sends one request, and reads its reply, slowly or not at all. Returns the status, or 0 if there is none in time. */
async function send(secret: string): Promise<number> {
  const [method, path, body] = generated()
  const isLeft = random(3) === 0
  const isSlow = random(4) === 0
  try {
    const reply = await fetch(`${api}/${path}`, {
      ...{ method, headers: { ...json, authorization: `Bearer ${secret}` } },
      signal: AbortSignal.timeout(isLeft ? random(200) + 1 : REPLY_MS_MAX),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    for await (const _chunk of reply.body ?? []) if (isSlow) await sleep(20)
    return reply.status
  } catch {
    return 0
  }
}

try {
  const secret = await prepare()
  console.log('prepared')
  const watched = watch(served.daicho.child.pid ?? 0, `${api}/Thing/calm`)
  const statuses = new Map<number, number>()
  let sent = 0
  const client = async () => {
    while (sent < count && served.daicho.child.exitCode === null) {
      sent += 1
      const status = await send(secret)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (sent % 500 === 0) console.log(`  ${sent} requests, ${served.size()?.memoryMiB} MiB`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  const { peakBytes, p99Ms, failures } = await watched.stop()
  const isAlive = served.daicho.child.exitCode === null && served.daicho.child.signalCode === null
  const isFine = isAlive && peakBytes < PEAK_BYTES_MAX && p99Ms < P99_MS_MAX && failures === 0
  if (!isFine) process.exitCode = 1
  console.log(`statuses: ${[...statuses].map(([status, n]) => `${status}: ${n}`).join(', ')}`)
  const measured = `peak ${Math.round(peakBytes / 1e6)} MB, others p99 ${p99Ms.toFixed(1)} ms`
  console.log(`${isAlive ? 'alive' : 'ENDED'}, ${measured}, ${failures} failed`)
} finally {
  served.daicho.child.kill('SIGKILL')
  await served.daicho.ended
  rmSync(folder, { recursive: true })
}
