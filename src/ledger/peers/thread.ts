import type { KeyObject } from 'node:crypto'
import { join } from 'node:path'
import { CodedError } from '../../base/coded-error.ts'
import { errorMessage } from '../../base/errors.ts'
import { serveThread, type ThreadPort } from '../../base/worker/worker.ts'
import { OutboundError } from '../../http/outbound.ts'
import {
  type BlobStore,
  openBlobStore,
  openStoreReader,
  requireFolder,
  type StoreLocation,
  type StoreReader,
  writeDurably,
} from '../../storage/index.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import { BlobSync, ChainBlobs, fetchingBlobs, pushingBlobs } from './blobs.ts'
import { PageBudget } from './block-page.ts'
import { PeerError } from './errors.ts'
import { CheckpointVerifier, type OwnChain, ownChainConflict } from './evidence.ts'
import {
  compare,
  Mirror,
  mirrorFolder,
  PageLimit,
  type PullOptions,
  pull,
  VKEY_FILE,
} from './mirror.ts'
import { type MirrorSize, PeerClient } from './peer-client.ts'
import { type KnownPeer, type Peer, parseNodeKey, requirePeer } from './peer-list.ts'
import { acceptPush, Pusher } from './push.ts'
import { NodeSigner } from './signed-request.ts'
import { MirrorTurns } from './turns.ts'

// Program of the worker thread that mirrors the chains of peers. In a thread, verifying and storing the data of peers
// does not delay the node, and has its own memory limit.

/** Maximum delay between two syncs with a peer that fails. */
const RETRY_MS_MAX = 30_000
/**
 * Delay after a sync that moved blocks: short, because more blocks are likely. A shorter delay would find nothing new,
 * because a node does not sign more often than this.
 */
const SOON_MS = 100
/** Interval of comparing a signed state while blocks arrive, because the peer must then compute it in between. */
const STATE_UNDER_LOAD_MS = 60_000
/** Maximum mirrors that one call of `#compareChains` compares. The next call continues with the others. */
const COMPARED_PER_ROUND_MAX = 16
/** Maximum characters of an error message that users see. Limited, because peers can influence some messages. */
const MESSAGE_LENGTH_MAX = 300

/** Data of the thread. */
export interface MirrorsStart {
  readonly folder: string
  /** The node's own store. */
  readonly location: StoreLocation
  /** Whether mirrors must survive a power cut; false for a temporary folder. */
  readonly durable: boolean
  /** The verifier key of this node. */
  readonly ownKey: string
  /** Signs requests to peers. */
  readonly privateKey: KeyObject
  /** Whether peers may be on private networks. */
  readonly allowPrivate: boolean
  /** Delay between two syncs with a peer. */
  readonly intervalMs: number
  /** Maximum bytes of a blob that is fetched. */
  readonly blobBytesMax: number
}

/** Code and message of an error, as users see them. */
export interface ErrorSummary {
  readonly code: string
  readonly message: string
}

export interface PeerState {
  readonly serverId: number
  readonly url: string | null
  /** Number of stored blocks of the chain. */
  readonly blocks: number
  /** Number of blocks of the newest signed head of the chain that this node has seen. */
  readonly ofBlocks: number
  /** Number of blobs that the peer does not have, among those checked so far. */
  readonly absent: number
  /** End of the last sync without an error, milliseconds since the Unix epoch, or null. */
  readonly currentMs: number | null
  /** Error of the last sync, or null. */
  readonly error: ErrorSummary | null
}

/** The result of a push to this node. For a part of a blob, `size` is the number of stored bytes of the blob. */
export interface PushResult extends MirrorSize {
  readonly error: ErrorSummary | null
}

/** Messages to the thread. */
export type ToMirrors =
  | { readonly kind: 'peers'; readonly peers: readonly Peer[] }
  /** Reply to `checkpointNeeded`. `note` is null if no signed head is available now. */
  | { readonly kind: 'checkpoint'; readonly note: string | null }
  /** A push from the node with the key `vkey`. The reply is `pushed`. */
  | {
      readonly kind: 'push'
      readonly id: number
      readonly vkey: string
      readonly body: Uint8Array
      /** The blob and the offset if the body is a part of a blob; null if the body contains blocks. */
      readonly part: { readonly sha256: string; readonly from: number } | null
    }
  | { readonly kind: 'close' }

