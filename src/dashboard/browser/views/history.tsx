import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ClientError } from '../../../client/index.ts'
import { type Difference, differences } from '../json/differences.ts'
import { t, timeText } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { ShortJson, WholeJson } from '../parts/code.tsx'
import { Waiting } from '../parts/failure.tsx'
import { useLoaded } from '../parts/loaded.ts'
import { hrefOf } from '../routes.ts'

const STEP = 20

/** A revision of an item. */
interface ShownRevision {
  readonly position: string
  readonly timestamp: number
  readonly method: string
  readonly item?: unknown
  readonly erased?: true
}

/** Newest first, one more than is shown: the differences of the last need the one before it. */
async function revisionsOf(
  db: string,
  id: string,
  count: number,
  signal: AbortSignal,
): Promise<readonly ShownRevision[]> {
  const query = { order: 'newest' as const, limit: count + 1 }
  try {
    const path = { db, id }
    const { history } = await ledger.request(
      'GET /api/{db}/{id}/history',
      { path, query },
      { signal },
    )
    return history
  } catch (error) {
    if (error instanceof ClientError && error.code === 'ITEM_NOT_FOUND') return []
    throw error
  }
}

/** What an item was, newest first, each with what changed. `turn` grows when there may be more. */
export function History(props: { db: string; id: string; turn: number }): JSX.Element {
  const { db, id, turn } = props
  const [count, setCount] = useState(STEP)
  const [loaded, reload] = useLoaded(JSON.stringify([db, id, count]), (signal) =>
    revisionsOf(db, id, count, signal),
  )
  useEffect(reload, [turn])
  return (
    <section class="history" aria-labelledby="history-title">
      <h2 id="history-title">{t().history}</h2>
      <Waiting loaded={loaded} again={reload}>
        {(revisions) => (
          <>
            {revisions.length === 0 && <p class="empty">{t().noHistory}</p>}
            <ol class="revisions">
              {revisions.slice(0, count).map((revision, at) => (
                <RevisionRow
                  key={revision.position}
                  revision={revision}
                  before={revisions[at + 1]}
                />
              ))}
            </ol>
            {revisions.length > count && (
              <button type="button" class="secondary" onClick={() => setCount(count + STEP)}>
                {t().older}
              </button>
            )}
          </>
        )}
      </Waiting>
    </section>
  )
}

function RevisionRow(props: {
  revision: ShownRevision
  before: ShownRevision | undefined
}): JSX.Element {
  const { position, timestamp, method, item, erased } = props.revision
  const height = Number(position.split('.')[0])
  const known: Readonly<Record<string, string>> = t().methods
  // Beside an erased revision there is nothing to compare with.
  const isCompared = method === 'update_item' && erased !== true && props.before?.erased !== true
  const changes = isCompared ? differences(props.before?.item, item) : null
  return (
    <li class="card">
      <p class="revision-head">
        <strong>{known[method] ?? method}</strong>{' '}
        <time dateTime={new Date(timestamp).toISOString()}>{timeText(timestamp)}</time>{' '}
        <a href={hrefOf({ view: 'ledger', height })}>{t().revision(position)}</a>
      </p>
      {erased === true && <p>{t().erasedRevision}</p>}
      {changes?.length === 0 && <p>{t().noDifference}</p>}
      {changes !== null && changes.length > 0 && (
        <ul class="differences">
          {changes.map((change) => (
            <DifferenceRow key={change.path} change={change} />
          ))}
        </ul>
      )}
      {item !== undefined && (
        <details>
          <summary>{t().wholeItem}</summary>
          <WholeJson value={item} />
        </details>
      )}
    </li>
  )
}

function DifferenceRow({ change }: { change: Difference }): JSX.Element {
  return (
    <li>
      <code class="path">{change.path}</code> <span class="kind">{t()[change.kind]}</span>
      {change.kind !== 'added' && (
        <del>
          <ShortJson value={change.before} />
        </del>
      )}
      {change.kind !== 'removed' && (
        <ins>
          <ShortJson value={change.after} />
        </ins>
      )}
    </li>
  )
}
