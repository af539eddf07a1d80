import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { saveFile } from '../node/files.ts'
import { CopyButton, ShortJson, toShort } from '../parts/json.tsx'
import { Button } from '../parts/layout.tsx'
import { Table } from '../parts/table.tsx'
import { formatRoute } from '../routing/routes.ts'
import {
  csvColumns,
  findMember,
  formatCsv,
  formatNdjson,
  type ListedItem,
  memberPaths,
  PATHS_SHOWN_MAX,
} from '../text/table.ts'

interface Shown {
  readonly db: string
  readonly items: readonly ListedItem[]
  readonly columns: readonly string[]
}

/** A table of the items of a page, with the chosen members as columns, or with each item as JSON. */
export function ItemTable(props: Shown & { remove: (id: string) => void }): JSX.Element {
  const { db, items, columns, remove } = props
  const isJson = columns.length === 0
  return (
    <Table
      class={isJson ? '' : 'columns'}
      headings={1}
      columns={[
        { head: t().id },
        ...(isJson ? [{ head: t().content }] : []),
        ...columns.map((path) => ({ head: path, label: path })),
        { head: <span class="for-readers">{t().actions}</span> },
      ]}
      rows={items.map(({ id, ...members }) => [
        id,
        <a href={formatRoute({ view: 'item', db, id })}>{id}</a>,
        ...(isJson ? [<ShortJson value={members} />] : []),
        ...columns.map((path) => {
          const value = findMember({ id, ...members }, path)
          return value === undefined ? null : toShort(value)
        }),
        <Button text={t().delete} subject={id} act={() => remove(id)} />,
      ])}
    />
  )
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
      <summary>{t().columns}</summary>
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
            {path}
          </label>
        ))}
      </fieldset>
      {paths.length > PATHS_SHOWN_MAX && <p class="soft">{t().firstOnly(PATHS_SHOWN_MAX)}</p>}
      <small>{t().columnsHint}</small>
    </details>
  )
}

/** Copies and saves the items of a page. */
export function ItemExport({ db, items, columns }: Shown): JSX.Element {
  const inCsv = csvColumns(items, columns)
  const save = (format: string, type: string, text: () => string) => (
    <Button
      text={t().saveAs(format)}
      class="plain"
      act={() => saveFile(`${db}.${format.toLowerCase()}`, text(), type)}
    />
  )
  return (
    <div class="buttons export">
      <span class="soft">{t().shownItems(items.length)}</span>
      {inCsv === null ? (
        <span class="soft">{t().tooManyCells}</span>
      ) : (
        <>
          <CopyButton text={() => formatCsv(items, inCsv, '\t')} label={t().table} />
          {save('CSV', 'text/csv', () => formatCsv(items, inCsv))}
        </>
      )}
      {save('NDJSON', 'application/x-ndjson', () => formatNdjson(items, columns))}
    </div>
  )
}
