import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { parseForeignJsonOrNull } from '../../../base/strict-json.ts'
import { t } from '../language/language.ts'
import { base, ledger } from '../node/ledger.ts'
import { COUNT_PAUSE_MS, useChanges } from '../node/live.ts'
import { toFilter } from '../node/matches.ts'
import { readStored, writeStored } from '../node/storage.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLast, useLoaded } from '../parts/hooks.ts'
import { ItemEditor } from '../parts/item-editor.tsx'
import { Button, Choice, Details, JumpForm, Pages, Trail, ViewHead } from '../parts/layout.tsx'
import { useNetworks } from '../parts/networks.ts'
import { isUnknownDatabase, Waiting } from '../parts/notices.tsx'
import { goTo } from '../routing/address.ts'
import {
  type ItemList,
  itemAt,
  itemsAt,
  PAGE_SIZES,
  parseOrder,
  toState,
} from '../routing/routes.ts'
import { parseItem } from '../text/json.ts'
import { commonPaths, type ListedItem, nodePath } from '../text/table.ts'
import {
  DeleteMany,
  type ItemSelection,
  type ManyReport,
  PatchMany,
  RefusedItems,
  SelectionBar,
} from './bulk.tsx'
import { NoDatabase } from './databases.tsx'
import { DeleteItem } from './item.tsx'
import { ItemFilter } from './item-filter.tsx'
import { ItemImport } from './item-import.tsx'
import { type DatabaseIndexes, IndexesPanel, OrderCost, useIndexes } from './item-indexes.tsx'
import { ListProof } from './item-proof.tsx'
import { ItemSummary } from './item-summary.tsx'
import { ColumnChoice, ItemExport, ItemTable } from './item-table.tsx'
import { PastForm } from './past.tsx'

interface ItemPage {
  readonly items: readonly ListedItem[]
  readonly hasNext: boolean
  /** Number of items of the database; null if the list has conditions. */
  readonly count: number | null
  /** Time until the node answered. */
  readonly ms: number
}

async function readPage(
  db: string,
  list: ItemList,
  past: number | null,
  signal: AbortSignal,
): Promise<ItemPage> {
  const { page, size, where, order } = list
  toFilter(where)
  const parts = [
    ...(where === null ? [] : [`"where":${where}`]),
    ...(order === null ? [] : [`"order":${JSON.stringify(order)}`]),
  ]
  const query = {
    limit: size + 1,
    offset: (page - 1) * size,
    docs: 'true' as const,
    ...(where === null ? { count: 'true' as const } : {}),
    ...(parts.length === 0 ? {} : { filter: `{${parts.join()}}` }),
    ...(past === null ? {} : { at: `${past}` }),
  }
  const start = performance.now()
  const reply = await ledger.request('GET /api/{db}', { path: { db }, query }, { signal })
  const ms = performance.now() - start
  const docs = reply.docs ?? []
  const items = reply.items.map((id, at) => ({ ...docs[at], id }))
  const count = reply.count ?? null
  return { items: items.slice(0, size), hasNext: items.length > size, count, ms }
}

/** Returns the number of matching items, or null without conditions, or if counting failed or took too long. */
async function readCount(
  db: string,
  where: string | null,
  past: number | null,
  signal: AbortSignal,
): Promise<number | null> {
  if (where === null) return null
  const at = past === null ? {} : { at: `${past}` }
  const query = { limit: 1, count: 'true' as const, filter: `{"where":${where}}`, ...at }
  try {
    const { count } = await ledger.request('GET /api/{db}', { path: { db }, query }, { signal })
    return count ?? null
  } catch {
    return null
  }
}

const columnsKey = (db: string) => `daicho.columns ${base} ${db}`

/** Returns the columns that this browser remembers for `db`, or null. */
function rememberedColumns(db: string): readonly string[] | null {
  const stored = parseForeignJsonOrNull(readStored(columnsKey(db)) ?? 'null')
  return Array.isArray(stored) ? stored.map(String) : null
}

