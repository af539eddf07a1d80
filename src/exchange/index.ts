export { DUMP_FORMATS, type DumpFormat, dumpTexts, type ReadItems } from './dump.ts'
export { FormatError } from './errors.ts'
export { parseColumnTypes } from './formats/csv.ts'
export { formatPlace, RecordRefusal } from './formats/record.ts'
export {
  CONFLICT_POLICIES,
  type ConflictPolicy,
  LoadError,
  loadRecords,
} from './load.ts'
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
  SOURCE_FORMATS,
  type SourceFormat,
} from './source.ts'
export { isOutcomeUnknown, type LoadTarget, serviceTarget, unlessCode } from './target.ts'
