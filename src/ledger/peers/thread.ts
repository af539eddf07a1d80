import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../base/coded-error.ts'
import { BlobStore, openStoreReader } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'
import { type Platform, systemPlatform, type ThreadPort } from '../platform.ts'
import { Aside } from './aside.ts'
import { ChainContents } from './chain-contents.ts'
import { ContentPull } from './content-pull.ts'
import { ContentPush } from './content-push.ts'
import { PeerError } from './errors.ts'
import { HttpSource } from './http-source.ts'
import type { FromMirrors, MirrorsStart, PeerState, ToMirrors } from './messages.ts'
import { Mirror } from './mirror.ts'
import { doubtOf, type OwnChain } from './own-head.ts'
import { type KnownPeer, knownPeer, nodeOfKey } from './peer.ts'
import { mirrorFolder, VKEY_FILE } from './places.ts'
import { PageLimit, pull } from './pull.ts'
import { takePush } from './push.ts'
import { Pusher } from './pusher.ts'
import { NodeSigner } from './signed-request.ts'

// The program of the thread that mirrors the chains of peers, so that neither recomputing what they
// send nor waiting for the disk holds up the node, and what they send has memory of its own.

/** Longest rest between two rounds with a peer that fails. */
const REST_MS_MAX = 30_000
/** Rest after a round that brought blocks: more are on their way, and a node signs no more often. */
const SOON_MS = 100

/** A mirror that peers with the same chain share; they take turns. */
interface Shared {
  readonly mirror: Promise<Mirror>
  turn: Promise<void>
}

/** What a round goes on from. */
interface Round {
  readonly pusher: Pusher | null
  readonly limit: PageLimit
  readonly currentMs: number | null
}

class MirrorsThread {
  readonly #start: MirrorsStart
  readonly #port: ThreadPort
  readonly #platform: Platform
  readonly #own: OwnChain
  readonly #signer: NodeSigner
  readonly #mirrors = new Map<number, Shared>()
  /** The rounds that go on, by peer; a peer that is taken out stops after its round. */
  #following = new Map<string, { stopped: boolean }>()
  #closing = false
  /** Whoever waits for a signed head of the own chain. */
  #wanting: ((note: string | null) => void)[] = []

  constructor(start: MirrorsStart, port: ThreadPort, platform: Platform) {
    this.#start = start
    this.#port = port
    this.#platform = platform
    const { key, serverId } = nodeOfKey(start.ownKey)
    const store = openStoreReader(start.folder, { frozen: false })
    const checkpoint = () => this.#ownCheckpoint()
    this.#own = { key, store, folder: start.folder, checkpoint }
    const random = (bytes: number) => platform.random(bytes)
    const node = { serverId, privateKey: start.privateKey }
    this.#signer = new NodeSigner(node, platform.clock, random)
  }

