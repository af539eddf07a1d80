import { CodedError } from '../../base/coded-error.ts'

/** HTTP statuses of the error codes that replies can contain. */
export const statusOfPeers = {
  SIGNATURE_REFUSED: 401, // the request is not signed by the key of a peer, or its signature expired
  PUSH_INVALID: 400, // the pushed data do not have the expected format
  PUSH_GAP: 409, // blocks between `size` and `from` are missing
  BLOCK_REFUSED: 422, // a block does not verify, or does not follow the last block
  LOG_UNPROVEN: 422, // no valid proof shows that the blocks are in the signed log
  MIRROR_FROZEN: 409, // the key has signed two histories
  MIRROR_FAILED: 503, // eight pushes are in progress, or the mirror thread failed: try again
  PEER_INVALID: 400, // not a node's key, or the node's own; not the root URL of a listener; or a peer of `PEERS` to remove
  CONTENT_UNKNOWN: 404, // no entry of this chain refers to the blob, or the entry was erased
  CONTENT_ABSENT: 404, // an entry refers to the blob, but this node lacks the bytes
  CONTENT_TOO_LARGE: 413, // the blob is longer than this node's `ATTACHMENT_BYTES_MAX`
  CONTENT_DIFFERS: 422, // the SHA-256 differs; the transfer starts again
  PEER_UNKNOWN: 404,
  PEERS_TOO_MANY: 422,
} as const

/** Errors of mirrors and restores. The state of a peer shows its last error. */
export type PeerErrorCode =
  | keyof typeof statusOfPeers
  | 'REPLY_REFUSED' // the peer replied with an error
  | 'STATE_WRONG' // the signed state is not the state of the blocks
  | 'REPLY_MALFORMED' // the reply does not have the expected format
  | 'RESTORE_OVER_STORE' // the folder has a store that is not the chain of the peer
  | 'RESTORE_WITHOUT_KEY' // the folder does not have the key of the chain
  | 'RESTORE_REFUSED' // the restored store does not verify

/** Thrown while a chain is mirrored or restored. */
export class PeerError extends CodedError<PeerErrorCode> {
  override readonly name = 'PeerError'
}
