import type { JSX } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { useChanges } from '../node/feed.ts'
import { blocksFrom, chainSize, ledger } from '../node/ledger.ts'
import { Waiting } from '../parts/failure.tsx'
import { useLoaded } from '../parts/loaded.ts'
import { goTo } from '../routes.ts'
import { BlockCard, type PlacedBlock } from './block-card.tsx'
import { EntrySearch, type EntryWish } from './entry-search.tsx'

/** Blocks of a page, and entries after which there are no more. */
const PAGE = 20
const ENTRIES_MAX = 1_000

/** The blocks of the chain, newest first; from `height` downwards when it is not null. */
export function Ledger({ height }: { height: number | null }): JSX.Element {
  const [wish, setWish] = useState<EntryWish>({ db: '', method: '' })
  const isSearch = wish.db !== '' || wish.method !== ''
  return (
    <>
      <header class="head">
        <div>
          <h1>{t().ledger}</h1>
          <p>{t().ledgerIs}</p>
        </div>
      </header>
      <div class="tools">
        <HeightForm height={height} />
        <WishForm wish={wish} change={setWish} />
      </div>
      {isSearch ? (
        <EntrySearch key={`${height} ${wish.db} ${wish.method}`} wish={wish} from={height} />
      ) : (
        <BlockPage height={height} />
      )}
    </>
  )
}

interface LoadedPage {
  readonly size: number
  /** Of the newest block that is shown. */
  readonly top: number
  readonly blocks: readonly PlacedBlock[]
  /** Height of the last one. */
  readonly from: number
}

async function pageFrom(height: number | null, signal: AbortSignal): Promise<LoadedPage> {
  const size = await chainSize(signal)
  const top = Math.min(height ?? size - 1, size - 1)
  const blocks: PlacedBlock[] = []
  let [from, entries] = [top + 1, 0]
  // A block may be as large as the largest request: more of them only while they are small.
  for (let count = 1; from > 0 && blocks.length < PAGE && entries < ENTRIES_MAX; count *= 4) {
    const next = Math.max(0, from - Math.min(count, PAGE - blocks.length))
    const page = await blocksFrom(next, from - next, signal)
    blocks.push(...page.map((block, at) => ({ height: next + at, block })).reverse())
    entries += page.reduce((sum, { body }) => sum + body.length, 0)
    from = next
  }
  return { size, top, blocks, from }
}

function BlockPage({ height }: { height: number | null }): JSX.Element {
  const [loaded, reload] = useLoaded(`ledger ${height}`, (signal) => pageFrom(height, signal))
  useChanges(() => height === null, reload)
  return (
    <Waiting loaded={loaded} again={reload}>
      {({ size, top, blocks, from }) => {
        if (blocks.length === 0) return <p class="empty">{t().noBlocks}</p>
        const isNewest = height === null || top >= size - 1
        return (
          <>
            <ol class="blocks">
              {blocks.map((placed) => (
                <BlockCard key={placed.height} placed={placed} isWanted={() => true} />
              ))}
            </ol>
            <nav class="pages" aria-label={t().pages}>
              <button
                type="button"
                class="secondary"
                disabled={isNewest}
                onClick={() => {
                  const next = top + PAGE
                  goTo({ view: 'ledger', height: next >= size - 1 ? null : next })
                }}
              >
                {t().newer}
              </button>
              <span>{t().blocks(size)}</span>
              <button
                type="button"
                class="secondary"
                disabled={from === 0}
                onClick={() => goTo({ view: 'ledger', height: from - 1 })}
              >
                {t().older}
              </button>
            </nav>
          </>
        )
      }}
    </Waiting>
  )
}

function HeightForm({ height }: { height: number | null }): JSX.Element {
  const [text, setText] = useState(height === null ? '' : `${height}`)
  const fieldId = useId()
  useEffect(() => setText(height === null ? '' : `${height}`), [height])
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault()
        goTo({ view: 'ledger', height: text === '' ? null : Number(text) })
      }}
    >
      <div>
        <label for={fieldId}>{t().height}</label>
        <input
          id={fieldId}
          inputMode="numeric"
          pattern="[0-9]{0,15}"
          autocomplete="off"
          placeholder={t().newest}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </div>
      <button type="submit" class="secondary">
        {t().goToHeight}
      </button>
    </form>
  )
}

function WishForm(props: { wish: EntryWish; change: (wish: EntryWish) => void }): JSX.Element {
  const { wish, change } = props
  const [databases, reload] = useLoaded('wish', (signal) => ledger.databases({ signal }))
  useChanges(({ entry }) => entry.method === 'create_db', reload)
  const [dbId, listId, methodId] = [useId(), useId(), useId()]
  const names = databases.state === 'loaded' ? databases.value : []
  return (
    <div class="inline">
      <div>
        <label for={dbId}>{t().database}</label>
        <input
          id={dbId}
          list={listId}
          autocomplete="off"
          autocapitalize="off"
          placeholder={t().all}
          value={wish.db}
          onChange={({ currentTarget }) => change({ ...wish, db: currentTarget.value })}
        />
        <datalist id={listId}>
          {names.slice(0, 200).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      <div>
        <label for={methodId}>{t().method}</label>
        <select
          id={methodId}
          value={wish.method}
          onChange={({ currentTarget }) => change({ ...wish, method: currentTarget.value })}
        >
          <option value="">{t().all}</option>
          {Object.entries(t().methods).map(([method, text]) => (
            <option key={method} value={method}>
              {text} ({method})
            </option>
          ))}
        </select>
      </div>
    </div>
  )
}
