import { signal } from '@preact/signals'

/** A view of the page. It is stored in the fragment of the URL, so that links and “back” work. */
export type Place =
  | { readonly view: 'databases' }
  | { readonly view: 'items'; readonly db: string }
  | { readonly view: 'item'; readonly db: string; readonly id: string }
  | { readonly view: 'ledger'; readonly height: number | null }
  | { readonly view: 'verification' }
  | { readonly view: 'node' }

const FIRST: Place = { view: 'databases' }

export function hrefOf(place: Place): string {
  switch (place.view) {
    case 'databases':
      return '#/'
    case 'items':
      return `#/db/${encodeURIComponent(place.db)}`
    case 'item':
      return `#/db/${encodeURIComponent(place.db)}/${encodeURIComponent(place.id)}`
    case 'ledger':
      return place.height === null ? '#/ledger' : `#/ledger/${place.height}`
    case 'verification':
      return '#/verify'
    case 'node':
      return '#/node'
  }
}

/** Parses the fragment `hash`; an unknown fragment shows the databases. */
function placeOf(hash: string): Place {
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
export const place = signal<Place>(FIRST)

/** Updates `place` whenever the address changes. */
export function followAddress(): void {
  const follow = () => {
    place.value = placeOf(location.hash)
  }
  addEventListener('hashchange', follow)
  follow()
}

export function goTo(to: Place): void {
  location.hash = hrefOf(to)
}
