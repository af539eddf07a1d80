import { isJsonObject, type Json, type JsonObject } from '../../../base/json.ts'
import {
  parseStrictText,
  StrictJsonError,
  type StrictJsonErrorCode,
} from '../../../base/strict-json.ts'
import type { Texts } from '../language/english.ts'

/** The item in a text, or the reason why the text cannot be saved as an item. */
export type ParsedItem =
  | { readonly item: JsonObject }
  | {
      readonly reason: 'json'
      readonly code: StrictJsonErrorCode
      readonly detail: string
      /** Position of the error in the text, or null if the browser does not report the position. */
      readonly location: { readonly line: number; readonly column: number } | null
    }
  | { readonly reason: 'not-object' | 'id-not-text' | 'id-changed' }

/** Checks `text` with the rules of the node. `id` is the id of the item, or null for a new item. */
export function parseItem(text: string, id: string | null): ParsedItem {
  let value: Json
  try {
    value = parseStrictText(text)
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    return {
      reason: 'json',
      code: error.code,
      detail: error.message,
      location: findLocation(error),
    }
  }
  if (!isJsonObject(value)) return { reason: 'not-object' }
  if (value.id !== undefined && typeof value.id !== 'string') return { reason: 'id-not-text' }
  if (id !== null && value.id !== undefined && value.id !== id) return { reason: 'id-changed' }
  return { item: value }
}

/** Returns the position of the error, or null, because not all browsers put the position into the message. */
function findLocation({ message }: Error): { line: number; column: number } | null {
  const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? []
  return line === undefined ? null : { line: Number(line), column: Number(column) }
}

export interface Difference {
  /** Path of the member, for example `grower.town` or `tags[0]`. Empty for the whole value. */
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
  /** Absent if the member was added. */
  readonly before?: unknown
  /** Absent if the member was removed. */
  readonly after?: unknown
}

/** Maximum number of differences that the page shows. */
export const DIFFERENCES_SHOWN_MAX = 200

/**
 * Lists the differences between `before` and `after`, member by member, in the order of the members: one more than the
 * page shows, if there are more.
 */
export function findDifferences(before: unknown, after: unknown): readonly Difference[] {
  const found: Difference[] = []
  collect('', before, after, found)
  return found.slice(0, DIFFERENCES_SHOWN_MAX + 1)
}

function collect(path: string, before: unknown, after: unknown, found: Difference[]): void {
  if (found.length > DIFFERENCES_SHOWN_MAX || before === after) return
  if (Array.isArray(before) && Array.isArray(after)) {
    for (let at = 0; at < Math.max(before.length, after.length); at += 1) {
      member(`${path}[${at}]`, { before, after }, at, found)
    }
  } else if (isJsonObject(before) && isJsonObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)])
    for (const name of [...names].sort()) {
      member(pathTo(path, name), { before, after }, name, found)
    }
  } else {
    found.push({ path, kind: 'changed', before, after })
  }
}

function member(
  path: string,
  { before, after }: { readonly before: object; readonly after: object },
  key: string | number,
  found: Difference[],
): void {
  const [had, has] = [Object.hasOwn(before, key), Object.hasOwn(after, key)]
  const [old, now]: [unknown, unknown] = [Reflect.get(before, key), Reflect.get(after, key)]
  if (had && has) collect(path, old, now, found)
  else if (has) found.push({ path, kind: 'added', after: now })
  else found.push({ path, kind: 'removed', before: old })
}

function pathTo(path: string, name: string): string {
  if (!/^[\p{L}_][\p{L}\p{N}_-]*$/u.test(name)) return `${path}[${JSON.stringify(name)}]`
  return path === '' ? name : `${path}.${name}`
}

export type Operator = keyof Texts['operators']

/**
 * Returns the JSON of a filter with one condition, or null if `member` is empty. If `text` is a number, true, false or
 * null, the filter compares with that value and also with the string, because the user cannot say which is meant.
 */
export function toWhere(member: string, operator: Operator, text: string): string | null {
  const name = member.trim()
  if (name === '') return null
  const value = parseScalar(text)
  if (operator === 'eq' && value !== text) {
    return JSON.stringify({ or: [{ [name]: { eq: value } }, { [name]: { eq: text } }] })
  }
  if (operator === 'neq' && value !== text) {
    return JSON.stringify({ and: [{ [name]: { neq: value } }, { [name]: { neq: text } }] })
  }
  if (operator === 'exists') return JSON.stringify({ [name]: { exists: text !== 'false' } })
  const isText = operator === 'like' || operator === 'regexp'
  return JSON.stringify({ [name]: { [operator]: isText ? text : value } })
}

function parseScalar(text: string): string | number | boolean | null {
  if (text === 'true' || text === 'false') return text === 'true'
  if (text === 'null') return null
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : text
}
