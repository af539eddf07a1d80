import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CodedError } from '../../base/coded-error.ts'
import { nodeSha256, type VerifierKey, verifierKeyOf } from '../../chain/index.ts'
import {
  BlobStore,
  fileExists,
  openStoreReader,
  type StoreReader,
  storePathIn,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { LedgerLog } from '../log/service.ts'
import type { Signed } from '../log/signer.ts'
import type { Platform, Thread } from '../platform.ts'
import { ChainContents } from './chain-contents.ts'
import { PeerError } from './errors.ts'
import { type Evidence, evidenceIn } from './evidence.ts'
import type {
  FromMirrors,
  MirrorsStart,
  OwnDoubt,
  PeerState,
  PushAnswer,
  ToMirrors,
} from './messages.ts'
import { keptCheckpoint } from './mirror.ts'
import { type KnownPeer, nodeOfKey, type Peer } from './peer.ts'
import type { PeerList } from './peer-list.ts'
import { MIRRORS_FOLDER, mirrorFolder, VKEY_FILE } from './places.ts'

/** Longest wait at a start for what peers say about the node's own chain. */
const ASK_MS = 3_000
/** What peers send is parsed in here: it has memory of its own, and ends alone when that is full. */
const OLD_MB = 512
const YOUNG_MB = 16
/** Pushes that are taken at once. */
const PUSHES_MAX = 8
/** Rest before the thread is started anew. */
const RESTART_MS = 30_000

/** A peer with how it stands, and what was found against the key of its chain. */
export interface ShownPeer extends PeerState {
  readonly vkey: string
  readonly push: boolean
  /** Whether the settings name it. */
  readonly fixed: boolean
  readonly evidence: Evidence | null
}

/** A chain of another node, for reading. */
interface Kept {
  readonly reader: StoreReader
  readonly log: LedgerLog
  readonly contents: ChainContents
}

/** The chains of other nodes that are kept here; a thread takes them from peers (`thread.ts`). */
export class Mirrors {
  readonly #start: MirrorsStart
  readonly #list: PeerList
  readonly #ownServerId: number
  readonly #platform: Platform
  readonly #states = new Map<string, PeerState>()
  readonly #kept = new Map<number, Kept>()
  /** Pushes that the thread has, by number. */
  readonly #pushes = new Map<number, (answer: PushAnswer) => void>()
  #pushCount = 0
  #worker: Thread | null = null
  #forgetRestart: () => void = () => {}
  #closing = false
  #asked: () => void = () => {}

  /** Called when peers know of the node's own chain what the node does not. */
  onDoubt: (doubt: OwnDoubt) => void = () => {}
  /** A signed head of the node's own chain. */
  ownCheckpoint: () => Promise<string> = () => Promise.reject(new Error('there is no log'))
  /** The contents of the node's own attachments. */
  readonly #ownContents: ChainContents

  constructor(
    start: MirrorsStart,
    list: PeerList,
    { ownContents, platform }: { ownContents: ChainContents; platform: Platform },
  ) {
    this.#start = start
    this.#ownContents = ownContents
    this.#platform = platform
    this.#ownServerId = nodeOfKey(start.ownKey).serverId
    this.#list = list
    const folder = join(start.folder, MIRRORS_FOLDER)
    for (const name of fileExists(folder) ? readdirSync(folder) : []) {
      try {
        this.#keep(Number(name))
      } catch (error) {
        // A mirror that is damaged is not served; the node's own service goes on.
        if (!(error instanceof CodedError)) throw error
      }
    }
  }

  /** Begins. Resolves when the peers were asked for the node's own chain, or do not answer. */
  async begin(): Promise<void> {
    if (this.#list.all.length === 0) return
    await new Promise<void>((resolve) => {
      const forget = this.#platform.schedule.after(ASK_MS, resolve)
      this.#asked = () => {
        forget()
        resolve()
      }
      this.#tell()
    })
  }

  /** The peers, and how it stands with each. */
  peers(): ShownPeer[] {
    return this.#list.all.map((peer) => {
      const { serverId, vkey, push } = peer
      const evidence = evidenceIn(mirrorFolder(this.#start.folder, serverId))
      return { ...this.#stateOf(peer), vkey, push, fixed: this.#list.isFixed(peer), evidence }
    })
  }

  /** Evidence that the node's own key has signed two histories, or null. */
  get ownEvidence(): Evidence | null {
    return evidenceIn(this.#start.folder)
  }

  /** Adds a peer. Errors: PEER_INVALID, PEERS_TOO_MANY. */
  add(peer: Peer): void {
    this.#list.add(peer)
    this.#tell()
  }

  /** Takes out a peer; what was mirrored stays and is served. Errors: PEER_UNKNOWN, PEER_INVALID. */
  remove(serverId: number): void {
    this.#list.remove(serverId)
    this.#tell()
  }

  /** Reads the chain of `serverId`, or null when none is kept here. */
  readerOf(serverId: number): StoreReader | null {
    return this.#kept.get(serverId)?.reader ?? null
  }

  /** Proves it to others, or null. */
  logOf(serverId: number): LedgerLog | null {
    return this.#kept.get(serverId)?.log ?? null
  }

  /** The contents that the chain of `serverId` names. Errors: SERVERID_UNKNOWN. */
  contentsOf(serverId: number): ChainContents {
    if (serverId === this.#ownServerId) return this.#ownContents
    const kept = this.#kept.get(serverId)
    if (kept !== undefined) return kept.contents
    throw new LedgerError('SERVERID_UNKNOWN', `no chain of server id ${serverId} is kept here`)
  }

  /** The peer whose key has this name, or null. */
  peerOfKey(name: string): KnownPeer | null {
    return this.#list.all.find(({ key }) => key.name === name) ?? null
  }

  /**
   * Takes what the node of `vkey`, a peer, has pushed of its chain, or of a content of its attachments.
   * Errors: MIRROR_FAILED.
   */
  push(
    vkey: string,
    body: Uint8Array,
    part: { sha256: string; from: number } | null = null,
  ): Promise<PushAnswer> {
    return new Promise((resolve) => {
      if (this.#closing || this.#pushes.size >= PUSHES_MAX) {
        throw new PeerError('MIRROR_FAILED', 'too much is pushed at once; try again shortly')
      }
      this.#worker ??= this.#startWorker()
      this.#pushCount += 1
      this.#pushes.set(this.#pushCount, resolve)
      this.#post({ push: this.#pushCount, vkey, body, part })
    })
  }

  /** Ends the thread, which lets go of its stores. */
  async close(): Promise<void> {
    this.#closing = true
    this.#forgetRestart()
    for (const { reader } of this.#kept.values()) await reader.close()
    const worker = this.#worker
    if (worker === null) return
    const ended = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    this.#post({ close: true })
    await ended
  }

  #stateOf(peer: KnownPeer): PeerState {
    const { serverId, url } = peer
    const unknown = { blocks: 0, ofBlocks: 0, absent: 0, currentMs: null, error: null }
    return this.#states.get(nameOf(peer)) ?? { serverId, url, ...unknown }
  }

  #tell(): void {
    if (this.#closing) return
    this.#worker ??= this.#startWorker()
    this.#post({ peers: this.#list.all.map(({ vkey, url, push }) => ({ vkey, url, push })) })
  }

  #post(message: ToMirrors): void {
    this.#worker?.postMessage(message)
  }

  #startWorker(): Thread {
    // Sources run as they are, a build has only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const program = new URL(`./thread.${extension}`, import.meta.url)
    const worker = this.#platform.startThread(program, {
      name: 'mirrors',
      workerData: this.#start,
      resourceLimits: { maxOldGenerationSizeMb: OLD_MB, maxYoungGenerationSizeMb: YOUNG_MB },
    })
    worker.unref()
    worker.on('message', (message: FromMirrors) => this.#receive(message))
    worker.on('error', (error) => this.#failed(error))
    return worker
  }

  /** It ends alone; what it had stored is whole, and the next one goes on from there. */
  #failed({ message }: Error): void {
    this.#worker = null
    this.#asked()
    const error = { code: 'MIRROR_FAILED', message }
    for (const answer of this.#pushes.values()) {
      answer({ to: { size: 0, seen: 0 }, arrived: 0, error })
    }
    this.#pushes.clear()
    // Also of those of which it had said nothing yet.
    for (const peer of this.#list.all) {
      this.#states.set(nameOf(peer), { ...this.#stateOf(peer), error })
    }
    if (this.#closing) return
    this.#forgetRestart = this.#platform.schedule.after(RESTART_MS, () => this.#tell())
  }

  #receive(message: FromMirrors): void {
    if ('pushed' in message) {
      this.#pushes.get(message.pushed)?.(message.answer)
      this.#pushes.delete(message.pushed)
    } else if ('wanted' in message) {
      this.ownCheckpoint().then(
        (checkpoint) => this.#post({ checkpoint }),
        () => this.#post({ checkpoint: null }),
      )
    } else if ('state' in message) this.#states.set(nameOf(message.state), message.state)
    else if ('stored' in message) this.#stored(message.stored)
    else if ('doubt' in message) this.onDoubt(message.doubt)
    else this.#asked()
  }

  #stored(serverId: number): void {
    if (this.#closing) return
    const kept = this.#kept.get(serverId)
    if (kept === undefined) this.#keep(serverId)
    else kept.reader.refresh()
  }

  /** Opens what is in the folder of a mirror, when it is one. Errors: StoreError. */
  #keep(serverId: number): void {
    const folder = mirrorFolder(this.#start.folder, serverId)
    const keyPath = join(folder, VKEY_FILE)
    if (!fileExists(keyPath) || !fileExists(storePathIn(folder))) return
    const key = verifierKeyOf(nodeSha256, readFileSync(keyPath, 'utf8').trim())
    const reader = openStoreReader(folder, { frozen: false })
    // Only read here: the thread takes them.
    const contents = new BlobStore(folder, reader.attachments, false)
    this.#kept.set(serverId, {
      reader,
      contents: new ChainContents(reader.attachments, contents, 0),
      log: new LedgerLog(reader, new KeptHeads(folder, key), key),
    })
  }
}

function nameOf({ serverId, url }: Pick<KnownPeer, 'serverId' | 'url'>): string {
  return `${serverId} ${url}`
}

/** The signed heads of a chain whose key is elsewhere: the newest one that the mirror reaches. */
class KeptHeads {
  readonly #folder: string
  readonly #key: VerifierKey

  constructor(folder: string, key: VerifierKey) {
    this.#folder = folder
    this.#key = key
  }

  /** Errors: LOG_BEHIND while the mirror has reached none. */
  async newest(): Promise<Signed> {
    const head = await keptCheckpoint(this.#folder, this.#key)
    if (head !== null) return { size: head.size, note: head.note, isBehind: false }
    throw new LedgerError('LOG_BEHIND', 'the mirror has not reached a signed head yet; ask again')
  }

  /** Errors: LOG_BEHIND. */
  async covering(size: number): Promise<Signed> {
    const signed = await this.newest()
    if (signed.size >= size) return signed
    throw new LedgerError('LOG_BEHIND', 'the mirror has not reached a signed head yet; ask again')
  }
}
