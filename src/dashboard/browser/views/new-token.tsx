import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { CopyButton } from '../parts/json.tsx'
import { Button, Choice, Field } from '../parts/layout.tsx'
import { Notice } from '../parts/notices.tsx'
import { useUnsaved } from '../routing/unsaved.ts'

const DAY_SECONDS = 86_400
const DAYS = [1, 7, 30, 90, 366] as const
const LEVELS = ['read', 'write', 'admin'] as const
const NODE_SCOPES = ['ledger:read', 'node:metrics', 'node:sync', 'node:admin'] as const

/** A level of access to a database; `db` is empty for every database. */
interface DatabaseRight {
  readonly db: string
  readonly level: string
}

/** A token that was created. The node does not store it. */
export interface CreatedToken {
  readonly subject: string
  readonly token: string
}

function formatScope({ db, level }: DatabaseRight): string {
  return `db:${db === '' ? '*' : encodeURIComponent(db).replaceAll('*', '%2A')}:${level}`
}

/** Asks for the owner, the rights and the lifetime of a new token. */
export function NewToken({
  created,
  ...ends
}: DialogEnds & { created: (token: CreatedToken) => void }): JSX.Element {
  const [subject, setSubject] = useState('')
  const [days, setDays] = useState('30')
  const [rights, setRights] = useState<readonly DatabaseRight[]>([{ db: '', level: 'read' }])
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [names] = useLoaded('database names', (signal) => ledger.databases({ signal }))
  const scopes = [...rights.map(formatScope), ...chosen]
  const create = async () => {
    const body = { subject, scopes, life_seconds: Number(days) * DAY_SECONDS }
    const { token } = await ledger.request('POST /api/config/tokens', { body })
    created({ subject, token })
    return t().tokenCreated(subject)
  }
  const set = (at: number, changed: Partial<DatabaseRight>) =>
    setRights(rights.map((one, index) => (index === at ? { ...one, ...changed } : one)))
  const toggle = (scope: string) => setChosen(new Set([scope]).symmetricDifference(chosen))
  const isDisabled = subject === '' || scopes.length === 0
  const [title, submitText] = [t().newToken, t().create]
  const databases = names.state === 'loaded' ? names.value : []
  return (
    <Dialog {...{ title, submitText, ...ends }} disabled={isDisabled} act={create}>
      <Field label={t().tokenSubject} value={subject} change={setSubject} />
      <Choice
        label={t().lifetime}
        value={days}
        options={DAYS.map((one) => [`${one}`, t().days(one)])}
        choose={setDays}
      />
      {rights.map((right, at) => (
        <div key={at} class="fields">
          <Choice
            label={t().database}
            value={right.db}
            options={[
              ['', t().everyDatabase],
              ...databases.map((db) => [db, visible(db)] as const),
            ]}
            choose={(db) => set(at, { db })}
          />
          <Choice
            label={t().access}
            value={right.level}
            options={LEVELS.map((level) => [level, t().levels[level]])}
            choose={(level) => set(at, { level })}
          />
          <Button
            text={t().remove}
            subject={right.db === '' ? t().everyDatabase : right.db}
            act={() => setRights(rights.toSpliced(at, 1))}
          />
        </div>
      ))}
      <Button
        text={t().anotherDatabase}
        class="plain"
        act={() => setRights([...rights, { db: '', level: 'read' }])}
      />
      {NODE_SCOPES.map((scope) => (
        <label key={scope}>
          <input type="checkbox" checked={chosen.has(scope)} onChange={() => toggle(scope)} />
          {t().nodeScopes[scope]} <code>{scope}</code>
        </label>
      ))}
      <small>{t().newTokenMeans}</small>
    </Dialog>
  )
}

/** Shows a created token until the user hides it. Leaving the view would lose the token. */
export function CreatedTokenNotice(props: {
  created: CreatedToken
  close: () => void
}): JSX.Element {
  const { subject, token } = props.created
  useUnsaved(true)
  return (
    <Notice title={t().tokenTitle(subject)} isMild>
      {t().tokenOnce} <code class="name">{token}</code>{' '}
      <CopyButton text={token} label={t().tokenTitle(subject)} />{' '}
      <Button text={t().hide} class="plain" act={props.close} />
    </Notice>
  )
}
