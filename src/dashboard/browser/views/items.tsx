import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { checkedItem } from '../json/checked.ts'
import { t } from '../language/language.ts'
import { useChanges } from '../node/feed.ts'
import { ledger } from '../node/ledger.ts'
import { useActing } from '../parts/acting.ts'
import { ShortJson } from '../parts/code.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Waiting } from '../parts/failure.tsx'
import { ItemEditor } from '../parts/item-editor.tsx'
import { useLoaded } from '../parts/loaded.ts'
import { tell } from '../parts/told.tsx'
import { hrefOf } from '../routes.ts'
import { DeleteItem } from './delete-item.tsx'
import { ItemFilter } from './item-filter.tsx'

const PAGE = 50

/** One page of items. */
interface ItemPage {
  readonly items: readonly { readonly id: string; readonly [member: string]: unknown }[]
  readonly hasNext: boolean
}

async function pageOf(
  db: string,
  filter: string | null,
  after: string | undefined,
  signal: AbortSignal,
): Promise<ItemPage> {
  const query = {
    limit: PAGE + 1,
    docs: 'true' as const,
    ...(filter === null ? {} : { filter }),
    ...(after === undefined ? {} : { after }),
  }
  const reply = await ledger.request('GET /api/{db}', { path: { db }, query }, { signal })
  const docs = reply.docs ?? []
  const items = reply.items.map((id, at) => ({ ...docs[at], id }))
  return { items: items.slice(0, PAGE), hasNext: items.length > PAGE }
}

/** The items of a database, page by page. */
export function Items({ db }: { db: string }): JSX.Element {
  const [filter, setFilter] = useState<string | null>(null)
  /** The last ids of the pages before this one. */
  const [trail, setTrail] = useState<readonly string[]>([])
  const [asking, setAsking] = useState<'new' | { readonly delete: string } | null>(null)
  const after = trail.at(-1)
  const key = JSON.stringify([db, filter, after])
  const [loaded, reload] = useLoaded(key, (signal) => pageOf(db, filter, after, signal))
  useChanges(({ entry }) => entry.db === db, reload)
  const close = () => setAsking(null)
  return (
    <>
      <nav class="trail" aria-label={t().databases}>
        <a href={hrefOf({ view: 'databases' })}>{t().databases}</a> <span aria-hidden>›</span>
      </nav>
      <header class="head">
        <h1 class="name">{db}</h1>
        <button type="button" onClick={() => setAsking('new')}>
          {t().addItem}
        </button>
      </header>
      <ItemFilter
        apply={(wanted) => {
          setFilter(wanted)
          setTrail([])
        }}
      />
      <Waiting loaded={loaded} again={reload}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <p class="empty">{filter === null ? t().noItems : t().noMatches}</p>
            ) : (
              <ItemTable db={db} page={page} remove={(id) => setAsking({ delete: id })} />
            )}
            {(trail.length > 0 || page.hasNext) && (
              <nav class="pages" aria-label={t().pages}>
                <button
                  type="button"
                  class="secondary"
                  disabled={trail.length === 0}
                  onClick={() => setTrail(trail.slice(0, -1))}
                >
                  {t().previous}
                </button>
                <span>{t().pageOf(trail.length + 1)}</span>
                <button
                  type="button"
                  class="secondary"
                  disabled={!page.hasNext}
                  onClick={() => setTrail([...trail, page.items.at(-1)?.id ?? ''])}
                >
                  {t().next}
                </button>
              </nav>
            )}
          </>
        )}
      </Waiting>
      {asking === 'new' && <NewItem db={db} close={close} done={reload} />}
      {asking !== null && asking !== 'new' && (
        <DeleteItem db={db} id={asking.delete} close={close} done={reload} />
      )}
    </>
  )
}

function ItemTable(props: {
  db: string
  page: ItemPage
  remove: (id: string) => void
}): JSX.Element {
  const { db, page, remove } = props
  return (
    <table class="items">
      <thead>
        <tr>
          <th scope="col">{t().id}</th>
          <th scope="col">{t().content}</th>
          <th scope="col">
            <span class="for-readers">{t().actions}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {page.items.map(({ id, ...rest }) => (
          <tr key={id}>
            <th scope="row">
              <a href={hrefOf({ view: 'item', db, id })}>{id}</a>
            </th>
            <td>
              <ShortJson value={rest} />
            </td>
            <td>
              <button
                type="button"
                class="secondary small"
                aria-label={`${t().delete}: ${id}`}
                onClick={() => remove(id)}
              >
                {t().delete}
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function NewItem(props: { db: string; close: () => void; done: () => void }): JSX.Element {
  const [text, setText] = useState('{\n  "name": ""\n}')
  const acting = useActing()
  const checked = checkedItem(text, null)
  const add = async () => {
    if (!('item' in checked)) return
    let id = ''
    const done = await acting.run(async () => {
      id = (await ledger.database<object>(props.db).create(checked.item)).id
    })
    if (!done) return
    props.close()
    props.done()
    tell(t().itemAdded(id))
  }
  return (
    <Dialog
      title={t().addItem}
      submitText={t().create}
      wide
      mayNot={!('item' in checked)}
      close={props.close}
      submit={() => void add()}
      {...acting}
    >
      <ItemEditor text={text} id={null} change={setText} />
    </Dialog>
  )
}
