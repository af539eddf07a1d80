import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { HandClock, type LedgerNode, startLedgerNode } from '../../../test/support/ledger-node.ts'
import { disconnection } from '../../http/index.ts'
import { issueApiToken, openTokens } from '../../tokens/index.ts'

import { AGGREGATIONS_MAX, COUNT_MS_MAX } from './reads.ts'

const clock = new HandClock()
let node: LedgerNode
beforeAll(async () => {
  node = await startLedgerNode({ clock })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/empty')
  await node.send('POST', '/api/fruit', [
    { id: 'a', kind: 'apple', qty: 5 },
    { id: 'b', kind: 'pear', qty: 3 },
    { id: '$aggregate', kind: 'apple', qty: 9 },
    { id: 'd', kind: 'plum', qty: '5' },
  ])
  await node.send('POST', '/api/many')
  const many = Array.from({ length: 3_000 }, (_, n) => ({ id: `${n}`, n, odd: n % 2 }))
  await node.send('POST', '/api/many', many)
  return () => node.close()
})
const text = async (path: string) => (await node.send('GET', path)).text
const code = async (path: string) => {
  const { status, json } = await node.send('GET', path)
  return `${status} ${json.code}`
}
const aggregate = async (query: string) =>
  (await node.send('GET', `/api/config/aggregate?${query}`)).json

it('`count=true` adds the number of all matching items to a list, regardless of `limit`, `offset` and `after`', async () => {
  const cases = [
    ['', '"items":["a","b","$aggregate","d"],"limit":0,"offset":0,"count":4}'],
    ['&limit=1', '"items":["a"],"limit":1,"offset":0,"count":4}'],
    ['&limit=2&after=b', '"items":["$aggregate","d"],"limit":2,"offset":0,"count":4}'],
    ['&offset=9', '"items":[],"limit":0,"offset":9,"count":4}'],
    ['&filter[where][kind]=apple', '"items":["a","$aggregate"],"limit":0,"offset":0,"count":2}'],
    ['&filter[where][kind]=apple&filter[limit]=1', '"items":["a"],"limit":1,"offset":0,"count":2}'],
    ['&filter[where][kind]=fig&limit=1', '"items":[],"limit":1,"offset":0,"count":0}'],
    [
      '&docs=1&after=$aggregate',
      '"docs":[{"id":"d","kind":"plum","qty":"5"}],"items":["d"],"limit":0,"offset":0,"count":4}',
    ],
  ]
  for (const [query, rest] of cases) {
    expect(await text(`/api/fruit?count=true${query}`)).toBe(`{"status":true,${rest}`)
  }
  expect(await text('/api/empty?count=1')).toBe(
    '{"status":true,"items":[],"limit":0,"offset":0,"count":0}',
  )
  expect(await text('/api/empty?count=false')).toBe(
    '{"status":true,"items":[],"limit":0,"offset":0}',
  )
  expect(await code('/api/nuts?count=true&limit=1')).toBe('404 DATABASE_NOT_FOUND')
  expect(await code('/api/fruit?count=many')).toBe('400 REQUEST_INVALID')
})

it('`count=true` adds the number of items of each database to the list of databases', async () => {
  expect(await text('/api/dbs')).toBe('{"status":true,"dbs":["fruit","empty","many"]}')
  expect(await text('/api/dbs?count=true')).toBe(
    '{"status":true,"dbs":["fruit","empty","many"],"counts":[4,0,3000]}',
  )
})

it('computes the functions of an aggregation for each group of items', async () => {
  expect(await text('/api/config/aggregate?db=fruit&group=kind&sum=qty&max=qty')).toBe(
    '{"status":true,"groups":[' +
      '{"group":{"kind":"apple"},"count":2,"sum":{"qty":14},"max":{"qty":9}},' +
      '{"group":{"kind":"pear"},"count":1,"sum":{"qty":3},"max":{"qty":3}},' +
      '{"group":{"kind":"plum"},"count":1,"sum":{"qty":null},"max":{"qty":"5"}}],' +
      '"height":4,"consistent":true}',
  )
  expect(await aggregate('db=fruit&filter[where][qty][lt]=9&avg=qty')).toMatchObject({
    groups: [{ group: {}, count: 2, avg: { qty: 4 } }],
  })
  expect((await node.send('GET', '/api/fruit/$aggregate')).json.item.qty).toBe(9)
})

