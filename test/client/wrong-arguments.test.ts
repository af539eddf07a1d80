// Every method of the client with missing and wrong values. A program without types passes such values, and with types,
// an index off by one does: `ids[ids.length]` is undefined.
import { beforeEach, expect, it } from 'vitest'
import { ClientError, LedgerClient } from '../../src/client/index.ts'
import { collected, type FakeNode, fakeNode, json } from './fake-node.ts'

const NOT_TEXT = [null, '', 5, {}, []]
/** Wrong values for each kind of argument. Undefined is not wrong for an option, which it leaves out. */
const WRONG = {
  name: [undefined, '.', '..', '\ud800', Number.NaN, true, ['x'], () => 'x', ...NOT_TEXT],
  list: [undefined, null, '', 'x', 5, {}],
  object: [undefined, null, '', 'x', 5, []],
  content: [undefined, null, 5, {}, [], () => undefined],
  operation: [undefined, null, '', 'GET', 'GET ', 'get /api/dbs', 5, {}],
  body: [undefined, { positions: undefined }],
  // Options
  nameOption: ['.', '..', '\ud800', ...NOT_TEXT],
  condition: [undefined, ...NOT_TEXT],
  flag: [null, '', 'x', 5, {}],
  count: [null, '', 'x', '5', -1, 0.5, Number.NaN, {}, []],
  text: NOT_TEXT,
  texts: [null, '', 'x', 5, {}, [undefined], [null], [''], [{}], ['\ud800']],
  paths: [null, '', 'x', 5, {}, [undefined], [null], [''], [5], ['a,b']],
  filter: [null, '', 'x', 5, [], { price: 1 }, { where: null }, { where: [] }, { where: 5 }],
  range: [null, 5, [], {}, { from: -1 }, { from: '1' }, { from: 1, to: null }],
} as const

/** A correct value for each kind of argument. */
const RIGHT: Record<keyof typeof WRONG, unknown> = {
  ...{ name: 'x', list: [], object: {}, content: 'x', operation: 'GET /api/dbs', body: {} },
  ...{ nameOption: 'x', condition: '"1.0"', flag: true, count: 1, text: 'x', texts: ['x'] },
  ...{ paths: ['x'], filter: { where: { x: 1 } }, range: { from: 0, to: 1 } },
}

// `never`, because the values are wrong on purpose.
type Row = readonly [method: string, kind: keyof typeof WRONG, call: (value: never) => unknown]

const ledger = (url: string) => new LedgerClient(url, { retries: 0 })
const database = (url: string) => ledger(url).database<object>('fruit')
const files = (url: string) => database(url).attachments('x')

const ledgerRows = (on: LedgerClient): Row[] => [
  ['database', 'name', (name) => on.database(name)],
  ['createDatabase', 'name', (name) => on.createDatabase(name)],
  ['deleteDatabase', 'name', (name) => on.deleteDatabase(name)],
  ['record', 'list', (changes) => on.record(changes)],
  ['changes', 'text', (since) => collected(on.changes({ since }))],
  ['changes', 'texts', (databases) => collected(on.changes({ databases }))],
  ['changes', 'text', (by) => collected(on.changes({ by }))],
  ['log', 'text', (by) => collected(on.log({ by }))],
  ['log', 'text', (from) => collected(on.log({ from }))],
  ['log', 'text', (to) => collected(on.log({ to }))],
  ['log', 'texts', (databases) => collected(on.log({ databases }))],
  ['request', 'operation', (operation) => on.request<'GET /api/dbs'>(operation, {})],
  ['request', 'object', (input) => on.request('GET /api/dbs', input)],
  ['request', 'name', (db) => on.request('DELETE /api/{db}', { path: { db } })],
  ['request', 'name', (id) => on.request('DELETE /api/{db}/{id}', { path: { db: 'x', id } })],
  [
    'request',
    'body',
    (body) => on.request('POST /api/{db}/{id}/erase', { path: { db: 'x', id: 'y' }, body }),
  ],
  ['request', 'body', (body) => on.request('POST /api/{db}', { path: { db: 'x' }, body })],
]

const databaseRows = (on: ReturnType<typeof database>): Row[] => {
  const lists = (['query', 'ids'] as const).flatMap((name): Row[] => {
    const read = (options: object) => collected<unknown>(on[name](options))
    return [
      [name, 'filter', (filter) => read({ filter })],
      [name, 'count', (limit) => read({ limit })],
      [name, 'count', (pageSize) => read({ pageSize })],
      [name, 'nameOption', (after) => read({ after })],
      [name, 'count', (at) => read({ at })],
    ]
  })
  const paths = ['group', 'sum', 'avg', 'min', 'max'].map(
    (name): Row => ['aggregate', 'paths', (value) => on.aggregate({ [name]: value })],
  )
  return [
    ['create', 'object', (item) => on.create(item)],
    ['createAll', 'list', (items) => on.createAll(items)],
    ['read', 'name', (id) => on.read(id)],
    ['read', 'name', (id) => on.read(id, { at: 1 })],
    ['read', 'count', (at) => on.read('x', { at })],
    ['replace', 'name', (id) => on.replace(id, {})],
    ['replace', 'object', (item) => on.replace('x', item)],
    ['replace', 'condition', (ifMatch) => on.replace('x', {}, { ifMatch })],
    ['replace', 'flag', (ifAbsent) => on.replace('x', {}, { ifAbsent })],
    ['patch', 'name', (id) => on.patch(id, {})],
    ['patch', 'object', (members) => on.patch('x', members)],
    ['patch', 'condition', (ifMatch) => on.patch('x', {}, { ifMatch })],
    ['delete', 'name', (id) => on.delete(id)],
    ['delete', 'condition', (ifMatch) => on.delete('x', { ifMatch })],
    ['count', 'filter', (filter) => on.count({ filter })],
    ['aggregate', 'filter', (filter) => on.aggregate({ filter })],
    ['count', 'count', (at) => on.count({ at })],
    ['aggregate', 'count', (at) => on.aggregate({ at })],
    ['history', 'name', (id) => collected(on.history(id))],
    ['history', 'count', (pageSize) => collected(on.history('x', { pageSize }))],
    ['attachments', 'name', (id) => on.attachments(id)],
    ['erase', 'object', (options) => on.erase(options)],
    ...lists,
    ...paths,
  ]
}

