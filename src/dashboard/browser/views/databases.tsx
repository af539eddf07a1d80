import type { JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { ClientError } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { COUNT_PAUSE_MS, useChanges } from '../node/live.ts'
import { Dialog, type DialogEnds } from '../parts/dialog.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { Button, Field, Trail, ViewHead } from '../parts/layout.tsx'
import { useNetworks } from '../parts/networks.ts'
import { Waiting } from '../parts/notices.tsx'
import { goTo } from '../routing/address.ts'
import { formatRoute, itemsAt, toState } from '../routing/routes.ts'
import { PastForm } from './past.tsx'

/** Maximum number of names shown. The user can search for other names. */
const SHOWN_MAX = 200

interface CountedDatabase {
  readonly name: string
  /** Number of items, or null if counting failed, for example because it took too long. */
  readonly items: number | null
}

async function countedDatabases(
  past: number | null,
  signal: AbortSignal,
): Promise<readonly CountedDatabase[]> {
  const at = past === null ? {} : { at: `${past}` }
  try {
    const query = { count: 'true' as const, ...at }
    const { dbs, counts } = await ledger.request('GET /api/dbs', { query }, { signal })
    return dbs.map((name, at) => ({ name, items: counts?.[at] ?? null }))
  } catch (error) {
    if (!(error instanceof ClientError) || !error.code.startsWith('SEARCH_')) throw error
    const names = await ledger.databases({ signal, ...at })
    return names.map((name) => ({ name, items: null }))
  }
}

/** Lists the databases, and lets the user open, create and delete them, or shows those of a past height. */
export function Databases({ past }: { past: number | null }): JSX.Element {
  const [loaded, reload] = useLoaded(`databases ${past}`, (signal) =>
    countedDatabases(past, signal),
  )
  const [wanted, setWanted] = useState('')
  const [asking, setAsking] = useState<'new' | { readonly delete: string } | null>(null)
  const isOfDatabases = (method: string) => method === 'create_db' || method === 'delete_db'
  const isOfItems = (method: string) => method === 'create_item' || method === 'delete_item'
  useChanges(({ entry }) => isOfDatabases(entry.method), reload)
  useChanges(({ entry }) => isOfItems(entry.method), reload, COUNT_PAUSE_MS)
  const close = () => setAsking(null)
  return (
    <>
      <ViewHead title={t().databases} text={t().databasesAre}>
        {past === null && <Button text={t().newDatabase} class="" act={() => setAsking('new')} />}
      </ViewHead>
      <PastForm />
      <Waiting loaded={loaded} again={reload}>
        {(databases) =>
          databases.length === 0 ? (
            <p class="empty">{past === null ? t().noDatabases : t().noDatabasesThen}</p>
          ) : (
            <DatabaseList
              {...{ databases, past, wanted, setWanted }}
              remove={(db) => setAsking({ delete: db })}
            />
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

/** Tells that a database does not exist, or did not exist at a past height. */
export function NoDatabase({ db, past }: { db: string; past: number | null }): JSX.Element {
  return (
    <>
      <Trail past={past} />
      <ViewHead title={db} />
      <p class="empty">{past === null ? t().databaseGone : t().notThen}</p>
      <PastForm />
    </>
  )
}

function DatabaseList(props: {
  databases: readonly CountedDatabase[]
  past: number | null
  /** The text that the names of the shown databases contain. */
  wanted: string
  setWanted: (wanted: string) => void
  remove: (db: string) => void
}): JSX.Element {
  const { past, wanted, setWanted } = props
  const found = props.databases.filter(({ name }) => name.includes(wanted))
  const networks = useNetworks(found.slice(0, SHOWN_MAX).map(({ name }) => name))
  return (
    <>
      {props.databases.length > 20 && (
        <input
          type="search"
          aria-label={t().filter}
          placeholder={t().filter}
          value={wanted}
          onInput={({ currentTarget }) => setWanted(currentTarget.value)}
        />
      )}
      <ul class="rows">
        {found.slice(0, SHOWN_MAX).map(({ name: db, items }) => (
          <li key={db}>
            <a href={formatRoute(itemsAt(db, { at: toState(past) }))}>{visible(db)}</a>
            {items !== null && <span class="soft">{t().items(items)}</span>}
            {networks.has(db) ? (
              <span class="state">{t().network}</span>
            ) : (
              past === null && (
                <Button text={t().delete} subject={db} act={() => props.remove(db)} />
              )
            )}
          </li>
        ))}
      </ul>
      {found.length > SHOWN_MAX && <p>{t().more(found.length - SHOWN_MAX)}</p>}
    </>
  )
}

function NewDatabase({ close, done }: DialogEnds): JSX.Element {
  const [name, setName] = useState('')
  const hintId = useId()
  const create = async () => {
    await ledger.createDatabase(name)
    return t().databaseCreated(name)
  }
  const show = () => {
    done()
    goTo(itemsAt(name))
  }
  return (
    <Dialog
      title={t().newDatabase}
      submitText={t().create}
      disabled={name === ''}
      act={create}
      close={close}
      done={show}
    >
      <Field label={t().name} aria-describedby={hintId} value={name} change={setName} />
      <small id={hintId}>{t().nameHint}</small>
    </Dialog>
  )
}

function DeleteDatabase({ db, ...ends }: DialogEnds & { db: string }): JSX.Element {
  const remove = async () => {
    await ledger.deleteDatabase(db)
    return t().databaseDeleted(db)
  }
  const [title, submitText] = [t().deleteDatabase(db), t().delete]
  return (
    <Dialog {...{ title, submitText, ...ends }} danger act={remove} confirm={db}>
      <p>{t().deleteDatabaseMeans}</p>
    </Dialog>
  )
}
