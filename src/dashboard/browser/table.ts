import { isJsonObject } from '../../base/json.ts'

export interface ListedItem {
  readonly id: string
  readonly [member: string]: unknown
}

/** Maximum number of members that can be chosen as columns. */
const MEMBERS_MAX = 60

/**
 * Returns the paths of the members of `items`, with the members of nested objects, in the order in which they
 * first appear. Omits the id.
 */
export function memberPaths(items: readonly ListedItem[]): readonly string[] {
  const paths = new Set<string>()
  for (const { id: _, ...members } of items) {
    for (const [name, value] of Object.entries(members)) {
      if (paths.size >= MEMBERS_MAX) return [...paths]
      const nested = isJsonObject(value) ? Object.keys(value) : []
      if (nested.length === 0) paths.add(name)
      for (const inner of nested) paths.add(`${name}.${inner}`)
    }
  }
  return [...paths].slice(0, MEMBERS_MAX)
}

/** Returns the member of `item` at `path`, or undefined. A member whose name is the whole path has precedence. */
export function valueAt(item: unknown, path: string): unknown {
  if (!isJsonObject(item)) return undefined
  if (Object.hasOwn(item, path)) return item[path]
  const dot = path.indexOf('.')
  if (dot === -1) return undefined
  const first = path.slice(0, dot)
  return Object.hasOwn(item, first) ? valueAt(item[first], path.slice(dot + 1)) : undefined
}

/** Returns the items with only their id and the members at `columns`. Without columns, returns whole items. */
function shownItems(items: readonly ListedItem[], columns: readonly string[]) {
  if (columns.length === 0) return items
  return items.map((item) =>
    Object.fromEntries([['id', item.id], ...columns.map((path) => [path, valueAt(item, path)])]),
  )
}

/** Returns the shown items as NDJSON: one JSON object per line. */
export function ndjsonOf(items: readonly ListedItem[], columns: readonly string[]): string {
  return shownItems(items, columns)
    .map((item) => `${JSON.stringify(item)}\n`)
    .join('')
}

/**
 * Returns the shown items as CSV (RFC 4180), or with tabs for the clipboard. Without columns, every member is a column.
 * Strings are cells without JSON quotes, null and missing members are empty cells, and other values are JSON.
 */
export function csvOf(
  items: readonly ListedItem[],
  columns: readonly string[],
  separator: ',' | '\t' = ',',
): string {
  const paths = ['id', ...(columns.length === 0 ? memberPaths(items) : columns)]
  const rows = [paths, ...items.map((item) => paths.map((path) => valueAt(item, path)))]
  return rows
    .map((row) => `${row.map((value) => cellOf(value, separator)).join(separator)}\r\n`)
    .join('')
}

function cellOf(value: unknown, separator: string): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? withoutFormula(value) : JSON.stringify(value)
  const isPlain = !/["\r\n]/.test(text) && !text.includes(separator)
  return isPlain ? text : `"${text.replaceAll('"', '""')}"`
}

/** Adds an apostrophe to a text that starts like a formula, so that spreadsheets do not evaluate the text. */
function withoutFormula(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
}