const filesRows = (on: ReturnType<typeof files>): Row[] => [
  ['put', 'name', (name) => on.put(name, 'x')],
  ['put', 'content', (content) => on.put('x', content)],
  ['put', 'text', (contentType) => on.put('x', 'y', { contentType })],
  ['get', 'name', (name) => on.get(name)],
  ['get', 'range', (range) => on.get('x', { range })],
  ['get', 'count', (at) => on.get('x', { at })],
  ['list', 'count', (at) => collected<unknown>(on.list({ at }))],
  ['delete', 'name', (name) => on.delete(name)],
]

const SERVER_ID = { status: true, serverid: 7 }
let node: FakeNode
beforeEach(async () => {
  const received = json(400, { status: false, code: 'RECEIVED', message: 'received' })
  node = await fakeNode((response, request) => {
    // `changes` reads the server id first.
    const answer = request.path === '/api/serverid' ? json(200, SERVER_ID) : received
    answer(response)
  })
})

it.each([
  ['the client', ledger, ledgerRows, ['serverId', 'databases', 'size']],
  ['a database', database, databaseRows, []],
  ['the attachments of an item', files, filesRows, []],
])(
  'each method of %s refuses missing and wrong values, and sends no request',
  async (_, make, rowsOf, withoutArguments) => {
    const on = make(node.url)
    const rows = (rowsOf as (on: object) => Row[])(on)
    const names = Object.getOwnPropertyNames(Object.getPrototypeOf(on))
    const tried = new Set(['constructor', ...withoutArguments, ...rows.map(([name]) => name)])
    expect([...tried].sort()).toEqual(names.sort())
    for (const [method, kind, call] of rows) {
      // With a correct value, the request is sent, so another argument is not the reason of the refusals.
      const right = await outcome(call, RIGHT[kind])
      expect([method, kind, right]).toEqual([
        method,
        kind,
        expect.stringMatching(/^RECEIVED|none$/),
      ])
      node.requests.length = 0
      for (const value of WRONG[kind]) {
        const refused = expect.stringMatching(/^(NAME|VALUE)_INVALID /)
        expect([method, kind, value, await outcome(call, value)]).toEqual([
          ...[method, kind, value, refused],
        ])
      }
      expect(node.requests.filter(({ path }) => path !== '/api/serverid')).toEqual([])
    }
  },
)

async function outcome(call: Row[2], value: unknown): Promise<string> {
  try {
    await call(value as never)
    return 'none'
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    return `${error.code} ${error.message}`
  }
}

it('names the wrong value and the argument', async () => {
  const fruit = database(node.url)
  const nothing = JSON.parse('{}').id as never
  await expect(fruit.delete(nothing)).rejects.toMatchObject({
    ...{ code: 'NAME_INVALID', status: 0, message: 'undefined cannot be used as id' },
  })
  await expect(fruit.create(nothing)).rejects.toThrow('body is undefined instead of an object')
  await expect(fruit.createAll(nothing)).rejects.toThrow('items is undefined instead of a list')
  await expect(fruit.delete('x', { ifMatch: nothing })).rejects.toThrow('ifMatch is undefined')
  await expect(fruit.read('x', { at: new Date() as never })).rejects.toThrow(
    'at is a Date instead of a height or a time of RFC 3339',
  )
  const misspelt = { reason: 'typo', ifmatch: '"1.0"' }
  await expect(fruit.delete('x', misspelt)).rejects.toThrow('there is no option ifmatch')
  const where = { where: { price: 1 }, signal: undefined }
  const extra = { path: { db: 'fruit', id: 'x' } }
  const erasure = { path: { db: 'fruit', id: 'x' }, json: { positions: ['1.0'] } }
  for (const call of [
    () => fruit.count(where),
    () => collected(fruit.ids(where)),
    () => collected(fruit.query(where)),
    () => fruit.read('x', where),
    () => files(node.url).delete('x', { ...misspelt }),
    () => ledger(node.url).request('POST /api/{db}/{id}/erase', erasure),
    () => collected(ledger(node.url).changes({ ...where })),
    () => collected(ledger(node.url).log({ ...where })),
  ]) {
    await expect(call).rejects.toThrow(/^there is no option /)
  }
  expect(node.requests.filter(({ path }) => path !== '/api/serverid')).toEqual([])
  await expect(ledger(node.url).request('DELETE /api/{db}', extra)).rejects.toThrow(
    'the path /api/{db} has no part id',
  )
})
