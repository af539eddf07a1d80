import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Json, JsonObject } from '../../../base/json.ts'
import { visible } from '../../../base/visible.js'
import type { ChangeInput } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { type BatchReport, recordBatches } from '../node/batches.ts'
import { saveFile } from '../node/files.ts'
import { ledger } from '../node/ledger.ts'
import { readMatchingIds, toFilter } from '../node/matches.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { ShortJson } from '../parts/json.tsx'
import { Button, Field, ReasonField } from '../parts/layout.tsx'
import { Notice } from '../parts/notices.tsx'
import { TypedField } from '../parts/typed-field.tsx'
import { parseTyped, type TypedValue } from '../text/conditions.ts'
import { findDifferences } from '../text/json.ts'
import { findMember, type ListedItem, nodePath, parseMemberPath } from '../text/table.ts'

/** The chosen items of a database: those of the page by their ids, or all that match. */
export interface ItemSelection {
  readonly db: string
  /** The selected items by id; null if all items that match are selected. */
  readonly items: ReadonlyMap<string, ListedItem> | null
  /** Conditions as JSON, or null for all items. */
  readonly where: string | null
  readonly count: number
}

/** Yields the ids of the selected items: at most as many as the user has confirmed, even if more match by now. */
async function* selectedIds(selection: ItemSelection, signal: AbortSignal): AsyncGenerator<string> {
  const { db, items, where, count } = selection
  if (items !== null) yield* items.keys()
  else yield* readMatchingIds({ db, where, signal, limit: count })
}

/** Buttons for the selected items. */
export function SelectionBar(props: {
  selection: ItemSelection
  /** Number of all matching items, or null if it is not known. */
  matches: number | null
  page: readonly ListedItem[]
  choose: (items: ItemSelection['items']) => void
  ask: (asked: 'patch-many' | 'delete-many') => void
}): JSX.Element {
  const { selection, matches, page, choose, ask } = props
  const { count, items } = selection
  const selectPage = () =>
    choose(new Map([...(items ?? []), ...page.map((one) => [one.id, one] as const)]))
  return (
    <div class="buttons selection">
      <span class="soft" role="status">
        {t().selected(count)}
      </span>
      <Button text={t().selectPage} class="plain" act={selectPage} />
      {matches !== null && items !== null && (
        <Button text={t().selectMatches(matches)} class="plain" act={() => choose(null)} />
      )}
      {count > 0 && (
        <>
          <Button text={t().clear} class="plain" act={() => choose(new Map())} />
          <Button text={t().changeMember} act={() => ask('patch-many')} />
          <Button text={t().deleteSelected} act={() => ask('delete-many')} />
        </>
      )}
    </div>
  )
}

/** Result of a change of many items, with the reasons why the node has refused some of them. */
export interface ManyReport extends BatchReport {
  readonly text: string
}

interface ManyEnds extends DialogEnds {
  readonly selection: ItemSelection
  readonly report: (report: ManyReport) => void
}

/** A change of many items in batches, each of which is one unit of work. Closing the dialog ends the change. */
function useMany({ selection, report }: Pick<ManyEnds, 'selection' | 'report'>) {
  const [done, setDone] = useState<number | null>(null)
  const [reason, setReason] = useState('')
  const stop = useRef(new AbortController())
  useEffect(() => () => stop.current.abort(), [])
  const { signal } = stop.current
  return {
    run: async (
      change: (id: string) => ChangeInput,
      format: (recorded: number, refused: number) => string,
    ): Promise<string> => {
      async function* changes() {
        for await (const id of selectedIds(selection, signal)) yield { change: change(id) }
      }
      let last: BatchReport = { recorded: 0, refused: [] }
      const progress = (report: BatchReport) => {
        last = report
        setDone(report.recorded + report.refused.length)
      }
      const ended = await recordBatches(changes(), { signal, progress, reason }).catch(
        (error: unknown) => {
          if (signal.aborted) return last
          throw error
        },
      )
      const text = format(ended.recorded, ended.refused.length)
      report({ ...ended, text })
      return text
    },
    fields: (
      <>
        <ReasonField reason={reason} change={setReason} />
        {done !== null && (
          <p role="status">
            <progress
              value={done}
              max={Math.max(selection.count, 1)}
              aria-label={t().items(selection.count)}
            />{' '}
            {t().doneItems(done)}
          </p>
        )}
      </>
    ),
  }
}

/** Maximum number of refused items that are shown. The saved report has all of them. */
const REFUSED_SHOWN_MAX = 20

