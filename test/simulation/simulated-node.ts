import { createPrivateKey, createPublicKey } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CodedError } from '../../src/base/coded-error.ts'
import {
  logOrigin,
  parseCheckpoint,
  rawPublicKey,
  toServerId,
  verifierKeyText,
} from '../../src/chain/index.ts'
import type { Outbound } from '../../src/http/outbound.ts'
import {
  type OpenLedger,
  openLedger,
  type Peer,
  PeerClient,
  restoreChain,
} from '../../src/ledger/core.ts'
import type { LedgerService } from '../../src/ledger/index.ts'
import { openStoreReader } from '../../src/storage/index.ts'
import type { Network } from './network.ts'
import { serving } from './serve.ts'
import { SimulatedPlatform } from './simulated-platform.ts'
import type { World } from './world.ts'

/** Delay between two rounds with a peer, milliseconds. */
export const INTERVAL_MS = 3_000
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')
/** The database to which the clients write. */
export const DATABASE = 'd'

/** The key of a node, and the server id and verifier key that belong to it. */
export interface Identity {
  readonly pem: string
  readonly serverId: number
  readonly vkey: string
}

/** Creates a key from the seed of the world. */
export function identityOf(world: World): Identity {
  const key = Buffer.concat([PKCS8_PREFIX, world.bytes(32)])
  const privateKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(privateKey)
  const serverId = toServerId(publicKey)
  return {
    pem: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    serverId,
    vkey: verifierKeyText({
      name: logOrigin(serverId),
      publicKey: rawPublicKey(publicKey),
    }),
  }
}

/** An acknowledged write. It must never be lost. */
export interface Acknowledged {
  readonly id: string
  readonly height: number
}

/** A signed head with the ids of its blocks. The links between blocks determine the whole history. */
export interface SignedHistory {
  readonly serverId: number
  readonly note: string
  readonly ids: readonly string[]
}

interface Run {
  readonly platform: SimulatedPlatform
  readonly opening: Promise<OpenLedger>
  ledger: OpenLedger | null
}

/** State that all nodes of a world share. */
export interface WorldContext {
  readonly world: World
  readonly network: Network
  /** Folder that contains the folders of the nodes. */
  readonly base: string
  readonly signed: SignedHistory[]
  /** `hasty`: the disks report writes as stored before they are stored, which the checks must detect. */
  readonly disks: 'honest' | 'hasty'
  /** Promises of stopped nodes that still close their files. */
  readonly closing: Promise<void>[]
}

/** A node of a world, which can be started, cut off and restarted. */
export class SimulatedNode {
  readonly host: string
  readonly identity: Identity
  peers: readonly Peer[] = []
  readonly acknowledged: Acknowledged[] = []
  /** Code of the error with which the node last refused to start, or null. */
  refusal: string | null = null
  /** Probability that a commit finds the node's disk full. */
  fullness = 0
  /** Whether other nodes cannot connect to this node. */
  isHidden = false
  /** Whether a peer has reported a longer copy of this node's chain since the last start. */
  #isWarned = false
  readonly #context: WorldContext
  readonly #skewMs: number
  #folder: string
  #folders = 0
  #writes = 0
  #run: Run | null = null
  /** Ids of the blocks in the node's store, by height. */
  #ids: string[] = []