/** The files that were last dropped on the page. Calls `show` for each drop. */
function useDroppedFiles(show: () => void): readonly File[] {
  const [files, setFiles] = useState<readonly File[]>([])
  useEffect(() => {
    // A dropped text is for the field below the pointer.
    const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes('Files') === true
    const over = (event: DragEvent) => {
      if (hasFiles(event)) event.preventDefault()
    }
    const drop = (event: DragEvent) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setFiles([...(event.dataTransfer?.files ?? [])])
      show()
    }
    addEventListener('dragover', over)
    addEventListener('drop', drop)
    return () => {
      removeEventListener('dragover', over)
      removeEventListener('drop', drop)
    }
  }, [])
  return files
}

type Asked = 'new' | 'import' | 'patch-many' | 'delete-many' | { readonly delete: string } | null

/** Loads a page of a list with its number of items, and chooses its columns. */
function useListing(db: string, list: ItemList, past: number | null) {
  const { columns: _, ...loadedBy } = list
  const key = JSON.stringify([db, loadedBy])
  const [loaded, reload] = useLoaded(key, (signal) => readPage(db, list, past, signal))
  const [counted, recount] = useLoaded(JSON.stringify([db, list.where]), (signal) =>
    readCount(db, list.where, past, signal),
  )
  const isConcerned = (of: string) => past === null && of === db
  useChanges(({ entry }) => isConcerned(entry.db), reload)
  useChanges(({ entry }) => isConcerned(entry.db), recount, COUNT_PAUSE_MS)
  const last = useLast(loaded)
  // Not the last count, which is of other conditions.
  const matches = counted.state === 'loaded' ? counted.value : null
  const common = useRef<readonly string[] | null>(null)
  if (last !== null && last.items.length > 0) common.current ??= commonPaths(last.items)
  return {
    ...{ loaded, reload },
    items: last?.items ?? [],
    columns: list.columns ?? rememberedColumns(db) ?? common.current ?? [],
    count: list.where === null ? (last?.count ?? null) : matches,
    ms: loaded.state === 'loaded' ? loaded.value.ms : null,
    refresh: () => {
      reload()
      recount()
    },
  }
}

/** Returns the chosen items with their content of now, as far as they are on the page. */
function renewItems(chosen: ReadonlyMap<string, ListedItem>, page: readonly ListedItem[]) {
  const now = new Map(page.map((item) => [item.id, item]))
  return new Map([...chosen].map(([id, item]) => [id, now.get(id) ?? item]))
}

