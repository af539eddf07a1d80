import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import { startWorker, type WorkerThread } from '../../base/worker/worker.ts'
import {
  type Evidence,
  isStateEvidence,
  parseVerifierKey,
  type VerifierKey,
} from '../../chain/index.ts'
import {
  openBlobStore,
  openStoreReader,
  type SharedText,
  type StoreReader,
  toStorePath,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { LedgerLog, type SignedHeads } from '../log/service.ts'
import type { Platform } from '../platform.ts'
import { ChainBlobs } from './blobs.ts'
import { PeerError } from './errors.ts'
import { CheckpointVerifier, readEvidence, readSharedEvidence } from './evidence.ts'
import { MIRRORS_FOLDER, mirrorFolder, storedCheckpoint, VKEY_FILE } from './mirror.ts'
import { type KnownPeer, type Peer, type PeerList, parseNodeKey } from './peer-list.ts'
import type { FromMirrors, MirrorsStart, PeerState, PushResult, ToMirrors } from './thread.ts'

/** Maximum time that the start of the node waits for replies of peers about the node's own chain. */
const OWN_CHAIN_CHECK_MS = 3_000
/** Memory limits of the thread, MB. If the replies of peers exceed them, the thread stops, but not the node. */
const OLD_MB = 512
const YOUNG_MB = 16
/** Maximum concurrent pushes by peers. */
const PUSHES_MAX = 8
/** Delay before the thread is restarted after it failed. */
const RESTART_MS = 30_000

/** A peer with its state, and the evidence against the key of its chain. */
export interface PeerStatus extends PeerState {
  readonly vkey: string
  readonly push: boolean
  /** Whether the peer comes from the settings. */
  readonly fixed: boolean
  /** Evidence of two histories, or of a wrong signed state; null if there is none. */
  readonly evidence: Evidence | null
  /** Whether the key of the chain has signed two histories. */
  readonly isFrozen: boolean
}

export interface OpenMirror {
  readonly reader: StoreReader
  readonly log: LedgerLog
  readonly blobs: ChainBlobs
}

/** The mirrors of other nodes' chains. A worker thread (`thread.ts`) fetches the chains from peers. */
export class Mirrors {
  readonly #start: MirrorsStart
  readonly #list: PeerList
  readonly #ownServerId: number
  readonly #ownBlobs: ChainBlobs
  readonly #platform: Platform
  /** Evidence against the node's own key that all processes of the node share; null if there is only one process. */
  readonly #sharedEvidence: SharedText | null
  readonly #states = new Map<string, PeerState>()
  readonly #open = new Map<number, OpenMirror>()
  readonly #opening = new Map<number, Promise<void>>()
  /** Pushes in progress, by id. */
  readonly #pushes = new Map<number, (result: PushResult) => void>()
  #lastPushId = 0
  #worker: WorkerThread<ToMirrors, FromMirrors> | null = null
  #cancelRestart: () => void = () => {}
  #closing = false
  #onPeersChecked: () => void = () => {}

  /** Called when a peer has a copy of the node's own chain that contradicts the store. */
  onConflict: (message: string) => void = () => {}
  /** Returns a signed head of the node's own chain. */
  ownCheckpoint: () => Promise<string> = () => Promise.reject(new Error('there is no log'))

  constructor(
    start: MirrorsStart,
    list: PeerList,
    {
      ownBlobs,
      platform,
      sharedEvidence,
    }: { ownBlobs: ChainBlobs; platform: Platform; sharedEvidence: SharedText | null },
  ) {
    this.#sharedEvidence = sharedEvidence
    this.#start = start
    this.#ownBlobs = ownBlobs
    this.#platform = platform
    this.#ownServerId = parseNodeKey(start.ownKey).serverId
    this.#list = list
  }

  /**
   * Opens the mirrors and starts mirroring. Resolves when the peers have replied about the node's own chain, or
   * after a timeout.
   */
  async begin(): Promise<void> {
    const reportEvidence = () => {
      if (this.ownEvidence !== null) this.onConflict(this.ownEvidence.what)
    }
    reportEvidence()
    this.#sharedEvidence?.listen(reportEvidence)
    await this.#openMirrors()
    if (this.#list.all.length === 0) return
    await new Promise<void>((resolve) => {
      const cancelTimeout = this.#platform.schedule.after(OWN_CHAIN_CHECK_MS, resolve)
      this.#onPeersChecked = () => {
        cancelTimeout()
        resolve()
      }
      this.#sendPeers()
    })
  }

  peers(): PeerStatus[] {
    return this.#list.all.map((peer) => {
      const { serverId, vkey, push } = peer
      const evidence = readEvidence(mirrorFolder(this.#start.folder, serverId))
      const isFrozen = evidence !== null && !isStateEvidence(evidence)
      return {
        ...this.#state(peer),
        vkey,
        push,
        fixed: this.#list.isFixed(peer),
        evidence,
        isFrozen,
      }
    })
  }

  /** Number of frozen mirrors among the chains of the peers. */
  get frozenCount(): number {
    const frozen = this.peers().filter(({ isFrozen }) => isFrozen)
    return new Set(frozen.map(({ serverId }) => serverId)).size
  }

  /** Evidence that the node's own key has signed two histories, or null. */
  get ownEvidence(): Evidence | null {
    if (this.#sharedEvidence === null) return readEvidence(this.#start.folder)
    return readSharedEvidence(this.#sharedEvidence.current())
  }

  /** Adds a peer, and starts to mirror its chain. Errors: PEER_INVALID, PEERS_TOO_MANY. */
  add(peer: Peer): void {
    this.#list.add(peer)
    this.#sendPeers()
  }

  /** Removes a peer. The mirror of its chain stays and is served. Errors: PEER_UNKNOWN, PEER_INVALID. */
  remove(serverId: number): void {
    this.#list.remove(serverId)
    for (const name of this.#states.keys()) {
      if (!this.#isPeer(name)) this.#states.delete(name)
    }
    this.#sendPeers()
  }

  findMirror(serverId: number): OpenMirror | null {
    return this.#open.get(serverId) ?? null
  }

  readers(): StoreReader[] {
    return [...this.#open.values()].map(({ reader }) => reader)
  }

  /** Returns the blobs of the chain of `serverId`: this node's chain or a mirrored chain. Errors: SERVERID_UNKNOWN. */
  requireBlobs(serverId: number): ChainBlobs {
    if (serverId === this.#ownServerId) return this.#ownBlobs
    const mirror = this.#open.get(serverId)
    if (mirror !== undefined) return mirror.blobs
    throw new LedgerError('SERVERID_UNKNOWN', `this node has no chain of server id ${serverId}`)
  }

  /** Returns the peer whose key has this name, or null. */
  peerOfKey(name: string): KnownPeer | null {
    return this.#list.all.find(({ key }) => key.name === name) ?? null
  }

  /** Stores blocks, or a part of a blob, that the peer with the key `vkey` has pushed. Errors: MIRROR_FAILED. */
  push(
    vkey: string,
    body: Uint8Array,
    part: { sha256: string; from: number } | null = null,
  ): Promise<PushResult> {
    return new Promise((resolve) => {
      if (this.#closing || this.#pushes.size >= PUSHES_MAX) {
        throw new PeerError('MIRROR_FAILED', 'too many pushes are in progress; try again shortly')
      }
      this.#worker ??= this.#startWorker()
      this.#lastPushId += 1
      this.#pushes.set(this.#lastPushId, resolve)
      // Moves the memory of the body to the thread instead of copying it, unless other values share this memory.
      const isWhole =
        body.byteLength === body.buffer.byteLength && body.buffer instanceof ArrayBuffer
      const message = { kind: 'push', id: this.#lastPushId, vkey, body, part } as const
      this.#worker.post(message, isWhole ? [body.buffer] : [])
    })
  }

  /** Ends the thread, which closes its stores. */
  async close(): Promise<void> {
    this.#closing = true
    this.#cancelRestart()
    await this.#sharedEvidence?.close()
    await Promise.all(this.#opening.values())
    for (const { reader } of this.#open.values()) await reader.close()
    await this.#worker?.close({ kind: 'close' })
  }

  #state(peer: KnownPeer): PeerState {
    const { serverId, url } = peer
    const unknown = { blocks: 0, ofBlocks: 0, absent: 0, currentMs: null, error: null }
    return this.#states.get(peerName(peer)) ?? { serverId, url, ...unknown }
  }

  #isPeer(name: string): boolean {
    return this.#list.all.some((peer) => peerName(peer) === name)
  }

  #sendPeers(): void {
    if (this.#closing) return
    this.#worker ??= this.#startWorker()
    const peers = this.#list.all.map(({ vkey, url, push }) => ({ vkey, url, push }))
    this.#worker.post({ kind: 'peers', peers })
  }

  #startWorker() {
    const start = {
      name: 'mirrors',
      program: [import.meta.url, './thread'],
      workerData: this.#start,
      resourceLimits: { maxOldGenerationSizeMb: OLD_MB, maxYoungGenerationSizeMb: YOUNG_MB },
    } as const
    const worker = startWorker<ToMirrors, FromMirrors>(start, this.#platform)
    worker.listen({
      message: (message) => this.#receive(message),
      failed: (error) => this.#workerFailed(error),
    })
    return worker
  }

  /**
   * Fails pending pushes, and schedules a new thread. The crash cannot have left a partial change in a store, because
   * transactions are atomic.
   */
  #workerFailed({ message }: Error): void {
    this.#worker = null
    this.#onPeersChecked()
    const error = { code: 'MIRROR_FAILED', message }
    for (const resolve of this.#pushes.values()) {
      resolve({ size: 0, seen: 0, error })
    }
    this.#pushes.clear()
    for (const peer of this.#list.all) {
      this.#states.set(peerName(peer), { ...this.#state(peer), error })
    }
    if (this.#closing) return
    this.#cancelRestart = this.#platform.schedule.after(RESTART_MS, () => this.#sendPeers())
  }

  #receive(message: FromMirrors): void {
    switch (message.kind) {
      case 'state':
        // A removed peer must not show an old error when it is added again.
        if (this.#isPeer(peerName(message.state))) {
          this.#states.set(peerName(message.state), message.state)
        }
        break
      case 'stored':
        this.#stored(message.serverId)
        break
      case 'conflict':
        this.onConflict(message.message)
        break
      case 'checkpointNeeded':
        this.ownCheckpoint().then(
          (note) => this.#worker?.post({ kind: 'checkpoint', note }),
          () => this.#worker?.post({ kind: 'checkpoint', note: null }),
        )
        break
      case 'pushed':
        this.#pushes.get(message.id)?.(message.result)
        this.#pushes.delete(message.id)
        break
      case 'peersAsked':
        this.#onPeersChecked()
    }
  }

  #stored(serverId: number): void {
    if (this.#closing) return
    const mirror = this.#open.get(serverId)
    if (mirror !== undefined) mirror.reader.refresh()
    else if (!this.#opening.has(serverId)) {
      const opening = this.#openMirror(serverId)
        // The error is ignored, because the next stored block of this mirror tries again.
        .catch(() => {})
        .finally(() => this.#opening.delete(serverId))
      this.#opening.set(serverId, opening)
    }
  }

  async #openMirrors(): Promise<void> {
    for (const name of readMirrorNames(join(this.#start.folder, MIRRORS_FOLDER))) {
      // A damaged mirror is not served, but the node still starts. The thread reports the error of the mirror.
      await this.#openMirror(Number(name)).catch(() => {})
    }
  }

  /** Opens the mirror of `serverId` for reading if it exists. Errors: StoreError. */
  async #openMirror(serverId: number): Promise<void> {
    const folder = mirrorFolder(this.#start.folder, serverId)
    const keyPath = join(folder, VKEY_FILE)
    if (!fileExists(keyPath) || !fileExists(toStorePath(folder))) return
    const key = parseVerifierKey(readFileSync(keyPath, 'utf8').trim())
    const reader = await openStoreReader(folder, { frozen: false })
    const files = await openBlobStore(folder, reader, false)
    const blobs = new ChainBlobs(reader.attachments, files)
    const log = new LedgerLog(reader, storedHeads(folder, key), key)
    this.#open.set(serverId, { reader, blobs, log })
  }
}

/** Returns the names of the mirrors; none if there is no folder of mirrors that can be read. */
function readMirrorNames(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function peerName({ serverId, url }: Pick<KnownPeer, 'serverId' | 'url'>): string {
  return `${serverId} ${url}`
}

/** Returns an object that provides the newest signed head whose blocks the mirror has. Its errors: LOG_BEHIND. */
function storedHeads(folder: string, key: VerifierKey): SignedHeads {
  const checkpoints = new CheckpointVerifier(key)
  const covering = async (size: number) => {
    const head = await storedCheckpoint(folder, checkpoints)
    if (head !== null && head.size >= size) return head
    throw new LedgerError(
      'LOG_BEHIND',
      'the mirror has not reached a signed head yet; try again shortly',
    )
  }
  return { newest: () => covering(0), covering }
}
