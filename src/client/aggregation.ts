import type { MemberPath, QueryFilter } from './filter.ts'
import type { MemberName } from './item.ts'
import type { RequestOptions } from './transport.ts'

/** Selects the items to count or to aggregate. */
export interface CountOptions<Item> extends RequestOptions {
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

type ByPath<Value> = Readonly<Record<string, Value>>

/** A group of items. A sum, average, minimum or maximum is null if no item has a suitable value. */
export interface Group {
  /** The values of the members of `group`; null for a missing member, a list or an object. */
  readonly group: ByPath<string | number | boolean | null>
  readonly count: number
  readonly sum?: ByPath<number | null>
  readonly avg?: ByPath<number | null>
  readonly min?: ByPath<string | number | null>
  readonly max?: ByPath<string | number | null>
}

/** The result of `aggregate`. */
export interface Aggregated {
  /** At most 1,000 groups, ordered by the values in `Group.group`. */
  readonly groups: readonly Group[]
  /** Height of the newest block when reading began. */
  readonly height: number
  /** True if no block was added during reading. Only then is the result exact for `height`. */
  readonly consistent: boolean
}
