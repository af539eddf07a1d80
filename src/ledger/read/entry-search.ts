import { parseIsoTime } from '../../base/iso-time.ts'
import { type Block, packPosition, parseEntryHead } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { type EntryFilter, entryFilter } from './entry-filter.ts'
import { blockPages, findHeight, type ListRange } from './pages.ts'

/** Maximum entries that one search reads. The block that reaches it is read completely. */
const SCANNED_ENTRIES_MAX = 200_000
/** Maximum characters of the entries that one search finds. The block that reaches it is read completely. */
const FOUND_CHARACTERS_MAX = 64 * 1024 * 1024

/** A limit of a search: the height of a block, or a time in milliseconds since the Unix epoch. */
export type ChainPoint = { readonly height: number } | { readonly timeMs: number }

/** Selects the entries from `from` (inclusive) to `to` (exclusive). */
export interface EntrySearch {
  readonly filter: EntryFilter | null
  readonly from: ChainPoint
  /** Null for the end of the chain. */
  readonly to: ChainPoint | null
}

export interface FoundEntry {
  /** Packed. */
  readonly position: number
  readonly timestamp: number
  /** The canonical text of the entry. */
  readonly text: string
}

/** The entries found in some blocks. `next` is the height at which to continue if the search ends with this page. */
export interface FoundEntries {
  readonly entries: FoundEntry[]
  readonly next: number | null
}

/** Parses a height, or a date such as `2026-03-01` (UTC) or `2026-03-01T12:00:00Z`. Errors: RANGE_INVALID. */
export function parseChainPoint(text: string): ChainPoint {
  if (/^(?:0|[1-9]\d{0,11})$/.test(text)) return { height: Number(text) }
  const timeMs = parseIsoTime(text)
  if (timeMs !== null) return { timeMs }
  const expected = 'the height of a block, or a time such as 2026-03-01 or 2026-03-01T12:00:00Z'
  throw new LedgerError('RANGE_INVALID', `from and to must be ${expected}`)
}

/**
 * Searches the chain of `store`, oldest entry first, page by page. The last page has the height at which to continue
 * if the search ended at one of its bounds.
 */
export async function* searchEntries(
  store: StoreReader,
  { filter, from, to }: EntrySearch,
): AsyncGenerator<FoundEntries> {
  const offset = 'height' in from ? from.height : await findHeight(store, from.timeMs)
  let end = Number.MAX_SAFE_INTEGER
  if (to !== null && 'height' in to) end = to.height
  // The last block can have entries before and after the end.
  else if (to !== null) end = (await findHeight(store, to.timeMs)) + 1
  const fromMs = 'timeMs' in from ? from.timeMs : 0
  const toMs = to !== null && 'timeMs' in to ? to.timeMs : Number.POSITIVE_INFINITY
  let [scanned, characters] = [0, 0]
  if (offset < end) {
    for await (const blocks of blockPages(store, { offset, limit: end - offset })) {
      const entries = blocks
        .flatMap((block) => matchingEntries(block, filter))
        .filter(({ timestamp }) => timestamp >= fromMs && timestamp < toMs)
      for (const { text } of entries) characters += text.length
      for (const block of blocks) scanned += block.entries.length
      const next = (blocks.at(-1)?.height ?? offset) + 1
      const isFull = scanned >= SCANNED_ENTRIES_MAX || characters >= FOUND_CHARACTERS_MAX
      if (isFull && next < end) {
        yield { entries, next }
        return
      }
      yield { entries, next: null }
    }
  }
}

function matchingEntries(block: Block, filter: EntryFilter | null): FoundEntry[] {
  const { height, entries, timestamps } = block
  return entries.flatMap((text, index) => {
    if (filter !== null && !filter.matches(parseEntryHead(text))) return []
    return [{ position: packPosition(height, index), timestamp: timestamps[index] ?? 0, text }]
  })
}

/** Reads blocks like `blockPages`, but only with the entries of `db`. Such a block cannot be verified. */
export async function* filteredPages(
  store: StoreReader,
  range: ListRange,
  db: string,
): AsyncGenerator<Block[]> {
  const filter = entryFilter({ db: [db] })
  for await (const blocks of blockPages(store, range)) {
    yield blocks.map((block) => {
      const found = matchingEntries(block, filter)
      return {
        ...block,
        entries: found.map(({ text }) => text),
        timestamps: found.map(({ timestamp }) => timestamp),
      }
    })
  }
}
