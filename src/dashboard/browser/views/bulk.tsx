import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Json, JsonObject } from '../../../base/json.ts'
import { t } from '../language/language.ts'
import { type LocatedChange, recordBatches } from '../node/batches.ts'
import { ledger } from '../node/ledger.ts'
import { readMatchingIds, toFilter } from '../node/matches.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { ShortJson } from '../parts/json.tsx'
import { Button, Field } from '../parts/layout.tsx'
import { TypedField } from '../parts/typed-field.tsx'
import { parseTyped, type TypedValue } from '../text/conditions.ts'
import { findDifferences } from '../text/json.ts'
import { findMember, type ListedItem } from '../text/table.ts'

/** The chosen items of a database: those of the page by their ids, or all that match. */
export interface ItemSelection {
  readonly db: string
  /** Null: all that match. */
  readonly items: ReadonlyMap<string, ListedItem> | null
  /** Conditions as JSON, or null for all items. */
  readonly where: string | null
  readonly count: number
}

/** Concurrent changes of single items. */
const PATCHES_MAX = 8

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
  /** The items of the page. */
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

/** The progress of a change of many items. Closing the dialog ends the change. */
function useProgress() {
  const [done, setDone] = useState<number | null>(null)
  const stop = useRef(new AbortController())
  useEffect(() => () => stop.current.abort(), [])
  return { done, setDone, signal: stop.current.signal }
}

function Progress({ done, count }: { done: number | null; count: number }): JSX.Element | null {
  if (done === null) return null
  return (
    <p role="status">
      <progress value={done} max={Math.max(count, 1)} aria-label={t().items(count)} />{' '}
      {t().doneItems(done)}
    </p>
  )
}

export function DeleteMany({
  selection,
  ...ends
}: DialogEnds & { selection: ItemSelection }): JSX.Element {
  const { db, count } = selection
  const { done, setDone, signal } = useProgress()
  const remove = async () => {
    async function* changes(): AsyncGenerator<LocatedChange> {
      for await (const id of selectedIds(selection, signal)) {
        yield { change: { method: 'delete_item', db, id } }
      }
    }
    const { recorded, refused } = await recordBatches(changes(), signal, (report) =>
      setDone(report.recorded + report.refused.length),
    )
    return t().manyDeleted(recorded, refused.length)
  }
  const [title, submitText] = [t().deleteMany(count), t().delete]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove} confirm={db}>
      <p>{t().deleteManyMeans}</p>
      <Progress done={done} count={count} />
    </Dialog>
  )
}

/** Returns a merge patch (RFC 7396) that gives the member at `path` the value. */
function toPatch(path: string, value: Json): JsonObject {
  return path
    .split('.')
    .reduceRight<Json>((inner, name) => ({ [name]: inner }), value) as JsonObject
}

/** Counts the selected items whose member at `path` differs from `value`. */
async function countDifferent(
  { db, items, where }: ItemSelection,
  path: string,
  value: Json,
  signal: AbortSignal,
): Promise<number> {
  if (items !== null) {
    const values = [...items.values()].map((item) => findMember(item, path))
    return values.filter((one) => findDifferences(one, value).length > 0).length
  }
  const differs = { [path]: { neq: value } }
  const { filter } = toFilter(where)
  const both = filter === undefined ? differs : { and: [filter.where, differs] }
  return ledger.database(db).count({ filter: { where: both }, signal })
}

const TYPES = ['text', 'number', 'boolean'] as const

/** Asks for a member and its value, and changes it in the selected items. */
export function PatchMany({
  selection,
  ...ends
}: DialogEnds & { selection: ItemSelection }): JSX.Element {
  const { db, count } = selection
  const [path, setPath] = useState('')
  const [typed, setTyped] = useState<TypedValue>({ type: 'text', text: '' })
  const { done, setDone, signal } = useProgress()
  const value = parseTyped(typed)
  const isReady = path !== '' && value !== undefined
  const key = isReady ? JSON.stringify([path, value]) : ''
  const [counted] = useLoaded(key, (stop) =>
    value === undefined || path === ''
      ? Promise.resolve(null)
      : countDifferent(selection, path, value, stop),
  )
  const change = async () => {
    const patch = toPatch(path, value ?? null)
    let [changed, finished] = [0, 0]
    const ids = selectedIds(selection, signal)
    const work = async () => {
      for await (const id of ids) {
        await ledger
          .database(db)
          .patch(id, patch, { signal })
          .then(
            () => (changed += 1),
            (error: unknown) => {
              if (Object(error).code !== 'ITEM_NOT_FOUND') throw error
            },
          )
        finished += 1
        setDone(finished)
      }
    }
    await Promise.all(Array.from({ length: PATCHES_MAX }, work))
    return t().manyChanged(changed, finished - changed)
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
      <small>{t().changeManyMeans}</small>
      <Progress done={done} count={count} />
    </Dialog>
  )
}
