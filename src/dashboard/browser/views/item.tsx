import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ClientError, type Read } from '../../../client/index.ts'
import { checkedItem, type Difference, differences } from '../json.ts'
import { methodText, t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { Dialog } from '../parts/dialog.tsx'
import { useAction, useLoaded } from '../parts/hooks.ts'
import { ItemEditor, ShortJson, WholeJson } from '../parts/json.tsx'
import { Time } from '../parts/layout.tsx'
import { Failure, showMessage, Waiting } from '../parts/notices.tsx'
import { hrefOf } from '../routes.ts'

type ReadItem = Read<Record<string, unknown>>

/** Shows an item and its history, and lets the user change and delete it. */
export function Item({ db, id }: { db: string; id: string }): JSX.Element {
  const [loaded, reload] = useLoaded(JSON.stringify([db, id]), (signal) =>
    ledger.database(db).read(id, { signal }),
  )
  const [mode, setMode] = useState<'shown' | 'edited' | 'deleting'>('shown')
  const [version, setVersion] = useState(0)
  const changed = () => {
    setVersion((before) => before + 1)
    reload()
  }
  useChanges(({ entry }) => entry.db === db && idOf(entry) === id, changed)
  return (
    <>
      <nav class="trail" aria-label={t().databases}>
        <a href={hrefOf({ view: 'databases' })}>{t().databases}</a> <span aria-hidden>›</span>{' '}
        <a href={hrefOf({ view: 'items', db })}>{db}</a> <span aria-hidden>›</span>
      </nav>
      <h1 class="name">{id}</h1>
      <Waiting loaded={loaded} again={reload}>
        {(read) => {
          if (mode === 'edited') {
            return (
              <EditedItem
                db={db}
                id={id}
                newest={read}
                close={() => setMode('shown')}
                done={changed}
              />
            )
          }
          if (read === null) return <p class="empty">{t().itemGone}</p>
          return (
            <section class="card">
              <WholeJson value={read.item} />
              <div class="buttons">
                <button type="button" class="secondary" onClick={() => setMode('deleting')}>
                  {t().delete}
                </button>
                <button type="button" onClick={() => setMode('edited')}>
                  {t().edit}
                </button>
              </div>
            </section>
          )
        }}
      </Waiting>
      {mode === 'deleting' && (
        <DeleteItem db={db} id={id} close={() => setMode('shown')} done={changed} />
      )}
      <History db={db} id={id} version={version} />
    </>
  )
}

function idOf(entry: { readonly [member: string]: unknown }): unknown {
  return entry.id ?? Object(entry.item).id
}

/** The editor. If the item changes in the meantime, it keeps the edited text and does not overwrite the item. */
function EditedItem(props: {
  db: string
  id: string
  /** The current item. */
  newest: ReadItem | null
  close: () => void
  done: () => void
}): JSX.Element {
  const { db, id, newest, close, done } = props
  const [base, setBase] = useState(newest)
  const [text, setText] = useState(textOf(newest))
  const action = useAction()
  const checked = checkedItem(text, id)
  const isOld = base?.etag !== newest?.etag
  const save = async () => {
    if (!('item' in checked) || base === null) return
    const isSaved = await action.run(async () => {
      await ledger.database<object>(db).replace(id, checked.item, { ifMatch: base.etag })
    })
    if (!isSaved) return
    close()
    done()
    showMessage(t().itemSaved(id))
  }
  const { error } = action
  const isConflict = error instanceof ClientError && error.code === 'PRECONDITION_FAILED'
  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <ItemEditor text={text} id={id} change={setText} />
      {(isOld || isConflict) && (
        <div class="notice bad" role="alert">
          <p>{t().editConflict}</p>
          <button
            type="button"
            class="secondary small"
            onClick={() => {
              setBase(newest)
              setText(textOf(newest))
              if (isConflict) done()
            }}
          >
            {t().reloadItem}
          </button>
        </div>
      )}
      {error !== undefined && !isConflict && <Failure error={error} />}
      <div class="buttons">
        <button type="button" class="secondary" onClick={close}>
          {t().cancel}
        </button>
        <button type="submit" disabled={!('item' in checked) || isOld} aria-busy={action.busy}>
          {t().save}
        </button>
      </div>
    </form>
  )
}

function textOf(read: ReadItem | null): string {
  return JSON.stringify(read?.item ?? {}, null, 2)
}

/** Asks for confirmation before an item is deleted. */
export function DeleteItem(props: {
  db: string
  id: string
  close: () => void
  done: () => void
}): JSX.Element {
  const action = useAction()
  const remove = async () => {
    const done = await action.run(async () => {
      await ledger.database(props.db).delete(props.id)
    })
    if (!done) return
    props.close()
    props.done()
    showMessage(t().itemDeleted(props.id))
  }
  return (
    <Dialog
      title={t().deleteItem(props.id)}
      submitText={t().delete}
      danger
      close={props.close}
      submit={() => void remove()}
      {...action}
    >
      <p>{t().deleteItemMeans}</p>
    </Dialog>
  )
}

const STEP = 20

interface ShownRevision {
  readonly position: string
  readonly timestamp: number
  readonly method: string
  readonly item?: unknown
  readonly erased?: true
}

/** Returns the `count` newest revisions, and one older revision for the comparison with the last of them. */
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

/** Lists the revisions of an item, newest first, with their differences; reloads when `version` changes. */
function History(props: { db: string; id: string; version: number }): JSX.Element {
  const { db, id, version } = props
  const [count, setCount] = useState(STEP)
  const [loaded, reload] = useLoaded(JSON.stringify([db, id, count]), (signal) =>
    revisionsOf(db, id, count, signal),
  )
  useEffect(reload, [version])
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
  // An erased revision cannot be compared.
  const isCompared = method === 'update_item' && erased !== true && props.before?.erased !== true
  const changes = isCompared ? differences(props.before?.item, item) : null
  return (
    <li class="card">
      <p class="revision-head">
        <strong>{methodText(method)}</strong> <Time at={timestamp} />{' '}
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