  constructor(context: WorldContext, host: string, identity: Identity) {
    this.#context = context
    this.host = host
    this.identity = identity
    this.#skewMs = context.world.between(-12_000, 12_000)
    this.#folder = this.#nextFolder()
    mkdirSync(this.#folder)
    writeFileSync(join(this.#folder, 'node.key'), identity.pem)
  }

  get folder(): string {
    return this.#folder
  }

  get isRunning(): boolean {
    return this.#run !== null
  }

  /** The service of the node, or null while the node does not answer. */
  get service(): LedgerService | null {
    return this.#run?.ledger?.service ?? null
  }

  /** Starts the node. It answers after it has asked its peers for its own chain. */
  async start(): Promise<void> {
    const { world, network } = this.#context
    this.refusal = null
    this.#isWarned = false
    this.#ids = await idsIn(this.#folder)
    const platform = new SimulatedPlatform(world, network, this.host, this.#skewMs, {
      signed: (note) => this.#signed(note),
      stored: (height, id) => {
        if (this.#run?.platform === platform) this.#ids.splice(height, this.#ids.length, id)
      },
      fullness: () => this.fullness,
      isHasty: this.#context.disks === 'hasty',
    })
    const opening = openLedger({
      folder: this.#folder,
      clock: platform.clock,
      peers: { fixed: this.peers, allowPrivate: true, intervalMs: INTERVAL_MS },
      platform,
    })
    const run: Run = { platform, opening, ledger: null }
    this.#run = run
    const opened = opening.then(
      (ledger) => {
        if (platform.hasEnded) return
        run.ledger = ledger
        world.note(`${this.host} runs with ${this.#ids.length} blocks`)
        const { clock, schedule } = platform
        if (!this.isHidden) network.listen(this.host, serving(ledger.service, clock, schedule))
      },
      (error: unknown) => {
        if (platform.hasEnded) return
        this.refusal = error instanceof CodedError ? String(error.code) : String(error)
        world.note(`${this.host} refuses to start: ${this.refusal}`)
        platform.end()
        this.#run = null
      },
    )
    await Promise.race([platform.begun, opened])
  }

  /** Copies all synced data to a new folder, and returns the folder. */
  snapshot(): string {
    const copy = this.#nextFolder()
    cpSync(this.#folder, copy, { recursive: true })
    return copy
  }

  /** Simulates a power failure. Synced data is kept. */
  cutOff(): void {
    const run = this.#run
    if (run === null) return
    this.#context.world.note(`${this.host} is cut off`)
    // The stopped node still closes the files in its old folder, so the next start uses a copy.
    this.#folder = this.snapshot()
    void this.end()
  }

  /** Stops the node. Resolves when its files are closed. */
  end(): Promise<void> {
    const run = this.#run
    if (run === null) return Promise.resolve()
    this.#context.network.leave(this.host)
    this.#run = null
    run.platform.end()
    const closing = run.opening.then((ledger) => ledger.close()).catch(() => {})
    this.#context.closing.push(closing)
    return closing
  }

  /** Rolls back the whole folder, or only the files of the store. The node must not run. */
  rollBack(snapshot: string, scope: 'all' | 'store'): void {
    if (scope === 'all') {
      rmSync(this.#folder, { recursive: true })
      cpSync(snapshot, this.#folder, { recursive: true })
      return
    }
    this.removeStore()
    for (const name of readdirSync(snapshot)) {
      if (isOfStore(name)) cpSync(join(snapshot, name), join(this.#folder, name))
    }
  }

  removeStore(): void {
    for (const name of readdirSync(this.#folder)) {
      if (isOfStore(name)) rmSync(join(this.#folder, name))
    }
  }

  /** Restores the chain from the node `from`, as an operator would. Returns whether this succeeded. */
  async restore(from: string): Promise<boolean> {
    const { world, network } = this.#context
    const { serverId } = this.identity
    world.note(`${this.host} is restored from ${from}`)
    this.removeStore()
    const call = network.call.bind(network, 'operator')
    const outbound: Outbound = {
      get: (url, headers, policy) =>
        call({ method: 'GET', url, headers, body: null, policy }, () => false),
      post: () => Promise.reject(new Error('a restore only reads')),
    }
    const source = new PeerClient({ url: `http://${from}`, serverId, allowPrivate: true, outbound })
    try {
      await world.until(
        restoreChain({
          folder: this.#folder,
          serverId,
          source: () => source,
          vkey: null,
          clock: { now: () => Math.floor(world.nowMs) },
          progress: () => {},
          threads: 1,
        }),
      )
      return true
    } catch (error) {
      world.note(`${this.host} is not restored: ${String(error)}`)
      this.refusal = error instanceof CodedError ? String(error.code) : String(error)
      return false
    }
  }

  /** Writes `count` items in one request, as a client does. Does not wait for the reply, but records it. */
  write(count: number): void {
    const { service } = this
    const platform = this.#run?.platform
    if (service === null || platform === undefined) return
    const { world } = this.#context
    const wasWarned = this.#isWarned
    const name = `${this.host}-${this.#writes}`
    this.#writes += 1
    if (this.#ids.length === 0) void service.write.createDatabase(DATABASE).catch(() => {})
    const items = Array.from({ length: count }, (_, n) => ({ id: `${name}-${n}`, n, name }))
    service.write.createItems(DATABASE, items).then(
      ({ height }) => {
        if (platform.hasEnded) return
        world.note(`${this.host} has ${name} in block ${height}`)
        for (const { id } of items) this.acknowledged.push({ id, height })
        if (wasWarned)
          world.fault(`${this.host} wrote although a peer has a longer chain of its own`)
      },
      (error: unknown) => {
        if (platform.hasEnded) return
        const code = error instanceof CodedError ? error.code : error
        world.note(`${this.host} has not ${name}: ${code}`)
      },
    )
  }

  /** Called with the number of signed blocks of this node's chain that a peer reports to this node. */
  shownOwn(blocks: number): void {
    if (blocks > this.#ids.length) this.#isWarned = true
  }

  get ids(): readonly string[] {
    return this.#ids
  }

  #signed(note: string): void {
    const { world, signed } = this.#context
    const { size } = parseCheckpoint(note.slice(0, note.indexOf('\n\n') + 1))
    world.note(`${this.host} has signed ${size} blocks`)
    signed.push({ serverId: this.identity.serverId, note, ids: this.#ids.slice(0, size) })
  }

  #nextFolder(): string {
    this.#folders += 1
    return join(this.#context.base, `${this.host}-${this.#folders}`)
  }
}

/** Returns the ids of the blocks of the store in `folder`, by height. Empty if there is no store. */
async function idsIn(folder: string): Promise<string[]> {
  if (!readdirSync(folder).includes('ledger.db')) return []
  const store = await openStoreReader(folder, { frozen: true })
  const blocks = await store.blocks(store.serverId, 0, 10_000)
  await store.close()
  return blocks.map(({ id }) => id)
}

function isOfStore(name: string): boolean {
  return name.startsWith('ledger.db')
}
