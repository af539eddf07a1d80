export {
  type Backup,
  type BackupOptions,
  type BackupProgress,
  backupFolder,
  dropOldBackups,
} from './backup/backup.ts'
export type { BlobStore, OpenBlob } from './blobs/blob-store.ts'
export {
  type Folder,
  LOCK_FILE,
  lockFolder,
  requireClosedStore,
  requireFolder,
  requireStoreFile,
  toStorePath,
  writeDurably,
} from './location/folder.ts'
export { displayName, isDatabaseUrl, type StoreLocation } from './location/location.ts'
export {
  type ChangeText,
  openBlobStore,
  openSharedText,
  openStore,
  openStoreReader,
  openTurns,
  type StoreOptions,
  sharedTextChanges,
  storeExists,
  storeWarning,
} from './open.ts'
export {
  type Effect,
  toEffect,
  toEntryText,
} from './port/effect.ts'
export {
  ErasureCheck,
  erasedEntryText,
  erasedItemText,
} from './port/erasure.ts'
export {
  DamageError,
  EffectError,
  isDamage,
  isFileOutage,
  isReadDamage,
  StoreError,
  type StoreErrorCode,
  storedJson,
} from './port/errors.ts'
export type {
  AttachmentReader,
  AttachmentRow,
  DiskUsage,
  FormerItem,
  FoundItem,
  FoundItems,
  IndexOutcome,
  ItemLife,
  ItemRange,
  ItemSearch,
  RevisionRange,
  Store,
  StoredAttachment,
  StoredBlob,
  StoredDatabase,
  StoredIndex,
  StoredItem,
  StoredRevision,
  StoreReader,
  Turn,
  Turns,
} from './port/store.ts'
export {
  ERASED_FINGERPRINT,
  IDEMPOTENCY_RECORDS_KEPT_MS,
  type IdempotencyRecord,
  type NewIdempotencyRecord,
  SORTED_ITEMS_MAX,
} from './port/store.ts'
export type { SharedText } from './postgres/shared-texts.ts'
export { ChangeRuns, type KeyedChange } from './state/change-runs.ts'
export { STATE_FILE, StateFile, type StateHead } from './state/state-file.ts'
export {
  changeMap,
  type PageStore,
  proveValue,
  readValue,
  requireRoot,
  storedRoot,
  type ValueChange,
} from './state/stored-map.ts'
export {
  ChainWalk,
  type Finding,
} from './verify/chain-walk.ts'
export {
  type Verification,
  type VerifyOptions,
  verifyStore,
} from './verify/verify.ts'
export {
  type BlobVerification,
  removeWrongBlobs,
  verifyBlobs,
} from './verify/verify-blobs.ts'
