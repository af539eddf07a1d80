import {
  logOrigin,
  nodeSha256,
  ProofError,
  serverIdOfRaw,
  type VerifierKey,
  verifierKeyOf,
} from '../../chain/index.ts'
import { PeerError } from './errors.ts'

/** A chain that is mirrored here, and where it is fetched. */
export interface Peer {
  /** The C2SP verifier key of the node whose chain it is; nobody else can sign for it. */
  readonly vkey: string
  /** Of a node that has the chain: its own, or one that mirrors it. Null where its node pushes it. */
  readonly url: string | null
  /** Whether the node's own chain is pushed to `url`; absent for no. */
  readonly push?: boolean
}

/** A peer as it is used. */
export interface KnownPeer extends Peer {
  readonly key: VerifierKey
  readonly serverId: number
  readonly push: boolean
}

const URL_LENGTH_MAX = 2_000

/**
 * The peer that a key and an address give. The address is the root of a ledger's listener, without
 * credentials, query and path. Errors: PEER_INVALID.
 */
export function knownPeer({ vkey, url, push = false }: Peer): KnownPeer {
  const { key, serverId } = nodeOfKey(vkey)
  if (url !== null) return { vkey, url: rootUrl(url), push, key, serverId }
  if (!push) return { vkey, url, push, key, serverId }
  throw new PeerError('PEER_INVALID', 'pushing needs the address to push to')
}

/** The node that a verifier key is of. Errors: PEER_INVALID. */
export function nodeOfKey(vkey: string): { key: VerifierKey; serverId: number } {
  try {
    const key = verifierKeyOf(nodeSha256, vkey)
    const serverId = serverIdOfRaw(key.publicKey)
    if (key.name === logOrigin(serverId)) return { key, serverId }
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
  }
  throw new PeerError('PEER_INVALID', 'vkey is not the verifier key of a node: its …/vkey shows it')
}

/** `url` as the root of a listener, without the last slash. Errors: PEER_INVALID. */
export function rootUrl(url: string): string {
  const parsed = url.length <= URL_LENGTH_MAX && URL.canParse(url) ? new URL(url) : null
  const isRoot =
    parsed !== null &&
    (parsed.protocol === 'http:' || parsed.protocol === 'https:') &&
    parsed.pathname === '/' &&
    parsed.search + parsed.hash + parsed.username + parsed.password === ''
  if (isRoot) return parsed.origin
  throw new PeerError('PEER_INVALID', 'url is the root of a listener, like https://b.example:4126')
}

/** `<vkey>`, `<vkey> <url>` or `<vkey> <url> push`, as the setting has it. Errors: PEER_INVALID. */
export function peerOfText(text: string): KnownPeer {
  const [vkey = '', url = null, push, ...more] = text.trim().split(/\s+/)
  if (more.length === 0 && (push === undefined || push === 'push')) {
    return knownPeer({ vkey, url, push: push === 'push' })
  }
  throw new PeerError('PEER_INVALID', 'a peer is a verifier key, an address and the word push')
}
