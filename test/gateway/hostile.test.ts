// Arbitrary requests: each gets a reply with the gateway's error format or a success, never a 5xx, and never leaves a
// partial change.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GatewayNode, networkOf, startGateway } from '../support/gateway.ts'
import { roundsOf } from '../support/rounds.ts'

const MODEL = `namespace org.test
enum Colour { o RED o GREEN }
concept Part { o String name o Double[] sizes optional }
asset Thing identified by id { o String id o Part part optional o Colour[] colours optional o DateTime at optional --> Thing[] next optional }
participant Person identified by name { o String name regex=/^[a-z]*$/ }
transaction Move { --> Thing thing o Integer count optional }`
const QUERIES =
  'query q { statement: SELECT org.test.Thing WHERE (id == _$id OR part.name CONTAINS _$n) }'

let node: GatewayNode
beforeAll(async () => {
  const files = { 'queries.qry': QUERIES.replace(' OR part.name CONTAINS _$n', '') }
  node = await startGateway({ deploy: [networkOf(MODEL, files)] })
  await node.send('POST', '/api/Thing', { id: 'a' })
})
afterAll(() => node.close())

const word = fc.constantFrom(
  ...['Thing', 'things', 'Person', 'Move', 'org.test.Thing', 'system', 'queries', 'q', 'a', 'id'],
  ...['historian', 'identities', 'issue', 'bind', 'revoke', 'ping', '__proto__', 'constructor', ''],
  ...[
    '%2F',
    '%00',
    '%',
    '..',
    '%2E%2E',
    'toString',
    'x'.repeat(500),
    '台',
    '*',
    '{id}',
    'networks',
  ],
)
const path = fc
  .tuple(
    fc.constantFrom('/api', '/test-network/api', '/nowhere/api', ''),
    fc.array(word, { maxLength: 4 }),
  )
  .map(([start, words]) => `${start}/${words.join('/')}`)
const operator = fc.constantFrom(
  'eq',
  'neq',
  'lt',
  'gte',
  'between',
  'inq',
  'like',
  'regexp',
  'exists',
  'nope',
  '',
)
const field = fc.constantFrom(
  'id',
  'part',
  'part.name',
  'part.sizes',
  'colours',
  'at',
  'next',
  '$class',
  'a.b.c',
  '',
  '__proto__',
)
const any = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom('(', '.*', '[', 'RED', 'resource:', '2020-01-01', 1e308),
)
const filter = fc.oneof(
  fc.record({
    where: fc.tuple(field, operator, any).map(([name, by, value]) => ({ [name]: { [by]: value } })),
  }),
  fc.record(
    { order: any, limit: any, offset: any, fields: any, include: any, where: any },
    { requiredKeys: [] },
  ),
)
const query = fc.oneof(
  fc.constant(''),
  filter.map((given) => `?filter=${encodeURIComponent(JSON.stringify(given))}`),
  fc
    .tuple(field, operator, fc.string())
    .map(([name, by, value]) => `?filter[where][${name}][${by}]=${encodeURIComponent(value)}`),
  fc.constantFrom('?id=1', '?filter=', '?filter={', '?filter[', '?filter[limit]=-1', '?n=1&id=2'),
)
const member = fc.constantFrom(
  'id',
  'part',
  'name',
  'sizes',
  'colours',
  'at',
  'next',
  '$class',
  'thing',
  'participant',
  'userID',
  'certificate',
)
const value = fc.oneof(
  any,
  fc.constantFrom(
    'a',
    'org.test.Thing',
    'org.test.Part',
    'resource:org.test.Thing#a',
    'resource:org.test.Thing#%E0%A4%A',
  ),
  fc.array(any, { maxLength: 3 }),
  fc.dictionary(member, any, { maxKeys: 3 }),
)
const body = fc.oneof(
  fc.dictionary(member, value, { maxKeys: 5 }).map((given) => JSON.stringify(given)),
  fc
    .array(fc.dictionary(member, value, { maxKeys: 4 }), { maxLength: 3 })
    .map((given) => JSON.stringify(given)),
  fc.json(),
  fc.string(),
  fc.constantFrom(
    '{"__proto__":1}',
    '{"a":1,"a":2}',
    '['.repeat(5_000),
    '{"id":"\\ud800"}',
    'null',
    '1e999',
  ),
)

