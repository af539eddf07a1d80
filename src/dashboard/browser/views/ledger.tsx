import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { formatMethod, t } from '../language/language.ts'
import { type ListedBlock, type ListedEntry, ledger, readBlocks } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { AuthorLine } from '../parts/author-line.tsx'
import { DatabaseField } from '../parts/database-field.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { ShortJson, WholeJson } from '../parts/json.tsx'
import { Button, Choice, Field, JumpForm, Pages, Time, ViewHead } from '../parts/layout.tsx'
import { FailureNotice, Waiting } from '../parts/notices.tsx'
import { TimeField } from '../parts/time-field.tsx'
import { goTo } from '../routing/address.ts'
import { formatRoute, itemAt, itemsAt, type LedgerRoute, ledgerAt } from '../routing/routes.ts'

/** Maximum blocks per page. */
const PAGE = 20
/** Number of entries after which no further block is added to a page. */
const ENTRIES_PER_PAGE = 1_000

/** Lists the blocks of the chain, newest first, from the height of the route or the newest block on. */
export function Ledger({ now }: { now: LedgerRoute }): JSX.Element {
  const { height, db, method, by, from, to } = now
  const isSearch = [db, method, by, from, to].some((text) => text !== '')
  return (
    <>
      <ViewHead title={t().ledger} text={t().ledgerIs} />
      <div class="tools">
        <JumpForm
          label={t().height}
          button={t().goToHeight}
          start={`${height ?? ''}`}
          inputMode="numeric"
          pattern="[0-9]{0,15}"
          placeholder={t().newest}
          go={(text) => goTo({ ...now, height: text === '' ? null : Number(text), entry: null })}
        />
        <WantedForm now={now} />
      </div>
      {isSearch ? (
        <EntrySearch key={formatRoute(now)} wanted={now} />
      ) : (
        <BlockPage height={height} entry={now.entry} />
      )}
    </>
  )
}

interface MatchingBlock {
  readonly height: number
  readonly block: ListedBlock
}

interface BlockRange {
  /** Height of the oldest block. */
  readonly from: number
  /** The blocks, newest first. */
  readonly blocks: readonly MatchingBlock[]
}

const BLOCKS_PER_REQUEST = 200

/** Yields the blocks from height `top` down to height `lowest`, in ranges of growing size. */
async function* rangesBelow(top: number, lowest: number, signal: AbortSignal) {
  let [below, count] = [top + 1, 1]
  // The first request asks for one block, because a single block can be very large.
  while (below > lowest) {
    const from = Math.max(lowest, below - count)
    const listed = await readBlocks(from, below - from, signal)
    const blocks = listed.map((block, at) => ({ height: from + at, block })).reverse()
    const range: BlockRange = { from, blocks }
    yield range
    below = from
    count = Math.min(count * 4, BLOCKS_PER_REQUEST)
  }
}

interface LoadedPage extends BlockRange {
  /** Number of blocks of the chain. */
  readonly size: number
  /** The height of the newest block on the page. */
  readonly top: number
}

async function readPage(height: number | null, signal: AbortSignal): Promise<LoadedPage> {
  const size = await ledger.size({ signal })
  const top = Math.min(height ?? size - 1, size - 1)
  const blocks: MatchingBlock[] = []
  let [from, entries] = [top + 1, 0]
  for await (const range of rangesBelow(top, Math.max(0, top + 1 - PAGE), signal)) {
    from = range.from
    blocks.push(...range.blocks)
    entries += range.blocks.reduce((sum, { block }) => sum + block.body.length, 0)
    if (entries >= ENTRIES_PER_PAGE) break
  }
  return { size, top, blocks, from }
}

