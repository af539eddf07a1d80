import { CodedError } from '../../base/coded-error.ts'

/** Why nothing, or not all, was taken from a peer; shown in the state of the peer. */
export type PeerErrorCode =
  | 'REPLY_REFUSED' // the peer answered with an error
  | 'REPLY_MALFORMED' // not what was asked for
  | 'BLOCK_REFUSED' // a block that does not hold, or does not follow
  | 'LOG_UNPROVEN' // what was sent is not proven to be in the signed log
  | 'MIRROR_FROZEN' // two signed heads contradict each other: nothing is added any more
  | 'MIRROR_FAILED' // the store of the mirror failed
  | 'PEER_INVALID' // neither a key with an address, nor a key alone
  | 'PEER_UNKNOWN'
  | 'PEERS_TOO_MANY'
  | 'RESTORE_OVER_STORE' // the folder has a store, and not the one of the peer
  | 'RESTORE_WITHOUT_KEY' // the folder has not the key of the chain
  | 'RESTORE_REFUSED' // what came does not hold as a whole

/** Thrown while chains are taken from peers. */
export class PeerError extends CodedError<PeerErrorCode> {
  override readonly name = 'PeerError'
}

/** The HTTP status of those that a request meets. */
export const statusOfPeers = { PEER_INVALID: 400, PEER_UNKNOWN: 404, PEERS_TOO_MANY: 422 } as const
