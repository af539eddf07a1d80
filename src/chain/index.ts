export {
  type Block,
  type BlockContent,
  type BlockFault,
  blockJson,
  type Head,
  headOf,
  sealBlock,
  verifyBlock,
} from './block.ts'
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
export { HASH_BYTES } from './hashing.ts'
export {
  heightOf,
  packPosition,
  parsePosition,
  positionText,
  unpackPosition,
} from './position.ts'
export { type ProvenBlockParts, provenBlockJson, provenBlockParts } from './proven-block.ts'
export { serverIdOf } from './server-id.ts'
