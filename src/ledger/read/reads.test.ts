import { beforeEach, expect, it, onTestFinished } from 'vitest'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../../../test/support/ledger-node.ts'

let node: LedgerNode
let folder: string
beforeEach(async () => {
  folder = temporaryFolder()
  node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', [
    { id: 'a', kind: 'apple', qty: 5, grower: { town: 'Aomori' } },
    { id: 'b', kind: 'pear', qty: 3, tags: ['soft', 'late'] },
    { id: 'c', kind: 'apple', qty: 9, grower: { town: 'Nagano' } },
    { id: 'd', kind: 'plum', qty: '5' },
  ])
})

const list = async (query: string) => {
  const { status, headers, json } = await node.send('GET', `/api/fruit?${query}`)
  return { status, plan: headers.get('query-plan'), json, items: json.items }
}
const INDEXES = '/api/config/indexes'
const indexes = async () => (await node.send('GET', INDEXES)).json.indexes
/** Waits until every index is built. */
const built = async () => {
  while ((await indexes()).some(({ state }: { state: string }) => state !== 'ready'));
}

it('accepts the filter of a list in bracket notation or as JSON, and replies in the format of lists without a filter', async () => {
  expect((await node.send('GET', '/api/fruit?filter[where][qty][lt]=9')).text).toBe(
    '{"status":true,"items":["a","b"],"limit":0,"offset":0}',
  )
  expect((await list('filter[where][qty]=5')).items).toEqual(['a', 'd'])
  const json = encodeURIComponent('{"where":{"qty":5}}')
  expect((await list(`filter=${json}`)).items).toEqual(['a'])
  expect((await list('filter[where][grower.town]=Nagano')).items).toEqual(['c'])
  expect((await list('filter[where][tags]=late')).items).toEqual(['b'])
  expect((await list('filter[where][kind][regexp]=^(apple|plum)$')).items).toEqual(['a', 'c', 'd'])
  expect((await list('filter[order]=kind%20DESC&filter[order]=qty')).items).toEqual([
    'd',
    'b',
    'a',
    'c',
  ])
  expect(
    (await list('filter[where][or][0][kind]=plum&filter[where][or][1][qty][gt]=8')).items,
  ).toEqual(['c', 'd'])
})

it('uses limit and offset of the filter instead of the parameters, and returns them in the reply', async () => {
  const { json } = await list('filter[limit]=2&filter[offset]=1&limit=9&offset=9')
  expect(json).toEqual({ status: true, items: ['b', 'c'], limit: 2, offset: 1 })
  const beside = await list('filter[where][kind]=apple&limit=1&offset=1')
  expect(beside.json).toEqual({ status: true, items: ['c'], limit: 1, offset: 1 })
})

it('`docs` returns whole items, and `fields` returns only the listed members', async () => {
  const docs = await node.send('GET', '/api/fruit?filter[where][kind]=pear&docs=true')
  expect(docs.text).toBe(
    '{"status":true,"docs":[{"id":"b","kind":"pear","qty":3,"tags":["soft","late"]}],"items":["b"],"limit":0,"offset":0}',
  )
  const fields = await node.send('GET', '/api/fruit?filter[where][kind]=apple&filter[fields]=qty')
  expect(fields.text).toBe(
    '{"status":true,"docs":[{"qty":5},{"qty":9}],"items":["a","c"],"limit":0,"offset":0}',
  )
})

it('`after` starts a filtered list after an item, but cannot be combined with `order`', async () => {
  expect((await list('filter[where][qty][gt]=1&after=a')).items).toEqual(['b', 'c'])
  expect((await list('filter[where][qty][gt]=1&after=c')).json).toEqual({
    status: true,
    items: [],
    limit: 0,
    offset: 0,
  })
  const ordered = await list('filter[order]=qty&after=a')
  expect([ordered.status, ordered.json.code]).toEqual([400, 'FILTER_AFTER_ORDER'])
  const nowhere = await list('filter[where][qty]=5&after=zz')
  expect([nowhere.status, nowhere.json.code]).toEqual([404, 'ITEM_NOT_FOUND'])
})

