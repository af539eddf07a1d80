import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import { Type } from '../../base/shape.ts'
import { parseShape } from '../../base/shaped-json.ts'
import { serverUrl, UrlError } from '../../base/url.ts'
import {
  logOrigin,
  ProofError,
  parseVerifierKey,
  serverIdOfRaw,
  type VerifierKey,
} from '../../chain/index.ts'
import { writeDurably } from '../../storage/index.ts'
import { PeerError } from './errors.ts'

const FILE = 'peers.json'
const PEERS_MAX = 64
const URL_LENGTH_MAX = 2_000

/** A chain to mirror, and its source. */
export interface Peer {
  /** The C2SP verifier key of the chain's node; no other key can sign for the chain. */
  readonly vkey: string
  /** URL of a node that has the chain: the owner of the chain or a mirror. Null if the owner pushes the chain. */
  readonly url: string | null
  /** Whether this node pushes its own chain to `url`. Default false. */
  readonly push?: boolean
}

/** A peer whose key was parsed. */
export interface KnownPeer extends Peer {
  readonly key: VerifierKey
  readonly serverId: number
  readonly push: boolean
}

/** Validates a peer. Errors: PEER_INVALID. */
export function requirePeer({ vkey, url, push = false }: Peer): KnownPeer {
  const { key, serverId } = parseNodeKey(vkey)
  if (url !== null) return { vkey, url: rootUrl(url), push, key, serverId }
  if (!push) return { vkey, url, push, key, serverId }
  throw new PeerError('PEER_INVALID', 'push requires a url')
}

/** Parses the verifier key of a node. Errors: PEER_INVALID. */
export function parseNodeKey(vkey: string): { key: VerifierKey; serverId: number } {
  try {
    const key = parseVerifierKey(vkey)
    const serverId = serverIdOfRaw(key.publicKey)
    if (key.name === logOrigin(serverId)) return { key, serverId }
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
  }
  throw new PeerError(
    'PEER_INVALID',
    'vkey is not the verifier key of a node; GET …/vkey of that node returns it',
  )
}

/** Checks that `url` is the root of a listener. Returns the URL without the final slash. Errors: PEER_INVALID. */
export function rootUrl(url: string): string {
  try {
    const server = url.length <= URL_LENGTH_MAX ? serverUrl(url) : null
    if (server !== null && new URL(server).origin === server) return server
  } catch (error) {
    if (!(error instanceof UrlError)) throw error
  }
  throw new PeerError(
    'PEER_INVALID',
    'url must be the root of a listener, like https://b.example:4126',
  )
}

/** Parses a setting: `<vkey>`, `<vkey> <url>` or `<vkey> <url> push`. Errors: PEER_INVALID. */
export function parsePeer(text: string): KnownPeer {
  const [vkey = '', url = null, push, ...more] = text.trim().split(/\s+/)
  if (more.length === 0 && (push === undefined || push === 'push')) {
    return requirePeer({ vkey, url, push: push === 'push' })
  }
  throw new PeerError(
    'PEER_INVALID',
    'a peer must be a verifier key, optionally followed by a URL and the word push',
  )
}

/** The peers of a node: fixed peers from its settings, and peers that were added at run time. */
export class PeerList {
  readonly #path: string | null
  readonly #fixed: readonly KnownPeer[]
  readonly #ownServerId: number
  #added: KnownPeer[]

  /** `folder` is null if the node is temporary. Errors: PEER_INVALID, PEERS_TOO_MANY. */
  constructor(folder: string | null, fixed: readonly Peer[], ownServerId: number) {
    this.#path = folder === null ? null : join(folder, FILE)
    this.#ownServerId = ownServerId
    this.#fixed = fixed.map(requirePeer)
    this.#added = this.#path === null ? [] : storedPeers(this.#path)
    for (const peer of this.all) requireOther(peer, ownServerId)
    if (this.all.length > PEERS_MAX) throw tooMany()
  }

  /** All peers, without duplicates. */
  get all(): KnownPeer[] {
    const added = this.#added.filter((peer) => !this.#fixed.some((fixed) => isSame(fixed, peer)))
    return [...this.#fixed, ...added]
  }

  /** Returns whether the peer comes from the settings. */
  isFixed(peer: KnownPeer): boolean {
    return this.#fixed.some((fixed) => isSame(fixed, peer))
  }

  /** Stores a peer durably, unless the peer is already in the list. Errors: as for the constructor. */
  add(peer: Peer): void {
    const known = requirePeer(peer)
    requireOther(known, this.#ownServerId)
    if (this.all.some((other) => isSame(other, known))) return
    if (this.all.length >= PEERS_MAX) throw tooMany()
    this.#store([...this.#added, known])
  }

  /** Removes the peers with the chain of `serverId`. Errors: PEER_UNKNOWN; PEER_INVALID for a peer of the settings. */
  remove(serverId: number): void {
    const rest = this.#added.filter((peer) => peer.serverId !== serverId)
    if (this.#fixed.some((peer) => peer.serverId === serverId)) {
      throw new PeerError('PEER_INVALID', 'this peer comes from the settings: remove it from PEERS')
    }
    if (rest.length === this.#added.length) {
      throw new PeerError(
        'PEER_UNKNOWN',
        `there is no peer with the chain of server id ${serverId}`,
      )
    }
    this.#store(rest)
  }

  #store(added: KnownPeer[]): void {
    const peers = added.map(({ vkey, url, push }) => ({ vkey, url, push }))
    if (this.#path !== null) writeDurably(this.#path, `${JSON.stringify({ peers })}\n`)
    this.#added = added
  }
}

function isSame(one: KnownPeer, other: KnownPeer): boolean {
  return one.vkey === other.vkey && one.url === other.url && one.push === other.push
}

function requireOther({ serverId }: KnownPeer, ownServerId: number): void {
  if (serverId !== ownServerId) return
  throw new PeerError('PEER_INVALID', "this is the node's own key; a node cannot be its own peer")
}

function tooMany(): PeerError {
  return new PeerError('PEERS_TOO_MANY', `a node can have at most ${PEERS_MAX} peers`)
}

const PeersFile = Type.Object({
  peers: Type.Array(
    Type.Object({
      vkey: Type.String(),
      url: Type.Union([Type.String(), Type.Null()]),
      push: Type.Boolean(),
    }),
  ),
})

function storedPeers(path: string): KnownPeer[] {
  if (!fileExists(path)) return []
  const file = parseShape(PeersFile, readFileSync(path, 'utf8'))
  if (file !== null) return file.peers.map(requirePeer)
  throw new PeerError(
    'PEER_INVALID',
    `${path} does not contain a list of peers: restore it from a backup, or remove it and add the peers again`,
  )
}
