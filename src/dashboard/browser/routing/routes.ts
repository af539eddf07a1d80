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
  /**
   * Paths of the members that are shown as columns. If it is empty, each item is shown as JSON. Null: the columns that
   * this browser remembers, or members of the items.
   */
  readonly columns: readonly string[] | null
  /** The state that is shown, as a height or a time of RFC 3339, or null for the current state. */
  readonly at: string | null
}

/** The views without parameters, with their paths. */
const PLAIN_VIEWS = [
  { view: 'verification', path: 'verify' },
  { view: 'node', path: 'node' },
] as const
type PlainView = (typeof PLAIN_VIEWS)[number]['view']

/** A view of the page. The fragment of the URL contains the view, so that links, “back” and “reload” work. */
export type Route =
  | { readonly view: PlainView }
  | { readonly view: 'databases'; readonly at: string | null }
  | { readonly view: 'items'; readonly db: string; readonly list: ItemList }
  | { readonly view: 'item'; readonly db: string; readonly id: string; readonly at: string | null }
  | LedgerRoute
  | ChangesRoute
  /** The fragment of the URL belongs to no view. */
  | { readonly view: 'unknown'; readonly hash: string }

export interface LedgerRoute {
  readonly view: 'ledger'
  /** Height of the first shown block, or null for the newest block. */
  readonly height: number | null
  /** Index of the entry that the page points out in the first block, or null. */
  readonly entry: number | null
  /** Database of the shown entries, or empty for all databases. */
  readonly db: string
  /** Method of the shown entries, or empty for all methods. */
  readonly method: string
  /** Author (subject) of the shown entries, or empty for all authors. */
  readonly by: string
  /** Times of RFC 3339 between which the shown entries were recorded, or empty. */
  readonly from: string
  readonly to: string
}

/** The differences between two states. */
export interface ChangesRoute {
  readonly view: 'changes'
  /** The compared database, or empty for all. */
  readonly db: string
  /** Heights or times of RFC 3339, or empty: nothing is compared yet, or with the current state. */
  readonly from: string
  readonly to: string
}

export const PAGE_SIZES: readonly [number, ...number[]] = [50, 200, 1_000]
/** Maximum page number. A larger number makes the route unknown. */
const PAGE_MAX = 1_000_000
const FIRST_PAGE: ItemList = {
  page: 1,
  size: PAGE_SIZES[0],
  where: null,
  order: null,
  columns: null,
  at: null,
}

/** Returns a height as a state of a route, or null for the current state. */
export function toState(height: number | null): string | null {
  return height === null ? null : `${height}`
}

/** Returns the route to the databases, by default in their current state. */
export function databasesAt(at: string | null = null): Route {
  return { view: 'databases', at }
}

/** Returns the route to an item, by default in its current state. */
export function itemAt(db: string, id: string, at: string | null = null): Route {
  return { view: 'item', db, id, at }
}

/** Returns the route to the items of a database. Absent members of `list` have their defaults. */
export function itemsAt(db: string, list: Partial<ItemList> = {}): Route {
  return { view: 'items', db, list: { ...FIRST_PAGE, ...list } }
}

/** Returns the member of an order with one member, and its direction. */
export function parseOrder(order: string): { path: string; isDescending: boolean } {
  return { path: order.replace(/ (?:ASC|DESC)$/, ''), isDescending: order.endsWith(' DESC') }
}

/** Returns the route to the blocks of the chain from `height` on. */
export function ledgerAt(height: number | null, entry: number | null = null): LedgerRoute {
  return { view: 'ledger', height, entry, db: '', method: '', by: '', from: '', to: '' }
}

/** Returns the route to the differences between two states. */
export function changesAt(given: Partial<ChangesRoute>): ChangesRoute {
  return { view: 'changes', db: '', from: '', to: '', ...given }
}

