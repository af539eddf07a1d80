import { CodedError } from '../../base/coded-error.ts'

/** HTTP statuses of the error codes that replies can contain. */
export const statusOfPeers = {
  SIGNATURE_REFUSED: 401, // the request is not signed by the key of a peer, or its signature expired
  PUSH_INVALID: 400, // the pushed data do not have the expected format
  PUSH_GAP: 409, // the pushed blocks do not begin where the mirror ends
  BLOCK_REFUSED: 422, // the block is invalid, or does not follow the last block
  LOG_UNPROVEN: 422, // no valid proof shows that the data are in the signed log
  MIRROR_FROZEN: 409, // two signed heads contradict each other, so nothing is added any more
  MIRROR_FAILED: 503, // the store of the mirror failed
  PEER_INVALID: 400, // the verifier key or the URL is invalid, or a peer of the settings was to be removed
  CONTENT_UNKNOWN: 404, // no entry of the chain refers to a blob with this SHA-256
  CONTENT_ABSENT: 404, // an entry refers to the blob, but this node has not stored its bytes
  CONTENT_TOO_LARGE: 413, // the blob exceeds the limit for attachments on this node
  CONTENT_DIFFERS: 422, // the bytes of a pushed blob have another SHA-256
  PEER_UNKNOWN: 404,
  PEERS_TOO_MANY: 422,
} as const

/** Errors of mirrors and restores. The state of a peer shows its last error. */
export type PeerErrorCode =
  | keyof typeof statusOfPeers
  | 'REPLY_REFUSED' // the peer replied with an error
  | 'REPLY_MALFORMED' // the reply does not have the expected format
  | 'RESTORE_OVER_STORE' // the folder has a store that is not the chain of the peer
  | 'RESTORE_WITHOUT_KEY' // the folder does not have the key of the chain
  | 'RESTORE_REFUSED' // the restored store does not verify

/** Thrown while a chain is mirrored or restored. */
export class PeerError extends CodedError<PeerErrorCode> {
  override readonly name = 'PeerError'
}
