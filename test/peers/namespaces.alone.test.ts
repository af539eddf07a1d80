// Node processes in separate network namespaces. The test can cut and slow down the links between them.
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { mirrorFolder } from '../../src/ledger/peers/mirror.ts'
import { type Daicho, startDaicho } from '../support/daicho.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'
import { Namespaces, whyNoNamespaces } from '../support/namespaces.ts'
import { until } from '../support/until.ts'

const PORT = 4126
/** Duration of a partition, milliseconds. For a longer one in manual runs: NAMESPACES_CUT_MS=30000. */
const CUT_MS = Number(process.env.NAMESPACES_CUT_MS ?? 1_000)
/**
 * Maximum wait for an effect, milliseconds. A lost request times out after 30 seconds, and a node tries a
 * failed peer again after another 30 seconds.
 */
const WAIT_MS = 200_000
const TEST_MS = 2 * WAIT_MS + 4 * CUT_MS
const INTERVAL_MS = '100'
/** Rate of a slow link: six megabytes take twelve seconds. */
const SLOW = '4mbit'

const skipReason = whyNoNamespaces()
const skipped = skipReason === null ? '' : ` (skipped: ${skipReason})`

/** A node on a host. The test reaches it by an address on a link that is never cut. */
class HostedNode {
  readonly host: string
  readonly folder: string
  serverId = 0
  vkey = ''
  readonly #networks: Namespaces
  readonly #listenAt: string
  readonly #url: string
  #daicho: Daicho | null = null

  /** `isHidden`: the node listens only on an address that the other hosts cannot reach. */
  constructor(networks: Namespaces, host: string, isHidden: boolean) {
    this.#networks = networks
    this.host = host
    this.folder = temporaryFolder()
    this.#listenAt = isHidden ? networks.address(host) : '0.0.0.0'
    this.#url = `http://${networks.address(host)}:${PORT}`
  }

