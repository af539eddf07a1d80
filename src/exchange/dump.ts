import { isJsonObject, type JsonObject } from '../base/json.ts'
import { storedJson } from '../ledger/core.ts'
import type { DumpFormat } from './choices.ts'
import { ColumnFinder, csvHeader, csvRow } from './formats/csv.ts'

/** Yields the canonical texts of all items, page by page. Every call yields the same items. */
export type ReadItems = () => AsyncIterable<readonly string[]>

/**
 * Yields the items in `format`, and returns the number of items. For CSV, `read` is called twice. Errors: InputError
 * if the items have too many members for CSV.
 */
export async function* dumpTexts(
  read: ReadItems,
  format: DumpFormat,
): AsyncGenerator<string, number> {
  if (format === 'csv') return yield* csvTexts(read)
  const isArray = format === 'json'
  let items = 0
  if (isArray) yield '['
  for await (const page of read()) {
    if (page.length === 0) continue
    const before = isArray ? (items === 0 ? '\n' : ',\n') : ''
    yield before + page.join(isArray ? ',\n' : '\n') + (isArray ? '' : '\n')
    items += page.length
  }
  if (isArray) yield '\n]\n'
  return items
}

async function* csvTexts(read: ReadItems): AsyncGenerator<string, number> {
  const finder = new ColumnFinder()
  for await (const page of read()) for (const text of page) finder.add(parseItem(text))
  const { columns } = finder
  let items = 0
  // RFC 4180 ends rows with CRLF.
  yield `${csvHeader(columns)}\r\n`
  for await (const page of read()) {
    yield page.map((text) => `${csvRow(columns, parseItem(text))}\r\n`).join('')
    items += page.length
  }
  return items
}

function parseItem(text: string): JsonObject {
  const item = storedJson(text)
  return isJsonObject(item) ? item : {}
}