it.each(['', '&filter[where][id][neq]=none', '&docs=1', '&filter[fields]=id', '&count=1'])(
  'a list with %j continues after its cursor, even if the last item was deleted or created again',
  async (options) => {
    const page = async (cursor: string, limit = 2) => {
      const { items, json } = await list(`limit=${limit}&cursor=${cursor}${options}`)
      return [items, json.cursor]
    }
    expect(await page('start')).toEqual([['a', 'b'], '1.1'])
    await node.send('DELETE', '/api/fruit/b')
    expect(await page('1.1')).toEqual([['c', 'd'], '1.3'])
    await node.send('POST', '/api/fruit', { id: 'b' })
    expect(await page('1.3')).toEqual([['b'], null])
    expect(await page('1.1', 0)).toEqual([['c', 'd', 'b'], null])
    expect(await page('start&after=c')).toEqual([['d', 'b'], '3.0'])
  },
)

it('rejects a cursor that is no position, or that is combined with `after` or `order`', async () => {
  for (const cursor of ['', 'x', '1', '01.0', '1.0&after=a', '1.0&cursor=1.1']) {
    const { status, json } = await list(`cursor=${cursor}`)
    expect([cursor, status, json.code]).toEqual([cursor, 400, 'REQUEST_INVALID'])
  }
  const ordered = await list('cursor=start&filter[order]=qty')
  expect([ordered.status, ordered.json.code]).toEqual([400, 'FILTER_AFTER_ORDER'])
})

it('rejects an invalid filter with 400, a code and the path of the invalid member', async () => {
  const refused = await node.send('GET', '/api/fruit?filter[where][qty][lx]=9')
  expect(refused.status).toBe(400)
  expect(refused.json).toEqual({
    status: false,
    code: 'FILTER_UNKNOWN',
    message: expect.stringMatching(/^filter\/where\/qty\/lx: unknown operator; use eq, /),
  })
  const cases = [
    ['filter=%7B', 'FILTER_MALFORMED'],
    ['filter[limit]=0', 'FILTER_VALUE_WRONG'],
    ['filter[include]=resolve', 'FILTER_VALUE_WRONG'],
    ['filter[where][a][regexp]=(', 'FILTER_PATTERN_WRONG'],
    ['filter[order]=a;DROP', 'taken'],
    [`filter[where][${encodeURIComponent("x') OR 1=1 --")}]=1`, 'taken'],
    [`filter[where][${'a.'.repeat(20)}a]=1`, 'FILTER_TOO_LARGE'],
  ]
  for (const [query = '', code] of cases) {
    const { status, json } = await list(query)
    expect([query, status, json.code ?? 'taken']).toEqual([
      query,
      code === 'taken' ? 200 : 400,
      code,
    ])
  }
  const missing = await node.send('GET', '/api/nuts?filter[limit]=1')
  expect([missing.status, missing.json.code]).toEqual([404, 'DATABASE_NOT_FOUND'])
})

it('reports whether a search scanned all items or used an index, and builds an index in the background', async () => {
  expect((await list('filter[where][kind]=apple')).plan).toBe('scan')
  expect((await list('filter[limit]=1')).plan).toBeNull()
  expect((await node.send('POST', INDEXES, { db: 'fruit', path: 'kind' })).text).toBe(
    '{"status":true}',
  )
  await node.send('POST', INDEXES, { db: 'fruit', path: 'grower.town' })
  await built()
  expect(await indexes()).toEqual([
    { db: 'fruit', path: 'kind', state: 'ready', done: 2, total: 2 },
    { db: 'fruit', path: 'grower.town', state: 'ready', done: 2, total: 2 },
  ])
  const apples = await list('filter[where][kind]=apple')
  expect([apples.plan, apples.items]).toEqual(['index kind', ['a', 'c']])
  expect((await list('filter[where][grower.town]=Nagano')).plan).toBe('index grower.town')
  expect((await list('filter[order]=kind DESC')).plan).toBe('index kind')
  await node.send('PATCH', '/api/fruit/a', { kind: 'quince' })
  await node.send('DELETE', '/api/fruit/c')
  await node.send('POST', '/api/fruit', { id: 'e', kind: 'apple' })
  expect((await list('filter[where][kind]=apple')).items).toEqual(['e'])
  expect((await verifyFolder(folder)).finding).toBeNull()
})

