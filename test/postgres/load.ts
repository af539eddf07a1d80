// Two nodes with one key and one database, and the clients of each node.
import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { send, Unanswered } from '../support/ledger-load.ts'
import { type Daicho, startProgram } from '../support/program.ts'
import { queryOnce } from './server.ts'

const CLIENTS_PER_NODE = 8
/** Pause of a client after a request without acknowledgement, milliseconds. */
const RETRY_MS = 25

/**
 * Starts node `a` or `b` with a data folder in `folder`. Node `a` must start first, because it creates the
 * key and the database `fruit`.
 */
export async function startNode(
  folder: string,
  name: string,
  store: string,
): Promise<{ node: Daicho; url: string }> {
  const own = join(folder, name)
  const isFirst = name === 'a' && !existsSync(own)
  mkdirSync(own, { recursive: true })
  if (name !== 'a') copyFileSync(join(folder, 'a', 'node.key'), join(own, 'node.key'))
  const variables = { SYSTEM_FOLDER: own, STORE: store, LOG_LEVEL: 'error' }
  const node = startProgram(['serve', '--only', 'ledger', '--port', '0', '--json'], variables)
  const { ledger: url } = JSON.parse(await node.firstLine)
  if (isFirst) await fetch(`${url}/api/fruit`, { method: 'POST' })
  return { node, url }
}

/** Clients of one node. Each client creates items one after another, and records which items were acknowledged. */
export class Load {
  readonly acknowledged = new Set<string>()
  /** Items whose request was not acknowledged. They may be stored or not. */
  readonly unknown = new Set<string>()
  /** Replies that are neither success nor a temporary error. */
  readonly unexpected: string[] = []
  readonly #url: string
  readonly #name: string
  #isStopped = false
  #count = 0
  #running: Promise<unknown>

  constructor(url: string, name: string) {
    this.#url = url
    this.#name = name
    this.#running = Promise.all(Array.from({ length: CLIENTS_PER_NODE }, () => this.#run()))
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (!this.#isStopped) {
      this.#count += 1
      const id = `${this.#name}-${this.#count}`
      const status = await this.#create(agent, id)
      if (status === 200) this.acknowledged.add(id)
      else {
        this.unknown.add(id)
        await sleep(RETRY_MS)
      }
    }
    agent.destroy()
  }

  async #create(agent: Agent, id: string): Promise<number> {
    try {
      const create = { method: 'POST', path: '/api/fruit', body: { id } }
      const { status, text } = await send(this.#url, agent, create)
      if (status !== 200 && status !== 503) this.unexpected.push(`${status} ${text}`)
      return status
    } catch (error) {
      if (error instanceof Unanswered) return 0
      throw error
    }
  }
}

/** Returns a condition that is true when each of `loads` has `more` acknowledged requests than now. */
export function acknowledgedBy(loads: readonly Load[], more: number): () => boolean {
  const before = loads.map((load) => load.acknowledged.size)
  return () => loads.every((load, at) => load.acknowledged.size >= (before[at] ?? 0) + more)
}

export interface StoredCounts {
  readonly acknowledged: number
  /** Number of acknowledged items that are not stored. */
  readonly lost: number
  /** Number of items that the chain creates more than once. */
  readonly twice: number
  /** Of the items whose request was not acknowledged, how many are stored and how many are not. */
  readonly unknown: { readonly stored: number; readonly absent: number }
  /** Replies that are neither success nor a temporary error. */
  readonly unexpected: readonly string[]
}

/** Compares the chain and the items of a database with the requests of all clients. */
export async function countStored(url: string, loads: readonly Load[]): Promise<StoredCounts> {
  const items = new Set((await queryOnce(url, 'SELECT id FROM items')).map(({ id }) => String(id)))
  const created = new Map<string, number>()
  for (const { body } of await queryOnce(url, 'SELECT body FROM blocks')) {
    for (const [, id = ''] of String(body).matchAll(/"id":"([ab]\d*-\d+)"/g)) {
      created.set(id, (created.get(id) ?? 0) + 1)
    }
  }
  const acknowledged = loads.flatMap((load) => [...load.acknowledged])
  const unknown = loads.flatMap((load) => [...load.unknown])
  const isStored = (id: string) => items.has(id) && created.has(id)
  return {
    acknowledged: acknowledged.length,
    lost: acknowledged.filter((id) => !isStored(id)).length,
    twice: [...created.values()].filter((times) => times > 1).length,
    unknown: {
      stored: unknown.filter(isStored).length,
      absent: unknown.filter((id) => !isStored(id)).length,
    },
    unexpected: loads.flatMap((load) => load.unexpected),
  }
}