  async start(): Promise<void> {
    this.#daicho = startDaicho(
      ['serve', '--only', 'ledger', '--host', this.#listenAt, '--port', `${PORT}`, '--json'],
      {
        SYSTEM_FOLDER: this.folder,
        LOG_LEVEL: 'error',
        BASIC_USERNAME: 'keeper',
        BASIC_PASSWORD: 'brass: key',
        PEERS_ALLOW_PRIVATE: '1',
        PEERS_INTERVAL_MS: INTERVAL_MS,
      },
      { via: this.#networks.at(this.host) },
    )
    await this.#daicho.firstLine
    this.serverId = (await this.send('GET', '/api/serverid')).serverid
    this.vkey = (await this.text(`/api/ledgers/${this.serverId}/vkey`)).trim()
  }

  async kill(): Promise<void> {
    this.#daicho?.child.kill('SIGKILL')
    await this.#daicho?.ended
  }

  async text(path: string): Promise<string> {
    return (await fetch(this.#url + path)).text()
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests assert on arbitrary JSON
  async send(method: string, path: string, body?: unknown): Promise<any> {
    const headers = { 'content-type': 'application/json' }
    const sent = body === undefined ? {} : { headers, body: JSON.stringify(body) }
    const reply = await fetch(this.#url + path, { method, ...sent })
    // biome-ignore lint/suspicious/noExplicitAny: tests assert on arbitrary JSON
    const json: any = await reply.json()
    if (json.status !== true) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`)
    return json
  }

  /**
   * Makes this node mirror the chain of `other`. If `other` is hidden, it pushes the chain, otherwise this
   * node pulls it.
   */
  async mirror(other: HostedNode, { isHidden = false, push = false } = {}): Promise<void> {
    const url = `http://${this.#networks.addressFor(this.host, other.host)}:${PORT}`
    const peer = isHidden ? { vkey: other.vkey } : { vkey: other.vkey, url, push }
    await this.send('POST', '/api/config/peers', peer)
  }

  chain(serverId: number): Promise<string> {
    return this.text(`/api/ledgers?serverid=${serverId}&proof=1`)
  }

  /** Returns how many blocks of the chain of `other` this node has mirrored. */
  async mirrored({ serverId }: HostedNode): Promise<number> {
    const { peers } = await this.send('GET', '/api/config/peers')
    return peers.find((peer: { serverid: number }) => peer.serverid === serverId).blocks
  }
}

async function startNodes(
  hosts: readonly string[],
  hidden: readonly string[],
): Promise<TestNetwork> {
  const networks = new Namespaces(hosts)
  const nodes = hosts.map((host) => new HostedNode(networks, host, hidden.includes(host)))
  onTestFinished(async () => {
    await Promise.all(nodes.map((node) => node.kill()))
    networks.remove()
  })
  await Promise.all(nodes.map((node) => node.start()))
  await Promise.all(nodes.map((node) => node.send('POST', '/api/d')))
  return { networks, nodes: nodes as [HostedNode, HostedNode, HostedNode] }
}

interface TestNetwork {
  readonly networks: Namespaces
  readonly nodes: [HostedNode, HostedNode, HostedNode]
}

/** Waits until `isSo` returns true, for at most WAIT_MS, which is longer than the retry delay of a peer. */
const within = (description: string, isSo: () => Promise<boolean>) =>
  until(description, isSo, WAIT_MS)

/** Waits until all nodes serve identical copies of all chains, and then verifies every mirror. */
async function expectAgreement(nodes: readonly HostedNode[]): Promise<void> {
  for (const of of nodes) {
    const own = await of.chain(of.serverId)
    const blocks = JSON.parse(own).ledgers.length
    for (const at of nodes) {
      const what = `${at.host} has the chain of ${of.host}`
      // Polls the number of blocks, because the chain has megabytes.
      if (at !== of) await within(what, async () => (await at.mirrored(of)) === blocks)
      expect(await at.chain(of.serverId), what).toBe(own)
    }
  }
  for (const at of nodes) {
    const { peers } = await at.send('GET', '/api/config/peers')
    for (const peer of peers) expect([at.host, peer.evidence]).toEqual([at.host, null])
    for (const of of nodes) {
      const folder = at === of ? at.folder : mirrorFolder(at.folder, of.serverId)
      const { finding } = await verifyFolder(folder)
      expect([at.host, of.host, finding]).toEqual([at.host, of.host, null])
    }
  }
}

async function write(node: HostedNode, count: number, text = ''): Promise<void> {
  for (let n = 0; n < count; n += 1) await node.send('POST', '/api/d', { n, text })
}

it.skipIf(skipReason !== null)(
  `an unreachable node pushes its chain, and reads the chains of the other nodes${skipped}`,
  async () => {
    const { nodes } = await startNodes(['a', 'b', 'h'], ['h'])
    const [a, b, hidden] = nodes
    for (const [at, of] of [
      [a, b],
      [b, a],
    ] as const) {
      await at.mirror(of)
      await at.mirror(hidden, { isHidden: true })
      await hidden.mirror(at, { push: true })
    }
    await Promise.all(nodes.map((node) => write(node, 30)))
    await expectAgreement(nodes)
    // A peer that connects to the hidden node gets no reply.
    await expect(fetchFrom(a, hidden)).resolves.toBe('unreachable')
  },
  TEST_MS,
)

/** Makes `from` pull the chain of `to`. Returns the error code that `from` then shows. */
async function fetchFrom(from: HostedNode, to: HostedNode): Promise<string> {
  await from.mirror(to)
  let code = ''
  await within('the peer shows an error', async () => {
    const { peers } = await from.send('GET', '/api/config/peers')
    const peer = peers.find((one: { serverid: number; url: string | null }) => {
      return one.serverid === to.serverId && one.url !== null
    })
    code = peer?.error?.code ?? ''
    return code !== ''
  })
  return code.toLowerCase()
}

it.skipIf(skipReason !== null)(
  `all mirrors are complete after partitions, one-way links, stopped nodes and kills during a transfer${skipped}`,
  async () => {
    const { networks, nodes } = await startNodes(['a', 'b', 'c'], [])
    const [a, b, c] = nodes
    for (const at of nodes) for (const of of nodes) if (at !== of) await at.mirror(of)
    const writeAll = () => Promise.all(nodes.map((node) => write(node, 20)))
    await writeAll()

    networks.cut('a', 'b')
    networks.cut('a', 'c')
    await Promise.all([writeAll(), delay(CUT_MS)])
    await within('the other nodes continue', async () => (await b.mirrored(c)) === 41)
    expect(await b.mirrored(a)).toBeLessThan(41)
    networks.mend('a', 'b')
    networks.mend('a', 'c')

    // Messages from b to c are lost, but messages from c to b arrive.
    networks.cutOneWay('b', 'c')
    await Promise.all([writeAll(), delay(CUT_MS)])
    networks.mendOneWay('b', 'c')
    await expectAgreement(nodes)

    // Kills a node while another node fetches its chain, and starts it again.
    const blocks = 61
    const more = 60
    networks.slow('a', 'b', SLOW)
    await write(a, more, 'x'.repeat(60_000))
    await within('a batch is stored', async () => (await b.mirrored(a)) > blocks)
    await a.kill()
    const stored = await b.mirrored(a)
    expect(stored).toBeLessThan(blocks + more)
    await a.start()
    await within('the transfer continues', async () => (await b.mirrored(a)) > stored)
    networks.quicken('a', 'b')
    await expectAgreement(nodes)

    // Stops a node for so long that it must fetch many blocks afterwards.
    await c.kill()
    await Promise.all([write(a, 150), write(b, 150)])
    await c.start()
    await write(c, 5)
    await expectAgreement(nodes)
  },
  TEST_MS,
)
