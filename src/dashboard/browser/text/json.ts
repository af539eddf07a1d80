import { isJsonObject, type Json, type JsonObject } from '../../../base/json.ts'
import { isPathPart } from '../../../base/path-part.ts'
import {
  parseStrictText,
  StrictJsonError,
  type StrictJsonErrorCode,
} from '../../../base/strict-json.ts'

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
  | { readonly reason: 'not-object' | 'id-not-text' | 'id-invalid' | 'id-changed' }

/** Maximum bytes of an id. */
const ID_BYTES_MAX = 256

/** Whether the node accepts `id` as the id of an item. */
export function isItemId(id: string): boolean {
  return isPathPart(id, ID_BYTES_MAX)
}

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
  if (value.id === undefined) return { item: value }
  if (id !== null && value.id !== id) return { reason: 'id-changed' }
  if (!isItemId(value.id)) return { reason: 'id-invalid' }
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

/** Returns `theirs` with the changes from `base` to `mine`, member by member. Where both changed, returns mine. */
export function mergeItems(base: unknown, mine: unknown, theirs: unknown): unknown {
  if (!isJsonObject(base) || !isJsonObject(mine) || !isJsonObject(theirs)) {
    return findDifferences(base, mine).length === 0 ? theirs : mine
  }
  const names = new Set([...Object.keys(theirs), ...Object.keys(mine)])
  const merged = [...names].map((name) => [name, mergeItems(base[name], mine[name], theirs[name])])
  return Object.fromEntries(merged.filter(([, value]) => value !== undefined))
}