it('rejects an aggregation with an unknown database, invalid paths, filter members other than `where`, or too many groups', async () => {
  const path = '/api/config/aggregate'
  expect(await code(path)).toBe('400 REQUEST_INVALID')
  expect(await code(`${path}?db=nuts`)).toBe('404 DATABASE_NOT_FOUND')
  expect(await code(`${path}?db=fruit&group=a,b,c`)).toBe('400 AGGREGATION_INVALID')
  expect(await code(`${path}?db=fruit&filter[order]=qty`)).toBe('400 FILTER_UNKNOWN')
  expect(await code(`${path}?db=fruit&filter[limit]=1`)).toBe('400 FILTER_UNKNOWN')
  expect(await code(`${path}?db=many&group=n`)).toBe('422 GROUPS_TOO_MANY')
  expect((await aggregate('db=many&group=odd&sum=n')).groups).toEqual([
    { group: { odd: 0 }, count: 1_500, sum: { n: 2_248_500 } },
    { group: { odd: 1 }, count: 1_500, sum: { n: 2_250_000 } },
  ])
})

it('ends a count or an aggregation after a time limit, or when the client disconnects', async () => {
  // Each call of the clock advances the time by more than half of the limit.
  const slow = await startLedgerNode({
    clock: { now: () => (clock.time += COUNT_MS_MAX / 2 + 1) },
  })
  onTestFinished(() => slow.close())
  await slow.send('POST', '/api/many')
  await slow.send(
    'POST',
    '/api/many',
    Array.from({ length: 2_500 }, (_, n) => ({ n })),
  )
  const where = '&filter[where][n][gte]=0'
  for (const path of [
    `/api/many?count=1&limit=1${where}`,
    `/api/config/aggregate?db=many${where}`,
  ]) {
    const { status, json } = await slow.send('GET', path)
    expect([path, status, json.code, json.message]).toEqual([
      path,
      422,
      'SEARCH_TOO_LARGE',
      expect.stringMatching(/^counting took more than 20 s: /),
    ])
  }
  // The client disconnected before the handler was called.
  const raw = new ServerResponse(new IncomingMessage(new Socket()))
  raw.destroy()
  const aborted = disconnection({ raw } as FastifyReply)
  const query = { where: null, group: [], functions: [] }
  await expect(node.service.read.aggregate('many', query, aborted)).rejects.toMatchObject({
    code: 'SEARCH_INTERRUPTED',
  })
  await expect(node.service.read.count('many', null, aborted)).rejects.toMatchObject({
    code: 'SEARCH_INTERRUPTED',
  })
})

it('a token without access to a database cannot count its items', async () => {
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const guarded = await startLedgerNode({ clock, tokens })
  onTestFinished(() => guarded.close())
  const tokenFor = async (scopes: readonly string[]) =>
    (await issueApiToken(tokens, { subject: 'a', scopes, lifeSeconds: 60 })).token
  const admin = await tokenFor(['db:*:admin'])
  for (const db of ['open', 'closed']) await guarded.send('POST', `/api/${db}?token=${admin}`)
  const token = await tokenFor(['db:open:read'])
  const get = async (path: string) => {
    const { status, text } = await guarded.send('GET', `${path}&token=${token}`)
    return `${status} ${text}`
  }
  expect(await get('/api/dbs?count=1')).toBe('200 {"status":true,"dbs":["open"],"counts":[0]}')
  expect(await get('/api/config/aggregate?db=open')).toMatch(/^200 .*"count":0/)
  expect(await get('/api/config/aggregate?db=closed')).toMatch(/^403 .*SCOPE_MISSING/)
  expect(await get('/api/config/indexes?')).toMatch(/^403 /)
})

it('rejects an aggregation while AGGREGATIONS_MAX others are running', async () => {
  const { signal } = new AbortController()
  const query = { where: null, group: [], functions: [] }
  const run = () => node.service.read.aggregate('many', query, signal)
  const running = await Promise.allSettled(Array.from({ length: AGGREGATIONS_MAX + 1 }, run))
  const codes = running.map((each) => (each.status === 'fulfilled' ? 'done' : each.reason.code))
  expect(codes).toEqual([...Array(AGGREGATIONS_MAX).fill('done'), 'AGGREGATIONS_BUSY'])
  expect((await run()).groups).toHaveLength(1)
})
