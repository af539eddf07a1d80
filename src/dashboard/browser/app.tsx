import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { visible } from '../../base/visible.js'
import { chooseLanguage, LANGUAGES, language, t } from './language/language.ts'
import { sessionState } from './node/ledger.ts'
import { isLive } from './node/live.ts'
import { ViewHead } from './parts/layout.tsx'
import { Message } from './parts/notices.tsx'
import { route } from './routing/address.ts'
import { databasesAt, formatRoute, itemsAt, ledgerAt, type Route } from './routing/routes.ts'
import { restoreScroll } from './routing/scroll.ts'
import { ChangesView } from './views/changes.tsx'
import { Databases } from './views/databases.tsx'
import { ItemView } from './views/item.tsx'
import { Items } from './views/items.tsx'
import { Ledger } from './views/ledger.tsx'
import { Alerts, Node } from './views/node.tsx'
import { Past } from './views/past.tsx'
import { VerificationView } from './views/verification.tsx'
import { VerifiedLine } from './views/verified-line.tsx'

export function App(): JSX.Element {
  const main = useRef<HTMLElement>(null)
  const now = route.value
  const address = formatRoute(now)
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${formatTitle(now)} · daicho`
    // Moves the focus into the new view, for users of keyboards and screen readers.
    if (!isFirst.current) main.current?.focus({ preventScroll: true })
    isFirst.current = false
    if (main.current !== null) restoreScroll(main.current)
  }, [address, language.value])
  return (
    <>
      <PageHead now={now} skip={() => main.current?.focus()} />
      <main ref={main} class="container" tabIndex={-1}>
        <Alerts />
        <Message />
        <VerifiedLine />
        <View key={toViewKey(now)} now={now} />
      </main>
    </>
  )
}

/** Returns the key of a view. A view keeps its state while its key is the same, for example on the next page. */
function toViewKey(now: Route): string {
  if (now.view === 'ledger') return now.view
  if (now.view === 'changes') return now.view
  return formatRoute(now.view === 'items' ? itemsAt(now.db, { at: now.list.at }) : now)
}

function View({ now }: { now: Route }): JSX.Element {
  switch (now.view) {
    case 'databases':
      return <Past at={now.at}>{(past) => <Databases past={past} />}</Past>
    case 'items': {
      const { db, list } = now
      return <Past at={list.at}>{(past) => <Items {...{ db, list, past }} />}</Past>
    }
    case 'item': {
      const { db, id, at } = now
      return <Past at={at}>{(past) => <ItemView {...{ db, id, past }} />}</Past>
    }
    case 'changes':
      return <ChangesView now={now} />
    case 'ledger':
      return <Ledger now={now} />
    case 'verification':
      return <VerificationView />
    case 'node':
      return <Node />
    case 'unknown':
      return <Unknown hash={now.hash} />
  }
}

function Unknown({ hash }: { hash: string }): JSX.Element {
  return (
    <>
      <ViewHead title={t().unknown} />
      <p>{t().unknownMeans(hash)}</p>
      <p>
        <a href={formatRoute(databasesAt())}>{t().toDatabases}</a>
      </p>
    </>
  )
}

const TABS: readonly { readonly to: Route; readonly views: readonly Route['view'][] }[] = [
  { to: databasesAt(), views: ['databases', 'items', 'item', 'changes'] },
  { to: ledgerAt(null), views: ['ledger'] },
  { to: { view: 'verification' }, views: ['verification'] },
  { to: { view: 'node' }, views: ['node'] },
]

function PageHead({ now, skip }: { now: Route; skip: () => void }): JSX.Element {
  return (
    <header class="page-head">
      <a class="skip" href={formatRoute(now)} onClick={skip}>
        {t().skip}
      </a>
      <div class="container">
        <a class="brand" href={formatRoute(databasesAt())}>
          <img
            src={new URL('../../http/layout/icon.svg', import.meta.url).href}
            alt=""
            width="28"
            height="28"
          />{' '}
          <span>daicho</span>
        </a>
        <nav aria-label={t().areas}>
          <ul>
            {TABS.map(({ to, views }) => (
              <li key={to.view}>
                <a
                  href={formatRoute(to)}
                  {...(views.includes(now.view) ? { 'aria-current': 'page' as const } : {})}
                >
                  {formatTitle(to)}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="page-state">
          <LiveMark />
          <a href="./doc">API</a>
          <LanguageSwitch />
        </div>
      </div>
    </header>
  )
}

function formatTitle(of: Route): string {
  switch (of.view) {
    case 'databases':
      return t().databases
    case 'items':
      return visible(of.db)
    case 'item':
      return visible(of.id)
    default:
      return t()[of.view]
  }
}

function LiveMark(): JSX.Element {
  const live = isLive.value && sessionState.value === 'open'
  return (
    <span class={live ? 'live on' : 'live'} title={live ? t().liveMeans : ''}>
      {live ? t().live : t().notLive}
    </span>
  )
}

function LanguageSwitch(): JSX.Element {
  return (
    <select
      class="language"
      aria-label={t().language}
      value={language.value}
      onChange={({ currentTarget }) => chooseLanguage(currentTarget.value)}
    >
      {Object.entries(LANGUAGES).map(([tag, { name }]) => (
        <option key={tag} value={tag} lang={tag}>
          {name}
        </option>
      ))}
    </select>
  )
}
