export { FIELD_TYPES, type FieldType, parseExactNumber, type TypeOf } from './field-type.ts'
export type {
  Bound,
  Condition,
  Fields,
  Filter,
  FilterErrorCode,
  OrderTerm,
  Path,
  Scalar,
  Test,
  Where,
} from './filter.ts'
export { FILTER_PARAMETERS, FilterError, statusOfFilter } from './filter.ts'
export { parsePath } from './location.ts'
export {
  COMPOUND,
  compareByOrder,
  compareSortValues,
  countPatternSteps,
  matches,
  projected,
  type SortValue,
  scalarsAt,
  singleValueAt,
  sortText,
  sortValueAt,
  toSortValues,
  valuesAt,
} from './matches.ts'
export { type FilterOptions, parseFilter, requireOnlyWhere } from './read-filter.ts'
