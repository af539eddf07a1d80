import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import type { TypedValue, ValueType } from '../text/conditions.ts'
import { Choice, Field } from './layout.tsx'

/** Fields for a value and its type. */
export function TypedField(props: {
  value: TypedValue
  types: readonly ValueType[]
  isWrong: boolean
  change: (changed: Partial<TypedValue>) => void
}): JSX.Element {
  const { value, types, isWrong, change } = props
  const { type, text } = value
  const choose = (chosen: string) => {
    const type = types.find((one) => one === chosen) ?? 'text'
    change({ type, ...(type === 'boolean' && text !== 'false' ? { text: 'true' } : {}) })
  }
  return (
    <>
      <Choice
        label={t().valueType}
        value={type}
        options={types.map((one) => [one, t().valueTypes[one]])}
        choose={choose}
      />
      {type === 'boolean' ? (
        <Choice
          label={t().value}
          value={text}
          options={['true', 'false'].map((one) => [one, one])}
          choose={(chosen) => change({ text: chosen })}
        />
      ) : (
        <Field
          label={t().value}
          value={type === 'null' ? '' : text}
          disabled={type === 'null'}
          {...(isWrong ? { 'aria-invalid': true } : {})}
          {...(type === 'list' ? { placeholder: '["a", 2]' } : {})}
          change={(typed) => change({ text: typed })}
        />
      )}
    </>
  )
}
