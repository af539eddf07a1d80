import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { chooseLanguage, LANGUAGE_NAMES, language, t } from './language/language.ts'
import { sessionState } from './node/ledger.ts'
import { isLive } from './node/live.ts'
import { Message } from './parts/notices.tsx'
import { hrefOf, type Route, route } from './routes.ts'
import { Databases } from './views/databases.tsx'
import { Item } from './views/item.tsx'
import { Items } from './views/items.tsx'
import { Ledger } from './views/ledger.tsx'
import { Alerts, Node } from './views/node.tsx'
import { VerificationView } from './views/verification.tsx'

export function App(): JSX.Element {
  const main = useRef<HTMLElement>(null)
  const now = route.value
  const address = hrefOf(now)
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${titleOf(now)} · daicho`
    // Moves the focus of keyboard and screen reader into the new view.
    if (!isFirst.current) main.current?.focus({ preventScroll: true })
    isFirst.current = false
    scrollTo(0, 0)
  }, [address, language.value])
  return (
    <>
      <PageHead now={now} skip={() => main.current?.focus()} />
      <main ref={main} class="container" tabIndex={-1}>
        <Alerts />
        <Message />
        {/* The search in the ledger is kept when only the height changes. */}
        <View key={now.view === 'ledger' ? now.view : address} now={now} />
      </main>
    </>
  )
}

function View({ now }: { now: Route }): JSX.Element {
  switch (now.view) {
    case 'databases':
      return <Databases />
    case 'items':
      return <Items db={now.db} />
    case 'item':
      return <Item db={now.db} id={now.id} />
    case 'ledger':
      return <Ledger height={now.height} />
    case 'verification':
      return <VerificationView />
    case 'node':
      return <Node />
  }
}

const TABS: readonly { readonly to: Route; readonly views: readonly Route['view'][] }[] = [
  { to: { view: 'databases' }, views: ['databases', 'items', 'item'] },
  { to: { view: 'ledger', height: null }, views: ['ledger'] },
  { to: { view: 'verification' }, views: ['verification'] },
  { to: { view: 'node' }, views: ['node'] },
]

function PageHead({ now, skip }: { now: Route; skip: () => void }): JSX.Element {
  return (
    <header class="page-head">
      <a class="skip" href={hrefOf(now)} onClick={skip}>
        {t().skip}
      </a>
      <div class="container">
        <a class="brand" href={hrefOf({ view: 'databases' })}>
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
                  href={hrefOf(to)}
                  {...(views.includes(now.view) ? { 'aria-current': 'page' as const } : {})}
                >
                  {titleOf(to)}
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

function titleOf(of: Route): string {
  switch (of.view) {
    case 'databases':
      return t().databases
    case 'items':
      return of.db
    case 'item':
      return of.id
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
      {LANGUAGE_NAMES.map(([tag, name]) => (
        <option key={tag} value={tag} lang={tag}>
          {name}
        </option>
      ))}
    </select>
  )
}
