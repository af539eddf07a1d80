// A business network that two processes serve on one PostgreSQL cluster, with checks that hold whatever fails.
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readNetwork, requireDefinition } from '../../src/network/index.ts'
import { Dice } from '../support/ledger-load.ts'
import { type Daicho, startProgram } from '../support/program.ts'
import { until } from '../support/until.ts'
import { Cluster } from './failover.ts'
import type { PostgresPrograms } from './programs.ts'
import { PostgresProxy } from './proxy.ts'

const ACCOUNTS = 10
const TOTAL = 1_000
const TRANSFER_CLIENTS = 4
/** Maximum time until both processes acknowledge transfers again after a fault. */
const RECOVERY_MS = 60_000
/** Maximum number of messages that pass before a connection is cut. */
const MESSAGES_MAX = 60
/** A process that is suspended for longer loses its turn. */
const SUSPENDED_MS = 7_000
/** Time after which the server notices that a client has vanished. */
const KEEPALIVE_MS = 15_000
const PAUSE_MS = 50
const BANK = '/bank/api'

/** Writes the network `name`; `version` is also the reply of `Version`. Persons cannot read accounts in odd versions. */
function writeBank(folder: string, name: string, version: number): Uint8Array<ArrayBuffer> {
  const own = mkdtempSync(join(folder, 'bank-'))
  const noRead = `rule NoRead { description: "d" participant: "org.bank.Person" operation: READ
    resource: "org.bank.Account" action: DENY }`
  const files = {
    'package.json': JSON.stringify({ name, version: `${version}.0.0`, description: 'd' }),
    'models/bank.cto': `namespace org.bank
      asset Account identified by id { o String id o Integer value }
      asset Receipt identified by id { o String id o String source o String sink o Integer amount }
      participant Person identified by id { o String id o Boolean allowed }
      transaction Transfer { --> Account source --> Account sink o Integer amount o String receipt }
      @commit(false)
      @returns(Integer)
      transaction Sum { }
      @commit(false)
      @returns(Integer)
      transaction Version { }
      transaction RequireSum { o Integer sum }`,
    'permissions.acl': `${version % 2 === 1 ? noRead : ''}
      rule Admin { description: "d" participant: "org.hyperledger.composer.system.NetworkAdmin"
        operation: ALL resource: "**" action: ALLOW }
      rule Allowed { description: "d" participant(p): "org.bank.Person" operation: ALL resource: "**"
        condition: (p.allowed) action: ALLOW }`,
    'lib/bank.js': `
      async function total() {
        const accounts = await (await getAssetRegistry('org.bank.Account')).getAll()
        return accounts.reduce((sum, { value }) => sum + value, 0)
      }
      /**
      * @param {org.bank.Transfer} transfer
      * @transaction
      */
      async function transfer({ source, sink, amount, receipt }) {
        source.value -= amount
        sink.value += amount
        await (await getAssetRegistry('org.bank.Account')).updateAll([source, sink])
        const made = getFactory().newResource('org.bank', 'Receipt', receipt)
        Object.assign(made, { source: source.id, sink: sink.id, amount })
        await (await getAssetRegistry('org.bank.Receipt')).add(made)
      }
      /**
      * @param {org.bank.Sum} sum
      * @transaction
      */
      async function sum() { return total() }
      /**
      * @param {org.bank.Version} version
      * @transaction
      */
      async function version() { return ${version} }
      /**
      * @param {org.bank.RequireSum} required
      * @transaction
      */
      async function requireSum({ sum }) {
        const found = await total()
        if (found !== sum) throw new Error('the sum is ' + found)
      }`,
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(own, path)), { recursive: true })
    writeFileSync(join(own, path), text)
  }
  return new Uint8Array(requireDefinition(readNetwork(own)).archive)
}

interface Reply {
  /** 0 if the connection broke before the reply. */
  readonly status: number
  readonly text: string
}

