export type { AttachmentReader, StoredAttachment, StoredContent } from './attachments.ts'
export {
  type Backup,
  type BackupOptions,
  type BackupProgress,
  backupFolder,
  dropOldBackups,
} from './backup/backup.ts'
export { ChainWalk } from './chain-walk.ts'
export type { Finding } from './comparison.ts'
export { onDisk } from './content-files.ts'
export { Contents } from './contents.ts'
export { type Effect, effectOf, entryTextOf } from './effect.ts'
export { erasedEntryText } from './erased-entry.ts'
export { ErasureTally } from './erasure-tally.ts'
export { DamageError, EffectError, isDamage, StoreError, type StoreErrorCode } from './errors.ts'
export {
  closedStoreIn,
  type Folder,
  fileExists,
  holdFolder,
  makeFolder,
  requireStoreFile,
  storePathIn,
} from './folder.ts'
export {
  ANSWERS_KEPT_MS,
  ERASED_FINGERPRINT,
  type KeptAnswer,
  type NewAnswer,
} from './kept-answer.ts'
export { openStore, openStoreReader, type StoreOptions } from './open.ts'
export type {
  FoundItem,
  FoundItems,
  IndexOutcome,
  ItemRange,
  ItemSearch,
  RevisionRange,
  Store,
  StoredDatabase,
  StoredIndex,
  StoredItem,
  StoredRevision,
  StoreReader,
} from './store.ts'
export { storedJson } from './stored-json.ts'
export { type Verification, verifyStore } from './verify.ts'
export { type ContentVerification, verifyContents } from './verify-contents.ts'
