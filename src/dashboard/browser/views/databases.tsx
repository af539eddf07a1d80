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
import { formatRoute, itemsAt } from '../routing/routes.ts'

/** Maximum number of names shown. The user can search for other names. */
const SHOWN_MAX = 200

interface CountedDatabase {
  readonly name: string
  /** Number of items, or null if counting failed, for example because it took too long. */
  readonly items: number | null
}

async function countedDatabases(signal: AbortSignal): Promise<readonly CountedDatabase[]> {
  try {
    const query = { count: 'true' as const }
    const { dbs, counts } = await ledger.request('GET /api/dbs', { query }, { signal })
    return dbs.map((name, at) => ({ name, items: counts?.[at] ?? null }))
  } catch (error) {
    if (!(error instanceof ClientError) || !error.code.startsWith('SEARCH_')) throw error
    const names = await ledger.databases({ signal })
    return names.map((name) => ({ name, items: null }))
  }
}

/** Lists the databases, and lets the user open, create and delete them. */
export function Databases(): JSX.Element {
  const [loaded, reload] = useLoaded('databases', countedDatabases)
  const [asking, setAsking] = useState<'new' | { readonly delete: string } | null>(null)
  const isOfDatabases = (method: string) => method === 'create_db' || method === 'delete_db'
  const isOfItems = (method: string) => method === 'create_item' || method === 'delete_item'
  useChanges(({ entry }) => isOfDatabases(entry.method), reload)
  useChanges(({ entry }) => isOfItems(entry.method), reload, COUNT_PAUSE_MS)
  const close = () => setAsking(null)
  return (
    <>
      <ViewHead title={t().databases} text={t().databasesAre}>
        <Button text={t().newDatabase} class="" act={() => setAsking('new')} />
      </ViewHead>
      <Waiting loaded={loaded} again={reload}>
        {(databases) =>
          databases.length === 0 ? (
            <p class="empty">{t().noDatabases}</p>
          ) : (
            <DatabaseList databases={databases} remove={(db) => setAsking({ delete: db })} />
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

/** Tells that a database does not exist. */
export function NoDatabase({ db }: { db: string }): JSX.Element {
  return (
    <>
      <Trail />
      <ViewHead title={db} />
      <p class="empty">{t().databaseGone}</p>
    </>
  )
}

function DatabaseList(props: {
  databases: readonly CountedDatabase[]
  remove: (db: string) => void
}): JSX.Element {
  const [wanted, setWanted] = useState('')
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
            <a href={formatRoute(itemsAt(db))}>{visible(db)}</a>
            {items !== null && <span class="soft">{t().items(items)}</span>}
            {networks.has(db) ? (
              <span class="state">{t().network}</span>
            ) : (
              <Button text={t().delete} subject={db} act={() => props.remove(db)} />
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
