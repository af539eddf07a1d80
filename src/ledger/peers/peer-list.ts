import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { fileExists } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'
import { PeerError } from './errors.ts'
import { type KnownPeer, knownPeer, type Peer } from './peer.ts'

const FILE = 'peers.json'
/** Peers of one node. */
const PEERS_MAX = 64

/** The peers of a node: those of its settings, which stay, and those that were added at run time. */
export class PeerList {
  readonly #path: string | null
  readonly #fixed: readonly KnownPeer[]
  readonly #ownServerId: number
  #added: KnownPeer[]

  /** `folder` is null where nothing outlives the process. Errors: PEER_INVALID, PEERS_TOO_MANY. */
  constructor(folder: string | null, fixed: readonly Peer[], ownServerId: number) {
    this.#path = folder === null ? null : join(folder, FILE)
    this.#ownServerId = ownServerId
    this.#fixed = fixed.map(knownPeer)
    this.#added = this.#path === null ? [] : peersIn(this.#path)
    for (const peer of this.all) expectOther(peer, ownServerId)
    if (this.all.length > PEERS_MAX) throw tooMany()
  }

  /** All of them, each once. */
  get all(): KnownPeer[] {
    const added = this.#added.filter((peer) => !this.#fixed.some((fixed) => isSame(fixed, peer)))
    return [...this.#fixed, ...added]
  }

  /** Whether the settings name this peer. */
  isFixed(peer: KnownPeer): boolean {
    return this.#fixed.some((fixed) => isSame(fixed, peer))
  }

  /** Adds a peer, which is durable then; again changes nothing. Errors: as the constructor. */
  add(peer: Peer): void {
    const known = knownPeer(peer)
    expectOther(known, this.#ownServerId)
    if (this.all.some((other) => isSame(other, known))) return
    if (this.all.length >= PEERS_MAX) throw tooMany()
    this.#keep([...this.#added, known])
  }

  /** Takes out the peers with the chain of `serverId`. Errors: PEER_UNKNOWN, PEER_INVALID. */
  remove(serverId: number): void {
    const rest = this.#added.filter((peer) => peer.serverId !== serverId)
    if (this.#fixed.some((peer) => peer.serverId === serverId)) {
      throw new PeerError('PEER_INVALID', 'this peer is named by the settings: take it out there')
    }
    if (rest.length === this.#added.length) {
      throw new PeerError(
        'PEER_UNKNOWN',
        `there is no peer with the chain of server id ${serverId}`,
      )
    }
    this.#keep(rest)
  }

  #keep(added: KnownPeer[]): void {
    const shown = added.map(({ vkey, url, push }) => ({ vkey, url, push }))
    if (this.#path !== null) writeDurably(this.#path, `${JSON.stringify({ peers: shown })}\n`)
    this.#added = added
  }
}

function isSame(one: KnownPeer, other: KnownPeer): boolean {
  return one.vkey === other.vkey && one.url === other.url && one.push === other.push
}

function expectOther({ serverId }: KnownPeer, ownServerId: number): void {
  if (serverId !== ownServerId) return
  throw new PeerError('PEER_INVALID', "this is the node's own key: its chain is here already")
}

function tooMany(): PeerError {
  return new PeerError('PEERS_TOO_MANY', `a node has ${PEERS_MAX} peers at most`)
}

function peersIn(path: string): KnownPeer[] {
  if (!fileExists(path)) return []
  const value = parsed(readFileSync(path, 'utf8'))
  const list = isJsonObject(value) && Array.isArray(value.peers) ? value.peers : [null]
  return list.map((peer) => {
    const { vkey, url, push } = isJsonObject(peer) ? peer : {}
    if (typeof vkey === 'string' && (typeof url === 'string' || url === null)) {
      return knownPeer({ vkey, url, push: push === true })
    }
    throw new PeerError('PEER_INVALID', `${path} does not hold a list of peers`)
  })
}

function parsed(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}
