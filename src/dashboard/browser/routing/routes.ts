/** The part of a database that a list shows. */
export interface ItemList {
  /** Page number, starting with 1. */
  readonly page: number
  /** Items per page, one of PAGE_SIZES. */
  readonly size: number
  /** Conditions as JSON, or null for all items. */
  readonly where: string | null
  /** The order, for example `price DESC`, or null for the order of creation. */
  readonly order: string | null
  /** Paths of the members that are shown as columns. If it is empty, each item is shown as JSON. */
  readonly columns: readonly string[]
}

/** A view of the page. The fragment of the URL contains the view, so that links, “back” and “reload” work. */
export type Route =
  | { readonly view: 'databases' }
  | { readonly view: 'items'; readonly db: string; readonly list: ItemList }
  | { readonly view: 'item'; readonly db: string; readonly id: string }
  | LedgerRoute
  | { readonly view: 'verification' }
  | { readonly view: 'node' }
  /** The fragment of the URL belongs to no view. */
  | { readonly view: 'unknown'; readonly hash: string }

interface LedgerRoute {
  readonly view: 'ledger'
  /** Height of the first shown block, or null for the newest block. */
  readonly height: number | null
  /** Database of the shown entries, or empty for all databases. */
  readonly db: string
  /** Method of the shown entries, or empty for all methods. */
  readonly method: string
}

export const PAGE_SIZES: readonly number[] = [50, 200, 1_000]
/** Maximum page number. A larger number makes the route unknown. */
const PAGE_MAX = 1_000_000
/** The view of a URL without a fragment. */
export const FIRST: Route = { view: 'databases' }
const FIRST_PAGE: ItemList = {
  page: 1,
  size: PAGE_SIZES[0] ?? 50,
  where: null,
  order: null,
  columns: [],
}

/** Returns the route to the items of a database. Absent members of `list` have their defaults. */
export function itemsOf(db: string, list: Partial<ItemList> = {}): Route {
  return { view: 'items', db, list: { ...FIRST_PAGE, ...list } }
}

/** Returns the route to the blocks of the chain from `height` on. */
export function ledgerAt(height: number | null): LedgerRoute {
  return { view: 'ledger', height, db: '', method: '' }
}

export function hrefOf(route: Route): string {
  switch (route.view) {
    case 'databases':
      return '#/'
    case 'items':
      return `#/db/${encodeURIComponent(route.db)}${queryOf(route.list)}`
    case 'item':
      return `#/db/${encodeURIComponent(route.db)}/${encodeURIComponent(route.id)}`
    case 'ledger': {
      const path = route.height === null ? '#/ledger' : `#/ledger/${route.height}`
      return path + queryText({ db: [route.db], method: [route.method] })
    }
    case 'verification':
      return '#/verify'
    case 'node':
      return '#/node'
    case 'unknown':
      return route.hash
  }
}

function queryOf({ page, size, where, order, columns }: ItemList): string {
  return queryText({
    where: [where ?? ''],
    order: [order ?? ''],
    column: columns,
    size: [size === FIRST_PAGE.size ? '' : `${size}`],
    page: [page === 1 ? '' : `${page}`],
  })
}

/** Returns a query with the values that are not empty. */
function queryText(values: Readonly<Record<string, readonly string[]>>): string {
  const pairs = Object.entries(values).flatMap(([name, texts]) =>
    texts.filter((text) => text !== '').map((text): [string, string] => [name, text]),
  )
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

/** Parses the fragment of a URL, including `#`. */
export function parseRoute(hash: string): Route {
  const unknown = { view: 'unknown', hash } as const
  const at = hash.indexOf('?')
  const path = at === -1 ? hash : hash.slice(0, at)
  const query = new URLSearchParams(at === -1 ? '' : hash.slice(at + 1))
  const [start, view = '', first = null, second = null, ...more] = path.split('/').map(decoded)
  if (more.length > 0 || (start !== '#' && start !== '')) return unknown
  switch (view) {
    case '':
      return first === null ? FIRST : unknown
    case 'db': {
      if (first === null || first === '') return unknown
      if (second !== null) return { view: 'item', db: first, id: second }
      const list = listIn(query)
      return list === null ? unknown : { view: 'items', db: first, list }
    }
    case 'ledger': {
      if (second !== null || (first !== null && !/^\d{1,15}$/.test(first))) return unknown
      const height = first === null ? null : Number(first)
      return {
        view: 'ledger',
        height,
        db: query.get('db') ?? '',
        method: query.get('method') ?? '',
      }
    }
    case 'verify':
      return first === null ? { view: 'verification' } : unknown
    case 'node':
      return first === null ? { view: 'node' } : unknown
    default:
      return unknown
  }
}

/** Parses the query of a list of items. Returns null if the page or the size is out of range. */
function listIn(query: URLSearchParams): ItemList | null {
  const page = Number(query.get('page') ?? FIRST_PAGE.page)
  const size = Number(query.get('size') ?? FIRST_PAGE.size)
  if (!Number.isInteger(page) || page < 1 || page > PAGE_MAX) return null
  if (!PAGE_SIZES.includes(size)) return null
  const columns = [...new Set(query.getAll('column'))]
  return { page, size, where: query.get('where'), order: query.get('order'), columns }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}
