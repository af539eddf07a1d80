import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import type { Operations } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { DatabaseField } from '../parts/database-field.tsx'
import { useLoaded } from '../parts/hooks.ts'
import { Button, Details, ViewHead } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { readState, StateFields } from '../parts/time-field.tsx'
import { goTo } from '../routing/address.ts'
import { type ChangesRoute, changesAt, formatRoute, itemAt } from '../routing/routes.ts'
import { DifferenceList } from './item-history.tsx'

const DIFF = 'GET /api/config/diff'
type Differences = Operations[typeof DIFF]['reply']
type ItemChange = Differences['changes'][number]

/** Maximum number of items that are read, so that a reply is parsed in milliseconds. */
const READ_MAX = 10_000
/** Number of items that are shown at first, and that each click adds. */
const STEP = 100

/** Lists the items that were created, changed or deleted between two states. */
export function ChangesView({ now }: { now: ChangesRoute }): JSX.Element {
  const [db, setDb] = useState(now.db)
  // Another address, for example after “back”.
  useEffect(() => setDb(now.db), [now.db])
  return (
    <>
      <ViewHead title={t().changes} text={t().changesAre} />
      <form
        key={formatRoute(now)}
        class="inline wrapping tools"
        onSubmit={(event) => {
          event.preventDefault()
          const { currentTarget: form } = event
          goTo(changesAt({ db, from: readState(form, 'from'), to: readState(form, 'to') }))
        }}
      >
        <DatabaseField value={db} type={setDb} />
        <StateFields label={t().timeLimits.from} name="from" state={now.from} />
        <StateFields label={t().untilNow} name="to" state={now.to} />
        <button type="submit">{t().show}</button>
      </form>
      {now.from === '' ? (
        <p class="empty">{t().chooseFrom}</p>
      ) : (
        <DifferenceResult key={formatRoute(now)} {...now} />
      )}
    </>
  )
}

function DifferenceResult({ db, from, to }: ChangesRoute): JSX.Element {
  const [count, setCount] = useState(STEP)
  const [loaded, reload] = useLoaded(JSON.stringify([db, from, to]), (signal) => {
    const chosen = { ...(db === '' ? {} : { db }), ...(to === '' ? {} : { to }) }
    return ledger.request(DIFF, { query: { from, limit: READ_MAX, ...chosen } }, { signal })
  })
  return (
    <Waiting loaded={loaded} again={reload}>
      {({ changes, from, to, more }) => {
        const number = (kind: ItemChange['change']) =>
          changes.filter(({ change }) => change === kind).length
        return (
          <>
            <p role="status">
              {t().changesFound(number('created'), number('updated'), number('deleted'))}{' '}
              <span class="soft">{t().betweenBlocks(from, to)}</span>
              {more === true && <strong> {t().firstOnly(READ_MAX)}</strong>}
            </p>
            <ul class="rows">
              {changes.slice(0, count).map((change) => (
                <ChangeRow key={JSON.stringify([change.db, change.id])} {...{ change, from, to }} />
              ))}
            </ul>
            {changes.length > count && (
              <Button text={t().more(changes.length - count)} act={() => setCount(count + STEP)} />
            )}
          </>
        )
      }}
    </Waiting>
  )
}

interface States {
  readonly change: ItemChange
  readonly from: number
  readonly to: number
}

function ChangeRow({ change: found, from, to }: States): JSX.Element {
  const { db, id, change } = found
  const at = change === 'deleted' ? from : to
  return (
    <li class="change">
      <span class={`method ${METHODS[change]}`}>{t().methods[METHODS[change]]}</span>{' '}
      <span class="where">
        {visible(db)} <span aria-hidden>›</span>{' '}
        <a href={formatRoute(itemAt(db, id, `${at}`))}>{visible(id)}</a>
      </span>
      <Details summary={t().differences}>
        {() => <BeforeAndAfter {...{ change: found, from, to }} />}
      </Details>
    </li>
  )
}

const METHODS = { created: 'create_item', updated: 'update_item', deleted: 'delete_item' } as const

function BeforeAndAfter({ change: { db, id, change }, from, to }: States): JSX.Element {
  const [loaded, reload] = useLoaded(JSON.stringify([db, id, from, to]), async (signal) => {
    const items = ledger.database(db)
    const [before, after] = await Promise.all([
      change === 'created' ? null : items.read(id, { at: from, signal }),
      change === 'deleted' ? null : items.read(id, { at: to, signal }),
    ])
    return { before: before?.item ?? {}, after: after?.item ?? {} }
  })
  return (
    <Waiting loaded={loaded} again={reload}>
      {(states) => <DifferenceList {...states} />}
    </Waiting>
  )
}
