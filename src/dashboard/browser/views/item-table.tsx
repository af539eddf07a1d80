import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { exportCsv, exportNdjson } from '../node/export.ts'
import { saveFile } from '../node/files.ts'
import { useAction } from '../parts/hooks.ts'
import { CopyButton, ShortJson, toShort } from '../parts/json.tsx'
import { Button } from '../parts/layout.tsx'
import { FailureNotice } from '../parts/notices.tsx'
import { Table, type TableColumn } from '../parts/table.tsx'
import { formatRoute, itemAt, toState } from '../routing/routes.ts'
import {
  findMember,
  formatCsv,
  type ListedItem,
  memberPaths,
  nodePath,
  PATHS_SHOWN_MAX,
} from '../text/table.ts'

interface Shown {
  readonly db: string
  /** Height of the state that is shown, or null for the current state. */
  readonly past: number | null
  readonly items: readonly ListedItem[]
  readonly columns: readonly string[]
}

/** A table of the items of a page, with the chosen members as columns, or with each item as JSON. */
export function ItemTable(
  props: Shown & {
    order: string | null
    sort: (order: string | null) => void
    /** The selected items by their ids; null if all matching items are selected. */
    selected: ReadonlyMap<string, ListedItem> | null
    choose: (items: ReadonlyMap<string, ListedItem>) => void
    /** Null if the items cannot be changed here. */
    remove: ((id: string) => void) | null
  },
): JSX.Element {
  const { db, past, items, columns, order, sort, selected, choose, remove } = props
  const select = (item: ListedItem, isSelected: boolean) => {
    const others = [...(selected ?? [])].filter(([id]) => id !== item.id)
    choose(new Map(isSelected ? [...others, [item.id, item]] : others))
  }
  const isJson = columns.length === 0
  const { label: _, ...idColumn } = sortable('id', t().id, order, sort)
  return (
    <Table
      class={isJson ? '' : 'columns'}
      headings={1}
      columns={[
        idColumn,
        ...(isJson ? [{ head: t().content }] : []),
        ...columns.map((path) => sortable(path, visible(path), order, sort)),
        { head: <span class="for-readers">{t().actions}</span> },
      ]}
      rows={items.map(({ id, ...members }) => [
        id,
        <>
          {remove !== null && (
            <input
              type="checkbox"
              aria-label={`${t().select}: ${visible(id)}`}
              checked={selected === null || selected.has(id)}
              disabled={selected === null}
              onChange={({ currentTarget }) => select({ id, ...members }, currentTarget.checked)}
            />
          )}{' '}
          <a href={formatRoute(itemAt(db, id, toState(past)))}>{visible(id)}</a>
        </>,
        ...(isJson ? [<ShortJson value={members} />] : []),
        ...columns.map((path) => {
          const value = findMember({ id, ...members }, path)
          return value === undefined ? null : toShort(value)
        }),
        remove && <Button text={t().delete} subject={id} act={() => remove(id)} />,
      ])}
    />
  )
}

/** Returns a column whose head sorts by the member at `path`: upwards, downwards, then not at all. */
function sortable(
  path: string,
  label: string,
  order: string | null,
  sort: (order: string | null) => void,
): TableColumn {
  const queried = nodePath(path)
  if (queried === null) return { head: label, label }
  const at = [`${queried} ASC`, `${queried} DESC`].indexOf(order ?? '')
  const next = at === -1 ? `${queried} ASC` : at === 0 ? `${queried} DESC` : null
  const direction = (['ascending', 'descending'] as const)[at] ?? 'none'
  return {
    head: <Button text={label} class={`plain sort ${direction}`} act={() => sort(next)} />,
    label,
    sort: direction,
  }
}

/** Lets the user choose the members that are shown as columns. */
export function ColumnChoice(props: {
  items: readonly ListedItem[]
  columns: readonly string[]
  choose: (columns: readonly string[]) => void
}): JSX.Element {
  const { items, columns, choose } = props
  const paths = [...new Set([...columns, ...memberPaths(items)])]
  return (
    <details class="filter">
      <summary>
        {t().columns} <span class="soft">{t().columnsShown(columns.length, paths.length)}</span>
      </summary>
      <fieldset class="choices">
        <legend class="for-readers">{t().columns}</legend>
        {paths.slice(0, PATHS_SHOWN_MAX).map((path) => (
          <label key={path}>
            <input
              type="checkbox"
              checked={columns.includes(path)}
              onChange={({ currentTarget }) => {
                const others = columns.filter((column) => column !== path)
                choose(currentTarget.checked ? [...others, path] : others)
              }}
            />
            {visible(path)}
          </label>
        ))}
      </fieldset>
      {paths.length > PATHS_SHOWN_MAX && <p class="soft">{t().firstOnly(PATHS_SHOWN_MAX)}</p>}
      <small>{t().columnsHint}</small>
    </details>
  )
}

/** Copies the items of the page, and saves all matching items. Stays while another page is loaded, which must not end an export. */
export function ItemExport(props: Shown & { where: string | null }): JSX.Element {
  const { db, past, items, columns, where } = props
  const action = useAction()
  const [done, setDone] = useState(0)
  const stop = useRef(new AbortController())
  useEffect(() => () => stop.current.abort(), [])
  const save = (format: string, read: typeof exportCsv) => (
    <Button
      text={t().saveAs(format)}
      class="plain"
      disabled={action.busy}
      act={() =>
        action.run(async () => {
          setDone(0)
          const { signal } = stop.current
          const matches = { db, where, signal, ...(past === null ? {} : { at: past }) }
          const content = await read(matches, setDone)
          saveFile(`${db}.${format.toLowerCase()}`, content)
        })
      }
    />
  )
  return (
    <div class="buttons export">
      <span class="soft">{t().shownItems(items.length)}</span>
      <CopyButton text={() => formatCsv(items, columns, '\t')} label={t().table} />
      <span class="soft">{t().allMatches}</span>
      {save('CSV', exportCsv)}
      {save('NDJSON', exportNdjson)}
      {action.busy && <span role="status">{t().doneItems(done)}</span>}
      {action.error !== undefined && <FailureNotice error={action.error} />}
    </div>
  )
}
