import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { Choice, Field } from '../parts/layout.tsx'
import { type Operator, toWhere } from '../text/json.ts'

const OPERATORS: readonly Operator[] = [
  ...(['eq', 'neq', 'gt', 'gte', 'lt', 'lte'] as const),
  ...(['like', 'regexp', 'exists'] as const),
]

const EMPTY = { member: '', operator: 'eq' as Operator, value: '', json: '' }

/** A form for the conditions of a filter. Calls `apply` with the conditions as JSON, or with null for all items. */
export function ItemFilter(props: {
  /** The applied conditions. */
  where: string | null
  apply: (where: string | null) => void
}): JSX.Element {
  const [fields, setFields] = useState(EMPTY)
  const set = (changed: Partial<typeof EMPTY>) => setFields({ ...fields, ...changed })
  const { member, operator, value, json } = fields
  const where = json.trim() === '' ? toWhere(member, operator, value) : json
  // Conditions from the address, for example after “back”, are shown as JSON.
  useEffect(() => {
    if (props.where !== where) set({ member: '', value: '', json: props.where ?? '' })
  }, [props.where])
  return (
    <details class="filter" open={props.where !== null}>
      <summary>{t().filter}</summary>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          props.apply(where)
        }}
        onReset={() => {
          setFields(EMPTY)
          props.apply(null)
        }}
      >
        <div class="fields">
          <Field
            label={t().member}
            placeholder={t().memberHint}
            value={member}
            change={(text) => set({ member: text })}
          />
          <Choice
            label={t().condition}
            value={operator}
            options={OPERATORS.map((one) => [one, t().operators[one]])}
            choose={(chosen) => set({ operator: OPERATORS.find((one) => one === chosen) ?? 'eq' })}
          />
          <Field label={t().value} value={value} change={(text) => set({ value: text })} />
        </div>
        <Field
          label={t().filterAsJson}
          class="mono"
          placeholder={t().filterAsJsonHint}
          value={json}
          change={(text) => set({ json: text })}
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
