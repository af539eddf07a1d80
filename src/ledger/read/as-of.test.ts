import fc from 'fast-check'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { HandClock, type LedgerNode, startLedgerNode } from '../../../test/support/ledger-node.ts'
import { roundsOf } from '../../../test/support/rounds.ts'
import { parseFilter } from '../../filter/index.ts'
import { differences } from './differences.ts'

const START = 1_800_000_000_000

let node: LedgerNode
let clock: HandClock
beforeEach(async () => {
  clock = new HandClock(START)
  node = await startLedgerNode({ clock })
  onTestFinished(() => node.close())
})

const get = async (path: string, headers?: Record<string, string>) => {
  const { status, text, headers: sent } = await node.send('GET', path, undefined, headers)
  return { status, text, sent, json: text === '' ? null : JSON.parse(text) }
}
const filter = (value: object) => `filter=${encodeURIComponent(JSON.stringify(value))}`

/** Reads of the current state, which `at` must repeat later. */
const READS = [
  ...['/api/dbs?', '/api/dbs?count=true', '/api/a?count=true', '/api/b?docs=true&count=1'],
  ...['/api/a?docs=true&limit=2&offset=1&cursor=start&count=1', '/api/a?after=i1&', '/api/a/i1?'],
  `/api/a?${filter({ where: { n: { gt: 2 } }, order: 'n DESC', limit: 3 })}&count=true`,
  `/api/a?${filter({ order: ['k', 'n'], fields: ['n', 'k'], offset: 1 })}`,
  `/api/b?${filter({ where: { or: [{ k: 'x' }, { n: 1 }] } })}&docs=1`,
  ...['/api/a/i1/attachments?', '/api/a/i1/attachments?after=m&', '/api/a/i1/attachments/n?'],
  '/api/config/aggregate?db=a&group=k&sum=n&max=n',
  `/api/config/aggregate?db=b&avg=n&${filter({ where: { n: { lt: 4 } } })}`,
]

const anyChange = fc.oneof(
  fc.record({
    kind: fc.constantFrom('put', 'put', 'put', 'put', 'remove'),
    db: fc.constantFrom('a', 'a', 'b'),
    id: fc.nat(5),
    n: fc.nat(6),
    k: fc.constantFrom('x', 'y'),
  }),
  fc.record({ kind: fc.constantFrom('attach', 'attach', 'detach'), n: fc.nat(3) }),
  fc.record({ kind: fc.constantFrom('toggle', 'make'), db: fc.constantFrom('a', 'b') }),
)

type Change = typeof anyChange extends fc.Arbitrary<infer Value> ? Value : never
type Found = { db: string; id: string; change: string; before?: object; after?: object }
type Item = { db: string; id: string; revision: number; text: string }

interface Seen {
  readonly at: string
  readonly time: string
  readonly replies: readonly { status: number; json: object; text: string }[]
  readonly items: readonly Item[]
}

/** Returns the items of all databases, in the order of names and ids. */
async function readItems(): Promise<Item[]> {
  const found: Item[] = []
  for (const db of await node.service.read.databases()) {
    const all = { limit: 0, offset: 0, after: null }
    for await (const page of await node.service.read.items(db, all)) {
      found.push(...page.map(({ id, revision, text }) => ({ db, id, revision, text })))
    }
  }
  return found.toSorted((a, b) => (`${a.db} ${a.id}` < `${b.db} ${b.id}` ? -1 : 1))
}

function differencesBetween(old: readonly Item[], now: readonly Item[], docs: boolean): Found[] {
  const name = ({ db, id }: Item) => `${db} ${id}`
  const byName = (items: readonly Item[]) => new Map(items.map((item) => [name(item), item]))
  const [before, after] = [byName(old), byName(now)]
  const names = [...new Set([...before.keys(), ...after.keys()])].sort()
  return names.flatMap((each): Found[] => {
    const [one, other] = [before.get(each), after.get(each)]
    const { db = '', id = '' } = one ?? other ?? {}
    if (one?.revision === other?.revision) return []
    const change = one === undefined ? 'created' : other === undefined ? 'deleted' : 'updated'
    const item = (given: Item | undefined) =>
      given === undefined ? undefined : JSON.parse(given.text)
    const texts = docs ? { before: item(one), after: item(other) } : {}
    return [JSON.parse(JSON.stringify({ db, id, change, ...texts }))]
  })
}

