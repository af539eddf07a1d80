import type { MemberName, Stored } from './item.ts'
import { jsonText, requireObject, valueInvalid } from './json-body.ts'

/** A filter of items: docs/reference/ledger/queries.md. */
export interface QueryFilter<Item, Field extends MemberName<Item> = never> {
  readonly where?: QueryWhere<Item> | undefined
  /** For example `name` or `price DESC`. */
  readonly order?: Order<Item> | readonly Order<Item>[] | undefined
  /** Returns only these members of the items. */
  readonly fields?: readonly Field[] | undefined
}

/** Conditions on members, or on nested members such as `grower.town`. All conditions must hold. */
export type QueryWhere<Item> = {
  readonly [Member in MemberName<Item>]?: ConditionOn<Item, Member>
} & {
  readonly [Path in MemberPath<Item>]?: string extends keyof Item
    ? unknown
    : MemberCondition<Scalar>
} & {
  readonly and?: readonly QueryWhere<Item>[]
  readonly or?: readonly QueryWhere<Item>[]
}

/** A member, or a path to a nested member, and the direction. */
export type Order<Item> =
  | MemberName<Item>
  | MemberPath<Item>
  | `${MemberName<Item> | MemberPath<Item>} ${'ASC' | 'DESC'}`

/** The value that the member must equal, or operators, all of which must hold. */
export type MemberCondition<Value> = Value | null | Operators<Value>

/** The operators of a condition. */
export interface Operators<Value> {
  readonly eq?: Value | null
  readonly neq?: Value | null
  readonly gt?: Value
  readonly gte?: Value
  readonly lt?: Value
  readonly lte?: Value
  readonly between?: readonly [from: Value, to: Value]
  readonly inq?: readonly (Value | null)[]
  readonly nin?: readonly (Value | null)[]
  /** A pattern: `%` matches any characters, `_` one character. */
  readonly like?: string
  readonly nlike?: string
  readonly ilike?: string
  readonly nilike?: string
  readonly regexp?: string
  readonly exists?: boolean
}

type Scalar = string | number | boolean

/** A path of two or more names. The compiler checks only the first name. */
export type MemberPath<Item> = `${MemberName<Item>}.${string}`

/** The condition on a member; `unknown` if the type of the items is not declared. */
type ConditionOn<Item, Member> = string extends Member
  ? unknown
  : MemberCondition<ScalarOf<ValueOf<Item, Member>>>

/** The type of a member; for a union of item types, the union of the member's types. */
type ValueOf<Item, Member> = Item extends unknown
  ? Member extends keyof Stored<Item>
    ? Stored<Item>[Member]
    : never
  : never

/** The type of the values with which a member is compared. For a list, each element is compared. */
type ScalarOf<Value> = unknown extends Value
  ? Scalar
  : Value extends readonly (infer Element)[]
    ? ScalarOf<Element>
    : Extract<Value, Scalar>

/**
 * Formats a filter as JSON, without `limit` and `offset`, which belong to the page. Errors: ClientError,
 * VALUE_INVALID, also for an unknown member, because without its condition the filter would select too many items.
 */
export function formatFilter<Item, Field extends MemberName<Item>>(
  filter: QueryFilter<Item, Field> | undefined,
): string | undefined {
  if (filter === undefined) return undefined
  const { where, order, fields, ...others } = requireObject(filter, 'filter')
  const [other] = Object.keys(others)
  if (other !== undefined) throw valueInvalid(`filter/${other} is not where, order or fields`)
  if (where !== undefined) requireObject(where, 'filter/where')
  // Refuses a condition that is undefined: JSON would omit it, so the filter would select too many items.
  if (where !== undefined) jsonText(where, 'filter/where', 'refused')
  return jsonText({ where, order, fields }, 'filter')
}
