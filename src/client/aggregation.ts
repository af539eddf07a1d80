import type { MemberPath, QueryFilter } from './filter.ts'
import type { MemberName } from './item.ts'
import type { Operations } from './operations.ts'
import type { PastOptions } from './transport.ts'

/** Selects the items to count or to aggregate. */
export interface CountOptions<Item> extends PastOptions {
  readonly filter?: Pick<QueryFilter<Item>, 'where'> | undefined
}

/** A member, or a path to a nested member. */
type Member<Item> = MemberName<Item> | MemberPath<Item>

/** Selects the groups and the values to compute for each group. Names in paths must not contain commas. */
export interface AggregateOptions<Item> extends CountOptions<Item> {
  /** At most two members; without `group`, all items form one group. */
  readonly group?: readonly Member<Item>[] | undefined
  readonly sum?: readonly Member<Item>[] | undefined
  readonly avg?: readonly Member<Item>[] | undefined
  readonly min?: readonly Member<Item>[] | undefined
  readonly max?: readonly Member<Item>[] | undefined
}

/**
 * The result of `aggregate`. In a group, a missing member, a list or an object has the value null; so has a sum, average,
 * minimum or maximum if no item has a suitable value.
 */
export type Aggregated = Operations['GET /api/config/aggregate']['reply']
