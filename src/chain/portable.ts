// What of this wing runs without Node: the face for programs of browsers.

export { headerText } from './header.ts'
export { type Checkpoint, openCheckpoint } from './log/checkpoint.ts'
export { ProofError } from './log/errors.ts'
export { equalBytes, hmacSha256, leafHash, type Sha256 } from './log/hashes.ts'
export { type VerifierKey, verifierKeyOf } from './log/note.ts'
export { EMPTY_FRONTIER, type Frontier, grown, rootOf } from './log/tree.ts'
