import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import type { Operations } from '../../../client/index.ts'
import { formatNumber, t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { type Loaded, useAction, useLoaded } from '../parts/hooks.ts'
import { Button, JumpForm } from '../parts/layout.tsx'
import { FailureNotice, showMessage, Waiting } from '../parts/notices.tsx'

export type ListedIndex = Operations['GET /api/config/indexes']['reply']['indexes'][number]

/** Interval between requests for the progress of an index. */
const POLL_MS = 1_000

export interface DatabaseIndexes {
  readonly loaded: Loaded<readonly ListedIndex[]>
  readonly declare: (path: string) => Promise<unknown>
  readonly remove: (path: string) => Promise<unknown>
  readonly error: unknown
  readonly reload: () => void
}

/** The indexes of a database, whose progress is followed. */
export function useIndexes(db: string): DatabaseIndexes {
  const [loaded, reload] = useLoaded(`indexes ${db}`, async (signal) => {
    const { indexes } = await ledger.request('GET /api/config/indexes', {}, { signal })
    return indexes.filter((index) => index.db === db)
  })
  const action = useAction()
  const isBuilding =
    loaded.state === 'loaded' && loaded.value.some(({ state }) => state === 'building')
  useEffect(() => {
    if (!isBuilding) return
    const timer = setInterval(reload, POLL_MS)
    return () => clearInterval(timer)
  }, [isBuilding])
  const change = (method: 'POST' | 'DELETE') => async (path: string) => {
    const isDone = await action.run(async () => {
      await ledger.request(`${method} /api/config/indexes`, { body: { db, path } })
    })
    reload()
    if (isDone) showMessage(method === 'POST' ? t().indexDeclared(path) : t().indexRemoved(path))
  }
  const { error } = action
  return { loaded, reload, error, declare: change('POST'), remove: change('DELETE') }
}

/** Lists the indexes of a database, and lets the user declare and remove them. */
export function IndexesPanel({ indexes }: { indexes: DatabaseIndexes }): JSX.Element {
  const { loaded, reload, error, declare, remove } = indexes
  const [key, setKey] = useState(0)
  return (
    <details class="filter">
      <summary>{t().indexes}</summary>
      <Waiting loaded={loaded} again={reload}>
        {(list) => (
          <ul class="rows">
            {list.map(({ path, state, done, total }) => (
              <li key={path}>
                <strong class="name">{visible(path)}</strong>
                {state === 'building' ? (
                  <IndexProgress {...{ done, total }} />
                ) : (
                  <span class="soft">{t().indexReady}</span>
                )}
                <Button text={t().remove} subject={path} act={() => remove(path)} />
              </li>
            ))}
          </ul>
        )}
      </Waiting>
      {error !== undefined && <FailureNotice error={error} />}
      <JumpForm
        key={key}
        label={t().member}
        button={t().declareIndex}
        placeholder={t().memberHint}
        required
        spellcheck={false}
        go={(path) => {
          setKey(key + 1)
          void declare(path)
        }}
      />
      <small>{t().indexesAre}</small>
    </details>
  )
}

function IndexProgress({ done, total }: { done: number; total: number }): JSX.Element {
  return (
    <span class="soft">
      {t().indexBuilding}{' '}
      <progress value={done} max={Math.max(total, 1)} aria-label={t().indexBuilding} />{' '}
      {formatNumber(Math.round((done / Math.max(total, 1)) * 100))} %
    </span>
  )
}

/** Shows the cost of an order, and offers an index if the order has none. */
export function OrderCost(props: {
  path: string
  indexes: DatabaseIndexes
  /** Number of items that the node reads for a page, or null if it is not known. */
  count: number | null
  /** Time of the last page, or null while it is loaded. */
  ms: number | null
}): JSX.Element | null {
  const { path, indexes, count, ms } = props
  if (indexes.loaded.state !== 'loaded') return null
  const index = indexes.loaded.value.find((one) => one.path === path)
  if (index?.state === 'ready') return <p class="soft order-cost">{t().orderedByIndex(path)}</p>
  return (
    <div class="notice order-cost">
      <p>
        {t().orderedWithout(path)} {count !== null && t().orderReads(count)}{' '}
        {ms !== null && t().orderTook((ms / 1_000).toFixed(1))}
      </p>
      {index === undefined ? (
        <Button text={t().indexMember} subject={path} act={() => indexes.declare(path)} />
      ) : (
        <IndexProgress {...index} />
      )}
    </div>
  )
}
