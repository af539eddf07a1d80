export { FIELD_TYPES, type FieldType, numberIn, type TypeOf } from './field-type.ts'
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
export { pathIn } from './location.ts'
export {
  COMPOUND,
  compareByOrder,
  compareSortValues,
  matches,
  projected,
  type SortValue,
  scalarsAt,
  singleValueAt,
  sortText,
  sortValueAt,
  sortValuesOf,
  stepsOf,
  valuesAt,
} from './matches.ts'
export { type FilterOptions, filterOf } from './read-filter.ts'
