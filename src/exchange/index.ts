export { DUMP_FORMATS, type DumpFormat, dumpTexts, type ReadItems } from './dump.ts'
export { FormatError, SourceError } from './errors.ts'
export { columnTypesOf } from './formats/csv.ts'
export { placeOf } from './formats/record.ts'
export {
  CONFLICT_POLICIES,
  type ConflictPolicy,
  type LoadCounts,
  LoadError,
  type LoadPosition,
  loadRecords,
  NO_COUNTS,
  type Refusal,
} from './load.ts'
export {
  formatOfName,
  idMemberOf,
  recordsOf,
  SOURCE_FORMATS,
  type SourceFormat,
} from './source.ts'
export { type LoadTarget, serviceTarget } from './target.ts'
