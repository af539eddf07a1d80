import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { HandClock, type LedgerNode, startLedgerNode } from '../../../test/support/ledger-node.ts'

const FIG = '/api/fruit/fig'
const START = 1_800_000_000_000

let node: LedgerNode
let clock: HandClock
beforeEach(async () => {
  clock = new HandClock(START)
  node = await startLedgerNode({ clock })
  onTestFinished(() => node.close())
})

const get = async (path: string, headers?: Record<string, string>) => {
  const { status, text } = await node.send('GET', path, undefined, headers)
  return [status, text]
}

/** Block 0 creates the database, 1 creates the item, 2 replaces it, 3 patches it, 4 deletes it, 5 creates it again. */
async function createItemHistory(): Promise<void> {
  const steps: [string, string, unknown?][] = [
    ['POST', '/api/fruit'],
    ['POST', '/api/fruit', { id: 'fig', n: 1 }],
    ['POST', FIG, { n: 2 }],
    ['PATCH', FIG, { ripe: true }],
    ['DELETE', FIG],
    ['POST', '/api/fruit', { id: 'fig', n: 5 }],
  ]
  for (const [method, path, body] of steps) {
    clock.time += 10
    expect((await node.send(method, path, body)).status).toBe(200)
  }
}

const revision = (height: number, method: string, item?: string) =>
  `{"position":"${height}.0","timestamp":${START + 10 * (height + 1)},"method":"${method}"` +
  `${item === undefined ? '' : `,"item":${item}`}}`
const REVISIONS = [
  revision(1, 'create_item', '{"id":"fig","n":1}'),
  revision(2, 'update_item', '{"id":"fig","n":2}'),
  revision(3, 'update_item', '{"id":"fig","n":2,"ripe":true}'),
  revision(4, 'delete_item'),
  revision(5, 'create_item', '{"id":"fig","n":5}'),
]
const history = (revisions: string[], limit = 0, cursor = 'null') =>
  `{"status":true,"history":[${revisions.join(',')}],"limit":${limit},"cursor":${cursor}}`

it('lists every revision with its position, time, method and item, oldest first', async () => {
  await createItemHistory()
  expect(await get(`${FIG}/history`)).toEqual([200, history(REVISIONS)])
  expect(await get(`${FIG}/history?order=newest`)).toEqual([200, history(REVISIONS.toReversed())])
})

it('returns pages with cursors in both orders; the last page has no cursor', async () => {
  await createItemHistory()
  for (const order of ['oldest', 'newest']) {
    const all = order === 'oldest' ? REVISIONS : REVISIONS.toReversed()
    const seen: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const from: string = cursor === '' ? '' : `&cursor=${cursor}`
      const { json, text } = await node.send('GET', `${FIG}/history?limit=2&order=${order}${from}`)
      const page = all.slice(seen.length, seen.length + 2)
      const next = seen.length + 2 < all.length ? `"${json.history[1].position}"` : 'null'
      expect(text).toBe(history(page, 2, next))
      seen.push(...page)
      cursor = json.cursor
    }
    expect(seen).toEqual(all)
  }
  expect(await get(`${FIG}/history?limit=5`)).toEqual([200, history(REVISIONS, 5)])
  expect(await get(`${FIG}/history?cursor=5.0`)).toEqual([200, history([])])
})

it('returns the history of a deleted item, and no history for an item that never existed', async () => {
  await createItemHistory()
  await node.send('DELETE', FIG)
  expect((await node.send('GET', `${FIG}/history`)).json.history).toHaveLength(6)
  const [status, text] = await get('/api/fruit/never/history')
  expect([status, text]).toEqual([
    404,
    '{"status":false,"code":"ITEM_NOT_FOUND","message":"there never was an item never in fruit"}',
  ])
  expect((await node.send('GET', '/api/nuts/x/history')).json.code).toBe('DATABASE_NOT_FOUND')
})

it('rejects an invalid cursor, limit or order', async () => {
  await createItemHistory()
  const bad = ['cursor=', 'cursor=5', 'cursor=1.99999', 'cursor=-1.0', 'limit=-1', 'limit=1e400']
  for (const query of [...bad, 'order=up']) {
    const { status, json } = await node.send('GET', `${FIG}/history?${query}`)
    expect([query, status, json.code]).toEqual([query, 400, 'REQUEST_INVALID'])
  }
})

