import { CodedError } from '../../base/coded-error.ts'

/** Every way a note, checkpoint or proof fails to convince. */
export type ProofErrorCode =
  | 'NOTE_MALFORMED' // not a signed note, or a key that is none
  | 'NOTE_UNSIGNED' // no signature by a known key
  | 'NOTE_FORGED' // a known key's signature that does not hold
  | 'CHECKPOINT_MALFORMED' // signed, but not the head of a log
  | 'CHECKPOINT_FOREIGN' // the head of another log
  | 'PROOF_MALFORMED' // not a proof file
  | 'PROOF_WRONG' // its hashes do not lead from the entry to the checkpoint
  | 'LOG_ROLLED_BACK' // a head that is older than one that was seen
  | 'LOG_FORKED' // two heads that cannot both be true
  | 'LOG_BROKEN' // entries, hashes and head of a log do not fit each other
  | 'ITEM_OTHER' // a proof of something else than was asked for
  | 'ITEM_STALE' // an older revision than one that was seen
  | 'ITEM_ERASED' // what was asked for was erased: its content can be neither shown nor proven
  | 'SERVER_FAILED' // no answer that could be verified

/** Thrown by whatever verifies; the message says what does not hold. */
export class ProofError extends CodedError<ProofErrorCode> {
  override readonly name = 'ProofError'
}