/** Shows the items of a database, now or at a past height, page by page. */
export function Items(props: { db: string; list: ItemList; past: number | null }): JSX.Element {
  const { db, list, past } = props
  const [asked, setAsked] = useState<Asked>(null)
  // A file that is dropped on a dialog does not close the dialog.
  const dropped = useDroppedFiles(() => setAsked((before) => before ?? 'import'))
  const { loaded, reload, items, columns, count, ms, refresh } = useListing(db, list, past)
  const indexes = useIndexes(db)
  const isOwned = useNetworks([db]).has(db)
  const isFixed = isOwned || past !== null
  const close = () => setAsked(null)
  const [report, setReport] = useState<ManyReport | null>(null)
  const [chosen, choose] = useState<ItemSelection['items']>(new Map())
  // Other conditions select other items.
  useEffect(() => choose(new Map()), [list.where])
  const selected = chosen && renewItems(chosen, items)
  const selection = { db, items: selected, where: list.where, count: chosen?.size ?? count ?? 0 }
  const changed = () => {
    choose(new Map())
    refresh()
  }
  const show = (change: Partial<ItemList>) => goTo(itemsAt(db, { ...list, ...change }))
  const chooseColumns = (paths: readonly string[]) => {
    writeStored(columnsKey(db), JSON.stringify(paths))
    show({ columns: paths })
  }
  const sort = (order: string | null) => show({ order, page: 1 })
  if (loaded.state === 'failed' && isUnknownDatabase(loaded.error))
    return <NoDatabase {...{ db, past }} />
  return (
    <>
      <ListHead {...{ db, list, past, count, isOwned }} ask={setAsked} />
      {asked === 'import' && !isFixed && <ItemImport {...{ db, dropped, close, changed }} />}
      <ListTools {...{ db, list, past, columns, indexes, show, sort }} />
      <ItemFilter {...{ items }} where={list.where} apply={(where) => show({ where, page: 1 })} />
      <ColumnChoice {...{ items, columns }} choose={chooseColumns} />
      {past === null && <IndexesPanel indexes={indexes} />}
      <ItemSummary {...{ db, items, past }} where={list.where} />
      <PastForm />
      {past === null && <OrderNotice {...{ list, indexes, count, ms }} />}
      {report !== null && report.refused.length > 0 && (
        <RefusedItems report={report} close={() => setReport(null)} />
      )}
      <Waiting loaded={loaded} again={reload}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <p class="empty">{formatEmpty(list, past)}</p>
            ) : (
              <>
                {!isFixed && (
                  <SelectionBar
                    {...{ selection, choose }}
                    page={page.items}
                    matches={count}
                    ask={setAsked}
                  />
                )}
                <ItemTable
                  {...{ db, past, columns, sort, choose }}
                  items={page.items}
                  order={list.order}
                  selected={chosen}
                  remove={isFixed ? null : (id) => setAsked({ delete: id })}
                />
                {past === null && page.count !== null && (
                  <Details summary={t().completeness}>
                    {() => <WholeListProof {...{ db, page }} />}
                  </Details>
                )}
              </>
            )}
            <ItemPages {...{ list, count, show }} hasNext={page.hasNext} />
          </>
        )}
      </Waiting>
      {items.length > 0 && <ItemExport {...{ db, past, items, columns }} where={list.where} />}
      <AskedDialog {...{ asked, db, selection, close, done: changed, report: setReport }} />
    </>
  )
}

/** The dialog that the user asked for, or nothing. */
function AskedDialog(
  props: DialogEnds & {
    asked: Asked
    db: string
    selection: ItemSelection
    report: (report: ManyReport) => void
  },
): JSX.Element | null {
  const { asked, db, selection, report, ...ends } = props
  if (asked === 'new') return <NewItem db={db} {...ends} />
  if (asked === 'patch-many') return <PatchMany {...{ selection, report, ...ends }} />
  if (asked === 'delete-many') return <DeleteMany {...{ selection, report, ...ends }} />
  if (asked === null || asked === 'import') return null
  return <DeleteItem db={db} id={asked.delete} {...ends} />
}

function WholeListProof({ db, page }: { db: string; page: ItemPage }): JSX.Element {
  const ids = page.items.map(({ id }) => id)
  const shown = { db, ids, count: page.count ?? 0 }
  return <ListProof key={JSON.stringify(shown)} shown={shown} />
}

function ListHead(props: {
  db: string
  list: ItemList
  past: number | null
  count: number | null
  isOwned: boolean
  ask: (asked: Asked) => void
}): JSX.Element {
  const { db, list, past, count, isOwned, ask } = props
  return (
    <>
      <Trail past={past} />
      <ViewHead title={db}>
        {count !== null && (
          <p class="count" role="status">
            {list.where === null ? t().items(count) : t().matches(count)}
          </p>
        )}
        {isOwned ? (
          <span class="state">{t().ofNetwork}</span>
        ) : (
          past === null && (
            <>
              <Button text={t().importFile} class="secondary" act={() => ask('import')} />
              <Button text={t().addItem} class="" act={() => ask('new')} />
            </>
          )
        )}
      </ViewHead>
    </>
  )
}

