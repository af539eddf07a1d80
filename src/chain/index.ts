export {
  type Block,
  type BlockContent,
  type BlockFault,
  blockJson,
  erasedIn,
  type Head,
  hashAt,
  headerOf,
  headOf,
  isErased,
  sealBlock,
  verifyBlock,
} from './block.ts'
export { CutBlock, CutEntry, cutBlocks, type ProvenBlockParts } from './cut-block.ts'
export {
  type Attachment,
  type AttachmentMethod,
  attachmentOf,
  attachmentText,
  ENTRIES_MAX,
  type Entry,
  entryOf,
  entryText,
  type Item,
} from './entry.ts'
export { nodeSha256 } from './hashing.ts'
export { type Header, headerText } from './header.ts'
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
} from './log/checkpoint.ts'
export { ProofError, type ProofErrorCode } from './log/errors.ts'
export { equalBytes, HASH_BYTES, leafHash, type Sha256 } from './log/hashes.ts'
export { nodeCrypto, rawPublicKey } from './log/node-crypto.ts'
export {
  type Crypto,
  signedNote,
  type VerifierKey,
  verifierKeyOf,
  verifierKeyText,
} from './log/note.ts'
export {
  type EntryProof,
  type ProvenEntry,
  proofFileText,
  verifyProofFile,
} from './log/proof-file.ts'
export { proveConsistency, proveInclusion, verifyConsistency } from './log/proofs.ts'
export {
  entriesOfBundle,
  entryBundle,
  hasTile,
  nodesOfTile,
  TILE_WIDTH,
  type Tile,
  tileOf,
  tilePath,
} from './log/tiles.ts'
export {
  EMPTY_FRONTIER,
  type Frontier,
  frontierAt,
  frontierNodes,
  grown,
  nodePlace,
  type ReadNodes,
  rootOf,
  type TreeNode,
} from './log/tree.ts'
export { commitmentPath } from './merkle-tree.ts'
export {
  heightOf,
  packPosition,
  parsePosition,
  positionText,
  unpackPosition,
} from './position.ts'
export { provenBlockJson, provenBlockParts } from './proven-block.ts'
export { serverIdOf, serverIdOfRaw } from './server-id.ts'
