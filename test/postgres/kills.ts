import { type Daicho, startProgram } from '../support/program.ts'
import { until } from '../support/until.ts'
import { acknowledgedBy, countStored, Load, type StoredCounts, startNode } from './load.ts'
import { queryOnce } from './server.ts'

const WAIT_MS = 60_000
const NAMES = ['a', 'b'] as const

export interface KillOptions {
  /** URL of an empty database. */
  readonly url: string
  /** A new folder for the data folders of the nodes. */
  readonly folder: string
  readonly kills: number
  /**
   * Number of further requests that each node must acknowledge before a kill, and that the surviving node must
   * acknowledge after it.
   */
  readonly requests: number
  readonly log: (line: string) => void
}

export interface KillResult extends StoredCounts {
  readonly blocks: number
  /** Number of blocks whose predecessor is missing. */
  readonly gaps: number
  /** Exit code and output of `daicho verify`. */
  readonly verified: { readonly code: number | null; readonly stdout: string }
}

/** Kills two nodes with one key in turn while they write, and starts each again. */
export async function runKills(options: KillOptions): Promise<KillResult> {
  const { url, folder, kills, requests, log } = options
  const nodes = new Map<string, { node: Daicho; load: Load }>()
  const loads: Load[] = []
  const start = async (name: string) => {
    const started = await startNode(folder, name, url)
    const load = new Load(started.url, `${name}${loads.length}`)
    loads.push(load)
    nodes.set(name, { node: started.node, load })
  }
  const current = () => [...nodes.values()].map(({ load }) => load)
  try {
    for (const name of NAMES) await start(name)
    for (let kill = 1; kill <= kills; kill += 1) {
      await until('both nodes acknowledge', acknowledgedBy(current(), requests), WAIT_MS)
      const name = NAMES[kill % 2] ?? 'a'
      const killed = nodes.get(name)
      killed?.node.child.kill('SIGKILL')
      const killedMs = performance.now()
      const others = current().filter((load) => load !== killed?.load)
      await until('the other node continues', acknowledgedBy(others, requests), WAIT_MS)
      const continuedMs = performance.now() - killedMs
      await killed?.node.ended
      await killed?.load.stop()
      await start(name)
      log(`kill ${kill}: ${requests} more at the other node after ${continuedMs.toFixed(0)} ms`)
    }
    await until('both nodes acknowledge', acknowledgedBy(current(), requests), WAIT_MS)
    await Promise.all(loads.map((load) => load.stop()))
    const [row] = await queryOnce(
      url,
      `SELECT count(*)::int AS blocks, (max(height) + 1 - count(*))::int AS gaps FROM blocks`,
    )
    const verify = await startProgram(['verify', url, '--json']).ended
    return {
      ...(await countStored(url, loads)),
      blocks: Number(row?.blocks),
      gaps: Number(row?.gaps),
      verified: { code: verify.code, stdout: verify.stdout },
    }
  } finally {
    await Promise.all(loads.map((load) => load.stop()))
    for (const { node } of nodes.values()) node.child.kill('SIGKILL')
    await Promise.all([...nodes.values()].map(({ node }) => node.ended))
  }
}