/** Fields that lead to an item, and to another order or size of the page. */
function ListTools(props: {
  db: string
  list: ItemList
  past: number | null
  columns: readonly string[]
  indexes: DatabaseIndexes
  show: (change: Partial<ItemList>) => void
  sort: (order: string | null) => void
}): JSX.Element {
  const { db, list, past, columns, indexes, show, sort } = props
  const indexed = indexes.loaded.state === 'loaded' ? indexes.loaded.value : []
  const paths = [
    ...indexed.map(({ path }) => path),
    ...columns.flatMap((one) => nodePath(one) ?? []),
  ]
  const orders = new Set([
    ...(list.order === null ? [] : [list.order]),
    ...paths.flatMap((path) => [`${path} ASC`, `${path} DESC`]),
  ])
  return (
    <div class="tools">
      <JumpForm
        label={t().openId}
        button={t().open}
        required
        spellcheck={false}
        go={(id) => goTo(itemAt(db, id, toState(past)))}
      />
      <div class="inline">
        <Choice
          label={t().order}
          value={list.order ?? ''}
          options={[
            ['', t().ofCreation],
            ...[...orders].map((text) => [text, formatOrder(text)] as const),
          ]}
          choose={(chosen) => sort(chosen === '' ? null : chosen)}
        />
        <Choice
          label={t().perPage}
          value={`${list.size}`}
          options={PAGE_SIZES.map((size) => [`${size}`, size.toLocaleString()])}
          choose={(size) => show({ size: Number(size), page: 1 })}
        />
      </div>
    </div>
  )
}

function formatOrder(order: string): string {
  const { path, isDescending } = parseOrder(order)
  return isDescending ? t().descending(path) : t().ascending(path)
}

function OrderNotice(props: {
  list: ItemList
  indexes: DatabaseIndexes
  count: number | null
  ms: number | null
}): JSX.Element | null {
  const { list, ...others } = props
  if (list.order === null || list.order.includes(',')) return null
  return <OrderCost path={parseOrder(list.order).path} {...others} />
}

function ItemPages(props: {
  list: ItemList
  count: number | null
  hasNext: boolean
  show: (change: Partial<ItemList>) => void
}): JSX.Element | null {
  const { list, count, hasNext, show } = props
  const { page, size } = list
  if (page === 1 && !hasNext) return null
  const pages = count === null ? null : Math.max(page, Math.ceil(count / size))
  const to = (target: number, isPossible: boolean) =>
    isPossible ? () => show({ page: target }) : null
  return (
    <Pages
      back={[
        [t().firstPage, to(1, page > 1)],
        [t().previous, to(page - 1, page > 1)],
      ]}
      forward={[
        [t().next, to(page + 1, hasNext)],
        [t().lastPage, to(pages ?? page, pages !== null && page < pages)],
      ]}
    >
      <JumpForm
        label={pages === null ? t().pageNumber(page) : t().pageOfPages(page, pages)}
        button={t().goToPage}
        start={`${page}`}
        inputMode="numeric"
        pattern="[1-9][0-9]{0,5}"
        required
        go={(text) => show({ page: Number(text) })}
      />
    </Pages>
  )
}

function formatEmpty({ page, where }: ItemList, past: number | null): string {
  if (page > 1) return t().noSuchPage(page)
  if (where !== null) return t().noMatches
  return past === null ? t().noItems : t().noItemsThen
}

const NEW_ITEM = '{\n  "name": ""\n}'

function NewItem({ db, ...ends }: DialogEnds & { db: string }): JSX.Element {
  const [text, setText] = useState(NEW_ITEM)
  const checked = parseItem(text, null)
  const isValid = 'item' in checked
  const add = async () => {
    const { id } = await ledger.database<object>(db).create(isValid ? checked.item : {})
    return t().itemAdded(id)
  }
  const [title, submitText] = [t().addItem, t().create]
  return (
    <Dialog
      {...{ title, submitText, ...ends }}
      wide
      disabled={!isValid}
      isChanged={text !== NEW_ITEM}
      act={add}
    >
      <ItemEditor text={text} id={null} change={setText} />
    </Dialog>
  )
}