/** Messages from the thread. */
export type FromMirrors =
  | { readonly kind: 'state'; readonly state: PeerState }
  /** A mirror or its head has changed. */
  | { readonly kind: 'stored'; readonly serverId: number }
  /** A peer has a contradicting copy of the node's own chain. */
  | { readonly kind: 'conflict'; readonly message: string }
  /** A signed head of the node's own chain is needed. */
  | { readonly kind: 'checkpointNeeded' }
  | { readonly kind: 'pushed'; readonly id: number; readonly result: PushResult }
  /** Each peer has replied about the node's own chain, or failed to reply. */
  | { readonly kind: 'peersAsked' }

/** Runs the thread until a message at `port` closes it, then calls `end`. */
export async function serveMirrors(
  start: MirrorsStart,
  port: ThreadPort<ToMirrors, FromMirrors>,
  platform: Platform,
  end: () => void,
): Promise<void> {
  const store = await openStoreReader(start.location, { frozen: false })
  const blobs = await openBlobStore(start.location, store, false)
  const thread = new MirrorsThread(start, { store, blobs }, port, platform)
  port.on('message', (message) => {
    if (message.kind === 'close') void thread.close().finally(end)
    else if (message.kind === 'push') void thread.acceptPush(message)
    else if (message.kind === 'checkpoint') thread.provideCheckpoint(message.note)
    else void thread.setPeers(message.peers.map(requirePeer))
  })
}

/** State of the repeated syncs with one peer. */
interface Rounds {
  /** Stops the syncs, and aborts their requests. */
  readonly stop: AbortController
  /** Number of comparisons with chains of other nodes so far. */
  compared: number
}

class MirrorsThread {
  readonly #start: MirrorsStart
  readonly #port: ThreadPort<ToMirrors, FromMirrors>
  readonly #platform: Platform
  readonly #own: OwnChain
  readonly #ownBlobs: BlobStore
  readonly #signer: NodeSigner
  /** The mirrors by server id, shared by the peers that have the same chain. */
  readonly #mirrors = new Map<number, Promise<Mirror>>()
  /** The turns of tasks that change mirrors. Only one page or push is decoded at a time, which limits the memory. */
  readonly #turns = new MirrorTurns()
  readonly #pages = new PageBudget()
  #peers: readonly KnownPeer[] = []
  #rounds = new Map<string, Rounds>()
  #closing = false
  #awaitingCheckpoint: ((note: string | null) => void)[] = []

