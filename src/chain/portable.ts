// Public API for browsers: nothing here depends on Node.
export type { BlockFault } from './block.ts'
export { parseBlockParts } from './block-json.ts'
export { ChainVerifier } from './chain-verifier.ts'
export {
  type Attachment,
  type Entry,
  type ErasedAttachment,
  entryOf,
  hasContent,
  type Position,
} from './entry.ts'
export { equalBytes } from './hashes.ts'
export {
  algorithmOf,
  type Checkpoint,
  openCheckpoint,
  ProofError,
  type ProofErrorCode,
  serverIdOfRaw,
  type VerifierKey,
  type VerifySignature,
  verifierKeyOf,
  webVerifySignature,
} from './log/checkpoint.ts'
export { isOfLog, policyOf, quorumPolicy, type WitnessPolicy } from './log/cosignatures.ts'
export type { ProvenEntry } from './log/proof-file.ts'
export { type Fetch, isBefore, VerifyingReader } from './log/verifying-reader.ts'
export { EMPTY_FRONTIER, grown, rootOf } from './merkle-tree.ts'