/** Makes a change, and adds the state after it to `seen`. */
async function makeAndSee(change: Change, seen: Seen[]): Promise<void> {
  clock.time += 1_000
  const db = 'db' in change ? change.db : 'a'
  if (!('db' in change)) {
    const path = `/api/a/i1/attachments/${['n', 'm', 'o', 'n'][change.n]}`
    await node.send(change.kind === 'attach' ? 'PUT' : 'DELETE', path, `${change.n}`)
  } else if ('id' in change) {
    const item = { id: `i${change.id}`, n: change.n, k: change.k }
    if (change.kind === 'remove') await node.send('DELETE', `/api/${db}/${item.id}`)
    else if ((await node.send('POST', `/api/${db}`, item)).status === 409) {
      await node.send('POST', `/api/${db}/${item.id}`, item)
    }
  } else if ((await node.send('POST', `/api/${db}`)).status === 409) {
    if (change.kind === 'toggle') await node.send('DELETE', `/api/${db}`)
  }
  const head = await node.service.store.head(node.service.serverId)
  if (head === null) return
  const time = new Date(clock.time).toISOString()
  const replies = await Promise.all(READS.map((path) => get(path)))
  seen.push({ at: String(head.height), time, replies, items: await readItems() })
}

it('returns for each height what was the current state then, in lists, searches, counts and aggregations', async () => {
  let compared = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyChange, { minLength: 5, maxLength: 25 }),
      fc.array(fc.tuple(fc.nat(), fc.nat(READS.length - 1)), { minLength: 15, maxLength: 15 }),
      async (changes, questions) => {
        const seen: Seen[] = []
        for (const change of changes) await makeAndSee(change, seen)
        for (const [number, read] of questions) {
          const state = seen[number % seen.length]
          const then = state?.replies[read]
          if (state === undefined || then === undefined) continue
          for (const at of [state.at, state.time]) {
            const now = await get(`${READS[read]}&at=${at}`)
            expect([READS[read], at, now.status]).toEqual([READS[read], at, then.status])
            if (now.status !== 200) continue
            compared += 1
            if (READS[read]?.includes('/n?')) {
              expect([at, now.text]).toEqual([at, then.text])
              continue
            }
            const { at: height = Number(state.at), ...rest } = now.json
            const { height: _height, ...before } = then.json as { height?: number }
            const { height: _now, ...after } = rest
            expect([READS[read], at, height, after]).toEqual([
              READS[read],
              at,
              Number(state.at),
              before,
            ])
          }
        }
      },
    ),
    { numRuns: roundsOf(25) },
  )
  expect(compared).toBeGreaterThan(20)
})

it('lists the differences between any two heights as a comparison of the two states', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyChange, { minLength: 3, maxLength: 25 }),
      fc.array(fc.tuple(fc.nat(), fc.nat(), fc.boolean()), { minLength: 8, maxLength: 8 }),
      async (changes, pairs) => {
        const seen: Seen[] = []
        for (const change of changes) await makeAndSee(change, seen)
        for (const [one, other, docs] of seen.length === 0 ? [] : pairs) {
          const [from, to] = [one % seen.length, other % seen.length].sort((a, b) => a - b)
          const [old, now] = [seen[from ?? 0], seen[to ?? 0]]
          if (old === undefined || now === undefined) continue
          const expected = differencesBetween(old.items, now.items, docs)
          const key = ({ db, id }: { db: string; id: string }) => `${db} ${id}`
          for (const db of [null, 'a']) {
            const only = db === null ? '' : `&db=${db}`
            const path = `/api/config/diff?from=${old.at}&to=${now.time}${docs ? '&docs=1' : ''}${only}`
            const { status, json } = await get(path)
            const some = expected.filter((each) => db === null || each.db === db)
            if (status === 404) {
              expect(some).toEqual([])
              continue
            }
            const found = json.changes.toSorted((a: Found, b: Found) => (key(a) < key(b) ? -1 : 1))
            expect([path, found]).toEqual([path, some])
            expect([json.from, json.to]).toEqual([Number(old.at), Number(now.at)])
          }
        }
      },
    ),
    { numRuns: roundsOf(25) },
  )
})

