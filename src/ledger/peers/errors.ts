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
  | 'SIGNATURE_REFUSED' // a request that is not, or no longer, signed by the key of a peer
  | 'PUSH_INVALID' // what is pushed is not of the form
  | 'PUSH_GAP' // what is pushed does not begin where the mirror ends
  | 'CONTENT_UNKNOWN' // no entry of the chain names a content of this SHA-256
  | 'CONTENT_ABSENT' // one does, and its bytes are not here
  | 'CONTENT_TOO_LARGE' // longer than attachments may be here
  | 'PEER_UNKNOWN'
  | 'PEERS_TOO_MANY'
  | 'RESTORE_OVER_STORE' // the folder has a store, and not the one of the peer
  | 'RESTORE_WITHOUT_KEY' // the folder has not the key of the chain
  | 'RESTORE_REFUSED' // what came does not hold as a whole

/** Thrown while chains are taken from peers. */
export class PeerError extends CodedError<PeerErrorCode> {
  override readonly name = 'PeerError'
}

/** The HTTP status of those that a request meets, and of what the store says of a content. */
export const statusOfPeers = {
  SIGNATURE_REFUSED: 401,
  PUSH_INVALID: 400,
  PUSH_GAP: 409,
  BLOCK_REFUSED: 422,
  LOG_UNPROVEN: 422,
  MIRROR_FROZEN: 409,
  MIRROR_FAILED: 503,
  PEER_INVALID: 400,
  CONTENT_UNKNOWN: 404,
  CONTENT_ABSENT: 404,
  CONTENT_TOO_LARGE: 413,
  CONTENT_DIFFERS: 422,
  PEER_UNKNOWN: 404,
  PEERS_TOO_MANY: 422,
} as const
