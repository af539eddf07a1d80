import { rmSync } from 'node:fs'
import { type Daicho, startProgram } from '../support/program.ts'
import { until } from '../support/until.ts'
import { acknowledgedBy, countStored, Load, type StoredCounts, startNode } from './load.ts'
import type { PostgresPrograms } from './programs.ts'
import { PostgresServer } from './server.ts'

const NAMES = ['s1', 's2', 's3'] as const
/** A primary and its standbys. If `isSynchronous`, one of the standbys must confirm each commit. */
export class Cluster {
  readonly #servers: Map<string, PostgresServer>
  #primary: string
  #copies = 0

  private constructor(servers: Map<string, PostgresServer>) {
    this.#servers = servers
    this.#primary = NAMES[0]
  }

  /** Starts a primary and, unless `isAlone`, two standbys. */
  static async start(
    programs: PostgresPrograms,
    isSynchronous: boolean,
    isAlone = false,
  ): Promise<Cluster> {
    const standbys = isSynchronous && !isAlone ? `ANY 1 (${NAMES.join(', ')})` : ''
    const primary = await PostgresServer.create(programs, NAMES[0], {
      synchronous_standby_names: standbys,
    })
    const servers = new Map([[NAMES[0] as string, primary]])
    for (const name of isAlone ? [] : NAMES.slice(1)) {
      servers.set(name, await PostgresServer.createStandby(primary, { folder: name, name }))
    }
    await Promise.all([...servers.values()].map((server) => server.start()))
    return new Cluster(servers)
  }

  get primary(): PostgresServer {
    return this.#server(this.#primary)
  }