it('reads differences in small pieces, between which the reading ends if the client leaves', async () => {
  const { write, read, store } = node.service
  await write.createDatabase('quiet')
  await write.createDatabase('busy')
  for (const n of [1, 2]) {
    const items = Array.from({ length: 1_500 }, (_, at) => ({ id: `${n}-${at}`, n }))
    await write.createItems('busy', items)
  }
  const [from, to] = [await read.asOfHeight(1), await read.asOfHead()]
  for (const [db, docs, found] of [
    ['quiet', false, 0],
    ['busy', false, 3_000],
    ['busy', true, 3_000],
  ] as const) {
    const pages = await differences(store, { db, from, to, docs, isSelected: () => true })
    const sizes: number[] = []
    for await (const page of pages) sizes.push(page.length)
    expect([db, docs, sizes.length > 20, Math.max(...sizes) <= 128]).toEqual([db, docs, true, true])
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(found)
  }
})

it('ends the search of a client that has left, even if the search finds nothing', async () => {
  const { write, read } = node.service
  await write.createDatabase('busy')
  await write.createItems(
    'busy',
    Array.from({ length: 5_000 }, (_, n) => ({ n })),
  )
  const client = new AbortController()
  const filter = parseFilter({ filter: '{"where":{"n":-1}}' })
  if (filter === null) throw new Error('there is no filter')
  for (const asOf of [null, await read.asOfHead()]) {
    const query = { filter, after: null, docs: true, signal: client.signal }
    const { pages } = await read.find('busy', query, asOf)
    for await (const page of pages) expect(page).toEqual([])
  }
  client.abort()
  for (const asOf of [null, await read.asOfHead()]) {
    const query = { filter, after: null, docs: true, signal: client.signal }
    await expect(read.find('busy', query, asOf)).rejects.toMatchObject({
      code: 'SEARCH_INTERRUPTED',
    })
  }
})

it('rejects differences that end before they begin or concern no database, and lets a client keep those of two heights', async () => {
  await fill()
  expect((await get('/api/config/diff?from=2&to=1')).json.code).toBe('REQUEST_INVALID')
  expect((await get('/api/config/diff?to=1')).json.code).toBe('REQUEST_INVALID')
  expect((await get('/api/config/diff?from=7')).json.code).toBe('HEIGHT_UNKNOWN')
  expect((await get('/api/config/diff?from=0&db=none')).json.code).toBe('DATABASE_NOT_FOUND')
  const { text, sent } = await get('/api/config/diff?db=fruit&from=0&to=1&docs=true')
  expect(text).toBe(
    '{"status":true,"changes":[{"db":"fruit","id":"x","change":"created","after":{"id":"x","n":1}}],"from":0,"to":1}',
  )
  expect(['etag', 'cache-control', 'vary'].map((name) => sent.get(name))).toEqual([
    ...['"0-1"', 'private, max-age=31536000, immutable', 'authorization, x-access-token'],
  ])
  expect((await get('/api/config/diff?from=1')).json).toEqual({
    status: true,
    changes: [{ db: 'fruit', id: 'y', change: 'created' }],
    ...{ from: 1, to: 2 },
  })
})

async function fill() {
  for (const body of [undefined, { id: 'x', n: 1 }, { id: 'y', n: 2 }]) {
    clock.time += 1_000
    await node.send('POST', '/api/fruit', body)
  }
  clock.time += 500
}

it('names the height, is cacheable forever if `at` is a height, and answers 304 to a client that has the state', async () => {
  await fill()
  const { sent, text } = await get('/api/fruit?at=1')
  expect(text).toBe('{"status":true,"items":["x"],"limit":0,"offset":0,"at":1}')
  const header = (name: string) => sent.get(name)
  expect(['etag', 'ledger-height', 'cache-control', 'vary'].map(header)).toEqual([
    ...['"1"', '1', 'private, max-age=31536000, immutable', 'authorization, x-access-token'],
  ])
  const paths = ['/api/fruit?', '/api/dbs?', '/api/config/aggregate?db=fruit&']
  for (const path of paths) {
    const same = await get(`${path}&at=1`, { 'if-none-match': '"1"' })
    expect([path, same.status, same.text]).toEqual([path, 304, ''])
  }
  const byTime = await get('/api/fruit?at=2027-01-15T09:00:02.999%2B01:00')
  expect([byTime.json.items, byTime.json.at, byTime.sent.get('cache-control')]).toEqual([
    ['x'],
    1,
    null,
  ])
  expect((await get('/api/fruit?at=2027-01-15T09:00:02.999+01:00')).json.at).toBe(1)
  const item = await get('/api/fruit/x?at=2027-01-15T08:00:03Z')
  expect([item.text, item.sent.get('ledger-height')]).toEqual([
    '{"status":true,"item":{"id":"x","n":1},"at":2}',
    '2',
  ])
  expect((await get('/api/fruit/y?at=2027-01-15T08:00:02Z')).status).toBe(404)
})

