import { signal } from '@preact/signals'

/** A view of the page. It is stored in the fragment of the URL, so that links and “back” work. */
export type Route =
  | { readonly view: 'databases' }
  | { readonly view: 'items'; readonly db: string }
  | { readonly view: 'item'; readonly db: string; readonly id: string }
  | { readonly view: 'ledger'; readonly height: number | null }
  | { readonly view: 'verification' }
  | { readonly view: 'node' }

const FIRST: Route = { view: 'databases' }

export function hrefOf(route: Route): string {
  switch (route.view) {
    case 'databases':
      return '#/'
    case 'items':
      return `#/db/${encodeURIComponent(route.db)}`
    case 'item':
      return `#/db/${encodeURIComponent(route.db)}/${encodeURIComponent(route.id)}`
    case 'ledger':
      return route.height === null ? '#/ledger' : `#/ledger/${route.height}`
    case 'verification':
      return '#/verify'
    case 'node':
      return '#/node'
  }
}

/** Parses the fragment `hash`; an unknown fragment shows the databases. */
function parseRoute(hash: string): Route {
  const [, view = '', first = '', second] = hash.split('/').map(decoded)
  if (view === 'db' && first !== '') {
    return second === undefined
      ? { view: 'items', db: first }
      : { view: 'item', db: first, id: second }
  }
  if (view === 'ledger')
    return { view: 'ledger', height: /^\d{1,15}$/.test(first) ? Number(first) : null }
  if (view === 'verify') return { view: 'verification' }
  if (view === 'node') return { view: 'node' }
  return FIRST
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}

/** The current view. */
export const route = signal<Route>(FIRST)

/** Updates `route` whenever the address changes. */
export function followAddress(): void {
  const follow = () => {
    route.value = parseRoute(location.hash)
  }
  addEventListener('hashchange', follow)
  follow()
}

export function goTo(to: Route): void {
  location.hash = hrefOf(to)
}
