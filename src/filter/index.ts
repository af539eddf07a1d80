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
export { matches, stepsOf } from './matches.ts'
export { FILTER_PARAMETERS } from './openapi.ts'
export { compareByOrder, sortValuesOf } from './order.ts'
export { pathIn } from './place.ts'
export { type FilterOptions, filterOf } from './read-filter.ts'
export { COMPOUND, reached, type SortValue, scalarsAt, sortText, sortValueAt } from './values.ts'
