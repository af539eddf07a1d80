import type { JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useChanges } from '../node/live.ts'
import { Dialog } from '../parts/dialog.tsx'
import { useAction, useLoaded } from '../parts/hooks.ts'
import { Field, ViewHead } from '../parts/layout.tsx'
import { showMessage, Waiting } from '../parts/notices.tsx'
import { goTo, hrefOf } from '../routes.ts'

/** Maximum number of names shown; the others can be searched for. */
const SHOWN_MAX = 200

/** Lists the databases, and lets the user open, create and delete them. */
export function Databases(): JSX.Element {
  const [loaded, reload] = useLoaded('databases', (signal) => ledger.databases({ signal }))
  const [asking, setAsking] = useState<'new' | { readonly delete: string } | null>(null)
  const isOfDatabases = (method: string) => method === 'create_db' || method === 'delete_db'
  useChanges(({ entry }) => isOfDatabases(entry.method), reload)
  const close = () => setAsking(null)
  return (
    <>
      <ViewHead title={t().databases} text={t().databasesAre}>
        <button type="button" onClick={() => setAsking('new')}>
          {t().newDatabase}
        </button>
      </ViewHead>
      <Waiting loaded={loaded} again={reload}>
        {(names) =>
          names.length === 0 ? (
            <p class="empty">{t().noDatabases}</p>
          ) : (
            <NameList names={names} remove={(db) => setAsking({ delete: db })} />
          )
        }
      </Waiting>
      {asking === 'new' && <NewDatabase close={close} done={reload} />}
      {asking !== null && asking !== 'new' && (
        <DeleteDatabase db={asking.delete} close={close} done={reload} />
      )}
    </>
  )
}

function NameList(props: { names: readonly string[]; remove: (db: string) => void }): JSX.Element {
  const [wanted, setWanted] = useState('')
  const found = props.names.filter((name) => name.includes(wanted))
  return (
    <>
      {props.names.length > 20 && (
        <input
          type="search"
          aria-label={t().filter}
          placeholder={t().filter}
          value={wanted}
          onInput={({ currentTarget }) => setWanted(currentTarget.value)}
        />
      )}
      <ul class="rows">
        {found.slice(0, SHOWN_MAX).map((db) => (
          <li key={db}>
            <a href={hrefOf({ view: 'items', db })}>{db}</a>
            <button
              type="button"
              class="secondary small"
              aria-label={`${t().delete}: ${db}`}
              onClick={() => props.remove(db)}
            >
              {t().delete}
            </button>
          </li>
        ))}
      </ul>
      {found.length > SHOWN_MAX && <p>{t().more(found.length - SHOWN_MAX)}</p>}
    </>
  )
}

function NewDatabase(props: { close: () => void; done: () => void }): JSX.Element {
  const [name, setName] = useState('')
  const action = useAction()
  const hintId = useId()
  const create = async () => {
    if (!(await action.run(() => ledger.createDatabase(name)))) return
    props.close()
    props.done()
    showMessage(t().databaseCreated(name))
    goTo({ view: 'items', db: name })
  }
  return (
    <Dialog
      title={t().newDatabase}
      submitText={t().create}
      disabled={name === ''}
      close={props.close}
      submit={() => void create()}
      {...action}
    >
      <Field label={t().name} aria-describedby={hintId} value={name} change={setName} />
      <small id={hintId}>{t().nameHint}</small>
    </Dialog>
  )
}

function DeleteDatabase(props: { db: string; close: () => void; done: () => void }): JSX.Element {
  const [typed, setTyped] = useState('')
  const action = useAction()
  const remove = async () => {
    if (!(await action.run(() => ledger.deleteDatabase(props.db)))) return
    props.close()
    props.done()
    showMessage(t().databaseDeleted(props.db))
  }
  return (
    <Dialog
      title={t().deleteDatabase(props.db)}
      submitText={t().delete}
      danger
      disabled={typed !== props.db}
      close={props.close}
      submit={() => void remove()}
      {...action}
    >
      <p>{t().deleteDatabaseMeans}</p>
      <Field label={t().typeName(props.db)} spellcheck={false} value={typed} change={setTyped} />
    </Dialog>
  )
}