  /** Goes on with the peers that were there, begins with new ones, and stops with the others. */
  async follow(peers: readonly KnownPeer[]): Promise<void> {
    const before = this.#following
    this.#following = new Map()
    const firsts: Promise<void>[] = []
    for (const peer of peers) {
      const name = `${peer.serverId} ${peer.url} ${peer.push}`
      const round = before.get(name) ?? { stopped: false }
      const isNew = !before.delete(name)
      // Without an address its node pushes it; how far that is can be told.
      if (isNew) firsts.push(peer.url === null ? this.#tell(peer) : this.#rounds(peer, round))
      this.#following.set(name, round)
    }
    for (const round of before.values()) round.stopped = true
    await Promise.all(firsts)
    this.#send({ asked: true })
  }

  /** The signed head that was wanted. */
  answer(note: string | null): void {
    for (const resolve of this.#wanting) resolve(note)
    this.#wanting = []
  }

  /** Takes what the node of `vkey` has pushed of its chain. */
  async takePush(push: number, vkey: string, body: Uint8Array): Promise<void> {
    const peer = knownPeer({ vkey, url: null })
    let error: PeerState['error'] = null
    try {
      await this.#inTurn(peer, (mirror) => takePush(mirror, body))
      this.#send({ stored: peer.serverId })
    } catch (thrown) {
      error = shown(thrown)
    }
    const currentMs = error === null ? this.#platform.clock.now() : null
    const { blocks: size, ofBlocks: seen } = await this.#report(peer, { currentMs, error })
    this.#send({ pushed: push, answer: { to: { size, seen }, arrived: 0, error } })
  }

  /** Takes a part of a content of the attachments of the node of `vkey`; the chain may go on meanwhile. */
  async takePart(
    push: number,
    vkey: string,
    { sha256, from, body }: { sha256: string; from: number; body: Uint8Array },
  ): Promise<void> {
    let error: PeerState['error'] = null
    let arrived = 0
    try {
      const mirror = await this.#shared(knownPeer({ vkey, url: null })).mirror
      arrived = await mirror.contents.add(sha256, from, body)
    } catch (thrown) {
      error = shown(thrown)
    }
    this.#send({ pushed: push, answer: { to: { size: 0, seen: 0 }, arrived, error } })
  }

  /** Nothing comes after it. A round that goes on is broken off: what it has stored is whole. */
  async close(): Promise<void> {
    this.#closing = true
    for (const round of this.#following.values()) round.stopped = true
    await Promise.allSettled(
      [...this.#mirrors.values()].map(async ({ mirror }) => (await mirror).close()),
    )
    await this.#own.store.close()
  }

  #send(message: FromMirrors): void {
    this.#port.postMessage(message)
  }

  /** Asks the peer for the node's own head, then goes from round to round until it is stopped. */
  async #rounds(peer: KnownPeer, round: { stopped: boolean }): Promise<void> {
    const { intervalMs } = this.#start
    await this.#askOwn(peer)
    const pusher = peer.push && peer.url !== null ? this.#pusher(peer.url) : null
    const contents = new ContentPull(this.#source(peer, peer.serverId), this.#platform.clock)
    const isStopped = () => round.stopped
    const asides = [
      new Aside(async () => {
        await contents.run((await this.#shared(peer).mirror).contents, isStopped)
      }),
    ]
    if (peer.push && peer.url !== null) {
      const brought = this.#contentPush(peer.url)
      asides.push(new Aside(() => brought.run(isStopped)))
    }
    const limit = new PageLimit()
    let failingMs = intervalMs
    let currentMs: number | null = null
    // Rests since the peer was asked for the own head: that is done no more often than when nothing comes.
    let restedMs = 0
    const next = async (): Promise<void> => {
      if (round.stopped) return
      const { error: failed, isMore } = await this.#round(peer, { pusher, limit, currentMs })
      if (round.stopped) return
      let error = failed
      if (error === null) currentMs = this.#platform.clock.now()
      failingMs = error === null ? intervalMs : Math.min(failingMs * 2, REST_MS_MAX)
      const restMs = error === null && isMore ? Math.min(SOON_MS, intervalMs) : failingMs
      for (const aside of asides) {
        if (error === null && aside.error !== null) error = shown(aside.error)
        aside.go()
      }
      await this.#report(peer, { currentMs, error, absent: contents.absent })
      restedMs += restMs
      if (restedMs >= intervalMs) {
        restedMs = 0
        await this.#askOwn(peer)
      }
      this.#platform.schedule.after(restMs, () => void next())
    }
    void next()
  }

  async #tell(peer: KnownPeer): Promise<void> {
    await this.#shared(peer).mirror.catch(() => null)
    await this.#report(peer, { currentMs: null, error: null })
  }

  /** One round: its error, or null, and whether blocks went either way. */
  async #round(
    peer: KnownPeer,
    { pusher, limit, currentMs }: Round,
  ): Promise<{ error: PeerState['error']; isMore: boolean }> {
    const { serverId } = peer
    let isMore = false
    const moved = () => {
      isMore = true
    }
    // First: the other side may be the one that cannot be heard. What it refuses is no reason not to listen.
    const pushing = await pusher?.push(moved).then(() => null, shown)
    const taken = () => {
      moved()
      this.#send({ stored: serverId })
      void this.#report(peer, { currentMs, error: null })
    }
    try {
      const source = this.#source(peer, serverId)
      await this.#inTurn(peer, (mirror) => pull(mirror, source, taken, limit))
      this.#send({ stored: serverId })
      return { error: pushing ?? null, isMore }
    } catch (error) {
      return { error: shown(error), isMore }
    }
  }

  /** Those who add to one mirror take turns. */
  async #inTurn(peer: KnownPeer, work: (mirror: Mirror) => Promise<void>): Promise<void> {
    const shared = this.#shared(peer)
    const mirror = await shared.mirror
    const done = shared.turn.then(() => work(mirror))
    shared.turn = done.catch(() => {})
    await done
  }

  #pusher(url: string): Pusher {
    const { allowPrivate } = this.#start
    const { store, checkpoint } = this.#own
    const platform = this.#platform
    return new Pusher({ url, store, allowPrivate, checkpoint, signer: this.#signer, platform })
  }

  /** A signed head of the own chain, which the node's main thread gives; null when there is none now. */
  #ownCheckpoint(): Promise<string | null> {
    return new Promise((resolve) => {
      this.#wanting.push(resolve)
      if (this.#wanting.length === 1) this.#send({ wanted: 'checkpoint' })
    })
  }

  #contentPush(url: string): ContentPush {
    const { allowPrivate, folder, contentBytesMax } = this.#start
    const { store } = this.#own
    // Only read here.
    const files = new BlobStore(folder, store.attachments, false)
    const contents = new ChainContents(store.attachments, files, contentBytesMax)
    const { clock, outbound } = this.#platform
    return new ContentPush({
      url,
      allowPrivate,
      store,
      contents,
      signer: this.#signer,
      clock,
      outbound,
    })
  }

  async #report(
    peer: KnownPeer,
    { currentMs, error, absent = 0 }: Pick<PeerState, 'currentMs' | 'error'> & { absent?: number },
  ) {
    const { serverId, url } = peer
    const mirror = await this.#mirrors.get(serverId)?.mirror.catch(() => null)
    const [blocks, ofBlocks] = [mirror?.size ?? 0, mirror?.seenSize ?? 0]
    const state = { serverId, url, blocks, ofBlocks, absent, currentMs, error }
    this.#send({ state })
    return state
  }

  async #askOwn(peer: KnownPeer): Promise<void> {
    try {
      const doubt = await doubtOf(this.#source(peer, this.#own.store.serverId), this.#own)
      if (doubt !== null) this.#send({ doubt })
    } catch {
      // A peer that does not answer, or has nothing of this chain, says nothing about it.
    }
  }

  #source({ url }: KnownPeer, serverId: number): HttpSource {
    const { allowPrivate } = this.#start
    const { outbound } = this.#platform
    const signer = this.#signer
    return new HttpSource({ url: url ?? '', serverId, allowPrivate, signer, outbound })
  }

