import type { JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { checkedItem, type Operator, simpleWhere } from '../json.ts'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { Dialog } from '../parts/dialog.tsx'
import { useAction, useLoaded } from '../parts/hooks.ts'
import { ItemEditor, ShortJson } from '../parts/json.tsx'
import { Field, Pages, ViewHead } from '../parts/layout.tsx'
import { showMessage, Waiting } from '../parts/notices.tsx'
import { hrefOf } from '../routes.ts'
import { DeleteItem } from './item.tsx'

const PAGE = 50

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
  /** The last id of each previous page. */
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
      <ViewHead title={db}>
        <button type="button" onClick={() => setAsking('new')}>
          {t().addItem}
        </button>
      </ViewHead>
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
              <Pages
                back={[t().previous, trail.length > 0 ? () => setTrail(trail.slice(0, -1)) : null]}
                forward={[
                  t().next,
                  page.hasNext ? () => setTrail([...trail, page.items.at(-1)?.id ?? '']) : null,
                ]}
              >
                {t().pageOf(trail.length + 1)}
              </Pages>
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
  const action = useAction()
  const checked = checkedItem(text, null)
  const add = async () => {
    if (!('item' in checked)) return
    let id = ''
    const done = await action.run(async () => {
      id = (await ledger.database<object>(props.db).create(checked.item)).id
    })
    if (!done) return
    props.close()
    props.done()
    showMessage(t().itemAdded(id))
  }
  return (
    <Dialog
      title={t().addItem}
      submitText={t().create}
      wide
      disabled={!('item' in checked)}
      close={props.close}
      submit={() => void add()}
      {...action}
    >
      <ItemEditor text={text} id={null} change={setText} />
    </Dialog>
  )
}

const OPERATORS: readonly Operator[] = [
  ...(['eq', 'neq', 'gt', 'gte', 'lt', 'lte'] as const),
  ...(['like', 'regexp', 'exists'] as const),
]

/** Builds a filter of items; calls `apply` with its JSON text, or with null for no filter. */
function ItemFilter(props: { apply: (filter: string | null) => void }): JSX.Element {
  const [member, setMember] = useState('')
  const [operator, setOperator] = useState<Operator>('eq')
  const [value, setValue] = useState('')
  const [json, setJson] = useState('')
  const operatorId = useId()
  const where = json.trim() === '' ? simpleWhere(member, operator, value) : json
  return (
    <details class="filter">
      <summary>{t().filter}</summary>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          props.apply(where === null ? null : `{"where":${where}}`)
        }}
        onReset={() => {
          setMember('')
          setOperator('eq')
          setValue('')
          setJson('')
          props.apply(null)
        }}
      >
        <div class="fields">
          <Field
            label={t().member}
            placeholder={t().memberHint}
            value={member}
            change={setMember}
          />
          <div>
            <label for={operatorId}>{t().condition}</label>
            <select
              id={operatorId}
              value={operator}
              onChange={({ currentTarget }) =>
                setOperator(OPERATORS.find((one) => one === currentTarget.value) ?? 'eq')
              }
            >
              {OPERATORS.map((one) => (
                <option key={one} value={one}>
                  {t().operators[one]}
                </option>
              ))}
            </select>
          </div>
          <Field label={t().value} value={value} change={setValue} />
        </div>
        <Field
          label={t().filterAsJson}
          class="mono"
          placeholder={t().filterAsJsonHint}
          value={json}
          change={setJson}
        />
        <div class="buttons">
          <button type="reset" class="secondary">
            {t().clear}
          </button>
          <button type="submit">{t().show}</button>
        </div>
      </form>
    </details>
  )
}