/** Whether the outcome of a request is unknown, or the request was refused for now. */
const isTemporary = ({ status }: Reply): boolean => status === 0 || status === 503

/** One of the two processes, with a proxy for each server. */
class Node {
  readonly name: string
  readonly proxies: readonly PostgresProxy[]
  transfers = 0
  /** The last temporary refusal, for error messages. */
  refusal = ''
  readonly folder: string
  readonly #store: string
  #daicho: Daicho | null = null
  #gateway = ''
  /** True while the process is expected to run. */
  isExpected = false
  ended: string | null = null

  private constructor(name: string, folder: string, proxies: readonly PostgresProxy[]) {
    this.name = name
    this.proxies = proxies
    this.folder = join(folder, name)
    mkdirSync(this.folder, { recursive: true })
    const key = join(folder, 'a', 'node.key')
    if (existsSync(key) && name !== 'a') copyFileSync(key, join(this.folder, 'node.key'))
    const [first] = proxies
    const hosts = proxies.map(({ url }) => new URL(url).host).join(',')
    this.#store = (first?.url ?? '').replace(/@[^/]*/, `@${hosts}`)
  }

  static async open(name: string, folder: string, cluster: Cluster): Promise<Node> {
    const proxies: PostgresProxy[] = []
    for (const server of cluster.servers) proxies.push(await PostgresProxy.start(server.url()))
    return new Node(name, folder, proxies)
  }

  /** Starts the process, again if the database cannot be reached. */
  async start(): Promise<void> {
    for (;;) {
      const ports = ['--port', '0', '--gateway-port', '0']
      const daicho = startProgram(['serve', '--only', 'ledger,gateway', ...ports, '--json'], {
        ...{ SYSTEM_FOLDER: this.folder, STORE: this.#store, LOG_LEVEL: 'fatal' },
        PROCESSOR_DEADLINE_MS: '10000',
      })
      const line = await daicho.firstLine.catch(() => null)
      if (line === null) continue
      this.#daicho = daicho
      this.#gateway = JSON.parse(line).gateway
      this.isExpected = true
      void daicho.ended.then(({ code, stderr }) => {
        if (this.isExpected) this.ended = `${this.name} ended with ${code}: ${stderr.slice(-2_000)}`
      })
      return
    }
  }

  async kill(): Promise<void> {
    this.isExpected = false
    this.#daicho?.child.kill('SIGCONT')
    this.#daicho?.child.kill('SIGKILL')
    await this.#daicho?.ended
  }

  async suspend(ms: number): Promise<void> {
    this.#daicho?.child.kill('SIGSTOP')
    await sleep(ms)
    this.#daicho?.child.kill('SIGCONT')
  }

  async call(method: string, path: string, body?: unknown, secret?: string): Promise<Reply> {
    const isArchive = body instanceof Uint8Array
    const headers = {
      ...(isArchive ? { 'content-type': 'application/octet-stream' } : {}),
      ...(body !== undefined && !isArchive ? { 'content-type': 'application/json' } : {}),
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
    }
    try {
      const sent = body === undefined ? {} : { body: isArchive ? body : JSON.stringify(body) }
      const reply = await fetch(`${this.#gateway}${path}`, {
        method,
        headers,
        ...sent,
      } as RequestInit)
      return { status: reply.status, text: await reply.text() }
    } catch {
      return { status: 0, text: '' }
    }
  }

  async close(): Promise<void> {
    await this.kill()
    for (const proxy of this.proxies) await proxy[Symbol.asyncDispose]()
  }
}

export interface NetworkFaultsOptions {
  readonly programs: PostgresPrograms
  /** A new folder. */
  readonly folder: string
  readonly seed: number
  /** Kinds of faults, each made once before any is repeated; default: all. */
  readonly kinds?: readonly FaultKind[]
  /** Number of faults; the run also ends after `minutes`. */
  readonly faults: number
  readonly minutes: number
  /** Pause of each client after a transfer, milliseconds; by default none. */
  readonly pauseMs?: number
  /** Duration of each measurement without faults, seconds; 0 for none. */
  readonly measureSeconds: number
  readonly log: (line: string) => void
}

export interface NetworkFaultsResult {
  /** Every reply and state that is wrong. */
  readonly wrong: readonly string[]
  readonly transfers: { readonly acknowledged: number; readonly unknown: number }
  /** Number of checked replies, by kind. */
  readonly checked: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  /** Transfers per second of each process, alone and while both are busy; null if not measured. */
  readonly rates: Readonly<Record<'alone' | 'both', readonly number[]>> | null
  /** Longest time until both processes acknowledged transfers again after a fault. */
  readonly recoveryMsMax: number
  readonly verified: { readonly chain: string; readonly network: string }
}

/** Transfers, sums, guards, access rules, identities, upgrades and deployments on both processes, while things fail. */
class Run {
  readonly wrong: string[] = []
  readonly checked: Record<string, number> = {}
  readonly faults: Record<string, number> = {}
  readonly acknowledged = new Set<string>()
  readonly unknown = new Set<string>()
  recoveryMsMax = 0
  readonly #cluster: Cluster
  readonly #nodes: readonly [Node, Node]
  readonly #options: NetworkFaultsOptions
  readonly #dice: Dice
  #isOver = false
  #receipts = 0

