import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { ClientError } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { type ItemName, ledger, type ReadItem } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useAction, useLast, useLoaded } from '../parts/hooks.ts'
import { ItemEditor } from '../parts/item-editor.tsx'
import { CopyButton, WholeJson } from '../parts/json.tsx'
import { Button, ReasonField, Time, Trail } from '../parts/layout.tsx'
import { useNetworks } from '../parts/networks.ts'
import { FailureNotice, isUnknownDatabase, showMessage, Waiting } from '../parts/notices.tsx'
import { formatRoute, itemsAt, toState } from '../routing/routes.ts'
import { mayLeave, useUnsaved } from '../routing/unsaved.ts'
import { mergeItems, parseItem } from '../text/json.ts'
import { Attachments } from './attachments.tsx'
import { NoDatabase } from './databases.tsx'
import { HistorySection, readNewestRevisions } from './item-history.tsx'
import { ItemProof } from './item-proof.tsx'
import { PastForm } from './past.tsx'

interface LoadedItem {
  /** Null if the item does not exist. */
  readonly read: ReadItem | null
  /** Time at which the item was deleted; null unless it was. */
  readonly deletedAt: number | null
}

async function readItem(
  path: ItemName,
  past: number | null,
  signal: AbortSignal,
): Promise<LoadedItem> {
  const at = past === null ? {} : { at: past }
  const read = await ledger.database(path.db).read(path.id, { signal, ...at })
  if (read !== null) return { read, deletedAt: null }
  const [last] = await readNewestRevisions(path, { count: 0, past }, signal)
  return { read, deletedAt: last?.method === 'delete_item' ? last.timestamp : null }
}

/** Shows an item and its history, and lets the user change and delete it, or shows it at a past height. */
export function ItemView({ db, id, past }: ItemName & { past: number | null }): JSX.Element {
  const [loaded, reload] = useLoaded(JSON.stringify([db, id, past]), (signal) =>
    readItem({ db, id }, past, signal),
  )
  const [mode, setMode] = useState<'shown' | 'edited' | 'deleting'>('shown')
  const show = () => setMode('shown')
  const [version, setVersion] = useState(0)
  const changed = () => {
    setVersion((before) => before + 1)
    reload()
  }
  // The deletion of the database has no id.
  const isOfItem = (found: unknown) => found === id || found === undefined
  useChanges(({ entry }) => past === null && entry.db === db && isOfItem(findId(entry)), changed)
  const newest = useLast(loaded)?.read ?? null
  const isOwned = useNetworks([db]).has(db)
  if (mode !== 'edited' && loaded.state === 'failed' && isUnknownDatabase(loaded.error))
    return <NoDatabase {...{ db, past }} />
  return (
    <>
      <Trail past={past}>
        {' '}
        <span aria-hidden>›</span>{' '}
        <a href={formatRoute(itemsAt(db, { at: toState(past) }))}>{visible(db)}</a>
      </Trail>
      <h1 class="name">{visible(id)}</h1>
      {mode === 'edited' && <EditedItem {...{ db, id, newest }} close={show} done={changed} />}
      <Waiting loaded={loaded} again={reload}>
        {({ read, deletedAt }) => {
          if (mode === 'edited') return null
          if (read === null) return <NoItem {...{ db, id, past, deletedAt }} />
          return (
            <section class="card">
              <WholeJson value={read.item} />
              <div class="buttons">
                <CopyButton text={formatItem(read)} label={t().json} />
                {isOwned ? (
                  <span class="state">{t().ofNetwork}</span>
                ) : (
                  past === null && (
                    <>
                      <Button text={t().delete} class="secondary" act={() => setMode('deleting')} />
                      <Button text={t().edit} class="" act={() => setMode('edited')} />
                    </>
                  )
                )}
              </div>
              <ItemProof key={read.position} shown={{ db, id, ...read }} isNewest={past === null} />
            </section>
          )
        }}
      </Waiting>
      {mode === 'deleting' && <DeleteItem {...{ db, id }} close={show} done={changed} />}
      <PastForm />
      <Attachments {...{ db, id, past, version }} />
      <HistorySection {...{ db, id, past, version, changed, newest }} />
    </>
  )
}