function BlockPage({ height, entry }: Pick<LedgerRoute, 'height' | 'entry'>): JSX.Element {
  const [loaded, reload] = useLoaded(`ledger ${height}`, (signal) => readPage(height, signal))
  useChanges(() => height === null, reload)
  return (
    <Waiting loaded={loaded} again={reload}>
      {({ size, top, blocks, from }) => {
        if (blocks.length === 0) return <p class="empty">{t().noBlocks}</p>
        if (height !== null && height >= size) {
          return <OutOfRange height={height} size={size} newest={ledgerAt(null)} />
        }
        const isNewest = height === null || top >= size - 1
        const newer = top + PAGE >= size - 1 ? null : top + PAGE
        return (
          <>
            <ol class="blocks">
              {blocks.map((matching) => (
                <BlockCard
                  key={matching.height}
                  matching={matching}
                  isWanted={() => true}
                  marked={matching.height === height ? entry : null}
                />
              ))}
            </ol>
            <Pages
              back={[
                [t().newest, isNewest ? null : () => goTo(ledgerAt(null))],
                [t().newer, isNewest ? null : () => goTo(ledgerAt(newer))],
              ]}
              forward={[
                [t().older, from === 0 ? null : () => goTo(ledgerAt(from - 1))],
                [t().oldest, from === 0 ? null : () => goTo(ledgerAt(Math.min(PAGE, size) - 1))],
              ]}
            >
              {t().blocks(size)}
            </Pages>
          </>
        )
      }}
    </Waiting>
  )
}

function OutOfRange(props: { height: number; size: number; newest: LedgerRoute }): JSX.Element {
  const { height, size, newest } = props
  return (
    <p class="empty">
      {t().heightOutOfRange(height, size - 1)} <a href={formatRoute(newest)}>{t().toNewest}</a>
    </p>
  )
}

function WantedForm({ now }: { now: LedgerRoute }): JSX.Element {
  const change = (wanted: Partial<EntryFilter>) => goTo({ ...now, ...wanted, entry: null })
  return (
    <div class="inline">
      <DatabaseField value={now.db} choose={(db) => change({ db })} />
      <Choice
        label={t().method}
        value={now.method}
        options={[
          ['', t().all],
          ...Object.entries(t().methods).map(
            ([method, text]) => [method, `${text} (${method})`] as const,
          ),
        ]}
        choose={(method) => change({ method })}
      />
      <Field
        label={t().author}
        placeholder={t().all}
        value={now.by}
        onChange={({ currentTarget }) => change({ by: currentTarget.value })}
      />
      {(['from', 'to'] as const).map((name) => (
        <TimeField
          key={name}
          label={t().timeLimits[name]}
          time={now[name]}
          change={(time) => change({ [name]: time })}
        />
      ))}
    </div>
  )
}

/** Number of entries of a block that are shown at first. Each click adds five times as many. */
const STEP = 20

/** A block and its matching entries. */
function BlockCard(props: {
  matching: MatchingBlock
  isWanted: IsWanted
  /** Index of the entry that is pointed out, or null. */
  marked: number | null
}): JSX.Element {
  const { matching, marked } = props
  const { height, block } = matching
  const [count, setCount] = useState(Math.max(STEP, (marked ?? 0) + 1))
  const entries = [...block.body.entries()].filter(([index, entry]) =>
    props.isWanted(entry, block.timestamps[index] ?? 0),
  )
  const last = block.timestamps.at(-1) ?? 0
  return (
    <li class="card block" data-height={height}>
      <p class="block-head">
        <strong>
          <a href={formatRoute(ledgerAt(height))}>{t().block(height)}</a>
        </strong>{' '}
        <Time at={last} /> <span>{t().entries(block.body.length)}</span>
      </p>
      <ol class="entries">
        {entries.slice(0, count).map(([index, entry]) => (
          <EntryRow key={index} {...{ entry, height, index }} isMarked={index === marked} />
        ))}
      </ol>
      {entries.length > count && (
        <Button text={t().more(entries.length - count)} act={() => setCount(count + STEP * 5)} />
      )}
      <details class="seal">
        <summary>
          {t().blockId} <code>{block.id.slice(0, 16)}…</code>
        </summary>
        <dl>
          <dt>{t().blockId}</dt>
          <dd>
            <code>{block.id}</code>
          </dd>
          <dt>{t().previousId}</dt>
          <dd>{block.prev_id === null ? t().first : <code>{block.prev_id}</code>}</dd>
        </dl>
      </details>
    </li>
  )
}

