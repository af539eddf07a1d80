// Public API for browsers: nothing here depends on Node.
export type { BlockFault } from './block.ts'
export { parseBlockParts } from './block-json.ts'
export { ChainVerifier } from './chain-verifier.ts'
export {
  type Attachment,
  decodeEntry,
  type Entry,
  type ErasedAttachment,
  hasContent,
  type Position,
} from './entry.ts'
export { equalBytes } from './hashes.ts'
export {
  type Checkpoint,
  keyAlgorithm,
  openCheckpoint,
  ProofError,
  type ProofErrorCode,
  parseVerifierKey,
  serverIdOfRaw,
  type VerifierKey,
  type VerifySignature,
  webVerifySignature,
} from './log/checkpoint.ts'
export { isOfLog, parsePolicy, quorumPolicy, type WitnessPolicy } from './log/cosignatures.ts'
export type { ProvenEntry } from './log/proof-file.ts'
export { openHead } from './log/state.ts'
export { type Fetch, isBefore, VerifyingReader } from './log/verifying-reader.ts'
export { EMPTY_FRONTIER, frontierRoot, grown } from './merkle-tree.ts'