/** Lists the items that the node has refused to change. */
export function RefusedItems({
  report,
  close,
}: {
  report: ManyReport
  close: () => void
}): JSX.Element {
  const refused = report.refused.map(({ change: { change }, ...why }) => {
    const id = 'item' in change ? change.item.id : 'id' in change ? change.id : ''
    return { id: String(id), ...why }
  })
  const save = () =>
    saveFile('refused.ndjson', refused.map((one) => `${JSON.stringify(one)}\n`).join(''))
  return (
    <Notice title={report.text} isMild>
      <ul class="refused">
        {refused.slice(0, REFUSED_SHOWN_MAX).map(({ id, reason }) => (
          <li key={id}>
            {visible(id)}: {visible(reason)}
          </li>
        ))}
      </ul>
      <Button text={t().saveAs('NDJSON')} act={save} />{' '}
      <Button text={t().hide} class="plain" act={close} />
    </Notice>
  )
}

export function DeleteMany({ selection: first, report, ...ends }: ManyEnds): JSX.Element {
  // The items that the user confirms, also if others match by now.
  const [selection] = useState(first)
  const { db, count } = selection
  const { run, fields } = useMany({ selection, report })
  const remove = () => run((id) => ({ method: 'delete_item', db, id }), t().manyDeleted)
  const [title, submitText] = [t().deleteMany(count), t().delete]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove} confirm={db}>
      <p>{t().deleteManyMeans}</p>
      {fields}
    </Dialog>
  )
}

/** Returns a merge patch (RFC 7396) that gives the member at `path` the value. */
function toPatch(path: string, value: Json): JsonObject {
  const [first = '', ...others] = parseMemberPath(path)
  return { [first]: others.reduceRight<Json>((inner, name) => ({ [name]: inner }), value) }
}

function differs(one: unknown, other: unknown): boolean {
  return findDifferences(one, other).length > 0
}

/** Returns those of the selected items whose member at `path` differs from `value`; for null, which removes it, that have it. */
function selectDifferent(selection: ItemSelection, path: string, value: Json): ItemSelection {
  if (selection.items !== null) {
    const different = [...selection.items].filter(([, item]) => {
      const member = findMember(item, path)
      return member === undefined ? value !== null : value === null || differs(member, value)
    })
    return { ...selection, items: new Map(different), count: different.length }
  }
  const queried = nodePath(path)
  if (queried === null) return selection
  const others = { [queried]: value === null ? { exists: true } : { neq: value } }
  const { filter } = toFilter(selection.where)
  const where = filter === undefined ? others : { and: [filter.where, others] }
  return { ...selection, where: JSON.stringify(where) }
}

async function countSelected({ db, items, where }: ItemSelection, signal: AbortSignal) {
  return items?.size ?? (await ledger.database(db).count({ ...toFilter(where), signal }))
}

const TYPES = ['text', 'number', 'boolean', 'null'] as const

/** Asks for a member and its value, and changes it in the selected items. */
export function PatchMany({ selection: first, report, ...ends }: ManyEnds): JSX.Element {
  const [selection] = useState(first)
  const { db, count } = selection
  const [path, setPath] = useState('')
  const [typed, setTyped] = useState<TypedValue>({ type: 'text', text: '' })
  const value = parseTyped(typed)
  const [name] = parseMemberPath(path)
  const isReady = name !== undefined && name !== 'id' && value !== undefined
  const different = isReady ? selectDifferent(selection, path, value) : selection
  const { run, fields } = useMany({ selection: different, report })
  const key = isReady ? JSON.stringify([path, value]) : ''
  const [counted] = useLoaded(key, async (stop) =>
    isReady ? countSelected(different, stop) : null,
  )
  const change = () => {
    const patch = toPatch(path, value ?? null)
    return run((id) => ({ method: 'patch_item', db, item: { ...patch, id } }), t().manyChanged)
  }
  const [title, submitText] = [t().changeMany(count), t().change]
  return (
    <Dialog {...{ title, submitText, ...ends }} disabled={!isReady} act={change}>
      <Field
        label={t().member}
        placeholder={t().memberHint}
        spellcheck={false}
        value={path}
        change={setPath}
      />
      <TypedField
        types={TYPES}
        value={typed}
        isWrong={value === undefined}
        change={(changed) => setTyped({ ...typed, ...changed })}
      />
      {isReady && counted.state === 'loaded' && counted.value !== null && (
        <p role="status">
          {t().dryCount(counted.value, count)} <ShortJson value={toPatch(path, value)} />
        </p>
      )}
      {value === null && <p>{t().nullRemoves}</p>}
      <small>{t().changeManyMeans}</small>
      {fields}
    </Dialog>
  )
}