  constructor(
    start: MirrorsStart,
    { store, blobs }: { store: StoreReader; blobs: BlobStore },
    port: ThreadPort<ToMirrors, FromMirrors>,
    platform: Platform,
  ) {
    this.#start = start
    this.#port = port
    this.#platform = platform
    const { key, serverId } = parseNodeKey(start.ownKey)
    this.#own = {
      checkpoints: new CheckpointVerifier(key),
      store,
      ...{ location: start.location, folder: start.folder },
      checkpoint: () => this.#ownCheckpoint(),
    }
    this.#ownBlobs = blobs
    const node = { serverId, privateKey: start.privateKey }
    this.#signer = new NodeSigner(node, platform.clock, (bytes) => platform.random(bytes))
  }

  /** Starts syncs with new peers, and stops the syncs with removed peers. */
  async setPeers(peers: readonly KnownPeer[]): Promise<void> {
    this.#peers = peers
    const before = this.#rounds
    this.#rounds = new Map()
    const started: Promise<void>[] = []
    for (const peer of peers) {
      const name = `${peer.serverId} ${peer.url} ${peer.push}`
      const rounds = before.get(name) ?? { stop: new AbortController(), compared: 0 }
      const isNew = !before.delete(name)
      if (isNew && peer.url === null) started.push(this.#reportPushedMirror(peer))
      else if (isNew) started.push(this.#startRounds(peer, rounds))
      this.#rounds.set(name, rounds)
    }
    for (const rounds of before.values()) stopRounds(rounds)
    await Promise.all(started)
    this.#send({ kind: 'peersAsked' })
  }

  provideCheckpoint(note: string | null): void {
    for (const resolve of this.#awaitingCheckpoint) resolve(note)
    this.#awaitingCheckpoint = []
  }

  /** Stores blocks, or a part of a blob, that the node with the key `vkey` has pushed. */
  async acceptPush({ id, vkey, body, part }: Extract<ToMirrors, { kind: 'push' }>): Promise<void> {
    const peer = requirePeer({ vkey, url: null })
    const result = await (part === null
      ? this.#acceptBlocks(peer, body)
      : this.#acceptBlobPart(peer, { ...part, body }))
    this.#send({ kind: 'pushed', id, result })
  }

  async #acceptBlocks(peer: KnownPeer, body: Uint8Array): Promise<PushResult> {
    const accept = async () => {
      const mirror = await this.#mirror(peer)
      await this.#turns.run(() => acceptPush(mirror, body))
    }
    const error = await accept().then(() => null, errorSummary)
    if (error === null) this.#send({ kind: 'stored', serverId: peer.serverId })
    const currentMs = error === null ? this.#platform.clock.now() : null
    const { blocks: size, ofBlocks: seen } = await this.#report(peer, { currentMs, error })
    return { size, seen, error }
  }

  /** Stores a part of a blob, without waiting for tasks that add blocks. */
  async #acceptBlobPart(
    peer: KnownPeer,
    { sha256, from, body }: { sha256: string; from: number; body: Uint8Array },
  ): Promise<PushResult> {
    try {
      const { blobs } = await this.#mirror(peer)
      return { size: await blobs.add(sha256, from, body), seen: 0, error: null }
    } catch (error) {
      return { size: 0, seen: 0, error: errorSummary(error) }
    }
  }

  /** Closes the stores after the current turn. Aborts syncs in progress; their stored data are consistent. */
  async close(): Promise<void> {
    this.#closing = true
    for (const rounds of this.#rounds.values()) stopRounds(rounds)
    const mirrors = [...this.#mirrors.values()]
    await this.#turns.run(() =>
      Promise.allSettled(mirrors.map(async (mirror) => (await mirror).close())),
    )
    await this.#ownBlobs.close()
    await this.#own.store.close()
  }

  #send(message: FromMirrors): void {
    this.#port.postMessage(message)
  }

  async #reportPushedMirror(peer: KnownPeer): Promise<void> {
    const error = await this.#mirror(peer).then(() => null, errorSummary)
    await this.#report(peer, { currentMs: null, error })
  }

  /** Compares the node's own chain with the copy of the peer, then starts syncs. */
  async #startRounds(peer: KnownPeer, rounds: Rounds): Promise<void> {
    await this.#checkOwnChain(peer, rounds)
    // Never rejects: each step of a round handles its errors.
    void this.#runRounds(peer, rounds)
  }

  /** Repeats syncs. Each sync pushes and pulls blocks, and starts the transfer of blobs in parallel. */
  async #runRounds(peer: KnownPeer, rounds: Rounds): Promise<void> {
    const { intervalMs } = this.#start
    const { store, checkpoint } = this.#own
    const { signal } = rounds.stop
    const source = this.#client(peer, peer.serverId, rounds)
    const ownChain = this.#client(peer, store.serverId, rounds)
    const pusher = peer.push ? new Pusher(ownChain, store, checkpoint) : null
    const fetches = new BlobSync(this.#platform.clock)
    const blobTasks = this.#blobTasks(peer, rounds, { source, ownChain, fetches })
    const limit = new PageLimit()
    let currentMs: number | null = null
    let retryMs = intervalMs
    let sinceOwnChainMs = 0
    let sinceStateMs = 0
    let stateError: ErrorSummary | null = null
    while (!signal.aborted) {
      let isMore = false
      const pushed = () => {
        isMore = true
      }
      const pulled = () => {
        isMore = true
        this.#send({ kind: 'stored', serverId: peer.serverId })
        void this.#report(peer, { currentMs, error: null })
      }
      // The push comes first, because a peer that cannot reach this node depends on it. Pulls even if the push fails.
      const pushError = (await pusher?.push(pushed).then(() => null, errorSummary)) ?? null
      const pullOptions = { progress: pulled, limit, turns: this.#turns }
      const pullError = await this.#pull(peer, source, pullOptions).then(() => null, errorSummary)
      if (signal.aborted) return
      let error = pullError ?? pushError
      if (error === null) currentMs = this.#platform.clock.now()
      retryMs = error === null ? intervalMs : Math.min(retryMs * 2, RETRY_MS_MAX)
      const delayMs = error === null && isMore ? Math.min(SOON_MS, intervalMs) : retryMs
      for (const task of blobTasks) {
        if (task.error !== null) error ??= errorSummary(task.error)
        task.start()
      }
      sinceStateMs += delayMs
      if (pullError === null && (!isMore || sinceStateMs >= STATE_UNDER_LOAD_MS)) {
        sinceStateMs = 0
        stateError = await this.#compareState(peer, source)
      }
      error ??= stateError
      await this.#report(peer, { currentMs, error, absent: fetches.missing })
      // Checks the chains below once per interval, even if the syncs are more frequent because blocks arrive.
      sinceOwnChainMs += delayMs
      if (sinceOwnChainMs >= intervalMs) {
        sinceOwnChainMs = 0
        await this.#checkOwnChain(peer, rounds)
        await this.#compareChains(peer, rounds)
      }
      await this.#pause(delayMs, signal)
    }
  }

  /** Waits `ms` milliseconds, or until `signal` is aborted. */
  #pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const cancel = this.#platform.schedule.after(ms, end)
      function end(): void {
        signal.removeEventListener('abort', end)
        cancel()
        resolve()
      }
      signal.addEventListener('abort', end)
    })
  }

  async #pull(peer: KnownPeer, source: PeerClient, options: PullOptions): Promise<void> {
    await pull(await this.#mirror(peer), source, options)
    this.#send({ kind: 'stored', serverId: peer.serverId })
  }

  #blobTasks(
    peer: KnownPeer,
    rounds: Rounds,
    clients: { source: PeerClient; ownChain: PeerClient; fetches: BlobSync },
  ): SingleFlight[] {
    const { source, ownChain, fetches } = clients
    const isStopped = () => rounds.stop.signal.aborted
    const fetch = new SingleFlight(async (onProgress) => {
      const { blobs } = await this.#mirror(peer)
      await fetches.run(fetchingBlobs(source, blobs), { isStopped, onProgress })
    })
    if (!peer.push) return [fetch]
    const { store } = this.#own
    const ownBlobs = new ChainBlobs(store.attachments, this.#ownBlobs)
    const transfer = pushingBlobs(ownChain, store, ownBlobs)
    const pushes = new BlobSync(this.#platform.clock)
    return [
      fetch,
      new SingleFlight((onProgress) => pushes.run(transfer, { isStopped, onProgress })),
    ]
  }

  /** Requests a signed head of this node's chain from the main thread. Returns null if none is available now. */
  #ownCheckpoint(): Promise<string | null> {
    return new Promise((resolve) => {
      this.#awaitingCheckpoint.push(resolve)
      if (this.#awaitingCheckpoint.length === 1) this.#send({ kind: 'checkpointNeeded' })
    })
  }

  async #report(
    peer: KnownPeer,
    { currentMs, error, absent = 0 }: Pick<PeerState, 'currentMs' | 'error'> & { absent?: number },
  ): Promise<PeerState> {
    const { serverId, url } = peer
    const mirror = await this.#mirrors.get(serverId)?.catch(() => null)
    const [blocks, ofBlocks] = [mirror?.size ?? 0, mirror?.seenSize ?? 0]
    const state = { serverId, url, blocks, ofBlocks, absent, currentMs, error }
    this.#send({ kind: 'state', state })
    return state
  }

  async #checkOwnChain(peer: KnownPeer, rounds: Rounds): Promise<void> {
    try {
      const source = this.#client(peer, this.#own.store.serverId, rounds)
      const message = await ownChainConflict(source, this.#own)
      if (message !== null) this.#send({ kind: 'conflict', message })
    } catch {
      // Ignores the error, because a peer that does not reply or does not have this chain shows no conflict.
    }
  }

  /** Compares the signed state of a peer with its chain. Returns the error if the state is wrong. */
  async #compareState(peer: KnownPeer, source: PeerClient): Promise<ErrorSummary | null> {
    try {
      const note = await source.state()
      await (await this.#mirror(peer)).compareState(note)
      return null
    } catch (error) {
      // Ignores other errors, because another mirror at the URL of the peer signs no state.
      const isWrong = error instanceof PeerError && error.code === 'STATE_WRONG'
      return isWrong ? errorSummary(error) : null
    }
  }

  /**
   * Compares the mirrors of this node with the heads of the same chains at the URL of `peer`, because the owner of a
   * chain may show different histories to different nodes. A contradiction freezes the mirror. Any other result has no
   * effect.
   */
  async #compareChains(peer: KnownPeer, rounds: Rounds): Promise<void> {
    const chains = this.#chainsToCompare(peer)
    const count = Math.min(chains.length, COMPARED_PER_ROUND_MAX)
    for (let n = 0; n < count && !rounds.stop.signal.aborted; n += 1) {
      const chain = chains[rounds.compared % chains.length]
      if (chain === undefined) return
      rounds.compared += 1
      try {
        const mirror = await this.#mirror(chain)
        await compare(mirror, this.#client(peer, chain.serverId, rounds))
      } catch (error) {
        // An OutboundError means that the peer cannot be reached. Ignores other errors, because most peers do not have
        // all of these chains, and an invalid head proves nothing.
        if (error instanceof OutboundError) return
      }
    }
  }

  /**
   * Returns the mirrored chains that are not fetched from the URL of `peer`. If an earlier peer has the same URL,
   * returns none, because the rounds of that peer compare them.
   */
  #chainsToCompare({ serverId, url }: KnownPeer): KnownPeer[] {
    const there = this.#peers.filter((one) => one.url === url).map((one) => one.serverId)
    if (there[0] !== serverId) return []
    const others = this.#peers.filter((one) => !there.includes(one.serverId))
    return [...new Map(others.map((one) => [one.serverId, one])).values()]
  }

  /** Returns a client of the node at the URL of `peer`, for the chain of `serverId`. */
  #client({ url }: KnownPeer, serverId: number, { stop }: Rounds): PeerClient {
    const { allowPrivate } = this.#start
    const { outbound } = this.#platform
    const request = { allowPrivate, signer: this.#signer, outbound, pages: this.#pages }
    return new PeerClient({ url: url ?? '', serverId, signal: stop.signal, ...request })
  }

  /** Returns the mirror of the chain of `peer`, which is opened on first use. */
  #mirror(peer: KnownPeer): Promise<Mirror> {
    const known = this.#mirrors.get(peer.serverId)
    if (known !== undefined) return known
    const mirror = this.#openMirror(peer)
    this.#mirrors.set(peer.serverId, mirror)
    // If opening fails, the next call tries again, because the cause, such as a full disk, can be temporary.
    mirror.catch(() => this.#mirrors.delete(peer.serverId))
    return mirror
  }

  async #openMirror({ serverId, key, vkey }: KnownPeer): Promise<Mirror> {
    if (this.#closing) throw new PeerError('MIRROR_FAILED', 'the node is closing')
    const folder = mirrorFolder(this.#start.folder, serverId)
    requireFolder(folder)
    writeDurably(join(folder, VKEY_FILE), `${vkey}\n`)
    const { durable, blobBytesMax } = this.#start
    const platform = this.#platform
    return Mirror.open({ folder, serverId, key, durable, blobBytesMax, platform })
  }
}