it('`?at` returns the item as of the block with this height', async () => {
  await createItemHistory()
  const GONE = [404, '{"status":false}']
  const found = (item: string) => [200, `{"status":true,"item":${item}}`]
  const replies: unknown[] = []
  for (let height = 0; height <= 5; height += 1) replies.push(await get(`${FIG}?at=${height}`))
  expect(replies).toEqual([
    GONE,
    found('{"id":"fig","n":1}'),
    found('{"id":"fig","n":2}'),
    found('{"id":"fig","n":2,"ripe":true}'),
    GONE,
    found('{"id":"fig","n":5}'),
  ])
  expect(await get('/api/fruit/never?at=3')).toEqual(GONE)
  const { headers } = await node.send('GET', `${FIG}?at=3`)
  expect([headers.get('etag'), headers.get('ledger-position')]).toEqual([
    '"3.0"',
    `${node.service.serverId}/3.0`,
  ])
  expect((await node.send('GET', `${FIG}?at=6`)).json.code).toBe('HEIGHT_UNKNOWN')
  for (const at of ['-1', 'x', '1.5', '', '1e400']) {
    const { status, json } = await node.send('GET', `${FIG}?at=${at}`)
    expect([at, status, json.code]).toEqual([at, 400, 'REQUEST_INVALID'])
  }
})

it('marks an erased revision as erased, and returns none of its content', async () => {
  await createItemHistory()
  expect((await node.send('POST', `${FIG}/erase`, { positions: ['2.0'] })).status).toBe(200)
  const erased = revision(2, 'update_item').replace('}', ',"erased":true}')
  const [first = '', , ...rest] = REVISIONS
  expect(await get(`${FIG}/history`)).toEqual([200, history([first, erased, ...rest])])
  expect((await node.send('GET', `${FIG}/history?order=newest&limit=4`)).json.history[3]).toEqual(
    JSON.parse(erased),
  )
  const gone =
    '{"status":false,"code":"REVISION_ERASED",' +
    '"message":"revision 2.0 of item fig of fruit was erased"}'
  expect(await get(`${FIG}?at=2`)).toEqual([410, gone])
  expect(await get(`${FIG}?at=2`, { 'if-none-match': '"2.0"' })).toEqual([410, gone])
  expect(await get(`${FIG}?at=1`)).toEqual([200, '{"status":true,"item":{"id":"fig","n":1}}'])
  expect(await get(`${FIG}?at=4`)).toEqual([404, '{"status":false}'])
  // A revision with no member except its id is not mistaken for an erased revision.
  await node.send('POST', '/api/fruit', { id: 'bare' })
  await node.send('POST', '/api/fruit/bare', { n: 1 })
  expect(await get('/api/fruit/bare?at=7')).toEqual([200, '{"status":true,"item":{"id":"bare"}}'])
  await node.send('POST', '/api/fruit/bare/erase')
  expect((await node.send('GET', '/api/fruit/bare?at=7')).json.code).toBe('REVISION_ERASED')
})

it('starts a new history if the name of a deleted database is reused, and still returns the earlier items as of their heights', async () => {
  await createItemHistory()
  await node.send('DELETE', '/api/fruit')
  expect((await node.send('GET', `${FIG}/history`)).json.code).toBe('DATABASE_NOT_FOUND')
  await node.send('POST', '/api/fruit')
  expect((await node.send('GET', `${FIG}/history`)).json.code).toBe('ITEM_NOT_FOUND')
  expect(await get(`${FIG}?at=3`)).toEqual([
    200,
    '{"status":true,"item":{"id":"fig","n":2,"ripe":true}}',
  ])
  expect(await get(`${FIG}?at=7`)).toEqual([404, '{"status":false}'])
  await node.send('POST', '/api/fruit', { id: 'fig' })
  expect((await node.send('GET', `${FIG}/history`)).json.history).toHaveLength(1)
})

it('lists several revisions of one block separately, and `?at` with the height of that block returns the last revision', async () => {
  await node.send('POST', '/api/fruit')
  const update = (n: number) => ({ method: 'update_item', db: 'fruit', item: { id: 'fig', n } })
  const entries = [{ ...update(0), method: 'create_item' }, update(1), update(2)]
  await node.send('POST', '/api/ledgers', { entries })
  const { json } = await node.send('GET', `${FIG}/history`)
  expect(
    json.history.map(({ position, item }: { position: string; item: { n: number } }) => [
      position,
      item.n,
    ]),
  ).toEqual([
    ['1.0', 0],
    ['1.1', 1],
    ['1.2', 2],
  ])
  expect(await get(`${FIG}?at=1`)).toEqual([200, '{"status":true,"item":{"id":"fig","n":2}}'])
})

it('returns 1,500 revisions in one reply', async () => {
  await node.send('POST', '/api/fruit')
  const update = (n: number) => ({ method: 'update_item', db: 'fruit', item: { id: 'fig', n } })
  const entries = Array.from({ length: 1_000 }, (_, n) => update(n))
  await node.send('POST', '/api/fruit', { id: 'fig' })
  await node.send('POST', '/api/ledgers', { entries })
  await node.send('POST', '/api/ledgers', { entries })
  const { json } = await node.send('GET', `${FIG}/history?order=newest&limit=1500`)
  expect([json.history.length, json.history[0].item.n, json.cursor]).toEqual([1_500, 999, '2.500'])
})