/** Formats a route as the fragment of a URL, including `#`. */
export function formatRoute(route: Route): string {
  switch (route.view) {
    case 'databases':
      return `#/${formatQuery({ at: [route.at ?? ''] })}`
    case 'changes': {
      const { db, from, to } = route
      return `#/changes${formatQuery({ db: [db], from: [from], to: [to] })}`
    }
    case 'items':
      return `#/db/${encodeURIComponent(route.db)}${formatList(route.list)}`
    case 'item':
      return (
        `#/db/${encodeURIComponent(route.db)}/${encodeURIComponent(route.id)}` +
        formatQuery({ at: [route.at ?? ''] })
      )
    case 'ledger': {
      const path = route.height === null ? '#/ledger' : `#/ledger/${route.height}`
      const entry = route.entry === null ? '' : `${route.entry}`
      const { db, method, by, from, to } = route
      const texts = { db, method, by, from, to, entry }
      return (
        path +
        formatQuery(Object.fromEntries(Object.entries(texts).map(([name, one]) => [name, [one]])))
      )
    }
    case 'unknown':
      return route.hash
    default:
      return `#/${PLAIN_VIEWS.find(({ view }) => view === route.view)?.path ?? ''}`
  }
}

function formatList({ page, size, where, order, columns, at }: ItemList): string {
  return formatQuery({
    where: [where ?? ''],
    order: [order ?? ''],
    column: columns ?? [],
    json: [columns?.length === 0 ? 'true' : ''],
    size: [size === FIRST_PAGE.size ? '' : `${size}`],
    page: [page === 1 ? '' : `${page}`],
    at: [at ?? ''],
  })
}

/** Formats a query with the values that are not empty. */
function formatQuery(values: Readonly<Record<string, readonly string[]>>): string {
  const pairs = Object.entries(values).flatMap(([name, texts]) =>
    texts.filter((text) => text !== '').map((text): [string, string] => [name, text]),
  )
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

/** Parses the fragment of a URL, including `#`. */
export function parseRoute(hash: string): Route {
  return findRoute(hash) ?? { view: 'unknown', hash }
}

function findRoute(hash: string): Route | null {
  const [path = '', ...rest] = hash.split('?')
  const query = new URLSearchParams(rest.join('?'))
  const [start, view = '', first = null, second = null, ...more] = path.split('/').map(decode)
  if (more.length > 0 || (start !== '#' && start !== '')) return null
  const at = parseState(query.get('at') ?? '')
  if (view === 'db' && first !== null && first !== '') {
    if (second !== null) return itemAt(first, second, at)
    const list = parseList(query)
    return list && { view: 'items', db: first, list }
  }
  if (view === 'ledger' && second === null && (first === null || /^\d{1,15}$/.test(first))) {
    const [db = '', method = '', by = '', from = '', to = ''] = [
      ...['db', 'method', 'by'].map((name) => query.get(name) ?? ''),
      ...['from', 'to'].map((name) => parseTime(query.get(name) ?? '')),
    ]
    const entry = query.get('entry')
    if (entry !== null && (first === null || !/^\d{1,4}$/.test(entry))) return null
    const height = first === null ? null : Number(first)
    return { view, height, entry: entry === null ? null : Number(entry), db, method, by, from, to }
  }
  if (view === '' && first === null) return databasesAt(at)
  if (view === 'changes' && first === null) {
    const state = (name: string) => parseState(query.get(name) ?? '') ?? ''
    return changesAt({ db: query.get('db') ?? '', from: state('from'), to: state('to') })
  }
  const plain = PLAIN_VIEWS.find((each) => first === null && each.path === view)
  return plain === undefined ? null : { view: plain.view }
}

/** Returns a time in its canonical form, or an empty text if it is none. */
function parseTime(text: string): string {
  const ms = Date.parse(text)
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString()
}

/** Returns a height, or a time in its canonical form, or null if the text is neither. */
function parseState(text: string): string | null {
  if (/^\d{1,15}$/.test(text)) return `${Number(text)}`
  const time = parseTime(text)
  return time === '' ? null : time
}

/** Parses the query of a list of items. Returns null if the page or the size is out of range. */
function parseList(query: URLSearchParams): ItemList | null {
  const page = Number(query.get('page') ?? FIRST_PAGE.page)
  const size = Number(query.get('size') ?? FIRST_PAGE.size)
  if (!Number.isInteger(page) || page < 1 || page > PAGE_MAX) return null
  if (!PAGE_SIZES.includes(size)) return null
  const chosen = [...new Set(query.getAll('column'))]
  const columns = chosen.length > 0 ? chosen : query.get('json') === 'true' ? [] : null
  const at = parseState(query.get('at') ?? '')
  return { page, size, where: query.get('where'), order: query.get('order'), columns, at }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}