function stopRounds({ stop }: Rounds): void {
  stop.abort(new OutboundError('UNREACHABLE', 'the peer was removed, or the node is closing'))
}

/** A background task that never runs twice at the same time. */
class SingleFlight {
  readonly #task: (onProgress: () => void) => Promise<void>
  #isRunning = false
  /** The error of the last run, or null. Null as soon as a run has moved something. */
  error: unknown = null

  constructor(task: (onProgress: () => void) => Promise<void>) {
    this.#task = task
  }

  /** Starts the task unless it is running. */
  start(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    const onProgress = () => {
      this.error = null
    }
    this.#task(onProgress)
      .then(onProgress, (error: unknown) => {
        this.error = error
      })
      .finally(() => {
        this.#isRunning = false
      })
  }
}

function errorSummary(error: unknown): ErrorSummary {
  const code = error instanceof CodedError ? String(error.code) : 'MIRROR_FAILED'
  const message = errorMessage(error)
  return { code, message: message.slice(0, MESSAGE_LENGTH_MAX) }
}

await serveThread<MirrorsStart, ToMirrors, FromMirrors>((start, port) =>
  // In a worker thread, `process.exit` ends only the thread, without waiting for pending replies of peers.
  serveMirrors(start, port, systemPlatform, () => process.exit()),
)
