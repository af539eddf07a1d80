import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { useChanges } from '../node/feed.ts'
import { blocksFrom, chainSize, type ListedEntry } from '../node/ledger.ts'
import { Failure } from '../parts/failure.tsx'
import { BlockCard, type PlacedBlock } from './block-card.tsx'

/** Blocks of one request, of one search, and that are shown before a person asks for more. */
const REQUEST = 200
const SEARCH = 2_000
const SHOWN = 20

/** Which entries are looked for; empty is all. */
export interface EntryWish {
  readonly db: string
  readonly method: string
}

interface Found {
  readonly blocks: readonly PlacedBlock[]
  /** The lowest height that was looked at; blocks below are still to be searched. */
  readonly down: number
  readonly searched: number
}

/** The blocks with entries of a database or of a method, newest first, searched in the browser. */
export function EntrySearch(props: { wish: EntryWish; from: number | null }): JSX.Element {
  const { wish, from } = props
  const [found, setFound] = useState<Found | null>(null)
  const [error, setError] = useState<unknown>(undefined)
  const [busy, setBusy] = useState(false)
  const stop = useRef(new AbortController())
  const isWanted = (entry: ListedEntry) =>
    (wish.db === '' || entry.db === wish.db) && (wish.method === '' || entry.method === wish.method)

  const search = async (start: Found | null) => {
    stop.current.abort()
    stop.current = new AbortController()
    const { signal } = stop.current
    setBusy(true)
    setError(undefined)
    try {
      setFound(await searched(start ?? (await top(from, signal)), isWanted, signal))
    } catch (failure) {
      if (!signal.aborted) setError(failure)
    }
    if (!signal.aborted) setBusy(false)
  }
  useEffect(() => {
    void search(null)
    return () => stop.current.abort()
  }, [])
  useChanges(
    ({ entry }) => from === null && (found?.blocks.length ?? 0) <= SHOWN && isWanted(entry),
    () => void search(null),
  )

  return (
    <>
      {found !== null && (
        <>
          <ol class="blocks">
            {found.blocks.map((placed) => (
              <BlockCard key={placed.height} placed={placed} isWanted={isWanted} />
            ))}
          </ol>
          {found.blocks.length === 0 && <p class="empty">{t().noEntries}</p>}
        </>
      )}
      {error !== undefined && <Failure error={error} again={() => void search(found)} />}
      <nav class="pages" aria-label={t().pages}>
        <span role="status" aria-busy={busy}>
          {found === null ? t().loading : t().searched(found.searched)}
          {found?.down === 0 && ` ${t().allSearched}`}
        </span>
        {found !== null && found.down > 0 && (
          <button
            type="button"
            class="secondary"
            disabled={busy}
            onClick={() => void search(found)}
          >
            {t().searchFurther}
          </button>
        )}
      </nav>
    </>
  )
}

async function top(from: number | null, signal: AbortSignal): Promise<Found> {
  const size = await chainSize(signal)
  return { blocks: [], down: Math.min((from ?? size - 1) + 1, size), searched: 0 }
}

/** Goes on downwards until enough was found or enough was looked at. */
async function searched(
  start: Found,
  isWanted: (entry: ListedEntry) => boolean,
  signal: AbortSignal,
): Promise<Found> {
  const blocks = [...start.blocks]
  const [enough, lowest] = [blocks.length + SHOWN, Math.max(0, start.down - SEARCH)]
  let down = start.down
  while (down > lowest && blocks.length < enough) {
    const from = Math.max(lowest, down - REQUEST)
    const page = await blocksFrom(from, down - from, signal)
    for (const [at, block] of [...page.entries()].reverse()) {
      if (block.body.some(isWanted)) blocks.push({ height: from + at, block })
    }
    down = from
  }
  return { blocks, down, searched: start.searched + start.down - down }
}
