import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { logOrigin } from '../../src/chain/index.ts'
import { outboundGet, systemOutbound } from '../../src/http/outbound.ts'
import { Witnesses } from '../../src/ledger/log/witnesses.ts'
import { signatureHeaders } from '../../src/ledger/peers/signed-request.ts'
import { systemPlatform } from '../../src/ledger/platform.ts'
import { openSources, parseSourceList } from '../../src/rate-feed/sources.ts'
import { type HostileNode, startHostileNode } from '../support/hostile-node.ts'
import type { HostileMessages } from './hostile-messages.ts'
import { type Measurements, watch } from './watch.ts'

const HOSTILE_PEERS = 4
const PUSHERS = 3
/** Delay before the node gets the same peers anew, because a node polls a failing peer ever less often. */
const ROUND_MS = 500

export interface Attacked extends Measurements {
  readonly counts: Readonly<Record<string, number>>
}

interface Attack {
  readonly hostile: HostileMessages
  /** Minimum number of messages of each kind. */
  readonly messages: number
}

/** Attacks the node at `url` with replies of peers and relays, and with signed pushes. */
export async function attackNode(attack: Attack & { url: string; pid: number }): Promise<Attacked> {
  const { url, pid, hostile, messages } = attack
  const counts = { replies: 0, pushes: 0 }
  const nodes = await Promise.all(
    Array.from({ length: HOSTILE_PEERS }, () =>
      startHostileNode((path, reply, _request, node) => {
        counts.replies += 1
        hostile.reply(path, node, reply)
      }),
    ),
  )
  const watching = watch(pid, `${url}/api/dbs`)
  const isOver = () => counts.replies >= messages && counts.pushes >= messages
  const peers = async () => {
    while (!isOver()) {
      for (const [n, node] of nodes.entries()) {
        // The next hostile node is a relay of the chain, which also gets the chain of the node.
        const relay = nodes[(n + 1) % nodes.length] ?? node
        for (const source of [node, relay]) {
          await post(`${url}/api/config/peers`, { vkey: node.vkey, url: source.url, push: n === 0 })
        }
      }
      await sleep(ROUND_MS)
      for (const { serverId } of nodes) {
        await fetch(`${url}/api/config/peers/${serverId}`, { method: 'DELETE' })
      }
    }
  }
  const pushers = Array.from({ length: PUSHERS }, async (_, n) => {
    const node = nodes[n]
    while (node !== undefined && !isOver()) {
      counts.pushes += 1
      await push(url, node, hostile.push(node)).catch(() => {})
    }
  })
  try {
    await Promise.all([peers(), ...pushers])
  } finally {
    await Promise.all(nodes.map((node) => node.close()))
  }
  return { counts, ...(await watching.stop()) }
}

function post(url: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
}

async function push(url: string, { serverId, privateKey }: HostileNode, body: Buffer) {
  const path = `/api/ledgers/${serverId}`
  const headers = signatureHeaders(
    { method: 'POST', authority: new URL(url).host, path, query: '?' },
    body,
    { keyId: logOrigin(serverId), privateKey, nowMs: Date.now(), nonce: randomUUID() },
  )
  const sent = { ...headers, 'content-type': 'application/json' }
  await (await fetch(url + path, { method: 'POST', headers: sent, body })).arrayBuffer()
}

/** Attacks a process that reads a witness and sources of rates without pauses. */
export async function attackReaders({ hostile, messages }: Attack): Promise<Attacked> {
  const counts = { witness: 0, rates: 0 }
  const node = await startHostileNode((path, reply, _request, self) => {
    counts[path.endsWith('/add-checkpoint') ? 'witness' : 'rates'] += 1
    hostile.reply(path, self, reply)
  })
  const child = fork(fileURLToPath(import.meta.url), [node.url], {
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  const url = await new Promise<string>((resolve) =>
    child.once('message', (text) => resolve(`${text}`)),
  )
  const watching = watch(child.pid ?? 0, url)
  while (counts.witness < messages || counts.rates < messages) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the reader ended')
    await sleep(100)
  }
  const measured = await watching.stop()
  child.kill()
  await node.close()
  return { counts, ...measured }
}

/** Reads the hostile server at `address`, and answers other requests. The program of `attackReaders`. */
async function read(address: string): Promise<void> {
  const server = createServer((_, reply) => reply.end('ok'))
  server.listen(0, '127.0.0.1', () => {
    process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  })
  const schedule = {
    after: (_ms: number, run: () => void) => systemPlatform.schedule.after(20, run),
  }
  const platform = { ...systemPlatform, outbound: systemOutbound, schedule }
  const witness = { key: { name: 'w.example/w', publicKey: new Uint8Array(32) }, url: address }
  const options = { witnesses: [witness], allowPrivate: true, report: () => {} }
  const witnesses = new Witnesses(options, async () => [new Uint8Array(32)], platform)
  const policy = {
    schemes: ['http:'] as const,
    allowPrivate: true,
    timeoutMs: 5_000,
    bodyBytesMax: 1_048_576,
  }
  const get = (_url: URL, headers: Readonly<Record<string, string>>) =>
    outboundGet(new URL('/rates', address), headers, policy)
  const sources = openSources(parseSourceList('ecb,frankfurter'), get, Date.now)
  for (let size = 1; ; size += 1) {
    witnesses.ask({ size, note: `x/y\n${size}\nAAAA\n\n— x AAAA\n` })
    await Promise.all(sources.map((source) => source.read().catch(() => null)))
  }
}

const [, , address] = process.argv
if (process.send && address?.startsWith('http')) await read(address)