it('sends a client that has a past state this state again after an erasure', async () => {
  await fill()
  await node.send('POST', '/api/fruit/x', { n: 3 })
  const before = await get('/api/fruit?at=1&docs=1')
  expect([before.json.docs, before.sent.get('etag')]).toEqual([[{ id: 'x', n: 1 }], '"1"'])
  await node.send('POST', '/api/fruit/x/erase', {})
  const after = await get('/api/fruit?at=1&docs=1', { 'if-none-match': '"1"' })
  expect([after.json.docs, after.sent.get('etag')]).toEqual([[{ id: 'x' }], '"1-1"'])
  expect((await get('/api/fruit?at=1&docs=1', { 'if-none-match': '"1-1"' })).status).toBe(304)
})

it('rejects heights and times that are out of range, malformed or ignored, and says so', async () => {
  await fill()
  const refused = async (path: string) => {
    const { status, json, sent } = await get(path)
    expect([sent.get('cache-control'), json.status]).toEqual(['no-store', false])
    return [status, json.code, json.message]
  }
  const unknown = (message: string) => [404, 'HEIGHT_UNKNOWN', message]
  expect(await refused('/api/fruit?at=3')).toEqual(unknown('there is no block 3 yet'))
  expect(await refused('/api/dbs?at=2027-01-15T08:00:04Z')).toEqual(
    unknown('2027-01-15T08:00:04.000Z is in the future'),
  )
  expect(await refused('/api/fruit/x?at=2027-01-15T08:00:00Z')).toEqual(
    unknown('the first block was recorded after 2027-01-15T08:00:00.000Z'),
  )
  for (const at of [
    '',
    '-1',
    '1.5',
    '1e400',
    'x',
    '2027-01-15',
    '2027-02-30T08:00:00Z',
    '99999999999999999',
  ]) {
    expect((await refused(`/api/fruit?at=${at}`)).slice(0, 2)).toEqual([400, 'REQUEST_INVALID'])
  }
  for (const path of ['/api/serverid', '/api/fruit/x/history', '/api/ledgers?serverid=1']) {
    const { status, json } = await get(`${path}${path.includes('?') ? '&' : '?'}at=1`)
    expect([path, status, json.code]).toEqual([path, 400, 'REQUEST_INVALID'])
  }
  expect(await refused('/api/nuts?at=1')).toEqual([
    404,
    'DATABASE_NOT_FOUND',
    'there was no database nuts at height 1',
  ])
  expect((await refused('/api/fruit?at=1&after=y')).slice(0, 2)).toEqual([404, 'ITEM_NOT_FOUND'])
})

it('lists databases that were deleted later as they were, with their items', async () => {
  await fill()
  await node.send('DELETE', '/api/fruit')
  await node.send('POST', '/api/nuts')
  expect((await get('/api/dbs?at=2&count=1')).json).toEqual({
    ...{ status: true, dbs: ['fruit'], counts: [2], at: 2 },
  })
  expect((await get('/api/dbs?at=3')).json.dbs).toEqual([])
  expect((await get('/api/fruit/y?at=2')).text).toBe('{"status":true,"item":{"id":"y","n":2}}')
  expect((await get('/api/fruit/y?at=3')).text).toBe('{"status":false}')
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'y', n: 3 })
  expect((await get('/api/fruit?at=2&docs=1')).json.docs).toEqual([
    { id: 'x', n: 1 },
    { id: 'y', n: 2 },
  ])
  expect((await get('/api/fruit?docs=1')).json.docs).toEqual([{ id: 'y', n: 3 }])
})