it('rejects an existing index, an unknown database and a 17th index, and removes an index by body or query', async () => {
  const change = async (method: string, body?: unknown, query = '') => {
    const { status, json } = await node.send(method, `${INDEXES}${query}`, body)
    return `${status} ${json.code ?? ''}`
  }
  expect(await change('POST', { db: 'fruit', path: 'kind' })).toBe('200 ')
  expect(await change('POST', { db: 'fruit', path: 'kind' })).toBe('409 INDEX_EXISTS')
  expect(await change('POST', { db: 'nuts', path: 'kind' })).toBe('404 DATABASE_NOT_FOUND')
  expect(await change('POST', { db: '\0', path: 'kind' })).toBe('400 DATABASE_NAME_INVALID')
  expect(await change('POST', { db: 'fruit', path: 'a..b' })).toBe('400 INDEX_PATH_INVALID')
  expect(await change('POST', { db: 'fruit', path: 'a\ud800' })).toMatch(/^4/)
  expect(await change('POST', { db: 'fruit' })).toBe('400 REQUEST_INVALID')
  expect(await change('POST')).toBe('400 REQUEST_INVALID')
  for (let n = 1; n < 16; n += 1) await change('POST', { db: 'fruit', path: `p${n}` })
  expect(await change('POST', { db: 'fruit', path: 'kind.more' })).toBe('422 INDEXES_TOO_MANY')
  expect(await change('DELETE', { db: 'fruit', path: 'kind' })).toBe('200 ')
  expect(await change('DELETE', undefined, '?db=fruit&path=kind')).toBe('404 INDEX_NOT_FOUND')
  expect(await change('DELETE', undefined, '?db=fruit&path=p1')).toBe('200 ')
  expect(await change('DELETE')).toBe('400 REQUEST_INVALID')
  expect(await indexes()).toHaveLength(14)
  await node.send('DELETE', '/api/fruit')
  expect(await indexes()).toEqual([])
})

it('keeps indexes across a restart, and writes no ledger entry for them', async () => {
  const ledger = async () => {
    const { serverid } = (await node.send('GET', '/api/serverid')).json
    return (await node.send('GET', `/api/ledgers?serverid=${serverid}`)).json.ledgers.length
  }
  const before = await ledger()
  await node.send('POST', INDEXES, { db: 'fruit', path: 'kind' })
  await node.close()
  node = await startLedgerNode({ folder })
  await built()
  expect(await ledger()).toBe(before)
  expect(await list('filter[where][kind]=plum')).toMatchObject({ plan: 'index kind', items: ['d'] })
})

it('completes writes while a long search is running', async () => {
  for (let n = 0; n < 6; n += 1) {
    await node.send(
      'POST',
      '/api/fruit',
      Array.from({ length: 5_000 }, (_, at) => ({ n: at, kind: 'x' })),
    )
  }
  const order: string[] = []
  const search = list('filter[where][kind][regexp]=^(a%7Cx)*$&filter[where][n]=7').then(
    ({ items }) => {
      order.push('search')
      return items.length
    },
  )
  for (let n = 0; n < 3; n += 1) {
    await node.send('POST', '/api/fruit', { id: `w${n}` })
    order.push('write')
  }
  expect(await search).toBe(6)
  expect(order).toEqual(['write', 'write', 'write', 'search'])
})
