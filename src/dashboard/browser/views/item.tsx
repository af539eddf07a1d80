import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ClientError, type Read } from '../../../client/index.ts'
import { checkedItem } from '../json/checked.ts'
import { t } from '../language/language.ts'
import { useChanges } from '../node/feed.ts'
import { ledger } from '../node/ledger.ts'
import { useActing } from '../parts/acting.ts'
import { WholeJson } from '../parts/code.tsx'
import { Failure, Waiting } from '../parts/failure.tsx'
import { ItemEditor } from '../parts/item-editor.tsx'
import { useLoaded } from '../parts/loaded.ts'
import { tell } from '../parts/told.tsx'
import { hrefOf } from '../routes.ts'
import { DeleteItem } from './delete-item.tsx'
import { History } from './history.tsx'

type ReadItem = Read<Record<string, unknown>>

/** One item: its content, to change and delete, and what it was. */
export function Item({ db, id }: { db: string; id: string }): JSX.Element {
  const [loaded, reload] = useLoaded(JSON.stringify([db, id]), (signal) =>
    ledger.database(db).read(id, { signal }),
  )
  const [mode, setMode] = useState<'shown' | 'edited' | 'deleting'>('shown')
  const [turn, setTurn] = useState(0)
  const changed = () => {
    setTurn((before) => before + 1)
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
      <History db={db} id={id} turn={turn} />
    </>
  )
}

function idOf(entry: { readonly [member: string]: unknown }): unknown {
  return entry.id ?? Object(entry.item).id
}

/** The editor; it keeps what was typed when the item changes meanwhile, and then does not overwrite it. */
function EditedItem(props: {
  db: string
  id: string
  /** The item as the node has it now. */
  newest: ReadItem | null
  close: () => void
  done: () => void
}): JSX.Element {
  const { db, id, newest, close, done } = props
  const [base, setBase] = useState(newest)
  const [text, setText] = useState(textOf(newest))
  const acting = useActing()
  const checked = checkedItem(text, id)
  const isOld = base?.etag !== newest?.etag
  const save = async () => {
    if (!('item' in checked) || base === null) return
    const done_ = await acting.run(async () => {
      await ledger.database<object>(db).replace(id, checked.item, { ifMatch: base.etag })
    })
    if (!done_) return
    close()
    done()
    tell(t().itemSaved(id))
  }
  const { error } = acting
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
          <p>{t().changedMeanwhile}</p>
          <button
            type="button"
            class="secondary small"
            onClick={() => {
              setBase(newest)
              setText(textOf(newest))
              if (isConflict) done()
            }}
          >
            {t().loadAnew}
          </button>
        </div>
      )}
      {error !== undefined && !isConflict && <Failure error={error} />}
      <div class="buttons">
        <button type="button" class="secondary" onClick={close}>
          {t().cancel}
        </button>
        <button type="submit" disabled={!('item' in checked) || isOld} aria-busy={acting.busy}>
          {t().save}
        </button>
      </div>
    </form>
  )
}

function textOf(read: ReadItem | null): string {
  return JSON.stringify(read?.item ?? {}, null, 2)
}