function NoItem(props: ItemName & { past: number | null; deletedAt: number | null }): JSX.Element {
  const { db, id, past, deletedAt } = props
  return (
    <section class="card">
      <p class="empty">
        {deletedAt !== null ? (
          <>
            {t().itemWasDeleted} <Time at={deletedAt} />
          </>
        ) : past === null ? (
          t().itemGone
        ) : (
          t().notThen
        )}
      </p>
      {past === null && <ItemProof shown={{ db, id, position: null, item: undefined }} />}
    </section>
  )
}

function findId(entry: { readonly [member: string]: unknown }): unknown {
  return entry.id ?? Object(entry.item).id
}

/**
 * The editor for an item. If somebody else changes the item, the editor shows the differences between both texts, and
 * the changes can be merged. It never overwrites a revision that it has not shown.
 */
function EditedItem(
  props: DialogEnds & ItemName & { /** Null if the item was deleted. */ newest: ReadItem | null },
): JSX.Element {
  const { db, id, newest, close, done } = props
  const [base, setBase] = useState(newest)
  const [text, setText] = useState(formatItem(newest))
  /** The text with which the user's text is compared after a conflict. */
  const [theirs, setTheirs] = useState<string | null>(null)
  const [reason, setReason] = useState('')
  const action = useAction()
  const checked = parseItem(text, id)
  const isOld = base?.etag !== newest?.etag
  useUnsaved(text !== formatItem(base))
  useEffect(() => {
    if (isOld && newest !== null) setTheirs(formatItem(newest))
  }, [newest?.etag])
  const save = async () => {
    if (!('item' in checked)) return
    const condition = newest === null ? { ifAbsent: true } : { ifMatch: base?.etag ?? '' }
    const isSaved = await action.run(async () => {
      const options = { ...condition, ...toReason(reason) }
      await ledger.database<object>(db).replace(id, checked.item, options)
      showMessage(t().itemSaved(id))
    })
    if (!isSaved) return
    close()
    done()
  }
  const use = (item: unknown) => {
    setBase(newest)
    setText(JSON.stringify(item, null, 2))
  }
  const { error } = action
  const isConflict = error instanceof ClientError && error.code === 'PRECONDITION_FAILED'
  // The node has refused the change before its entry has arrived here.
  useEffect(() => {
    if (isConflict) done()
  }, [error])
  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault()
        if (!action.busy) void save()
      }}
    >
      {/* A text that is typed while the item is saved would be lost. */}
      <div inert={action.busy}>
        <ItemEditor text={text} id={id} original={theirs} change={setText} />
        <ReasonField reason={reason} change={setReason} />
      </div>
      {newest === null && <p class="notice bad">{t().editDeleted}</p>}
      {isOld && newest !== null && (
        <ConflictNotice
          merge={
            'item' in checked ? () => use(mergeItems(base?.item, checked.item, newest.item)) : null
          }
          reload={() => {
            use(newest.item)
            setTheirs(null)
          }}
        />
      )}
      {error !== undefined && !isConflict && <FailureNotice error={error} />}
      <div class="buttons">
        <Button text={t().cancel} class="secondary" act={() => mayLeave() && close()} />
        <button
          type="submit"
          disabled={!('item' in checked) || (isOld && newest !== null)}
          aria-busy={action.busy}
        >
          {newest === null ? t().createAgain : t().save}
        </button>
      </div>
    </form>
  )
}

function ConflictNotice(props: { merge: (() => void) | null; reload: () => void }): JSX.Element {
  return (
    <div class="notice bad" role="alert">
      <p>{t().editConflict}</p>
      <div class="buttons">
        <Button text={t().reloadItem} act={props.reload} />
        <Button text={t().mergeItem} disabled={props.merge === null} act={() => props.merge?.()} />
      </div>
    </div>
  )
}

function formatItem(read: ReadItem | null): string {
  return JSON.stringify(read?.item ?? {}, null, 2)
}

function toReason(reason: string): { reason?: string } {
  return reason === '' ? {} : { reason }
}

export function DeleteItem({ db, id, ...ends }: DialogEnds & ItemName): JSX.Element {
  const [reason, setReason] = useState('')
  const remove = async () => {
    await ledger.database(db).delete(id, toReason(reason))
    return t().itemDeleted(id)
  }
  const [title, submitText] = [t().deleteItem(id), t().delete]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove}>
      <p>{t().deleteItemMeans}</p>
      <ReasonField reason={reason} change={setReason} />
    </Dialog>
  )
}
