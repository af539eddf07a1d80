export {
  type Block,
  type BlockContent,
  type BlockFault,
  blockJson,
  DIFFICULTY_MAX,
  type Head,
  headerText,
  headOf,
  sealBlock,
  verifyBlock,
} from './block.ts'
export { ENTRIES_MAX, type Entry, entryOf, entryText, type Item } from './entry.ts'
export { HASH_BYTES } from './hashing.ts'
export { type Position, packPosition, positionText, unpackPosition } from './position.ts'
export { serverIdOf } from './server-id.ts'