it('never replies with a 5xx, and always uses the format of the gateway', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'),
      path,
      query,
      fc.option(body),
      fc.constantFrom(
        {},
        { 'if-match': '"0.0"' },
        { authorization: 'Bearer x' },
        { 'content-type': 'text/plain' },
      ),
      async (method, at, query, text, headers) => {
        const hasBody = method !== 'GET' && method !== 'HEAD' && text !== null
        const reply = await node.send(method, at + query, hasBody ? text : undefined, headers)
        expect([method, at + query, text, reply.status, reply.text.slice(0, 300)]).toSatisfy(
          ([, , , status]: unknown[]) => Number(status) < 500,
        )
        if (reply.status < 400 || method === 'HEAD') return
        expect(reply.json.error).toMatchObject({
          statusCode: reply.status,
          name: expect.any(String),
          code: expect.stringMatching(/^[A-Z_]+$/),
          message: expect.any(String),
          details: expect.any(Array),
        })
      },
    ),
    { numRuns: roundsOf(1_500) },
  )
})

it('keeps all lists readable and all resources valid after arbitrary requests', async () => {
  for (const type of ['Thing', 'Person', 'Move']) {
    const { status, json } = await node.send('GET', `/api/${type}?filter[include]=resolve`)
    expect(status).toBe(200)
    for (const each of json) expect(each.$class).toBe(`org.test.${type}`)
  }
  expect((await node.send('GET', '/api/system/historian')).status).toBe(200)
})

it('resolves cyclic relationships only until a resource repeats, and returns the repetition as text', async () => {
  await node.send('POST', '/api/Thing', [
    { id: 'c1', next: ['c2', 'c3', 'c1'] },
    { id: 'c2', next: ['c3', 'c1'] },
    { id: 'c3', next: ['c1', 'missing'] },
  ])
  const { json } = await node.send('GET', '/api/Thing/c1?filter[include]=resolve')
  const text = (id: string) => `resource:org.test.Thing#${id}`
  expect(json.next).toEqual([
    {
      $class: 'org.test.Thing',
      id: 'c2',
      next: [
        { $class: 'org.test.Thing', id: 'c3', next: [text('c1'), text('missing')] },
        text('c1'),
      ],
    },
    { $class: 'org.test.Thing', id: 'c3', next: [text('c1'), text('missing')] },
    text('c1'),
  ])
})

it('rejects include=resolve for a graph with exponentially many relationship paths', async () => {
  const ids = Array.from({ length: 14 }, (_, n) => `net${n}`)
  await node.send(
    'POST',
    '/api/Thing',
    ids.map((id) => ({ id, next: ids })),
  )
  const { status, json } = await node.send('GET', '/api/Thing/net0?filter[include]=resolve')
  expect([status, json.error.code]).toEqual([400, 'FILTER_INVALID'])
})

it('sends short errors about long names, long ids and many unknown parameters', async () => {
  const long = 'x'.repeat(2_000_000)
  const names = Array.from({ length: 100_000 }, (_, n) => [`p${n}`, 1])
  const text = 'SELECT org.test.Thing'
  const requests: [string, string, object][] = [
    ['POST', 'Thing', { id: 'z', [long]: 1 }],
    ['POST', 'Thing', { id: 'z', next: [`${long}#1`] }],
    ['DELETE', 'Thing', [long, long]],
    ['POST', 'system/query', { query: text, [long]: 1 }],
    ['POST', 'system/query', { query: text, parameters: Object.fromEntries(names) }],
  ]
  for (const [method, path, body] of requests) {
    const reply = await node.send(method, `/api/${path}`, body)
    expect([path, Math.floor(reply.status / 100)]).toEqual([path, 4])
    expect(reply.text.length).toBeLessThan(20_000)
  }
})

it('answers half of a surrogate pair in a filter and in a query', async () => {
  const where = encodeURIComponent('{"where":{"next":"\\ud800"}}')
  expect((await node.send('GET', `/api/Thing?filter=${where}`)).status).toBe(400)
  const query = 'SELECT org.test.Move WHERE (thing == "\\ud800")'
  const { status, text } = await node.send('POST', '/api/system/query', { query })
  expect([status, text]).toEqual([200, '[]'])
})
