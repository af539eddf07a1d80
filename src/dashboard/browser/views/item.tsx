import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ClientError, type Read } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { type ItemName, ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useAction, useLoaded } from '../parts/hooks.ts'
import { CopyButton, ItemEditor, WholeJson } from '../parts/json.tsx'
import { Button, Trail } from '../parts/layout.tsx'
import { FailureNotice, showMessage, Waiting } from '../parts/notices.tsx'
import { formatRoute, itemsAt } from '../routing/routes.ts'
import { parseItem } from '../text/json.ts'
import { Attachments } from './attachments.tsx'
import { HistorySection } from './item-history.tsx'
import { ItemProof } from './item-proof.tsx'

type ReadItem = Read<Record<string, unknown>>

/** Shows an item and its history, and lets the user change and delete it. */
export function ItemView({ db, id }: ItemName): JSX.Element {
  const [loaded, reload] = useLoaded(JSON.stringify([db, id]), (signal) =>
    ledger.database(db).read(id, { signal }),
  )
  const [mode, setMode] = useState<'shown' | 'edited' | 'deleting'>('shown')
  const show = () => setMode('shown')
  const [version, setVersion] = useState(0)
  const changed = () => {
    setVersion((before) => before + 1)
    reload()
  }
  useChanges(({ entry }) => entry.db === db && findId(entry) === id, changed)
  return (
    <>
      <Trail>
        {' '}
        <span aria-hidden>›</span> <a href={formatRoute(itemsAt(db))}>{db}</a>
      </Trail>
      <h1 class="name">{id}</h1>
      <Waiting loaded={loaded} again={reload}>
        {(read) => {
          if (mode === 'edited') {
            return <EditedItem {...{ db, id }} newest={read} close={show} done={changed} />
          }
          if (read === null) return <p class="empty">{t().itemGone}</p>
          return (
            <section class="card">
              <WholeJson value={read.item} />
              <div class="buttons">
                <CopyButton text={formatItem(read)} label={t().json} />
                <Button text={t().delete} class="secondary" act={() => setMode('deleting')} />
                <Button text={t().edit} class="" act={() => setMode('edited')} />
              </div>
              <ItemProof key={read.position} shown={{ db, id, ...read }} />
            </section>
          )
        }}
      </Waiting>
      {mode === 'deleting' && <DeleteItem {...{ db, id }} close={show} done={changed} />}
      <Attachments db={db} id={id} version={version} />
      <HistorySection db={db} id={id} version={version} changed={changed} />
    </>
  )
}

function findId(entry: { readonly [member: string]: unknown }): unknown {
  return entry.id ?? Object(entry.item).id
}

/** The editor for an item. If somebody else changes the item, the edited text stays, but cannot overwrite the item. */
function EditedItem(
  props: DialogEnds & ItemName & { /** Null if the item was deleted. */ newest: ReadItem | null },
): JSX.Element {
  const { db, id, newest, close, done } = props
  const [base, setBase] = useState(newest)
  const [text, setText] = useState(formatItem(newest))
  const action = useAction()
  const checked = parseItem(text, id)
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
  const reload = () => {
    setBase(newest)
    setText(formatItem(newest))
    if (isConflict) done()
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
          <Button text={t().reloadItem} act={reload} />
        </div>
      )}
      {error !== undefined && !isConflict && <FailureNotice error={error} />}
      <div class="buttons">
        <Button text={t().cancel} class="secondary" act={close} />
        <button type="submit" disabled={!('item' in checked) || isOld} aria-busy={action.busy}>
          {t().save}
        </button>
      </div>
    </form>
  )
}

function formatItem(read: ReadItem | null): string {
  return JSON.stringify(read?.item ?? {}, null, 2)
}

export function DeleteItem({ db, id, ...ends }: DialogEnds & ItemName): JSX.Element {
  const remove = async () => {
    await ledger.database(db).delete(id)
    return t().itemDeleted(id)
  }
  const [title, submitText] = [t().deleteItem(id), t().delete]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove}>
      <p>{t().deleteItemMeans}</p>
    </Dialog>
  )
}
