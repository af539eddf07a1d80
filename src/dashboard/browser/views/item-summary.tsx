import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { formatNumber, t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { COUNT_PAUSE_MS, useChanges } from '../node/live.ts'
import { useLoaded } from '../parts/hooks.ts'
import { toShort } from '../parts/json.tsx'
import { Choice } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { Table } from '../parts/table.tsx'
import { type ListedItem, memberPaths, nodePath, PATHS_SHOWN_MAX } from '../text/table.ts'

const SHOWN_MAX = 100
const VALUES = ['sum', 'avg', 'min', 'max'] as const

interface Source {
  readonly db: string
  /** Conditions as JSON, or null for all items. */
  readonly where: string | null
  /** Height of the state, or null for the current state. */
  readonly past: number | null
}

/** Groups the matching items by up to two members. Shows the count of each group, and sums of another member. */
export function ItemSummary(props: Source & { items: readonly ListedItem[] }): JSX.Element {
  const [isOpen, setOpen] = useState(false)
  const [first, setFirst] = useState('')
  const [second, setSecond] = useState('')
  const [of, setOf] = useState('')
  const none = ['', t().none] as const
  const paths = memberPaths(props.items).flatMap((path): (readonly [string, string])[] => {
    const queried = nodePath(path)
    return queried === null ? [] : [[queried, visible(path)]]
  })
  const options = [none, ...paths.slice(0, PATHS_SHOWN_MAX)]
  // The API rejects a path that is given twice.
  const group = [...new Set([first, second])].filter((path) => path !== '')
  return (
    <details class="filter" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{t().summary}</summary>
      {isOpen && (
        <>
          <div class="inline">
            <Choice label={t().groupBy} value={first} options={options} choose={setFirst} />
            <Choice label={t().thenBy} value={second} options={options} choose={setSecond} />
            <Choice label={t().valuesOf} value={of} options={options} choose={setOf} />
          </div>
          {paths.length > PATHS_SHOWN_MAX && <p class="soft">{t().firstOnly(PATHS_SHOWN_MAX)}</p>}
          <Groups db={props.db} where={props.where} past={props.past} {...{ group, of }} />
        </>
      )}
    </details>
  )
}

function Groups(props: Source & { group: readonly string[]; of: string }): JSX.Element {
  const { db, where, past, group, of } = props
  const [loaded, reload] = useLoaded(JSON.stringify(props), (signal) => {
    const query = {
      db,
      ...(group.length === 0 ? {} : { group: group.join(',') }),
      ...(of === '' ? {} : { sum: of, avg: of, min: of, max: of }),
      ...(where === null ? {} : { filter: `{"where":${where}}` }),
      ...(past === null ? {} : { at: `${past}` }),
    }
    return ledger.request('GET /api/config/aggregate', { query }, { signal })
  })
  useChanges(({ entry }) => past === null && entry.db === db, reload, COUNT_PAUSE_MS)
  const values = of === '' ? [] : VALUES
  return (
    <Waiting loaded={loaded} again={reload}>
      {({ groups }) => (
        <>
          <Table
            class="columns summary"
            headings={group.length}
            columns={[
              ...group.map(visible),
              t().count,
              ...values.map((name) => t().values[name]),
            ].map((head) => ({ head, label: head }))}
            rows={groups
              .slice(0, SHOWN_MAX)
              .map((one, at) => [
                at,
                ...group.map((path) => toCell(one.group[path])),
                formatNumber(one.count),
                ...values.map((name) => toCell(one[name]?.[of])),
              ])}
          />
          {groups.length > SHOWN_MAX && <p class="soft">{t().firstOnly(SHOWN_MAX)}</p>}
        </>
      )}
    </Waiting>
  )
}

function toCell(value: unknown): ComponentChildren {
  return typeof value === 'number' ? formatNumber(value) : toShort(value ?? null)
}