function EntryRow(props: {
  entry: ListedEntry
  height: number
  index: number
  isMarked: boolean
}): JSX.Element {
  const { entry, height, index, isMarked } = props
  const row = useRef<HTMLLIElement>(null)
  useEffect(() => {
    if (isMarked) row.current?.scrollIntoView({ block: 'center' })
  }, [isMarked])
  const { method, db, serverid: _, by, reason, ...rest } = entry
  const id = rest.id ?? Object(rest.item).id
  const attachment: unknown = Object(rest.attachment).name
  return (
    <li ref={row} class={isMarked ? 'entry marked' : 'entry'}>
      <a class="position" href={formatRoute(ledgerAt(height, index))}>
        {`${height}.${index}`}
      </a>{' '}
      <span class={`method ${method}`} title={method}>
        {formatMethod(method)}
      </span>{' '}
      <span class="where">
        <a href={formatRoute(itemsAt(db))}>{visible(db)}</a>
        {typeof id === 'string' && (
          <>
            {' '}
            <span aria-hidden>›</span> <a href={formatRoute(itemAt(db, id))}>{visible(id)}</a>
          </>
        )}
        {typeof attachment === 'string' && (
          <>
            {' '}
            <span aria-hidden>›</span> {visible(attachment)}
          </>
        )}
      </span>{' '}
      <AuthorLine by={by} reason={reason} />
      {rest.item !== undefined && (
        <details>
          <summary>
            <ShortJson value={rest.item} />
          </summary>
          <WholeJson value={rest.item} />
        </details>
      )}
      {Array.isArray(rest.positions) && (
        <small>{t().erasedPositions(rest.positions.join(', '))}</small>
      )}
    </li>
  )
}

/** Maximum number of blocks that one search reads. The user can continue the search. */
const BLOCKS_PER_SEARCH = 2_000
/** Number of matching blocks after which a search ends. */
const FOUND_PER_SEARCH = 20

/** The entries to search for. An empty member matches all entries. */
interface EntryFilter {
  readonly db: string
  readonly method: string
  readonly by: string
  readonly from: string
  readonly to: string
}

type IsWanted = (entry: ListedEntry, time: number) => boolean

interface SearchState {
  /** Number of blocks in the chain when the search started. */
  readonly size: number
  readonly blocks: readonly MatchingBlock[]
  /** Height of the oldest block that can have a wanted entry. */
  readonly lowest: number
  /** Lowest searched height. */
  readonly down: number
  readonly searched: number
}

function toMatcher(wanted: EntryFilter): IsWanted {
  return (entry, time) =>
    (wanted.from === '' || time >= Date.parse(wanted.from)) &&
    (wanted.to === '' || time < Date.parse(wanted.to)) &&
    (wanted.db === '' || entry.db === wanted.db) &&
    (wanted.method === '' || entry.method === wanted.method) &&
    (wanted.by === '' || entry.by?.sub === wanted.by)
}

