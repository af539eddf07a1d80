import type { JSX } from 'preact'
import { useId } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { useLoaded } from './hooks.ts'
import { Field } from './layout.tsx'

/** A field for the name of a database, or an empty text for all databases. Calls `type` on every input, and `choose` at its end. */
export function DatabaseField(props: {
  value: string
  type?: (db: string) => void
  choose?: (db: string) => void
}): JSX.Element {
  const [databases, reload] = useLoaded('names', (signal) => ledger.databases({ signal }))
  useChanges(({ entry }) => entry.method === 'create_db', reload)
  const listId = useId()
  const names = databases.state === 'loaded' ? databases.value : []
  return (
    <>
      <Field
        label={t().database}
        list={listId}
        placeholder={t().all}
        value={props.value}
        change={(db) => props.type?.(db)}
        onChange={({ currentTarget }) => props.choose?.(currentTarget.value)}
      />
      <datalist id={listId}>
        {names.slice(0, 200).map((name) => (
          <option key={name} value={name} label={visible(name)} />
        ))}
      </datalist>
    </>
  )
}
