import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { t, timeText } from '../language/language.ts'
import type { ListedBlock, ListedEntry } from '../node/ledger.ts'
import { ShortJson, WholeJson } from '../parts/code.tsx'
import { hrefOf } from '../routes.ts'

/** A block and where it stands. */
export interface PlacedBlock {
  readonly height: number
  readonly block: ListedBlock
}

/** Entries that are shown at once. */
const STEP = 20

/** A block with those of its entries that are wanted. */
export function BlockCard(props: {
  placed: PlacedBlock
  isWanted: (entry: ListedEntry) => boolean
}): JSX.Element {
  const { height, block } = props.placed
  const [count, setCount] = useState(STEP)
  const entries = [...block.body.entries()].filter(([, entry]) => props.isWanted(entry))
  const last = block.timestamps.at(-1) ?? 0
  return (
    <li class="card block" data-height={height}>
      <p class="block-head">
        <strong>
          <a href={hrefOf({ view: 'ledger', height })}>{t().block(height)}</a>
        </strong>{' '}
        <time dateTime={new Date(last).toISOString()}>{timeText(last)}</time>{' '}
        <span>{t().entries(block.body.length)}</span>
      </p>
      <ol class="entries">
        {entries.slice(0, count).map(([index, entry]) => (
          <EntryRow key={index} entry={entry} />
        ))}
      </ol>
      {entries.length > count && (
        <button type="button" class="secondary small" onClick={() => setCount(count + STEP * 5)}>
          {t().more(entries.length - count)}
        </button>
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

function EntryRow({ entry }: { entry: ListedEntry }): JSX.Element {
  const { method, db, serverid: _, ...rest } = entry
  const known: Readonly<Record<string, string>> = t().methods
  const id = rest.id ?? Object(rest.item).id
  return (
    <li class="entry">
      <span class={`method ${method}`} title={method}>
        {known[method] ?? method}
      </span>{' '}
      <span class="where">
        <a href={hrefOf({ view: 'items', db })}>{db}</a>
        {typeof id === 'string' && (
          <>
            {' '}
            <span aria-hidden>›</span> <a href={hrefOf({ view: 'item', db, id })}>{id}</a>
          </>
        )}
      </span>
      {rest.item !== undefined && (
        <details>
          <summary>
            <ShortJson value={rest.item} />
          </summary>
          <WholeJson value={rest.item} />
        </details>
      )}
    </li>
  )
}