  get servers(): PostgresServer[] {
    return [...this.#servers.values()]
  }

  get standbys(): PostgresServer[] {
    return [...this.#servers.values()].filter((server) => server !== this.primary)
  }

  /** The URL of the database, with the addresses of all servers. */
  get url(): string {
    const hosts = [...this.#servers.values()].map(({ port }) => `127.0.0.1:${port}`)
    return this.primary.url().replace(/@[^/]*/, `@${hosts.join(',')}`)
  }

  /**
   * Promotes the standby that has received the most data, and makes the other standby follow this new
   * primary. The old primary must be dead or suspended.
   */
  async promote(): Promise<void> {
    const old = this.primary
    const received: { name: string; position: number }[] = []
    for (const [name, server] of this.#servers) {
      if (name === this.#primary) continue
      const text = `SELECT (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0')::text AS position`
      const [row] = await server.query(text)
      received.push({ name, position: Number(row?.position) })
    }
    const [longest] = received.toSorted((one, other) => other.position - one.position)
    this.#primary = longest?.name ?? ''
    await this.primary.promote()
    for (const [name, server] of this.#servers) {
      if (!server.isRunning || server === old || server === this.primary) continue
      server.follow(this.primary, name)
      await server.reload()
    }
  }

  /** Replaces each dead server by a standby, which starts with a copy of the running primary. */
  async repair(): Promise<void> {
    for (const [name, server] of this.#servers) {
      if (server.isRunning) continue
      this.#copies += 1
      const { port } = server
      const folder = `${name}-${this.#copies}`
      const standby = await PostgresServer.createStandby(this.primary, { folder, name, port })
      await standby.start()
      this.#servers.set(name, standby)
      rmSync(server.data, { recursive: true })
    }
    await until('both standbys receive the WAL', async () => {
      const streaming = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
      return (await this.primary.query(streaming)).length === this.#servers.size - 1
    })
  }

  /** Returns the state of each server and the last lines of its log. */
  async describe(): Promise<string> {
    const lines: string[] = []
    for (const [name, server] of this.#servers) {
      const role = server === this.primary ? 'primary' : 'standby'
      lines.push(`${name}, ${role}, ${server.isRunning ? 'running' : 'dead'}`)
      if (!server.isRunning) continue
      lines.push(JSON.stringify(await server.query('SELECT * FROM pg_stat_replication')))
      lines.push(...server.log.split('\n').slice(-10))
    }
    return lines.join('\n')
  }

  async remove(): Promise<void> {
    for (const server of this.#servers.values()) {
      await server.stop('immediate')
      rmSync(server.data, { recursive: true })
    }
  }

  #server(name: string): PostgresServer {
    const server = this.#servers.get(name)
    if (server === undefined) throw new Error(`there is no server ${name}`)
    return server
  }
}

export interface FailoverOptions {
  readonly programs: PostgresPrograms
  /** A new folder for the data folders of the nodes. */
  readonly folder: string
  readonly rounds: number
  /** Number of requests that the nodes must acknowledge before each failover, half of them each. */
  readonly requests: number
  /**
   * Whether a standby must confirm each commit. If false, the standbys are stopped before the only failover,
   * so that it loses commits.
   */
  readonly isSynchronous: boolean
  readonly log: (line: string) => void
}

export interface FailoverResult extends StoredCounts {
  /** For each round, the time from the kill until both nodes have acknowledged a write again, milliseconds. */
  readonly resumedMs: readonly number[]
  /** The body of `/readyz` of each node. */
  readonly ready: readonly string[]
  /** Exit code and output of `daicho verify`. */
  readonly verified: { readonly code: number | null; readonly stdout: string }
}

/**
 * Kills the primary of three servers again and again while two nodes with one key write. After each kill a
 * standby takes over.
 */
export async function runFailovers(options: FailoverOptions): Promise<FailoverResult> {
  const { programs, folder, rounds, requests, isSynchronous, log } = options
  const cluster = await Cluster.start(programs, isSynchronous)
  const nodes: Daicho[] = []
  const loads: Load[] = []
  const urls: string[] = []
  try {
    for (const name of ['a', 'b']) {
      const { node, url } = await startNode(folder, name, cluster.url)
      nodes.push(node)
      urls.push(url)
    }
    loads.push(...urls.map((url, at) => new Load(url, at === 0 ? 'a' : 'b')))
    const acknowledgedMore = (more: number) => acknowledgedBy(loads, more)
    const resumedMs: number[] = []
    for (let round = 1; round <= rounds; round += 1) {
      await until('both nodes acknowledge', acknowledgedMore(requests / 2), 60_000)
      if (!isSynchronous) {
        for (const standby of cluster.standbys) await standby.stop()
        await until('the primary has commits that no standby has', acknowledgedMore(20), 60_000)
      }
      const killedMs = performance.now()
      await cluster.primary.kill9()
      if (!isSynchronous) for (const standby of cluster.standbys) await standby.start()
      await cluster.promote()
      const promotedMs = performance.now() - killedMs
      if (!isSynchronous) break
      await until('both nodes acknowledge again', acknowledgedMore(1), 60_000)
      resumedMs.push(performance.now() - killedMs)
      await cluster.repair()
      log(
        `failover ${round}: promoted after ${promotedMs.toFixed(0)} ms, writing again after ${resumedMs.at(-1)?.toFixed(0)} ms`,
      )
    }
    if (!isSynchronous) {
      const noticed = async () =>
        (await readyOf(urls)).every((text) => text.includes('ROLLED_BACK'))
      await until('both nodes notice the loss', noticed, 30_000)
    }
    for (const load of loads) await load.stop()
    const counted = await countStored(cluster.primary.url(), loads)
    const ready = await readyOf(urls)
    const verify = await startProgram(['verify', cluster.primary.url(), '--json']).ended
    return { ...counted, resumedMs, ready, verified: { code: verify.code, stdout: verify.stdout } }
  } catch (error) {
    log(await cluster.describe())
    for (const url of urls) log(`${url}: ${await readyOf([url]).catch(String)}`)
    log(JSON.stringify(loads.map(({ unexpected }) => unexpected)))
    throw error
  } finally {
    await Promise.all(loads.map((load) => load.stop()))
    for (const node of nodes) node.child.kill('SIGKILL')
    await Promise.all(nodes.map(({ ended }) => ended))
    await cluster.remove()
  }
}

function readyOf(urls: readonly string[]): Promise<string[]> {
  return Promise.all(urls.map(async (url) => (await fetch(`${url}/readyz`)).text()))
}
