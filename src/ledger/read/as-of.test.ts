import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
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

const get = async (path: string, headers?: Record<string, string>, from = node) => {
  const { status, text, headers: sent } = await from.send('GET', path, undefined, headers)
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
  fc.record({ kind: fc.constantFrom('toggle', 'make', 'sweep'), db: fc.constantFrom('a', 'b') }),
  fc.record({
    kind: fc.constant('erase'),
    db: fc.constantFrom('a', 'b'),
    id: fc.nat(5),
    n: fc.nat(1),
  }),
)

type Change = typeof anyChange extends fc.Arbitrary<infer Value> ? Value : never
type Found = { db: string; id: string; change: string; before?: object; after?: object }
type Item = { db: string; id: string; revision: number; text: string }

/** A state of a replay of the chain. */
interface Seen {
  readonly at: string
  readonly time: string
  readonly replies: readonly { status: number; json: object; text: string }[]
  readonly items: readonly Item[]
}

/** Returns the items of all databases but FILLER, in the order of names and ids. */
async function readItems({ read }: LedgerNode['service']): Promise<Item[]> {
  const found: Item[] = []
  for (const db of (await read.databases()).filter((name) => name !== FILLER)) {
    const all = { limit: 0, offset: 0, after: null }
    for await (const page of await read.items(db, all)) {
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

/** A database whose only item a replay changes instead of each block that changes no state. */
const FILLER = 'z'
const fillerItem = { id: 'f', n: 0, k: 'x' }

async function startHistory(one: LedgerNode): Promise<void> {
  await one.send('POST', `/api/${FILLER}`)
  await one.send('POST', `/api/${FILLER}`, fillerItem)
  for (const db of ['a', 'b']) await one.send('POST', `/api/${db}`)
}

async function make(change: Change): Promise<void> {
  clock.time += 1_000
  if (!('db' in change)) {
    const path = `/api/a/i1/attachments/${['n', 'm', 'o', 'n'][change.n]}`
    await node.send(change.kind === 'attach' ? 'PUT' : 'DELETE', path, `${change.n}`)
    return
  }
  const { db, kind } = change
  if (kind === 'sweep') await node.send('POST', '/api/config/erasures', { db, deleted: true })
  else if ('id' in change) {
    const item = { id: `i${change.id}`, n: change.n, k: 'k' in change ? change.k : '' }
    const path = `/api/${db}/${item.id}`
    if (kind === 'erase') await node.send('POST', `${path}/erase`)
    else if (kind === 'remove') await node.send('DELETE', path)
    else if ((await node.send('POST', `/api/${db}`, item)).status === 409) {
      await node.send('POST', path, item)
    }
  } else if ((await node.send('POST', `/api/${db}`)).status === 409 && kind === 'toggle') {
    await node.send('DELETE', `/api/${db}`)
  }
}

type Block = { timestamps: number[]; body: { method: string; [member: string]: unknown }[] }

/** Replays the chain on another node, block by block. Returns the state after each block. */
async function replay(): Promise<Seen[]> {
  const other = await startLedgerNode({ clock })
  const { json } = await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`)
  const seen: Seen[] = []
  for (const { body, timestamps } of json.ledgers as Block[]) {
    const [first] = body
    const { db, id, attachment } = first as {
      db?: string
      id?: string
      attachment?: { name?: string; sha256?: string }
    }
    const path = `/api/${db}/${id}/attachments/${attachment?.name}`
    if (attachment?.name !== undefined) {
      const [method, text] =
        first?.method === 'create_attachment'
          ? (['PUT', CONTENTS.get(attachment.sha256 ?? '')] as const)
          : (['DELETE', undefined] as const)
      expect((await other.send(method, path, text)).status).toBe(200)
    } else {
      const entries = body.map(({ serverid: _, ...entry }) => entry)
      const isState = entries.every(
        ({ method }) => /_(item|db)$/.test(method) && method !== 'erase_item',
      )
      const filler = [{ method: 'update_item', db: FILLER, item: fillerItem }]
      const sent = await other.send('POST', '/api/ledgers', { entries: isState ? entries : filler })
      expect(sent.status).toBe(200)
    }
    const replies = await Promise.all(READS.map((each) => get(each, {}, other)))
    const time = new Date(timestamps.at(-1) ?? 0).toISOString()
    seen.push({ at: `${seen.length}`, time, replies, items: await readItems(other.service) })
  }
  await other.close()
  return seen
}

/** The texts of attachments by their SHA-256. */
const CONTENTS = new Map(
  ['0', '1', '2', '3'].map((text) => [hash('sha256', text, 'hex'), text] as const),
)

/** Requires that a read of a past state equals the read of the replay. Returns whether it was compared. */
async function compare(path: string, state: Seen, at: string, then: Seen['replies'][number]) {
  const now = await get(`${path}&at=${at}`)
  if (now.status === 410) {
    // The content of the revision was erased, so the replay has only its id.
    const { item } = then.json as { item?: object }
    expect([path, at, Object.keys(item ?? {})]).toEqual([path, at, ['id']])
    return false
  }
  expect([path, at, now.status]).toEqual([path, at, then.status])
  if (now.status !== 200) return false
  if (path.includes('/n?')) {
    expect([path, at, now.text]).toEqual([path, at, then.text])
    return true
  }
  const { at: height = Number(state.at), ...rest } = now.json
  const { height: _height, ...before } = then.json as { height?: number }
  const { height: _now, ...after } = rest
  expect([path, at, height, after]).toEqual([path, at, Number(state.at), before])
  return true
}

// AS_OF_ROUNDS=100 compares about 1,500 heights.
it('equals a replay of the chain at each height, after erasures: lists, searches, counts, aggregations, attachments and differences', async () => {
  let [heights, compared] = [0, 0]
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyChange, { minLength: 5, maxLength: 25 }),
      fc.array(fc.tuple(fc.nat(), fc.nat(), fc.boolean()), { minLength: 8, maxLength: 8 }),
      async (changes, pairs) => {
        await node.close()
        node = await startLedgerNode({ clock })
        await startHistory(node)
        for (const change of changes) await make(change)
        const seen = await replay()
        heights += seen.length
        for (const [number, state] of seen.entries()) {
          for (const [read, path] of READS.entries()) {
            const then = state.replies[read]
            if (then === undefined) continue
            const at = (number + read) % 2 === 0 ? state.at : state.time
            // Several blocks can have the same time, of which a time means the last.
            const isLast = at === state.at || seen[number + 1]?.time !== state.time
            if (isLast && (await compare(path, state, at, then))) compared += 1
          }
        }
        for (const [one, other, docs] of pairs) {
          const [from, to] = [one % seen.length, other % seen.length].sort((a, b) => a - b)
          const [old, now] = [seen[from ?? 0], seen[to ?? 0]]
          if (old === undefined || now === undefined) continue
          await compareDifferences(old, now, docs)
        }
      },
    ),
    { numRuns: Number(process.env.AS_OF_ROUNDS ?? roundsOf(15)) },
  )
  if (heights >= 1_000) console.log(`${compared} reads at ${heights} heights equal a replay`)
  expect(compared).toBeGreaterThan(0)
})

async function compareDifferences(old: Seen, now: Seen, docs: boolean): Promise<void> {
  const expected = differencesBetween(old.items, now.items, docs)
  const key = ({ db, id }: { db: string; id: string }) => `${db} ${id}`
  for (const db of [null, 'a']) {
    const only = db === null ? '' : `&db=${db}`
    const path = `/api/config/diff?from=${old.at}&to=${now.at}${docs ? '&docs=1' : ''}${only}`
    const { status, json } = await get(path)
    const some = expected.filter((each) => db === null || each.db === db)
    if (status === 404) {
      expect(some).toEqual([])
      continue
    }
    const listed: Found[] = json.changes.filter((each: Found) => each.db !== FILLER)
    const found = listed.toSorted((a: Found, b: Found) => (key(a) < key(b) ? -1 : 1))
    expect([path, found]).toEqual([path, some])
    expect([json.from, json.to]).toEqual([Number(old.at), Number(now.at)])
  }
}

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

it('reads former revisions and proofs in turns, so that those of many long items delay others by one', async () => {
  await fill()
  const { history, log, read } = node.service
  const asOf = await read.asOfHeight(1)
  for (const one of [
    () => history.itemAt('fruit', 'x', asOf),
    () => log.proof('fruit', 'x', null),
    async () => log.state?.proof('fruit', 'x'),
  ]) {
    await one()
    let done = 0
    const all = Array.from({ length: 8 }, () => one().then(() => (done += 1)))
    await setImmediate()
    expect(done).toBeLessThan(4)
    await Promise.all(all)
  }
})

it('counts the items of many databases in turns', async () => {
  const { read, write } = node.service
  for (const db of ['a', 'b', 'c', 'd', 'e', 'f']) await write.createDatabase(db)
  for (const asOf of [null, await read.asOfHead()]) {
    let isDone = false
    const all = read
      .countEach(() => true, new AbortController().signal, asOf)
      .then((counts) => {
        isDone = true
        return counts.length
      })
    for (let n = 1; n < 3; n += 1) await setImmediate()
    expect([isDone, await all]).toEqual([false, 6])
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

it('rejects differences that end before they begin or concern no database, and answers 304 to a client that has them', async () => {
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
    ...['"0-1"', 'private, no-cache', 'authorization, x-access-token, accept-encoding'],
  ])
  const same = await get('/api/config/diff?db=fruit&from=0&to=1&docs=true', {
    'if-none-match': '"0-1"',
  })
  expect(same.status).toBe(304)
  expect((await get('/api/config/diff?from=1')).json).toEqual({
    status: true,
    changes: [{ db: 'fruit', id: 'y', change: 'created' }],
    ...{ from: 1, to: 2 },
  })
  for (const [limit, ids, more] of [
    [1, ['x'], true],
    [2, ['x', 'y'], false],
  ]) {
    const { json } = await get(`/api/config/diff?from=0&limit=${limit}`)
    expect([json.changes.map(({ id }: { id: string }) => id), json.more]).toEqual([ids, more])
  }
})

async function fill() {
  for (const body of [undefined, { id: 'x', n: 1 }, { id: 'y', n: 2 }]) {
    clock.time += 1_000
    await node.send('POST', '/api/fruit', body)
  }
  clock.time += 500
}

it('names the height, must be checked before a cache repeats it, and answers 304 to a client that has the state', async () => {
  await fill()
  const { sent, text } = await get('/api/fruit?at=1')
  expect(text).toBe('{"status":true,"items":["x"],"limit":0,"offset":0,"at":1}')
  const header = (name: string) => sent.get(name)
  expect(['etag', 'ledger-height', 'cache-control', 'vary'].map(header)).toEqual([
    ...['"1"', '1', 'private, no-cache', 'authorization, x-access-token, accept-encoding'],
  ])
  const paths = ['/api/fruit?', '/api/dbs?', '/api/config/aggregate?db=fruit&']
  for (const path of paths) {
    const same = await get(`${path}&at=1`, { 'if-none-match': '"1"' })
    expect([path, same.status, same.text]).toEqual([path, 304, ''])
  }
  const missing = ['nuts?at=1', 'config/aggregate?db=nuts&at=1', 'fruit/z/attachments?at=1']
  for (const path of [...missing, 'config/diff?db=nuts&from=0&to=1']) {
    for (const tag of ['*', '"1"', '"0-1"']) {
      const { status } = await get(`/api/${path}`, { 'if-none-match': tag })
      expect([path, tag, status]).toEqual([path, tag, 404])
    }
  }
  const byTime = await get('/api/fruit?at=2027-01-15T09:00:02.999%2B01:00')
  expect([byTime.json.items, byTime.json.at, byTime.sent.get('cache-control')]).toEqual([
    ['x'],
    1,
    'private, no-cache',
  ])
  expect((await get('/api/fruit?at=2027-01-15T09:00:02.999+01:00')).json.at).toBe(1)
  const item = await get('/api/fruit/x?at=2027-01-15T08:00:03Z')
  expect([item.text, item.sent.get('ledger-height')]).toEqual([
    '{"status":true,"item":{"id":"x","n":1},"at":2}',
    '2',
  ])
  expect((await get('/api/fruit/y?at=2027-01-15T08:00:02Z')).status).toBe(404)
})

it('gives a reply about a past state another entity tag after an erasure, so that no cache keeps the erased content', async () => {
  await fill()
  await node.send('POST', '/api/fruit/x', { n: 3 })
  const paths = ['/api/fruit?docs=1&at=1', '/api/config/diff?from=0&to=1&docs=1']
  const tags = ['"1"', '"0-1"']
  for (const [at, path] of paths.entries()) {
    const before = await get(path, { 'if-none-match': tags[at] ?? '' })
    expect([path, before.status]).toEqual([path, 304])
  }
  expect((await node.send('POST', '/api/fruit/x/erase')).json.positions).toEqual(['1.0'])
  for (const [at, path] of paths.entries()) {
    const after = await get(path, { 'if-none-match': tags[at] ?? '' })
    expect([path, after.status, after.text.includes('"n":1')]).toEqual([path, 200, false])
    const etag = after.sent.get('etag') ?? ''
    expect(etag).toBe(tags[at]?.replace(/"$/, '-4.0"'))
    expect((await get(path, { 'if-none-match': etag })).status).toBe(304)
  }
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

it('attachments and erasures are no differences of their items, but deletions with an author or a reason are', async () => {
  await node.send('POST', '/api/a')
  for (const id of ['x', 'y']) await node.send('POST', '/api/a', { id })
  await node.send('POST', '/api/a/x', { n: 2 })
  await node.send('PUT', '/api/a/x/attachments/f', 'bytes', { 'content-type': 'text/plain' })
  await node.send('DELETE', '/api/a/x/attachments/f')
  await node.send('POST', '/api/a/x/erase')
  await node.send('DELETE', '/api/a/y', undefined, { 'ledger-reason': 'asked%20for' })
  const { json } = await get('/api/config/diff?from=3&to=7')
  expect(json.changes).toEqual([{ db: 'a', id: 'y', change: 'deleted' }])
})