  constructor(cluster: Cluster, nodes: readonly [Node, Node], options: NetworkFaultsOptions) {
    this.#cluster = cluster
    this.#nodes = nodes
    this.#options = options
    this.#dice = new Dice(options.seed)
  }

  get nodes(): readonly [Node, Node] {
    return this.#nodes
  }

  stop(): void {
    this.#isOver = true
  }

  /** Records a wrong reply unless `isRight`. */
  #check(kind: string, isRight: boolean, found: string): void {
    this.checked[kind] = (this.checked[kind] ?? 0) + 1
    if (isRight) return
    this.wrong.push(`${kind}: ${found}`)
    this.#options.log(`WRONG ${kind}: ${found}`)
  }

  /** Repeats a request until its outcome is known. */
  async #known(ask: () => Promise<Reply>): Promise<Reply> {
    for (;;) {
      const reply = await ask()
      if (!isTemporary(reply) || this.#isOver) return reply
      await sleep(PAUSE_MS)
    }
  }

  /** Repeats a request until its outcome is known, and checks its status. Returns the reply, or null at the end. */
  async #expect(kind: string, statuses: readonly number[], ask: () => Promise<Reply>) {
    const reply = await this.#known(ask)
    if (isTemporary(reply)) return null
    const { status, text } = reply
    this.#check(kind, statuses.includes(status), `${status} ${text.slice(0, 300)}`)
    return reply
  }

  async setUp(): Promise<void> {
    const [one, two] = this.#nodes
    const archive = writeBank(this.#options.folder, 'bank', 0)
    await this.#expect('set up', [200], () => one.call('POST', '/networks', archive))
    const accounts = Array.from({ length: ACCOUNTS }, (_, n) => ({
      ...{ id: `a${n}`, value: TOTAL / ACCOUNTS },
    }))
    await this.#expect('set up', [200], () => two.call('POST', `${BANK}/Account`, accounts))
    const persons = ['p1', 'p2'].map((id) => ({ id, allowed: true }))
    await this.#expect('set up', [200], () => one.call('POST', `${BANK}/Person`, persons))
  }

  async transfer(node: Node): Promise<void> {
    this.#receipts += 1
    const receipt = `${node.name}-${this.#receipts}`
    const [source, sink] = [this.#dice.below(ACCOUNTS), this.#dice.below(ACCOUNTS - 1)]
    const body = {
      ...{ source: `a${source}`, sink: `a${sink < source ? sink : sink + 1}` },
      ...{ amount: 1 + this.#dice.below(9), receipt },
    }
    const reply = await node.call('POST', `${BANK}/Transfer`, body)
    if (isTemporary(reply)) {
      node.refusal = reply.text
      this.unknown.add(receipt)
      await sleep(PAUSE_MS)
      return
    }
    this.#check('transfer', reply.status === 200, `${reply.status} ${reply.text.slice(0, 300)}`)
    if (reply.status !== 200) return
    this.acknowledged.add(receipt)
    node.transfers += 1
  }

  /** Runs all clients until `stop`. */
  async work(): Promise<void> {
    const loop = async (step: () => Promise<void>) => {
      while (!this.#isOver) await step()
    }
    const clients: Promise<void>[] = []
    for (const node of this.#nodes) {
      for (let n = 0; n < TRANSFER_CLIENTS; n += 1) {
        clients.push(
          loop(async () => {
            await this.transfer(node)
            await sleep(this.#options.pauseMs ?? 0)
          }),
        )
      }
      clients.push(
        loop(() => this.#sum(node)),
        loop(() => this.#guard(node)),
      )
    }
    clients.push(
      this.#permissions(),
      this.#upgrades(),
      this.#deployments(),
      loop(() => this.#identity()),
    )
    await Promise.all(clients)
  }

  async #sum(node: Node): Promise<void> {
    const reply = await node.call('POST', `${BANK}/Sum`, {})
    const { status, text } = reply
    if (!isTemporary(reply))
      this.#check('sum', text === `${TOTAL}`, `${status} ${text.slice(0, 300)}`)
    await sleep(PAUSE_MS)
  }

  async #guard(node: Node): Promise<void> {
    const reply = await node.call('POST', `${BANK}/RequireSum`, { sum: TOTAL })
    const { status, text } = reply
    if (!isTemporary(reply)) this.#check('guard', status === 200, `${status} ${text.slice(0, 300)}`)
    await sleep(PAUSE_MS)
  }

  /** The two processes in random order. */
  #pair(): readonly [Node, Node] {
    const [one, two] = this.#nodes
    return this.#dice.below(2) === 0 ? [one, two] : [two, one]
  }

  /** Issues an identity of a person. Returns its secret, or null at the end. */
  async #issue(person: string): Promise<string | null> {
    while (!this.#isOver) {
      const [at] = this.#pair()
      const participant = `resource:org.bank.Person#${person}`
      const identity = { participant, userID: `u${this.#dice.next()}` }
      const reply = await at.call('POST', `${BANK}/system/identities/issue`, identity)
      if (reply.status === 200) return JSON.parse(reply.text).userSecret
      await sleep(PAUSE_MS)
    }
    return null
  }

  /** A person whose rights one process changes gets the answer of the new rights at the other process. */
  async #permissions(): Promise<void> {
    const secret = (await this.#issue('p1')) ?? ''
    for (let allowed = false; !this.#isOver; allowed = !allowed) {
      const [at, other] = this.#pair()
      const put = () => at.call('PUT', `${BANK}/Person/p1`, { id: 'p1', allowed })
      if ((await this.#expect('permission', [200], put)) === null) return
      const ask = () => other.call('POST', `${BANK}/Version`, {}, secret)
      await this.#expect(allowed ? 'allowed' : 'denied', [allowed ? 200 : 403], ask)
      await sleep(PAUSE_MS)
    }
  }

  async #identity(): Promise<void> {
    const secret = await this.#issue('p2')
    if (secret === null) return
    const [at, other] = this.#pair()
    const ask = () => other.call('POST', `${BANK}/Version`, {}, secret)
    await this.#expect('issued', [200], ask)
    const id = createHash('sha256').update(secret).digest('hex')
    const path = `${BANK}/system/identities/${id}/revoke`
    if ((await this.#expect('revoke', [204], () => at.call('POST', path, {}))) === null) return
    await this.#expect('revoked', [401], ask)
    await sleep(10 * PAUSE_MS)
  }

  async #upgrades(): Promise<void> {
    const secret = (await this.#issue('p2')) ?? ''
    for (let version = 1; !this.#isOver; version += 1) {
      const [at, other] = this.#pair()
      const archive = writeBank(this.#options.folder, 'bank', version)
      // 409: an earlier attempt, whose outcome was unknown, has made the upgrade.
      const put = () => at.call('PUT', '/networks/bank', archive)
      if ((await this.#expect('upgrade', [200, 409], put)) === null) return
      const read = () => other.call('GET', `${BANK}/Account/a0`, undefined, secret)
      await this.#expect('rules', version % 2 === 1 ? [403, 404] : [200], read)
      const reply = await this.#known(() => other.call('POST', `${BANK}/Version`, {}))
      if (isTemporary(reply)) return
      this.#check('version', reply.text === `${version}`, `${reply.text}, not ${version}`)
      await sleep(40 * PAUSE_MS)
    }
  }

  /** Deploys two archives under one name at once. At most one is recorded, and both processes serve the same one. */
  async #deployments(): Promise<void> {
    for (let n = 0; !this.#isOver; n += 1) {
      const name = `d${n}`
      const replies = await Promise.all(
        this.#nodes.map((node, at) => {
          return node.call('POST', '/networks', writeBank(this.#options.folder, name, 2 * at))
        }),
      )
      const statuses = replies.map(({ status }) => status)
      const isRight = statuses.every((status) => [0, 200, 409, 503].includes(status))
      const winners = statuses.filter((status) => status === 200).length
      this.#check('deployment', isRight && winners <= 1, statuses.join())
      const winner = statuses.indexOf(200)
      await this.#agreed(name, winner === -1 ? null : `${2 * winner}.0.0`)
      const [, other] = this.#pair()
      await this.#expect('removal', [204, 404, 410], () =>
        other.call('DELETE', `/networks/${name}`),
      )
      await sleep(60 * PAUSE_MS)
    }
  }

  /** Both processes list the same version of `name`: `expected`, unless no deployment was acknowledged. */
  async #agreed(name: string, expected: string | null): Promise<void> {
    for (let tries = 200; !this.#isOver; tries -= 1) {
      const versions: (string | undefined)[] = []
      for (const node of this.#nodes) {
        const reply = await this.#known(() => node.call('GET', '/networks'))
        if (isTemporary(reply)) return
        const listed: { name: string; version: string }[] = JSON.parse(reply.text)
        versions.push(listed.find((each) => each.name === name)?.version)
      }
      const [one, two] = versions
      const isRight = one === two && (expected === null || one === expected)
      // A deployment without an acknowledgement can still be recorded while both are asked.
      if (!isRight && expected === null && tries > 0) await sleep(PAUSE_MS)
      else return this.#check('served', isRight, `${one} and ${two}, expected ${expected}`)
    }
  }

  /** Makes faults one after another. After each, both processes must acknowledge transfers again. */
  async fail(): Promise<void> {
    const { faults, minutes, log, kinds = Object.keys(FAULTS) as FaultKind[] } = this.#options
    const endMs = Date.now() + 60_000 * minutes
    for (let n = 0; n < faults && Date.now() < endMs && this.wrong.length < 20; n += 1) {
      const kind = n < kinds.length ? kinds[n] : kinds[this.#dice.below(kinds.length)]
      if (kind === undefined) return
      this.faults[kind] = (this.faults[kind] ?? 0) + 1
      const startedMs = performance.now()
      await FAULTS[kind]({ cluster: this.#cluster, nodes: this.#nodes, dice: this.#dice })
      for (const node of this.#nodes) for (const proxy of node.proxies) proxy.verdict = () => 'pass'
      const before = this.#nodes.map(({ transfers }) => transfers)
      const isWorking = () => {
        const dead = this.#nodes.find(({ ended }) => ended !== null)
        if (dead !== undefined) throw new Error(dead.ended ?? '')
        return this.#nodes.every(({ transfers }, at) => transfers > (before[at] ?? 0) + 2)
      }
      await until(`both processes work after ${kind}`, isWorking, RECOVERY_MS).catch(
        async (error: unknown) => {
          for (const node of this.#nodes) log(`${node.name}: ${node.transfers} ${node.refusal}`)
          log(await this.#cluster.describe())
          throw error
        },
      )
      const ms = performance.now() - startedMs
      this.recoveryMsMax = Math.max(this.recoveryMsMax, ms)
      log(
        `${n} ${kind}: ${ms.toFixed(0)} ms, ${this.acknowledged.size} transfers, ${this.wrong.length} wrong`,
      )
    }
  }

  /** Compares receipts and accounts with the requests. Call after `work` has ended. */
  async compare(): Promise<void> {
    const [node] = this.#nodes
    const read = async (type: string) => {
      const reply = await this.#untilAnswered(() => node.call('GET', `${BANK}/${type}`))
      return JSON.parse(reply.text)
    }
    const receipts: { id: string; source: string; sink: string; amount: number }[] =
      await read('Receipt')
    const values = new Map<string, number>()
    const add = (id: string, amount: number) =>
      values.set(id, (values.get(id) ?? TOTAL / ACCOUNTS) + amount)
    for (const { id, source, sink, amount } of receipts) {
      add(source, -amount)
      add(sink, amount)
      const isKnown = this.acknowledged.has(id) || this.unknown.has(id)
      this.#check('receipt', isKnown, `${id} was never requested`)
    }
    const stored = new Set(receipts.map(({ id }) => id))
    for (const id of this.acknowledged) this.#check('acknowledged', stored.has(id), `${id} is lost`)
    const accounts: { id: string; value: number }[] = await read('Account')
    for (const { id, value } of accounts) {
      const expected = values.get(id) ?? TOTAL / ACCOUNTS
      this.#check('account', value === expected, `${id} has ${value}, not ${expected}`)
    }
  }

  async #untilAnswered(ask: () => Promise<Reply>): Promise<Reply> {
    for (;;) {
      const reply = await ask()
      if (!isTemporary(reply)) return reply
      await sleep(PAUSE_MS)
    }
  }

  /** Returns the transfers per second of each process: each alone, then both. */
  async measure(seconds: number): Promise<NetworkFaultsResult['rates']> {
    const [one, two] = this.#nodes
    const rates = async (busy: readonly Node[]) => {
      const before = busy.map(({ transfers }) => transfers)
      const endMs = performance.now() + 1_000 * seconds
      const client = async (node: Node) => {
        while (performance.now() < endMs) await this.transfer(node)
      }
      const clients = busy.flatMap((node) => Array.from({ length: 16 }, () => client(node)))
      await Promise.all(clients)
      return busy.map(({ transfers }, at) => Math.round((transfers - (before[at] ?? 0)) / seconds))
    }
    const alone = [...(await rates([one])), ...(await rates([two]))]
    return { alone, both: await rates([one, two]) }
  }
}

interface FaultContext {
  readonly cluster: Cluster
  readonly nodes: readonly [Node, Node]
  readonly dice: Dice
}

const oneOf = ({ nodes, dice }: FaultContext): Node => nodes[dice.below(2) === 0 ? 0 : 1]

const FAULTS = {
  /** Cuts one connection of a process at a random message, in either direction. */
  async cut(context: FaultContext) {
    const node = oneOf(context)
    let left = context.dice.below(MESSAGES_MAX)
    const verdict = context.dice.below(2) === 0 ? 'cut before' : 'cut after'
    const from = context.dice.below(2) === 0 ? 'client' : 'server'
    for (const proxy of node.proxies) {
      proxy.verdict = (message) => {
        if (message.from !== from) return 'pass'
        left -= 1
        return left === 0 ? verdict : 'pass'
      }
    }
    await until('the connection is cut', () => left <= 0, RECOVERY_MS)
  },
  /** Lets all further messages of one connection disappear, until the server notices as by TCP keepalives. */
  async hold(context: FaultContext) {
    const node = oneOf(context)
    let left = context.dice.below(MESSAGES_MAX)
    for (const proxy of node.proxies) {
      proxy.verdict = () => {
        left -= 1
        return left === 0 ? 'hold' : 'pass'
      }
    }
    await until('the connection is held', () => left <= 0, RECOVERY_MS)
    setTimeout(() => {
      for (const proxy of node.proxies) proxy.cutAll()
    }, KEEPALIVE_MS)
  },
  async cutAll(context: FaultContext) {
    for (const proxy of oneOf(context).proxies) proxy.cutAll()
  },
  async kill(context: FaultContext) {
    const node = oneOf(context)
    await node.kill()
    await node.start()
  },
  /** Suspends a process for so long that the server ends its transactions. */
  async suspend(context: FaultContext) {
    await oneOf(context).suspend(SUSPENDED_MS)
  },
  async crash({ cluster }: FaultContext) {
    await cluster.primary.stop('immediate')
    await cluster.primary.start()
  },
  async restart({ cluster, dice }: FaultContext) {
    await cluster.primary.stop('fast')
    await sleep(dice.below(3_000))
    await cluster.primary.start()
  },
  async pause({ cluster, dice }: FaultContext) {
    await cluster.primary.pause()
    await sleep(dice.below(4_000))
    await cluster.primary.resume()
  },
  async failover({ cluster }: FaultContext) {
    await cluster.primary.kill9()
    await cluster.promote()
    await cluster.repair()
  },
  /** Promotes a standby while the primary is suspended. Then the former primary answers reads with old data. */
  async former({ cluster }: FaultContext) {
    const old = cluster.primary
    await old.pause()
    await cluster.promote()
    await old.resume()
    await sleep(3_000)
    await old.kill9()
    await cluster.repair()
  },
} as const

type FaultKind = keyof typeof FAULTS

export function isFaultKind(name: string | undefined): name is FaultKind {
  return name !== undefined && name in FAULTS
}

/**
 * Runs two processes of one node on a cluster of three servers, or of one if no fault needs the others, and checks every
 * reply while things fail.
 */
export async function runNetworkFaults(
  options: NetworkFaultsOptions,
): Promise<NetworkFaultsResult> {
  const { programs, folder, measureSeconds } = options
  const kinds = options.kinds ?? Object.keys(FAULTS)
  const isAlone = !kinds.some((kind) => kind === 'failover' || kind === 'former')
  const cluster = await Cluster.start(programs, true, isAlone)
  const nodes: Node[] = []
  try {
    for (const name of ['a', 'b']) {
      const node = await Node.open(name, folder, cluster)
      nodes.push(node)
      await node.start()
    }
    const [one, two] = nodes
    if (one === undefined || two === undefined) throw new Error('there are two processes')
    const run = new Run(cluster, [one, two], options)
    await run.setUp()
    const rates = measureSeconds === 0 ? null : await run.measure(measureSeconds)
    if (rates !== null) options.log(JSON.stringify(rates))
    const working = run.work()
    await run.fail().finally(() => run.stop())
    await working
    await run.compare()
    const url = cluster.primary.url()
    const chain = await startProgram(['verify', url, '--json']).ended
    await one.kill()
    const stopped = { SYSTEM_FOLDER: one.folder, STORE: url }
    const network = await startProgram(['network', 'verify', '--json'], stopped).ended
    return {
      ...{ wrong: run.wrong, checked: run.checked, faults: run.faults, rates },
      transfers: { acknowledged: run.acknowledged.size, unknown: run.unknown.size },
      recoveryMsMax: Math.round(run.recoveryMsMax),
      verified: {
        chain: `${chain.code} ${chain.stdout.trim()}${chain.stderr}`,
        network: `${network.code} ${network.stdout.trim()}${network.stderr}`,
      },
    }
  } finally {
    for (const node of nodes) await node.close()
    await cluster.remove()
  }
}
