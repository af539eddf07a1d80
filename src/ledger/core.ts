// The ledger without its HTTP API, for commands that work on chains and folders. Importing this instead of
// `index.ts` halves the start time of such a command, because no listener code is loaded.
export {
  findItemId,
  packPosition,
  parseEntryHead,
  parsePosition,
  positionText,
  unpackHeight,
} from '../chain/index.ts'
export {
  type FoundItem,
  isDatabaseUrl,
  type RevisionRange,
  SORTED_ITEMS_MAX,
  StoreError,
  storedJson,
  type Turn,
  type Turns,
} from '../storage/index.ts'
export { LedgerError, type LedgerErrorCode } from './errors.ts'
export { type Copied, copyStore, moveIntoDatabase, requireOwnDatabase } from './export/copy.ts'
export {
  type ExportEnd,
  ExportError,
  type ExportErrorCode,
  type ExportFinding,
  type ExportHeader,
  type ExportProgress,
  exportLines,
} from './export/export.ts'
export {
  type ImportOptions,
  importAsNewChain,
  importExport,
  type NewChainImportOptions,
} from './export/import.ts'
export { type ExportReceiver, type ReadBlock, readExport } from './export/read-export.ts'
export { StateRecomputation } from './log/recomputed-state.ts'
export { lostStoreFinding } from './log/signed-head.ts'
export {
  readSigningFiles,
  type SigningFiles,
  signedHeadFinding,
  signingFinding,
} from './log/verify-signing.ts'
export { parseVerifierKeys } from './log/witness.ts'
export { parseWitness } from './log/witnesses.ts'
export {
  type OpenLedger,
  type OpenLedgerOptions,
  openLedger,
  type PeersOptions,
} from './node/open.ts'
export type { FinishedVerification } from './node/scheduled-verification.ts'
export { type NodeVerification, verifyNode } from './node/verify-node.ts'
export { PeerError, type PeerErrorCode } from './peers/errors.ts'
export { isMirrorFolder } from './peers/mirror.ts'
export { findRestoredMirror, readRestoredHeight } from './peers/new-chain.ts'
export { PeerClient } from './peers/peer-client.ts'
export { type Peer, parsePeer, rootUrl } from './peers/peer-list.ts'
export {
  type Restored,
  type RestoreOptions,
  type RestoreSource,
  restoreChain,
} from './peers/restore.ts'
export { type AggregationQuery, aggregationQuery, type Group } from './read/aggregation.ts'
export { entryFilter } from './read/entry-filter.ts'
export { type ChainPoint, type EntrySearch, parseChainPoint } from './read/entry-search.ts'
export type { HistoryRange } from './read/item-history.ts'
export { LedgerReader } from './read/ledger-reader.ts'
export { mergePatch } from './write/item.ts'
export {
  ITEM_ID_BYTES_MAX,
  NETWORK_TYPE,
  networkItemId,
  requireAttachmentName,
} from './write/names.ts'
export { type Operation, toCreation, toUnit, withAuthorship } from './write/unit-of-work.ts'
