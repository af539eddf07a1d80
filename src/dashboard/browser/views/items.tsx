import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { COUNT_PAUSE_MS, useChanges } from '../node/live.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { ItemEditor } from '../parts/json.tsx'
import { Button, Choice, JumpForm, Pages, Trail, ViewHead } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { goTo } from '../routing/address.ts'
import { type ItemList, itemsAt, PAGE_SIZES } from '../routing/routes.ts'
import { parseItem } from '../text/json.ts'
import type { ListedItem } from '../text/table.ts'
import { DeleteItem } from './item.tsx'
import { ItemFilter } from './item-filter.tsx'
import { ItemSummary } from './item-summary.tsx'
import { ColumnChoice, ItemExport, ItemTable } from './item-table.tsx'

interface ItemPage {
  readonly items: readonly ListedItem[]
  readonly hasNext: boolean
}

async function readPage(db: string, list: ItemList, signal: AbortSignal): Promise<ItemPage> {
  const { page, size, where, order } = list
  const parts = [
    ...(where === null ? [] : [`"where":${where}`]),
    ...(order === null ? [] : [`"order":${JSON.stringify(order)}`]),
  ]
  const query = {
    limit: size + 1,
    offset: (page - 1) * size,
    docs: 'true' as const,
    ...(parts.length === 0 ? {} : { filter: `{${parts.join()}}` }),
  }
  const reply = await ledger.request('GET /api/{db}', { path: { db }, query }, { signal })
  const docs = reply.docs ?? []
  const items = reply.items.map((id, at) => ({ ...docs[at], id }))
  return { items: items.slice(0, size), hasNext: items.length > size }
}

/** Returns the number of matching items, or null if counting failed, for example because it took too long. */
async function readCount(
  db: string,
  where: string | null,
  signal: AbortSignal,
): Promise<number | null> {
  const filter = where === null ? {} : { filter: `{"where":${where}}` }
  const query = { limit: 1, count: 'true' as const, ...filter }
  try {
    const { count } = await ledger.request('GET /api/{db}', { path: { db }, query }, { signal })
    return count ?? null
  } catch {
    return null
  }
}

/** Shows the items of a database, page by page. */
export function Items({ db, list }: { db: string; list: ItemList }): JSX.Element {
  const [asking, setAsking] = useState<'new' | { readonly delete: string } | null>(null)
  const { columns: _, ...loadedBy } = list
  const key = JSON.stringify([db, loadedBy])
  const [loaded, reload] = useLoaded(key, (signal) => readPage(db, list, signal))
  const [counted, recount] = useLoaded(JSON.stringify([db, list.where]), (signal) =>
    readCount(db, list.where, signal),
  )
  const count = counted.state === 'loaded' ? counted.value : null
  useChanges(({ entry }) => entry.db === db, reload)
  useChanges(({ entry }) => entry.db === db, recount, COUNT_PAUSE_MS)
  const close = () => setAsking(null)
  const show = (change: Partial<ItemList>) => goTo(itemsAt(db, { ...list, ...change }))
  const { page, columns } = list
  return (
    <>
      <Trail />
      <ViewHead title={db}>
        {count !== null && (
          <p class="count" role="status">
            {list.where === null ? t().items(count) : t().matches(count)}
          </p>
        )}
        <Button text={t().addItem} class="" act={() => setAsking('new')} />
      </ViewHead>
      <div class="tools">
        <JumpForm
          label={t().openId}
          button={t().open}
          required
          spellcheck={false}
          go={(id) => goTo({ view: 'item', db, id })}
        />
        <div class="inline">
          <Order db={db} order={list.order} choose={(order) => show({ order, page: 1 })} />
          <Choice
            label={t().perPage}
            value={`${list.size}`}
            options={PAGE_SIZES.map((size) => [`${size}`, size.toLocaleString()])}
            choose={(size) => show({ size: Number(size), page: 1 })}
          />
        </div>
      </div>
      <ItemFilter where={list.where} apply={(where) => show({ where, page: 1 })} />
      <Waiting loaded={loaded} again={reload}>
        {({ items, hasNext }) => (
          <>
            <ColumnChoice {...{ items, columns }} choose={(chosen) => show({ columns: chosen })} />
            <ItemSummary {...{ db, items }} where={list.where} />
            {items.length === 0 ? (
              <p class="empty">{formatEmpty(list)}</p>
            ) : (
              <>
                <ItemTable {...{ db, items, columns }} remove={(id) => setAsking({ delete: id })} />
                <ItemExport {...{ db, items, columns }} />
              </>
            )}
            {(page > 1 || hasNext) && (
              <Pages
                back={[t().previous, page > 1 ? () => show({ page: page - 1 }) : null]}
                forward={[t().next, hasNext ? () => show({ page: page + 1 }) : null]}
              >
                {count === null
                  ? t().pageNumber(page)
                  : t().pageOfPages(page, Math.max(page, Math.ceil(count / list.size)))}
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

function formatEmpty({ page, where }: ItemList): string {
  if (page > 1) return t().noSuchPage(page)
  return where === null ? t().noItems : t().noMatches
}

/** Returns the indexed paths of `db`, or an empty list if the session may not read the indexes. */
async function indexedPaths(db: string, signal: AbortSignal): Promise<readonly string[]> {
  try {
    const { indexes } = await ledger.request('GET /api/config/indexes', {}, { signal })
    const ready = indexes.filter((index) => index.db === db && index.state === 'ready')
    return ready.map(({ path }) => path)
  } catch {
    return []
  }
}

/** Lets the user choose the order of the items: the order of creation, or by an indexed member. */
function Order(props: {
  db: string
  order: string | null
  choose: (order: string | null) => void
}): JSX.Element {
  const { db, order, choose } = props
  const [indexed] = useLoaded(`indexes ${db}`, (signal) => indexedPaths(db, signal))
  const paths = indexed.state === 'loaded' ? indexed.value : []
  const orders = new Set([
    ...(order === null ? [] : [order]),
    ...paths.flatMap((path) => [`${path} ASC`, `${path} DESC`]),
  ])
  return (
    <Choice
      label={t().order}
      title={t().orderHint}
      value={order ?? ''}
      options={[
        ['', t().ofCreation],
        ...[...orders].map((text) => [text, formatOrder(text)] as const),
      ]}
      choose={(chosen) => choose(chosen === '' ? null : chosen)}
    />
  )
}

function formatOrder(order: string): string {
  const [, path, direction] = /^(\S+) (ASC|DESC)$/.exec(order) ?? []
  if (path === undefined) return order
  return direction === 'ASC' ? t().ascending(path) : t().descending(path)
}

function NewItem({ db, ...ends }: DialogEnds & { db: string }): JSX.Element {
  const [text, setText] = useState('{\n  "name": ""\n}')
  const checked = parseItem(text, null)
  const isValid = 'item' in checked
  const add = async () => {
    const { id } = await ledger.database<object>(db).create(isValid ? checked.item : {})
    return t().itemAdded(id)
  }
  const [title, submitText] = [t().addItem, t().create]
  return (
    <Dialog {...{ title, submitText, ...ends }} wide disabled={!isValid} act={add}>
      <ItemEditor text={text} id={null} change={setText} />
    </Dialog>
  )
}
