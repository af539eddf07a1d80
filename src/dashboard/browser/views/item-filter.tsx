import type { JSX } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { Button, Choice, Field } from '../parts/layout.tsx'
import { TypedField } from '../parts/typed-field.tsx'
import {
  type Conditions,
  type FormCondition,
  formatWhere,
  OPERATORS,
  type Operator,
  parseConditions,
  parseTyped,
  toTyped,
} from '../text/conditions.ts'
import { findMember, type ListedItem, memberPaths, nodePath } from '../text/table.ts'

const EMPTY: FormCondition = { member: '', operator: 'eq', type: 'text', text: '' }
const PATHS_MAX = 200

interface FilterState {
  /** Null if the filter is edited as JSON. */
  readonly form: Conditions | null
  readonly json: string
}

function toState(where: string | null): FilterState {
  const form = where === null ? { isAny: false, list: [EMPTY] } : parseConditions(where)
  return { form, json: where ?? '' }
}

/** A form for the conditions of a filter. Calls `apply` with the conditions as JSON, or with null for all items. */
export function ItemFilter(props: {
  /** The applied conditions. */
  where: string | null
  /** Items from which the form takes members and types. */
  items: readonly ListedItem[]
  apply: (where: string | null) => void
}): JSX.Element {
  const { items, apply } = props
  const [state, setState] = useState(() => toState(props.where))
  const { form, json } = state
  const where = form === null ? (json.trim() === '' ? null : json) : formatWhere(form)
  // Other conditions come from the address, for example after “back”.
  useEffect(() => {
    if (props.where !== where) setState(toState(props.where))
  }, [props.where])
  const asJson = () => setState({ form: null, json: where ?? '' })
  const asForm = () => setState({ ...toState(json.trim() === '' ? null : json), json })
  const isShown = form !== null || json.trim() === '' || parseConditions(json) !== null
  return (
    <details class="filter" open={props.where !== null}>
      <summary>{t().filter}</summary>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (where !== undefined) apply(where)
        }}
        onReset={() => {
          setState(toState(null))
          apply(null)
        }}
      >
        <div class="tabs">
          <Button text={t().form} aria-pressed={form !== null} disabled={!isShown} act={asForm} />
          <Button text={t().asJson} aria-pressed={form === null} act={asJson} />
        </div>
        {form === null ? (
          <Field
            label={t().filterAsJson}
            class="mono"
            placeholder={t().filterAsJsonHint}
            value={json}
            change={(text) => setState({ form, json: text })}
          />
        ) : (
          <ConditionList
            {...{ form, items }}
            change={(changed) => setState({ form: { ...form, ...changed }, json })}
          />
        )}
        <div class="buttons">
          <button type="reset" class="secondary">
            {t().clear}
          </button>
          <button type="submit" disabled={where === undefined}>
            {t().show}
          </button>
        </div>
      </form>
    </details>
  )
}

function ConditionList(props: {
  form: Conditions
  items: readonly ListedItem[]
  change: (changed: Partial<Conditions>) => void
}): JSX.Element {
  const { form, items, change } = props
  const listId = useId()
  const paths = memberPaths(items).flatMap((path) => nodePath(path) ?? [])
  const replace = (at: number, ...list: readonly FormCondition[]) =>
    change({ list: form.list.toSpliced(at, 1, ...list) })
  return (
    <>
      <datalist id={listId}>
        {paths.slice(0, PATHS_MAX).map((path) => (
          <option key={path} value={path} label={visible(path)} />
        ))}
      </datalist>
      {form.list.map((condition, at) => (
        <ConditionRow
          key={at}
          {...{ condition, listId, items }}
          change={(changed) => replace(at, { ...condition, ...changed })}
          remove={form.list.length > 1 ? () => replace(at) : null}
        />
      ))}
      <div class="inline">
        <Button text={t().addCondition} act={() => change({ list: [...form.list, EMPTY] })} />
        {form.list.length > 1 && (
          <Choice
            label={t().conditionsHold}
            value={form.isAny ? 'any' : 'all'}
            options={[
              ['all', t().allHold],
              ['any', t().anyHolds],
            ]}
            choose={(chosen) => change({ isAny: chosen === 'any' })}
          />
        )}
      </div>
    </>
  )
}

function ConditionRow(props: {
  condition: FormCondition
  listId: string
  items: readonly ListedItem[]
  change: (changed: Partial<FormCondition>) => void
  remove: (() => void) | null
}): JSX.Element {
  const { condition, listId, items, change, remove } = props
  const { member, operator } = condition
  const types = OPERATORS[operator]
  const withType = (chosen: Operator) => {
    const allowed = OPERATORS[chosen]
    const [first = 'text'] = allowed
    const type = allowed.includes(condition.type) ? condition.type : first
    return { operator: chosen, type, text: chosen === 'exists' ? 'true' : condition.text }
  }
  /** Takes the type of the value from the first item that has the member. */
  const withMember = (path: string) => {
    const values = items.map((item) => findMember(item, path))
    const { type } = toTyped(values.find((value) => value !== undefined && value !== null) ?? '')
    if (!types.includes(type)) return { member: path }
    return { member: path, type, ...(type === 'boolean' ? { text: 'true' } : {}) }
  }
  return (
    <fieldset class="fields">
      <legend class="for-readers">{t().condition}</legend>
      <Field
        label={t().member}
        list={listId}
        placeholder={t().memberHint}
        spellcheck={false}
        value={member}
        change={(path) => change(withMember(path))}
      />
      <Choice
        label={t().operator}
        value={operator}
        options={Object.keys(OPERATORS).map((one) => [one, t().operators[one as Operator]])}
        choose={(chosen) => change(withType(chosen as Operator))}
      />
      <TypedField
        {...{ types, change }}
        value={condition}
        isWrong={member !== '' && parseTyped(condition) === undefined}
      />
      {remove !== null && <Button text={t().remove} subject={member} act={remove} />}
    </fieldset>
  )
}
