import { formatCsv, type ListedItem, memberPaths } from '../text/table.ts'
import { ledger } from './ledger.ts'
import { type Matches, readMatches } from './matches.ts'

/** Number of items after which the text so far is handed to the browser, which may store it outside of memory. */
const PART = 1_000
/** Marks a text as UTF-8 for spreadsheets that otherwise assume an older encoding. */
const BYTE_ORDER_MARK = '\ufeff'

/** Returns all matching items as NDJSON, each as it is. Calls `progress` with the number of items. */
export async function exportNdjson(
  matches: Matches,
  progress: (done: number) => void,
): Promise<Blob> {
  const format = (items: readonly ListedItem[]) =>
    items.map((item) => `${JSON.stringify(item)}\n`).join('')
  const { parts } = await collect(matches, format, progress)
  return new Blob(parts, { type: 'application/x-ndjson' })
}

/**
 * Returns all matching items as CSV, with a column for every member of every item: the items are read twice, in the same
 * state, so that no member is left out. The file starts with a byte order mark if it contains other characters than those of ASCII.
 */
export async function exportCsv(given: Matches, progress: (done: number) => void): Promise<Blob> {
  const { db, signal } = given
  const at = given.at ?? (await ledger.size({ db, signal })) - 1
  const matches = { ...given, at }
  const paths = new Set<string>()
  for await (const item of readMatches(matches)) {
    for (const path of memberPaths([item])) paths.add(path)
  }
  const columns = [...paths]
  const format = (items: readonly ListedItem[]) => formatCsv(items, columns, ',', false)
  const { parts, isAscii } = await collect(matches, format, progress)
  const header = formatCsv([], columns)
  const mark = isAscii && isAsciiText(header) ? '' : BYTE_ORDER_MARK
  return new Blob([mark, header, ...parts], { type: 'text/csv' })
}

async function collect(
  matches: Matches,
  format: (items: readonly ListedItem[]) => string,
  progress: (done: number) => void,
): Promise<{ parts: Blob[]; isAscii: boolean }> {
  const parts: Blob[] = []
  let isAscii = true
  let items: ListedItem[] = []
  let done = 0
  const flush = () => {
    const text = format(items)
    isAscii &&= isAsciiText(text)
    parts.push(new Blob([text]))
    done += items.length
    items = []
    progress(done)
  }
  for await (const item of readMatches(matches)) {
    if (items.push(item) === PART) flush()
  }
  if (items.length > 0) flush()
  return { parts, isAscii }
}

function isAsciiText(text: string): boolean {
  return !/[^\0-\x7f]/.test(text)
}
