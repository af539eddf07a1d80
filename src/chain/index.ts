export {
  type Block,
  type BlockContent,
  type BlockFault,
  erasedIn,
  type Head,
  type Header,
  headerOf,
  headerText,
  headOf,
  isErased,
  sealBlock,
} from './block.ts'
export {
  type BlockParts,
  blockJson,
  PROVEN_BLOCK_BYTES_MAX,
  parseBlockParts,
  provenBlockJson,
} from './block-json.ts'
export { blockLeaf, type ChainState, ChainVerifier } from './chain-verifier.ts'
export {
  type Attachment,
  type AttachmentMethod,
  attachmentOf,
  attachmentText,
  ENTRIES_BYTES_MAX,
  ENTRIES_MAX,
  type Entry,
  entryOf,
  entryText,
  heightOf,
  type Item,
  packPosition,
  parsePosition,
  positionText,
  unpackPosition,
} from './entry.ts'
export { equalBytes, HASH_BYTES, hashAt } from './hashes.ts'
export {
  type Audited,
  auditedJson,
  auditedOf,
  auditLog,
  type FetchBytes,
  NOTHING_AUDITED,
} from './log/audit.ts'
export {
  type Checkpoint,
  checkpointOf,
  checkpointText,
  logOrigin,
  openCheckpoint,
  openNote,
  ProofError,
  type ProofErrorCode,
  serverIdOfRaw,
  signedNote,
  unverifiedText,
  type VerifierKey,
  verifierKeyOf,
  verifierKeyText,
} from './log/checkpoint.ts'
export {
  type Cosignature,
  type CosignedCheckpoint,
  cosignatureBy,
  cosignatureLine,
  isOfLog,
  policyOf,
  quorumPolicy,
  type WitnessPolicy,
  witnessKeyOf,
  witnessKeyText,
} from './log/cosignatures.ts'
export {
  EVIDENCE_BEGINNING,
  EVIDENCE_LENGTH_MAX,
  type Evidence,
  evidenceIn,
  evidenceText,
  findContradiction,
  isEvidence,
  readableLog,
  type SignedLog,
  verifyEvidence,
} from './log/evidence.ts'
export {
  type EntryProof,
  noteOf,
  type ProvenEntry,
  proofFileText,
  verifyProofFile,
} from './log/proof-file.ts'
export { HASHES_MAX, proveConsistency, proveInclusion, verifyConsistency } from './log/proofs.ts'
export {
  entriesOfBundle,
  entryBundle,
  hasTile,
  nodesFromTiles,
  nodesOfTile,
  TILE_WIDTH,
  type Tile,
  tileOf,
  tilePath,
} from './log/tiles.ts'
export {
  commitmentPath,
  EMPTY_FRONTIER,
  type Frontier,
  frontierAt,
  frontierNodes,
  grown,
  leafHash,
  nodePlace,
  type ReadNodes,
  rootOf,
  type TreeNode,
} from './merkle-tree.ts'
export { nodeVerifySignature, rawPublicKey, serverIdOf } from './node-keys.ts'
export { type RawBlock, RawEntry, rawBlock, rawBlocks, rawEntry } from './raw-block.ts'