/** Searches the blocks in the browser, newest first, for the wanted entries. */
function EntrySearch({ wanted }: { wanted: LedgerRoute }): JSX.Element {
  const from = wanted.height
  const [found, setFound] = useState<SearchState | null>(null)
  const [error, setError] = useState<unknown>(undefined)
  const [busy, setBusy] = useState(false)
  const stop = useRef(new AbortController())
  /** Whether the search must be begun again when it ends. A search that the user has continued is not begun again. */
  const isStale = useRef(false)
  const isContinued = useRef(false)
  const isWanted = toMatcher(wanted)
  const search = async (start: SearchState | null) => {
    stop.current.abort()
    stop.current = new AbortController()
    const { signal } = stop.current
    setBusy(true)
    setError(undefined)
    isStale.current = false
    isContinued.current = start !== null
    try {
      setFound(await continueSearch(start ?? (await startAt(wanted, signal)), isWanted, signal))
    } catch (failure) {
      if (!signal.aborted) setError(failure)
    }
    if (signal.aborted) return
    setBusy(false)
    if (isStale.current) void search(null)
  }
  useEffect(() => {
    void search(null)
    return () => stop.current.abort()
  }, [])
  useChanges(
    ({ entry, timestamp }) => isWanted(entry, timestamp),
    () => {
      if (from !== null || isContinued.current) return
      if (busy) isStale.current = true
      else void search(null)
    },
  )

  if (from !== null && found !== null && found.size > 0 && from >= found.size) {
    return <OutOfRange height={from} size={found.size} newest={{ ...wanted, height: null }} />
  }
  return (
    <>
      {found !== null && (
        <>
          <ol class="blocks">
            {found.blocks.map((matching) => (
              <BlockCard
                key={matching.height}
                matching={matching}
                isWanted={isWanted}
                marked={null}
              />
            ))}
          </ol>
          {found.blocks.length === 0 && <p class="empty">{t().noEntries}</p>}
        </>
      )}
      {error !== undefined && <FailureNotice error={error} again={() => void search(found)} />}
      <nav class="pages" aria-label={t().pages}>
        <span role="status" aria-busy={busy}>
          {found === null ? t().loading : t().searched(found.searched)}
          {found !== null && found.down === found.lowest && ` ${t().allSearched}`}
        </span>
        {found !== null && found.down > found.lowest && (
          <Button
            text={t().searchFurther}
            class="secondary"
            disabled={busy}
            act={() => search(found)}
          />
        )}
      </nav>
    </>
  )
}

async function startAt(wanted: LedgerRoute, signal: AbortSignal): Promise<SearchState> {
  const { height, from, to } = wanted
  const size = await ledger.size({ signal })
  const last = to === '' ? size - 1 : await findHeight(Date.parse(to), size, signal)
  const lowest = from === '' ? 0 : await findHeight(Date.parse(from), size, signal)
  const isOutside = height !== null && height >= size
  const down = isOutside ? 0 : Math.min((height ?? last) + 1, last + 1, size)
  return { size, blocks: [], lowest: Math.min(lowest, down), down, searched: 0 }
}

/** Returns the height of the first block whose last entry is not before `timeMs`. Timestamps never decrease. */
async function findHeight(timeMs: number, size: number, signal: AbortSignal): Promise<number> {
  let [low, high] = [0, size]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const [block] = await readBlocks(middle, 1, signal)
    if ((block?.timestamps.at(-1) ?? Number.POSITIVE_INFINITY) < timeMs) low = middle + 1
    else high = middle
  }
  return low
}

/** Continues a search with older blocks until FOUND_PER_SEARCH blocks match or BLOCKS_PER_SEARCH blocks are read. */
async function continueSearch(
  start: SearchState,
  isWanted: IsWanted,
  signal: AbortSignal,
): Promise<SearchState> {
  const blocks = [...start.blocks]
  const lowest = Math.max(start.lowest, start.down - BLOCKS_PER_SEARCH)
  let down = start.down
  for await (const range of rangesBelow(down - 1, lowest, signal)) {
    down = range.from
    blocks.push(
      ...range.blocks.filter(({ block }) =>
        block.body.some((entry, index) => isWanted(entry, block.timestamps[index] ?? 0)),
      ),
    )
    if (blocks.length >= start.blocks.length + FOUND_PER_SEARCH) break
  }
  return { ...start, blocks, down, searched: start.searched + start.down - down }
}
