export type { ConflictPolicy, DumpFormat, SourceFormat } from './choices.ts'
export { dumpTexts, type ReadItems } from './dump.ts'
export { FormatError } from './errors.ts'
export { parseColumnTypes } from './formats/csv.ts'
export { formatRecordLocation, RecordRefusal } from './formats/record.ts'
export { LoadError, loadRecords } from './load.ts'
export {
  type LoadCounts,
  type LoadNote,
  LoadProgress,
  type LoadRefusal,
} from './progress.ts'
export {
  chooseIdMember,
  findFormat,
  readRecords,
} from './source.ts'
export { isOutcomeUnknown, type LoadTarget, serviceTarget } from './target.ts'
