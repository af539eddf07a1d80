export {
  type Block,
  type BlockContent,
  type BlockFault,
  findErased,
  type Head,
  type Header,
  headerText,
  isErased,
  sealBlock,
  toHead,
  toHeader,
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
  type Authorship,
  attachmentText,
  decodeAttachment,
  decodeEntry,
  ENTRIES_BYTES_MAX,
  ENTRIES_MAX,
  type Entry,
  type EntryHead,
  entryText,
  type Item,
  isReason,
  packPosition,
  parseEntryHead,
  parsePosition,
  pickAuthorship,
  positionText,
  REASON_BYTES_MAX,
  unpackHeight,
  unpackPosition,
} from './entry.ts'
export { equalBytes, fromHex, HASH_BYTES, hashAt, sha256Hex, toHex } from './hashes.ts'
export {
  type Audited,
  auditedJson,
  auditLog,
  decodeAudited,
  type FetchBytes,
  NOTHING_AUDITED,
} from './log/audit.ts'
export {
  type Checkpoint,
  checkpointText,
  logOrigin,
  openCheckpoint,
  openNote,
  ProofError,
  type ProofErrorCode,
  parseCheckpoint,
  parseVerifierKey,
  serverIdOfRaw,
  signedNote,
  unverifiedText,
  type VerifierKey,
  verifierKeyText,
} from './log/checkpoint.ts'
export {
  type Cosignature,
  type CosignedCheckpoint,
  cosignatureBy,
  cosignatureLine,
  isOfLog,
  parsePolicy,
  parseWitnessKey,
  quorumPolicy,
  type WitnessPolicy,
  witnessKeyText,
} from './log/cosignatures.ts'
export {
  EVIDENCE_BEGINNING,
  EVIDENCE_LENGTH_MAX,
  type Evidence,
  EvidenceFile,
  evidenceText,
  findContradiction,
  isEvidence,
  isStateEvidence,
  parseEvidence,
  type RecomputeState,
  readableLog,
  type SignedLog,
  stateEvidence,
  verifyEvidence,
} from './log/evidence.ts'
export {
  type EntryProof,
  extractNote,
  type ProvenEntry,
  proofFileText,
  verifyProofFile,
} from './log/proof-file.ts'
export { HASHES_MAX, proveConsistency, proveInclusion, verifyConsistency } from './log/proofs.ts'
export {
  type DatabaseState,
  formatDatabaseState,
  formatItemState,
  type ItemState,
  openState,
  parseDatabaseState,
  parseItemState,
  parseStateNote,
  type SignedState,
  stateText,
} from './log/state.ts'
export {
  type ProvenList,
  stateListEnd,
  stateListHead,
  stateListLine,
  verifyStateList,
} from './log/state-list.ts'
export {
  bitAt,
  EMPTY_SUBTREE,
  joinSubtrees,
  leafSubtree,
  type MapLeaf,
  type MapProof,
  mapKey,
  provenValue,
  type Subtree,
  subtreeOfLeaves,
} from './log/state-map.ts'
export {
  type ProvenState,
  type StateProof,
  stateProofText,
  verifyStateProof,
} from './log/state-proof.ts'
export {
  entriesOfBundle,
  entryBundle,
  hasTile,
  nodesFromTiles,
  nodesOfTile,
  parseTile,
  TILE_WIDTH,
  type Tile,
  tilePath,
} from './log/tiles.ts'
export {
  commitmentPath,
  EMPTY_FRONTIER,
  type Frontier,
  frontierAt,
  frontierNodes,
  frontierRoot,
  grown,
  leafHash,
  nodePlace,
  type ReadNodes,
  type TreeNode,
} from './merkle-tree.ts'
export { nodeVerifySignature, rawPublicKey, toServerId } from './node-keys.ts'
export { findItemId, type RawBlock, RawEntry, rawBlock, rawBlocks, rawEntry } from './raw-block.ts'