  #shared({ serverId, key, vkey }: KnownPeer): Shared {
    if (this.#closing) throw new PeerError('MIRROR_FAILED', 'the node is closing')
    const known = this.#mirrors.get(serverId)
    if (known !== undefined) return known
    const folder = mirrorFolder(this.#start.folder, serverId)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeDurably(join(folder, VKEY_FILE), `${vkey}\n`)
    const { lasting: durable, contentBytesMax } = this.#start
    const platform = this.#platform
    const mirror = Mirror.open({ folder, serverId, key, durable, contentBytesMax, platform })
    const shared = { mirror, turn: Promise.resolve() }
    this.#mirrors.set(serverId, shared)
    // A disk that was full may have room the next time.
    mirror.catch(() => this.#mirrors.delete(serverId))
    return shared
  }
}

/** Longest message of an error that is shown; peers have a say in some. */
const MESSAGE_LENGTH_MAX = 300

function shown(error: unknown): { code: string; message: string } {
  const code = error instanceof CodedError ? String(error.code) : 'MIRROR_FAILED'
  const message = error instanceof Error ? error.message : String(error)
  return { code, message: message.slice(0, MESSAGE_LENGTH_MAX) }
}

/** Does what the messages at `port` say, until one of them closes it; then `end` ends the thread. */
export function serveMirrors(
  start: MirrorsStart,
  port: ThreadPort,
  platform: Platform,
  end: () => void,
): void {
  const thread = new MirrorsThread(start, port, platform)
  port.on('message', (message: ToMirrors) => {
    if ('close' in message) void thread.close().then(end)
    else if ('push' in message) takePushed(thread, message)
    else if ('checkpoint' in message) thread.answer(message.checkpoint)
    else void thread.follow(message.peers.map(knownPeer))
  })
}

function takePushed(
  thread: MirrorsThread,
  { push, vkey, body, part }: Extract<ToMirrors, { push: number }>,
): void {
  void (part === null
    ? thread.takePush(push, vkey, body)
    : thread.takePart(push, vkey, { ...part, body }))
}

if (parentPort !== null) {
  // Ends this thread only, by itself: replies of peers may be waited for, and nobody needs them now.
  serveMirrors(workerData as MirrorsStart, parentPort, systemPlatform, () => process.exit())
}
