import { CodedError } from '../../base/coded-error.ts'

/** Errors of mirrors and restores. The state of a peer shows its last error. */
export type PeerErrorCode =
  | 'REPLY_REFUSED' // the peer replied with an error
  | 'REPLY_MALFORMED' // the reply does not have the expected format
  | 'BLOCK_REFUSED' // the block is invalid, or does not follow the last block
  | 'LOG_UNPROVEN' // no valid proof shows that the data are in the signed log
  | 'MIRROR_FROZEN' // two signed heads contradict each other, so nothing is added any more
  | 'MIRROR_FAILED' // the store of the mirror failed
  | 'PEER_INVALID' // the verifier key or the URL is invalid, or a peer of the settings was to be removed
  | 'SIGNATURE_REFUSED' // the request is not signed by the key of a peer, or its signature expired
  | 'PUSH_INVALID' // the pushed data do not have the expected format
  | 'PUSH_GAP' // the pushed blocks do not begin where the mirror ends
  | 'CONTENT_UNKNOWN' // no entry of the chain refers to a blob with this SHA-256
  | 'CONTENT_ABSENT' // an entry refers to the blob, but this node has not stored its bytes
  | 'CONTENT_TOO_LARGE' // the blob exceeds the limit for attachments on this node
  | 'PEER_UNKNOWN'
  | 'PEERS_TOO_MANY'
  | 'RESTORE_OVER_STORE' // the folder has a store that is not the chain of the peer
  | 'RESTORE_WITHOUT_KEY' // the folder does not have the key of the chain
  | 'RESTORE_REFUSED' // the restored store does not verify

/** Thrown while a chain is mirrored or restored. */
export class PeerError extends CodedError<PeerErrorCode> {
  override readonly name = 'PeerError'
}

/** HTTP statuses of the error codes in replies. CONTENT_DIFFERS is a StoreError code that a pushed blob can cause. */
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
