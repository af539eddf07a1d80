export { FilterError, type FilterErrorCode, statusOfFilter } from './errors.ts'
export { FIELD_TYPES, type FieldType, numberIn, type TypeOf } from './field-type.ts'
export { projected } from './fields.ts'
export type {
  Bound,
  Condition,
  Fields,
  Filter,
  OrderTerm,
  Path,
  Scalar,
  Test,
  Where,
} from './filter.ts'
export { matches } from './matches.ts'
export { FILTER_PARAMETERS } from './openapi.ts'
export { compareByOrder, compareSortValues, rankOf, sortValuesOf } from './order.ts'
export { type FilterOptions, filterOf } from './read-filter.ts'
export { COMPOUND, reached, type SortValue, scalarsAt, sortText, sortValueAt } from './values.ts'
