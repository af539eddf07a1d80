import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ClientError, type Operations } from '../../../client/index.ts'
import { formatMethod, t } from '../language/language.ts'
import { type ItemName, ledger } from '../node/ledger.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { ShortJson, WholeJson } from '../parts/json.tsx'
import { Button, Time } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { formatRoute, ledgerAt } from '../routing/routes.ts'
import { DIFFERENCES_SHOWN_MAX, type Difference, findDifferences } from '../text/json.ts'
import { ItemProof } from './item-proof.tsx'

const STEP = 20

const HISTORY = 'GET /api/{db}/{id}/history'
type ShownRevision = Operations[typeof HISTORY]['reply']['history'][number]

/** Returns the newest `count` + 1 revisions: `count` to show, and one with which the oldest of them is compared. */
async function readRevisions(
  path: ItemName,
  count: number,
  signal: AbortSignal,
): Promise<readonly ShownRevision[]> {
  const query = { order: 'newest' as const, limit: count + 1 }
  try {
    return (await ledger.request(HISTORY, { path, query }, { signal })).history
  } catch (error) {
    if (error instanceof ClientError && error.code === 'ITEM_NOT_FOUND') return []
    throw error
  }
}

/**
 * Lists the revisions of an item, newest first, with their differences. Lets the user erase former revisions. Reloads
 * when `version` changes.
 */
export function HistorySection(
  props: ItemName & { version: number; changed: () => void },
): JSX.Element {
  const { db, id, version } = props
  const [count, setCount] = useState(STEP)
  const [erasing, setErasing] = useState<readonly string[] | 'former' | null>(null)
  const [loaded, reload] = useLoaded(JSON.stringify([db, id, count]), (signal) =>
    readRevisions({ db, id }, count, signal),
  )
  useEffect(reload, [version])
  return (
    <section class="history" aria-labelledby="history-title">
      <header class="head">
        <h2 id="history-title">{t().history}</h2>
        {loaded.state === 'loaded' && loaded.value.some(isErasable) && (
          <Button text={t().eraseFormer} act={() => setErasing('former')} />
        )}
      </header>
      <Waiting loaded={loaded} again={reload}>
        {(revisions) => (
          <>
            {revisions.length === 0 && <p class="empty">{t().noHistory}</p>}
            <ol class="revisions">
              {revisions.slice(0, count).map((revision, at) => (
                <RevisionRow
                  key={revision.position}
                  item={{ db, id }}
                  revision={revision}
                  before={revisions[at + 1]}
                  erase={isErasable(revision, at) ? () => setErasing([revision.position]) : null}
                />
              ))}
            </ol>
            {revisions.length > count && (
              <Button text={t().older} class="secondary" act={() => setCount(count + STEP)} />
            )}
          </>
        )}
      </Waiting>
      {erasing !== null && (
        <EraseRevisions
          {...{ db, id, positions: erasing, done: props.changed }}
          close={() => setErasing(null)}
        />
      )}
    </section>
  )
}

/** Whether a revision can be erased: it has content, and is not the newest revision, whose index `at` is 0. */
function isErasable({ item }: ShownRevision, at: number): boolean {
  return at > 0 && item !== undefined
}

/** Asks for confirmation, and erases the revisions at `positions`, or all former revisions. */
function EraseRevisions(
  props: DialogEnds & ItemName & { positions: readonly string[] | 'former' },
): JSX.Element {
  const { db, id, positions, ...ends } = props
  const isAll = positions === 'former'
  const erase = async () => {
    const [path, body] = [{ db, id }, isAll ? {} : { positions }]
    const erased = await ledger.request('POST /api/{db}/{id}/erase', { path, body })
    return t().itemErased(erased.positions.length)
  }
  const title = isAll ? t().eraseFormerTitle : t().eraseTitle(positions.join(', '))
  return (
    <Dialog {...{ title, ...ends }} submitText={t().erase} danger act={erase} confirm={id}>
      <p>{t().eraseMeans}</p>
      <p>{t().eraseLeaves}</p>
    </Dialog>
  )
}

function RevisionRow(props: {
  item: ItemName
  revision: ShownRevision
  before: ShownRevision | undefined
  /** Null if the revision cannot be erased. */
  erase: (() => void) | null
}): JSX.Element {
  const { position, timestamp, method, item, erased } = props.revision
  const height = Number(position.split('.')[0])
  // Revisions are compared only if neither is erased, because an erased revision has no content.
  const isCompared = method === 'update_item' && erased !== true && props.before?.erased !== true
  const changes = isCompared ? findDifferences(props.before?.item, item) : null
  return (
    <li class="card">
      <p class="revision-head">
        <strong>{formatMethod(method)}</strong> <Time at={timestamp} />{' '}
        <a href={formatRoute(ledgerAt(height))}>{t().revision(position)}</a>
      </p>
      {erased === true && <p>{t().erasedRevision}</p>}
      {changes?.length === 0 && <p>{t().noDifference}</p>}
      {changes !== null && changes.length > 0 && (
        <ul class="differences">
          {changes.slice(0, DIFFERENCES_SHOWN_MAX).map((change) => (
            <DifferenceRow key={change.path} change={change} />
          ))}
        </ul>
      )}
      {(changes?.length ?? 0) > DIFFERENCES_SHOWN_MAX && (
        <p class="soft">{t().firstOnly(DIFFERENCES_SHOWN_MAX)}</p>
      )}
      {item !== undefined && (
        <details>
          <summary>{t().wholeItem}</summary>
          <WholeJson value={item} />
        </details>
      )}
      <details>
        <summary>{t().proof}</summary>
        <ItemProof shown={{ ...props.item, position, item }} />
      </details>
      {props.erase !== null && (
        <div class="buttons">
          <Button text={t().erase} act={props.erase} />
        </div>
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
