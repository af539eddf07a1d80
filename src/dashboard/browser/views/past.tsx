import type { JSX } from 'preact'
import { formatTime, t } from '../language/language.ts'
import { ledger } from '../node/ledger.ts'
import { useLoaded } from '../parts/hooks.ts'
import { Button } from '../parts/layout.tsx'
import { Waiting } from '../parts/notices.tsx'
import { readState, StateFields } from '../parts/time-field.tsx'
import { goTo, route } from '../routing/address.ts'
import { changesAt, formatRoute, type Route } from '../routing/routes.ts'

/** Returns the height of the state `at`, a height or a time. Errors: ClientError. */
async function readHeight(at: string, signal: AbortSignal): Promise<number> {
  const { at: height } = await ledger.request('GET /api/dbs', { query: { at } }, { signal })
  return height ?? Number(at)
}

/** Shows the current state with `children`, or a past state as the past. */
export function Past(props: {
  at: string | null
  children: (past: number | null) => JSX.Element
}): JSX.Element {
  const { at, children } = props
  return at === null ? children(null) : <PastState at={at}>{children}</PastState>
}

function PastState(props: { at: string; children: (past: number) => JSX.Element }): JSX.Element {
  const { at, children } = props
  const [loaded, reload] = useLoaded(`height ${at}`, (signal) => readHeight(at, signal))
  const height = loaded.state === 'loaded' ? loaded.value : null
  const now = route.value
  const db = 'db' in now ? now.db : ''
  return (
    <>
      <div class="notice past" role="status">
        <p>
          <strong>{t().past}</strong>{' '}
          {/^\d+$/.test(at) ? t().block(Number(at)) : formatTime(Date.parse(at))}
          {height !== null && `${height}` !== at && ` (${t().block(height)})`} · {t().pastMeans}
        </p>
        <div class="buttons">
          <a href={formatRoute(changesAt({ db, from: at }))}>{t().changesSince}</a>
          <Button text={t().backToNow} class="small" act={() => goTo(atState(now, null))} />
        </div>
      </div>
      <Waiting loaded={loaded} again={reload}>
        {children}
      </Waiting>
    </>
  )
}

/** A form that leads to a past state of the current view, and to the changes. */
export function PastForm(): JSX.Element {
  const now = route.value
  const at = shownState(now)
  const db = 'db' in now ? now.db : ''
  return (
    <details class="filter">
      <summary>{t().pastForm}</summary>
      <form
        key={at}
        class="inline wrapping"
        onSubmit={(event) => {
          event.preventDefault()
          goTo(atState(now, readState(event.currentTarget, 'at')))
        }}
      >
        <StateFields label={t().asOf} name="at" state={at ?? ''} />
        <button type="submit" class="secondary">
          {t().show}
        </button>
      </form>
      <p>
        <a href={formatRoute(changesAt({ db, from: at ?? '' }))}>{t().changes}</a>
      </p>
    </details>
  )
}

/** Returns the state that a view shows, or null for the current state. */
function shownState(now: Route): string | null {
  if (now.view === 'items') return now.list.at
  return now.view === 'item' || now.view === 'databases' ? now.at : null
}

/** Returns the same view in another state, or in the current one for null or an empty text. */
function atState(now: Route, state: string | null): Route {
  const at = state === '' ? null : state
  if (now.view === 'items') return { ...now, list: { ...now.list, at, page: 1 } }
  return now.view === 'item' || now.view === 'databases' ? { ...now, at } : now
}
