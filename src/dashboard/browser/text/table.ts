import { isJsonObject } from '../../../base/json.ts'
import { parseForeignJsonOrNull } from '../../../base/strict-json.ts'
import { QUOTED_IN_HEADER, quoteCell } from '../../../exchange/portable.ts'

export interface ListedItem {
  readonly id: string
  readonly [member: string]: unknown
}

// A path names a member, or a member of a nested object: `grower.town`. A name with a dot or a quote is written as a
// JSON string, so that the member `a.b` and the member `b` of `a` have different paths.

/** Maximum number of paths that the page offers as columns and groups. All members are saved. */
export const PATHS_SHOWN_MAX = 1_000

/**
 * Returns the paths of the members of `items`, with the members of nested objects, in the order in which they
 * first appear. Omits the id.
 */
export function memberPaths(items: readonly ListedItem[]): readonly string[] {
  const paths = new Set<string>()
  for (const { id: _, ...members } of items) {
    for (const [name, value] of Object.entries(members)) {
      const nested = isJsonObject(value) ? Object.keys(value) : []
      if (nested.length === 0) paths.add(formatPath([name]))
      for (const inner of nested) paths.add(formatPath([name, inner]))
    }
  }
  return [...paths]
}

/** Number of columns that a list has before the user chooses columns. */
const COLUMNS_AT_FIRST = 6

/** Returns the paths that most of `items` have, in the order in which they first appear. */
export function commonPaths(items: readonly ListedItem[]): readonly string[] {
  const counts = new Map<string, number>()
  for (const path of items.flatMap((item) => memberPaths([item]))) {
    counts.set(path, (counts.get(path) ?? 0) + 1)
  }
  const common = [...counts].toSorted(([, one], [, other]) => other - one)
  const shown = common.slice(0, COLUMNS_AT_FIRST).filter(([, count]) => count * 4 > items.length)
  const chosen = new Set(shown.map(([path]) => path))
  return [...counts.keys()].filter((path) => chosen.has(path))
}

function formatPath(names: readonly string[]): string {
  return names.map((name) => (/^[^."]+$/.test(name) ? name : JSON.stringify(name))).join('.')
}

/** Returns the names of a path. */
export function parseMemberPath(path: string): readonly string[] {
  const names = path.match(/"(?:[^"\\]|\\.)*"|[^."]+/g) ?? []
  return names.map((name) => (name.startsWith('"') ? String(parseForeignJsonOrNull(name)) : name))
}

/** Returns the path as the node writes paths, or null if the node cannot address the member or list it with others. */
export function nodePath(path: string): string | null {
  const names = parseMemberPath(path)
  return names.some((name) => name === '' || /[.,]/.test(name)) ? null : names.join('.')
}

export function findMember(item: unknown, path: string): unknown {
  return followPath(item, parseMemberPath(path))
}

function followPath(item: unknown, names: readonly string[]): unknown {
  let value = item
  for (const name of names) {
    if (!isJsonObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/**
 * Returns items as CSV (RFC 4180), or with tabs for the clipboard. Strings are cells without JSON quotes, null
 * and missing members are empty cells, and other values are JSON.
 */
export function formatCsv(
  items: readonly ListedItem[],
  columns: readonly string[],
  separator: ',' | '\t' = ',',
  hasHeader = true,
): string {
  const paths = columns.map(parseMemberPath)
  const rows = items.map((item) => [item.id, ...paths.map((names) => followPath(item, names))])
  return [...(hasHeader ? [['id', ...columns]] : []), ...rows]
    .map((row) => `${row.map((value) => formatCell(value, separator)).join(separator)}\r\n`)
    .join('')
}

function formatCell(value: unknown, separator: string): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? withoutFormula(value) : JSON.stringify(value)
  return quoteCell(text, separator === ',' ? QUOTED_IN_HEADER : /["\t\r\n]/)
}

/** Adds an apostrophe to a text that starts like a formula, so that spreadsheets do not evaluate the text. */
function withoutFormula(text: string): string {
  // Some programs remove spaces at the start, or take the wide forms for the narrow ones.
  return /^(?:[\t\r\n]|\s*[=+\-@＝＋－＠])/.test(text) ? `'${text}` : text
}
