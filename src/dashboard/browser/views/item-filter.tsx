import type { JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { type Operator, simpleWhere } from '../json/simple-where.ts'
import { t } from '../language/language.ts'

const OPERATORS: readonly Operator[] = [
  ...(['eq', 'neq', 'gt', 'gte', 'lt', 'lte'] as const),
  ...(['like', 'regexp', 'exists'] as const),
]

/** Builds a filter of items; `apply` gets its JSON text, or null for none. */
export function ItemFilter(props: { apply: (filter: string | null) => void }): JSX.Element {
  const [member, setMember] = useState('')
  const [operator, setOperator] = useState<Operator>('eq')
  const [value, setValue] = useState('')
  const [json, setJson] = useState('')
  const [memberId, operatorId, valueId, jsonId] = [useId(), useId(), useId(), useId()]
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
          <div>
            <label for={memberId}>{t().member}</label>
            <input
              id={memberId}
              placeholder={t().memberHint}
              autocomplete="off"
              autocapitalize="off"
              value={member}
              onInput={({ currentTarget }) => setMember(currentTarget.value)}
            />
          </div>
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
          <div>
            <label for={valueId}>{t().value}</label>
            <input
              id={valueId}
              autocomplete="off"
              autocapitalize="off"
              value={value}
              onInput={({ currentTarget }) => setValue(currentTarget.value)}
            />
          </div>
        </div>
        <label for={jsonId}>{t().filterAsJson}</label>
        <input
          id={jsonId}
          class="mono"
          placeholder={t().filterAsJsonHint}
          autocomplete="off"
          autocapitalize="off"
          value={json}
          onInput={({ currentTarget }) => setJson(currentTarget.value)}
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
