import { isJsonObject, type Json, type JsonObject } from '../../../base/json.ts'
import { parseForeignJsonOrNull, parseStrictText } from '../../../base/strict-json.ts'
import type { Operators } from '../../../client/index.ts'

/** `list` is any list or object, as JSON. */
export type ValueType = 'text' | 'number' | 'boolean' | 'null' | 'list'
export type Operator = keyof Operators<unknown>

/** A value as the user types it. */
export interface TypedValue {
  readonly type: ValueType
  readonly text: string
}

export interface FormCondition extends TypedValue {
  readonly member: string
  readonly operator: Operator
}

export interface Conditions {
  /** Whether one condition is enough. */
  readonly isAny: boolean
  readonly list: readonly FormCondition[]
}

const SCALARS = ['text', 'number', 'boolean', 'null'] as const
const ORDERED = ['text', 'number'] as const

/** The operators of the form, with the types of their values. */
export const OPERATORS: Readonly<Record<Operator, readonly ValueType[]>> = {
  ...{ eq: SCALARS, neq: SCALARS, gt: ORDERED, gte: ORDERED, lt: ORDERED, lte: ORDERED },
  ...{ between: ['list'], inq: ['list'], nin: ['list'] },
  ...{ like: ['text'], nlike: ['text'], ilike: ['text'], nilike: ['text'], regexp: ['text'] },
  exists: ['boolean'],
}

const LOGICAL: ReadonlySet<string> = new Set(['and', 'or'])

/** Returns the value, or undefined if `text` is no value of its type. */
export function parseTyped({ type, text }: TypedValue): Json | undefined {
  if (type === 'text') return text
  if (type === 'null') return null
  try {
    const value = parseStrictText(text)
    return toTyped(value).type === type ? value : undefined
  } catch {
    return undefined
  }
}

/** Returns `value` as the user would type it. */
export function toTyped(value: unknown): TypedValue {
  if (typeof value === 'string') return { type: 'text', text: value }
  if (value === null) return { type: 'null', text: '' }
  const text = JSON.stringify(value) ?? ''
  if (typeof value === 'number') return { type: 'number', text }
  return { type: typeof value === 'boolean' ? 'boolean' : 'list', text }
}

/** Returns the JSON of a filter, null without conditions, or undefined if a value is not of its type. */
export function formatWhere({ isAny, list }: Conditions): string | null | undefined {
  const parts: JsonObject[] = []
  for (const condition of list) {
    const member = condition.member.trim()
    if (member === '') continue
    const value = parseTyped(condition)
    if (value === undefined) return undefined
    parts.push({ [member]: { [condition.operator]: value } })
  }
  if (parts.length < 2) return parts[0] === undefined ? null : JSON.stringify(parts[0])
  return JSON.stringify({ [isAny ? 'or' : 'and']: parts })
}

/** Returns the conditions of a filter, or null if the form cannot show them. */
export function parseConditions(where: string): Conditions | null {
  const value = parseForeignJsonOrNull(where)
  if (!isJsonObject(value)) return null
  const [[name = '', parts] = [], ...others] = Object.entries(value)
  const isGroup = others.length === 0 && (name === 'and' || name === 'or') && Array.isArray(parts)
  const lists = (isGroup ? parts : [value]).map(parseMembers)
  const isAny = isGroup && name === 'or'
  // Several conditions in a part must all hold, so the form can show them only if all conditions must hold.
  const isShown = lists.every((list) => list !== null && (list.length === 1 || !isAny))
  return isShown ? { isAny, list: lists.flatMap((list) => list ?? []) } : null
}

function parseMembers(part: Json): readonly FormCondition[] | null {
  if (!isJsonObject(part)) return null
  const list = Object.entries(part).flatMap(([member, condition]) => {
    const operators = isJsonObject(condition) ? condition : { eq: condition }
    return Object.entries(operators).map(([name, value]) => {
      const operator = (Object.keys(OPERATORS) as Operator[]).find((known) => known === name)
      const typed = toTyped(value)
      const isKnown = operator !== undefined && OPERATORS[operator].includes(typed.type)
      return isKnown && !LOGICAL.has(member) ? { member, operator, ...typed } : null
    })
  })
  return list.includes(null) ? null : list.filter((one) => one !== null)
}
