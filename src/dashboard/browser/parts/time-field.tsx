import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { Field } from './layout.tsx'

/** A field for a time of RFC 3339, or an empty text, in the time zone of the browser. */
export function TimeField(props: {
  label: string
  time: string
  change: (time: string) => void
}): JSX.Element {
  const { label, time, change } = props
  return (
    <Field
      label={label}
      type="datetime-local"
      step="1"
      value={formatLocal(time)}
      onChange={({ currentTarget }) => change(parseLocal(currentTarget.value))}
    />
  )
}

/** Fields of a form for a state: a time, or the height of a block. `readState` returns the chosen state. */
export function StateFields(props: { label: string; name: string; state: string }): JSX.Element {
  const { label, name, state } = props
  const isHeight = /^\d+$/.test(state)
  const [time, height] = [`${name}-time`, `${name}-height`]
  return (
    <fieldset class="inline state-fields">
      <legend class="for-readers">{label}</legend>
      <Field
        label={label}
        type="datetime-local"
        step="1"
        name={time}
        defaultValue={isHeight ? '' : formatLocal(state)}
        onInput={({ currentTarget }) => empty(currentTarget.form, height)}
      />
      <Field
        label={t().orHeight}
        inputMode="numeric"
        pattern="[0-9]{1,15}"
        size={9}
        name={height}
        defaultValue={isHeight ? state : ''}
        onInput={({ currentTarget }) => empty(currentTarget.form, time)}
      />
    </fieldset>
  )
}

function empty(form: HTMLFormElement | null, name: string): void {
  const field = form?.elements.namedItem(name)
  if (field instanceof HTMLInputElement) field.value = ''
}

/** Returns the state of `StateFields` as a height or a time of RFC 3339, or an empty text. */
export function readState(form: HTMLFormElement, name: string): string {
  const values = new FormData(form)
  const height = `${values.get(`${name}-height`) ?? ''}`
  return height === '' ? parseLocal(`${values.get(`${name}-time`) ?? ''}`) : height
}

function formatLocal(time: string): string {
  const ms = Date.parse(time)
  if (Number.isNaN(ms)) return ''
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

/** Returns a time of RFC 3339, or an empty text for no time, or a year of five digits. */
function parseLocal(value: string): string {
  const ms = Date.parse(value)
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString()
}
