import type { KeyObject } from 'node:crypto'
import type { Peer } from './peer.ts'

/** What the thread of the mirrors is started with. */
export interface MirrorsStart {
  /** The node's data folder. */
  readonly folder: string
  /** Whether the folder outlives the process. */
  readonly lasting: boolean
  /** The verifier key of the node itself. */
  readonly ownKey: string
  /** Signs what others are asked. */
  readonly privateKey: KeyObject
  /** Whether peers may be on private networks. */
  readonly allowPrivate: boolean
  /** Between two rounds with a peer. */
  readonly intervalMs: number
  /** The most bytes of one attachment that is taken. */
  readonly contentBytesMax: number
}

/** How it stands with a peer. */
export interface PeerState {
  readonly serverId: number
  readonly url: string | null
  /** Blocks that are stored here. */
  readonly blocks: number
  /** Blocks that the chain's node has signed, as far as is known. */
  readonly ofBlocks: number
  /** Contents of its attachments that the peer does not have, as far as was looked. */
  readonly absent: number
  /** When the last round ended without an error, milliseconds since the Unix epoch, or null. */
  readonly currentMs: number | null
  /** Why the last round did not, or null. */
  readonly error: { readonly code: string; readonly message: string } | null
}

/** What peers know of the node's own chain that the node does not. */
export interface OwnDoubt {
  readonly kind: 'longer' | 'other'
  readonly message: string
}

/** To the thread. */
export type ToMirrors =
  | { readonly peers: readonly Peer[] }
  /** The answer to `wanted`; null when there is none now. */
  | { readonly checkpoint: string | null }
  /** A push that arrived from the node of this key; answered by `pushed` with the same number. */
  | {
      readonly push: number
      readonly vkey: string
      readonly body: Uint8Array
      /** Where the body is a part of a content of its attachments: of which, and where it begins. */
      readonly part: { readonly sha256: string; readonly from: number } | null
    }
  | { readonly close: true }

/** How far a chain that is pushed is mirrored. */
export interface PushedTo {
  readonly size: number
  readonly seen: number
}

/** What became of a push. */
export interface PushAnswer {
  readonly to: PushedTo
  /** How many bytes are here of the content that a part was of. */
  readonly arrived: number
  readonly error: PeerState['error']
}

/** From it. */
export type FromMirrors =
  | { readonly state: PeerState }
  /** Blocks were stored in this mirror, or its head was. */
  | { readonly stored: number }
  | { readonly doubt: OwnDoubt }
  /** A signed head of the node's own chain is needed. */
  | { readonly wanted: 'checkpoint' }
  | { readonly pushed: number; readonly answer: PushAnswer }
  /** Every peer of the first list was asked for the node's own head. */
  | { readonly asked: true }
