import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { ClientError, type Operations } from '../../../client/index.ts'
import { formatMethod, formatTime, t } from '../language/language.ts'
import { type ItemName, ledger, type ReadItem } from '../node/ledger.ts'
import { AuthorLine } from '../parts/author-line.tsx'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { ShortJson, WholeJson } from '../parts/json.tsx'
import { Button, Choice, Details, Time } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { formatRoute, ledgerAt } from '../routing/routes.ts'
import { DIFFERENCES_SHOWN_MAX, type Difference, findDifferences } from '../text/json.ts'
import { ItemProof } from './item-proof.tsx'

const STEP = 20

const HISTORY = 'GET /api/{db}/{id}/history'
type ShownRevision = Operations[typeof HISTORY]['reply']['history'][number]

/**
 * Returns the newest `count` + 1 revisions: `count` to show, and one with which the oldest of them is compared,
 * up to the height `past`.
 */
export async function readNewestRevisions(
  path: ItemName,
  { count, past }: { readonly count: number; readonly past: number | null },
  signal: AbortSignal,
): Promise<readonly ShownRevision[]> {
  // A page starts after its cursor.
  const cursor = past === null ? {} : { cursor: `${past + 1}.0` }
  const query = { order: 'newest' as const, limit: count + 1, ...cursor }
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
  props: ItemName & {
    past: number | null
    version: number
    changed: () => void
    /** The item, or null if it does not exist. */
    newest: ReadItem | null
  },
): JSX.Element {
  const { db, id, past, version } = props
  const [count, setCount] = useState(STEP)
  const [erasing, setErasing] = useState<readonly string[] | 'former' | null>(null)
  const [restoring, setRestoring] = useState<ShownRevision | null>(null)
  const [loaded, reload] = useLoaded(JSON.stringify([db, id, count, past]), (signal) =>
    readNewestRevisions({ db, id }, { count, past }, signal),
  )
  useEffect(() => {
    if (version > 0) reload()
  }, [version])
  const isRestorable = ({ item, position }: ShownRevision) =>
    past === null && item !== undefined && position !== props.newest?.position
  const mayErase = (revision: ShownRevision, at: number) =>
    past === null && isErasable(revision, at)
  return (
    <section class="history" aria-labelledby="history-title">
      <header class="head">
        <h2 id="history-title">{t().history}</h2>
        {past === null && loaded.state === 'loaded' && loaded.value.some(isErasable) && (
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
                  others={revisions.filter((other) => other !== revision)}
                  before={revisions[at + 1]}
                  restore={isRestorable(revision) ? () => setRestoring(revision) : null}
                  erase={mayErase(revision, at) ? () => setErasing([revision.position]) : null}
                />
              ))}
            </ol>
            {revisions.length > count && (
              <Button text={t().older} class="secondary" act={() => setCount(count + STEP)} />
            )}
          </>
        )}
      </Waiting>
      {restoring !== null && (
        <RestoreRevision
          {...{ db, id, newest: props.newest, revision: restoring, done: props.changed }}
          close={() => setRestoring(null)}
        />
      )}
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

/** Shows what restoring a revision changes, and saves its content as the newest revision. */
function RestoreRevision(
  props: DialogEnds & ItemName & { revision: ShownRevision; newest: ReadItem | null },
): JSX.Element {
  const { db, id, revision, newest, ...ends } = props
  const { item = {}, position } = revision
  const restore = async () => {
    const condition = newest === null ? { ifAbsent: true } : { ifMatch: newest.etag }
    await ledger.database<object>(db).replace(id, item, condition)
    return t().revisionRestored(position)
  }
  const [title, submitText] = [t().restoreTitle(position), t().restore]
  return (
    <Dialog {...{ title, submitText, ...ends }} wide act={restore}>
      <p>{t().restoreMeans}</p>
      <DifferenceList before={newest?.item} after={item} />
    </Dialog>
  )
}

function RevisionRow(props: {
  item: ItemName
  revision: ShownRevision
  /** The loaded revisions with which this one can be compared. */
  others: readonly ShownRevision[]
  before: ShownRevision | undefined
  /** Null if the revision cannot be restored. */
  restore: (() => void) | null
  /** Null if the revision cannot be erased. */
  erase: (() => void) | null
}): JSX.Element {
  const { position, timestamp, method, item, erased, by, reason } = props.revision
  const [height = 0, index = 0] = position.split('.').map(Number)
  // Revisions are compared only if neither is erased, because an erased revision has no content.
  const isCompared = method === 'update_item' && erased !== true && props.before?.erased !== true
  const others = props.others.filter((other) => other.item !== undefined)
  return (
    <li class="card">
      <p class="revision-head">
        <strong>{formatMethod(method)}</strong> <Time at={timestamp} />{' '}
        <a href={formatRoute(ledgerAt(height, index))}>{t().revision(position)}</a>{' '}
        <AuthorLine by={by} reason={reason} />
      </p>
      {erased === true && <p>{t().erasedRevision}</p>}
      {isCompared && <DifferenceList before={props.before?.item} after={item} />}
      {item !== undefined && (
        <Details summary={t().wholeItem}>{() => <WholeJson value={item} />}</Details>
      )}
      {item !== undefined && others.length > 0 && (
        <Details summary={t().compare}>{() => <Comparison item={item} others={others} />}</Details>
      )}
      <Details summary={t().proof}>
        {() => <ItemProof shown={{ ...props.item, position, item }} />}
      </Details>
      <div class="buttons">
        {props.restore !== null && (
          <Button text={t().restore} subject={position} act={props.restore} />
        )}
        {props.erase !== null && <Button text={t().erase} subject={position} act={props.erase} />}
      </div>
    </li>
  )
}

/** Shows the differences from another revision, which the user chooses. */
function Comparison(props: { item: object; others: readonly ShownRevision[] }): JSX.Element {
  const { item, others } = props
  const [position, setPosition] = useState(others[0]?.position ?? '')
  const other = others.find((one) => one.position === position)
  return (
    <>
      <Choice
        label={t().compareWith}
        value={position}
        options={others.map((one) => [
          one.position,
          `${t().revision(one.position)} · ${formatTime(one.timestamp)}`,
        ])}
        choose={setPosition}
      />
      <DifferenceList before={other?.item} after={item} />
    </>
  )
}

export function DifferenceList(props: { before: unknown; after: unknown }): JSX.Element {
  const changes = findDifferences(props.before, props.after)
  if (changes.length === 0) return <p>{t().noDifference}</p>
  return (
    <>
      <ul class="differences">
        {changes.slice(0, DIFFERENCES_SHOWN_MAX).map((change) => (
          <DifferenceRow key={change.path} change={change} />
        ))}
      </ul>
      {changes.length > DIFFERENCES_SHOWN_MAX && (
        <p class="soft">{t().firstOnly(DIFFERENCES_SHOWN_MAX)}</p>
      )}
    </>
  )
}

function DifferenceRow({ change }: { change: Difference }): JSX.Element {
  return (
    <li>
      <code class="path">{visible(change.path)}</code> <span class="kind">{t()[change.kind]}</span>
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
