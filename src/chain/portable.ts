// What of this wing runs without Node: the face for programs of browsers.

export { headerText } from './header.ts'
export { type Checkpoint, openCheckpoint } from './log/checkpoint.ts'
export { ProofError, type ProofErrorCode } from './log/errors.ts'
export { equalBytes, hmacSha256, leafHash, type Sha256 } from './log/hashes.ts'
export { type Crypto, type VerifierKey, type VerifySignature, verifierKeyOf } from './log/note.ts'
export type { ProvenEntry } from './log/proof-file.ts'
export { EMPTY_FRONTIER, type Frontier, grown, rootOf } from './log/tree.ts'
export { type Fetch, isBefore, type Place, VerifyingReader } from './log/verifying-reader.ts'
export { portableSha256, webVerifySignature } from './log/web-crypto.ts'
