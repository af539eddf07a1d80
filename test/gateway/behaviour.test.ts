// Statuses and bodies of the gateway. Each test checks one row of the table in the specification.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf, startGateway } from '../support/gateway.ts'

const MODEL = `namespace org.test
enum Colour { o RED o GREEN }
abstract asset Base identified by id { o String id }
asset Thing extends Base {
  o Colour colour optional
  o DateTime made optional
  o Long size optional
  o Double weight optional
  o String note
  --> Person keeper optional
}
participant Person identified by name { o String name }
transaction Move { --> Thing thing o String note optional }
concept Loose { o String x }
event Moved { --> Thing thing }`

const SCRIPT = `/** @param {org.test.Move} move
 * @transaction */
function move() {}`

let node: GatewayNode
beforeAll(async () => {
  node = await startGateway({ deploy: [networkOf(MODEL, { 'lib/move.js': SCRIPT })] })
})
afterAll(() => node.close())

const send: GatewayNode['send'] = (...request) => node.send(...request)
const blocks = async () => {
  let count = 0
  for await (const page of node.ledger.reader.blocks(0)) count += page.length
  return count
}
interface LedgerEntry {
  readonly method: string
  readonly item: { readonly id: string; readonly resource: Readonly<Record<string, unknown>> }
}
async function entriesOf({ ledger }: GatewayNode): Promise<LedgerEntry[]> {
  const entries: LedgerEntry[] = []
  for await (const page of ledger.reader.blocks(0)) {
    for (const block of page) entries.push(...block.entries.map((text) => JSON.parse(text)))
  }
  return entries
}
/**
 * Sends an invalid request. Checks that the chain does not grow and that the body has the error format.
 * Returns the error.
 */
async function refused(method: string, path: string, body?: unknown, headers = {}) {
  const before = await blocks()
  const reply = await send(method, path, body, headers)
  expect(await blocks()).toBe(before)
  const { error, ...rest } = reply.json
  expect(rest).toEqual({})
  expect(Object.keys(error)).toEqual(['statusCode', 'name', 'code', 'message', 'details'])
  expect(error.statusCode).toBe(reply.status)
  expect(reply.text).not.toMatch(/\bat .*\.ts|node_modules/)
  for (const detail of error.details) {
    expect(Object.keys(detail)).toEqual(['path', 'code', 'message'])
  }
  return { status: reply.status, headers: reply.headers, ...error }
}

describe('resources', () => {
  it('resources return 200 for a successful POST, GET, HEAD, PUT or PATCH, and 204 for DELETE', async () => {
    const created = await send('POST', '/api/Thing', { id: 'one', note: 'a' })
    expect(created.status).toBe(200)
    expect(created.json).toEqual({ $class: 'org.test.Thing', id: 'one', note: 'a' })
    expect((await send('GET', '/api/Thing/one')).json).toEqual(created.json)
    const head = await send('HEAD', '/api/Thing/one')
    expect([head.status, head.text]).toEqual([200, ''])
    const put = await send('PUT', '/api/Thing/one', { note: 'b', size: 3 })
    expect([put.status, put.json]).toEqual([200, { ...created.json, note: 'b', size: 3 }])
    const patched = await send('PATCH', '/api/Thing/one', { size: null, colour: 'RED' })
    expect(patched.json).toEqual({ ...created.json, note: 'b', colour: 'RED' })
    const gone = await send('DELETE', '/api/Thing/one')
    expect([gone.status, gone.text]).toEqual([204, ''])
    expect((await refused('GET', '/api/Thing/one')).status).toBe(404)
    expect((await send('HEAD', '/api/Thing/one')).status).toBe(404)
  })

  it('resources are served under the short name, the qualified name and the lower-case plural', async () => {
    await send('POST', '/api/things', { id: 'alias', note: 'a' })
    for (const name of ['Thing', 'org.test.Thing', 'things']) {
      expect((await send('GET', `/api/${name}/alias`)).status).toBe(200)
      expect((await send('GET', `/test-network/api/${name}/alias`)).status).toBe(200)
      expect((await send('GET', `/api/${name}/`)).json).toMatchObject([{ id: 'alias' }])
      expect((await refused('GET', `/api/${name}/alias/note`)).code).toBe('TYPE_NOT_FOUND')
    }
    await send('DELETE', '/api/org.test.Thing/alias')
  })

  it('resources cannot be requested for concepts, abstract types, events and enums', async () => {
    for (const name of ['Loose', 'Base', 'Moved', 'Colour', 'looses', 'org.test.Base']) {
      expect((await refused('GET', `/api/${name}`)).code).toBe('TYPE_NOT_FOUND')
    }
  })

  it('resources can have ids with slashes, spaces, percent signs and non-Latin scripts', async () => {
    for (const id of ['a/b', 'a b', '100%', '%2F', '台帳', 'a#b', '...', 'x?y', 'e\u0301']) {
      const path = `/api/Thing/${encodeURIComponent(id)}`
      expect((await send('POST', '/api/Thing', { id, note: 'n' })).json).toMatchObject({ id })
      const list = await send('GET', '/api/Thing')
      expect(list.json.map((each: { id: string }) => each.id)).toEqual([id])
      expect((await send('GET', path)).json).toMatchObject({ id })
      expect((await send('DELETE', path)).status).toBe(204)
    }
  })
})

describe('a missing required field or an empty id', () => {
  it('returns 422 with all errors of the request', async () => {
    const { status, code, details } = await refused('POST', '/api/Thing', { id: '' })
    expect([status, code]).toEqual([422, 'RESOURCE_INVALID'])
    expect(details.map(({ path, code: each }: Record<string, string>) => [path, each])).toEqual([
      ['/id', 'ID_EMPTY'],
      ['/note', 'MISSING'],
    ])
  })
})

describe('an unknown property, an invalid value or a number out of range', () => {
  it.each([
    ['an unknown property', { id: '1', note: '', nope: 1 }, '/nope'],
    ['an invalid enum value', { id: '1', note: '', colour: 'BLUE' }, '/colour'],
    ['an invalid DateTime', { id: '1', note: '', made: 'yesterday' }, '/made'],
    ['a wrong relationship type', { id: '1', note: '', keeper: 'org.test.Thing#1' }, '/keeper'],
    ['a fraction for an Integer', { id: '1', note: '', size: 1.5 }, '/size'],
    ['another class', { $class: 'org.test.Person', id: '1', note: '' }, '/$class'],
  ])('rejects %s, and points to the invalid member', async (_, body, path) => {
    const { status, details } = await refused('POST', '/api/Thing', body)
    expect([status, details[0].path]).toEqual([422, path])
  })

  it.each(['1e400', '9007199254740993', '-1e999'])('rejects the number %s', async (number) => {
    const body = `{"id":"1","note":"","weight":${number}}`
    expect((await refused('POST', '/api/Thing', body)).status).toBe(422)
    const long = `{"id":"1","note":"","size":${number}}`
    expect((await refused('POST', '/api/Thing', long)).status).toBe(422)
  })
})

describe('a duplicate id', () => {
  it('returns 409 if the id exists in the ledger, or occurs twice in one array', async () => {
    await send('POST', '/api/Thing', { id: 'twice', note: '' })
    const { status, code, message } = await refused('POST', '/api/Thing', { id: 'twice', note: '' })
    expect([status, code]).toEqual([409, 'RESOURCE_EXISTS'])
    expect(message).toMatch(/'twice' .* already exists$/)
    const two = [
      { id: 'again', note: '' },
      { id: 'again', note: '' },
    ]
    expect((await refused('POST', '/api/Thing', two)).status).toBe(409)
    expect((await send('HEAD', '/api/Thing/again')).status).toBe(404)
  })
})

describe('a denial by the access rules', () => {
  it('returns 403 with the message that Composer clients search for', async () => {
    const locked = await gateway({
      deploy: [
        networkOf(MODEL, {
          'permissions.acl': `rule A { participant: "ANY" operation: READ resource: "org.test.**" action: ALLOW }
            rule B { participant: "ANY" operation: ALL resource: "org.hyperledger.composer.system.**" action: ALLOW }`,
        }),
      ],
    })
    const { status, json } = await locked.send('POST', '/api/Thing', { id: 'x', note: '' })
    expect([status, json.error.code]).toEqual([403, 'ACCESS_DENIED'])
    expect(json.error.message).toBe(
      "Participant 'org.hyperledger.composer.system.NetworkAdmin#admin' does not have 'CREATE' " +
        "access to resource 'org.test.Thing#x'",
    )
  })
})

describe('an id in the body that differs from the path', () => {
  it('returns 400 for PUT and PATCH', async () => {
    await send('POST', '/api/Thing', { id: 'mine', note: '' })
    const other = { id: 'other', note: '' }
    expect((await refused('PUT', '/api/Thing/mine', other)).status).toBe(400)
    expect((await refused('PATCH', '/api/Thing/mine', other)).code).toBe('RESOURCE_ID_MISMATCH')
  })
})

describe('a missing resource, an unknown type or a wrong method', () => {
  it('returns RESOURCE_NOT_FOUND if the resource of a PUT, PATCH, DELETE or GET is missing', async () => {
    for (const [method, body] of [
      ['PUT', { note: '' }],
      ['PATCH', {}],
      ['DELETE', undefined],
      ['GET', undefined],
    ] as const) {
      const { status, code, message } = await refused(method, '/api/Thing/none', body)
      expect([status, code]).toEqual([404, 'RESOURCE_NOT_FOUND'])
      expect(message).toMatch(/^Object with ID 'none' .* does not exist$/)
    }
  })

  it('returns TYPE_NOT_FOUND for an unknown type', async () => {
    for (const path of [
      '/api/Nothing',
      '/api/Nothing/1',
      '/api/Thing/1/2',
      '/api/',
      '/api/toString',
    ]) {
      expect((await refused('GET', path)).status).toBe(404)
    }
    expect((await refused('GET', '/api/Nothing')).code).toBe('TYPE_NOT_FOUND')
    expect((await refused('GET', '/nowhere/api/Thing')).code).toBe('NETWORK_NOT_FOUND')
  })

  it('refuses at, instead of showing the current state for a past one', async () => {
    for (const path of ['Thing?at=0', 'Thing/1?at=0', 'Thing/1/history?at=0'])
      expect(await refused('GET', `/api/${path}`)).toMatchObject({ statusCode: 400 })
  })

  it('returns 405 with Allow for a wrong method', async () => {
    for (const [method, path, allow] of [
      ['PATCH', '/api/Thing', 'GET, HEAD, POST, PUT, DELETE'],
      ['DELETE', '/api/Move', 'GET, HEAD, POST'],
      ['POST', '/api/Thing/1', 'GET, HEAD, PUT, PATCH, DELETE'],
      ['DELETE', '/api/Move/1', 'GET, HEAD'],
      ['POST', '/api/system/historian', 'GET, HEAD'],
      ['GET', '/api/system/identities/issue', 'POST'],
    ] as const) {
      const reply = await refused(method, path, method === 'GET' ? undefined : {})
      expect([method, path, reply.status, reply.headers.get('allow')]).toEqual([
        method,
        path,
        405,
        allow,
      ])
    }
  })
})

describe('20 concurrent changes of one resource', () => {
  it('20 concurrent changes of one resource are applied one at a time, each to the result of the previous change', async () => {
    await send('POST', '/api/Thing', { id: 'busy', note: '', size: 0 })
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) => send('PATCH', '/api/Thing/busy', { size: n })),
    )
    expect(replies.map(({ status }) => status)).toEqual(new Array(20).fill(200))
    expect(new Set(replies.map(({ headers }) => headers.get('etag'))).size).toBe(20)
    const updates = (await entriesOf(node))
      .filter(({ method }) => method === 'update_item')
      .slice(-20)
    const sizes = updates.map(({ item }) => item.resource.size)
    expect(sizes.toSorted()).toEqual(Array.from({ length: 20 }, (_, n) => n).toSorted())
    expect((await send('GET', '/api/Thing/busy')).json.size).toBe(sizes.at(-1))
    await Promise.all(
      Array.from({ length: 20 }, () => send('POST', '/api/Move', { thing: 'busy' })),
    )
    expect((await send('GET', '/api/Move')).json).toHaveLength(20)
  })
})

describe('20 concurrent Trades of one Commodity', () => {
  it('20 concurrent Trades of one Commodity are processed in ledger order, and each Trade sees the owner that the previous Trade set', async () => {
    const market = await gateway()
    const names = { firstName: 'First', lastName: 'Last' }
    const traders = Array.from({ length: 20 }, (_, n) => ({ tradeId: `T${n}`, ...names }))
    const about = { description: 'Rice', mainExchange: 'Osaka', quantity: 1, owner: 'T0' }
    await market.send('POST', '/api/Trader', traders)
    await market.send('POST', '/api/Commodity', { tradingSymbol: 'RICE', ...about })
    const replies = await Promise.all(
      traders.map(({ tradeId }) =>
        market.send('POST', '/api/Trade', { commodity: 'RICE', newOwner: tradeId }),
      ),
    )
    expect(replies.map(({ status }) => status)).toEqual(new Array(20).fill(200))

    const trades = (await entriesOf(market)).slice(-60)
    const id = ({ item }: LedgerEntry) => item.id.replace(/#.*/, '').replace(/.*\./, '')
    expect(trades.map((entry) => `${entry.method} ${id(entry)}`)).toEqual(
      Array.from({ length: 20 }, () => [
        'create_item Trade',
        'create_item HistorianRecord',
        'update_item Commodity',
      ]).flat(),
    )
    const order = Array.from({ length: 20 }, (_, n) => trades.slice(3 * n, 3 * n + 3))
    for (const [trade, record, commodity] of order) {
      const { transactionId, newOwner } = trade?.item.resource ?? {}
      expect(record?.item.resource.transactionId).toBe(transactionId)
      expect(commodity?.item.resource.owner).toBe(newOwner)
    }
    const owners = order.map(([trade]) => trade?.item.resource.newOwner)
    const relationships = traders.map(
      ({ tradeId }) => `resource:org.acme.mynetwork.Trader#${tradeId}`,
    )
    expect(owners.toSorted()).toEqual(relationships.toSorted())
    const { json } = await market.send('GET', '/api/Commodity/RICE')
    expect(json.owner).toBe(owners.at(-1))
    const positions = replies.map(({ headers }) => headers.get('ledger-position'))
    expect(new Set(positions).size).toBe(20)
    expect((await market.networks.verify('mynetwork', () => {})).finding).toBeNull()
  })
})

describe('a POST of an array', () => {
  it('creates one block, or stores nothing and points to each invalid element', async () => {
    const list = [{ id: 'l1', note: '' }, { id: 'l2', note: 1 }, { id: 'l3' }]
    const { status, details } = await refused('POST', '/api/Thing', list)
    expect(status).toBe(422)
    expect(details.map(({ path }: { path: string }) => path)).toEqual(['/1/note', '/2/note'])
    expect((await send('HEAD', '/api/Thing/l1')).status).toBe(404)
    const before = await blocks()
    const good = list.map(({ id }) => ({ id, note: '' }))
    const reply = await send('POST', '/api/Thing', good)
    expect([reply.status, reply.json.length]).toEqual([200, 3])
    expect(await blocks()).toBe(before + 1)
    expect((await refused('POST', '/api/Thing', [])).code).toBe('LIST_EMPTY')
  })
})

describe('a reference to a missing object', () => {
  it('a reference to a missing object is accepted, or rejected with 422 if the package sets strictReferences', async () => {
    const dangling = { id: 'd', note: '', keeper: 'nobody' }
    expect((await send('POST', '/api/Thing', dangling)).status).toBe(200)
    const strict = await gateway({
      deploy: [networkOf(MODEL, {}, { daicho: { strictReferences: true } })],
    })
    const { status, json } = await strict.send('POST', '/api/Thing', dangling)
    expect([status, json.error.details[0].code]).toEqual([422, 'REFERENCE_MISSING'])
    await strict.send('POST', '/api/Person', { name: 'nobody' })
    expect((await strict.send('POST', '/api/Thing', dangling)).status).toBe(200)
    expect((await strict.send('POST', '/api/Move', { thing: 'x' })).status).toBe(422)
    for (const method of ['PUT', 'PATCH']) {
      const changed = { note: '', keeper: 'somebody' }
      const reply = await strict.send(method, '/api/Thing/d', changed)
      expect([method, reply.status, reply.json.error?.details[0].code]).toEqual([
        ...[method, 422, 'REFERENCE_MISSING'],
      ])
    }
  })

  it('gets the same answer as a reference to an object that the caller may not read', async () => {
    const rule = (name: string, resource: string, action: string) =>
      `rule ${name} { description: "" participant: "org.test.Person" operation: ALL resource: "${resource}" action: ${action} }\n`
    const rules =
      rule('Secret', 'org.test.Person#secret', 'DENY') +
      rule('All', '**', 'ALLOW') +
      rule('Admin', '**', 'ALLOW').replace(
        'org.test.Person',
        'org.hyperledger.composer.system.NetworkAdmin',
      )
    const strict = await gateway({
      deploy: [
        networkOf(MODEL, { 'permissions.acl': rules }, { daicho: { strictReferences: true } }),
      ],
    })
    for (const name of ['ann', 'secret']) await strict.send('POST', '/api/Person', { name })
    const issue = { participant: 'org.test.Person#ann', userID: 'ann' }
    const { json } = await strict.send('POST', '/api/system/identities/issue', issue)
    const headers = { authorization: `Bearer ${json.userSecret}` }
    const kept = async (keeper: string) => {
      const reply = await strict.send(
        'POST',
        '/api/Thing',
        { id: keeper, note: '', keeper },
        headers,
      )
      return [reply.status, reply.json.error?.details[0].code]
    }
    expect(await kept('ann')).toEqual([200, undefined])
    expect(await kept('nobody')).toEqual([422, 'REFERENCE_MISSING'])
    expect(await kept('secret')).toEqual([422, 'REFERENCE_MISSING'])
  })
})

describe('a transaction that contains timestamp or transactionId', () => {
  it('gets the timestamp of the gateway instead of its own, and gets 422 if it has a transactionId', async () => {
    const timestamp = '1999-01-01T00:00:00.000Z'
    const { status, json } = await send('POST', '/api/Move', { thing: 't', timestamp })
    expect(status).toBe(200)
    expect(json.timestamp).not.toBe(timestamp)
    expect((await send('GET', `/api/Move/${json.transactionId}`)).json).toEqual(json)
    const named = await refused('POST', '/api/Move', { thing: 't', transactionId: 'mine' })
    expect([named.status, named.details[0].path]).toEqual([422, '/transactionId'])
  })
})

describe('bodies', () => {
  it('bodies get 413 if they are too large, 415 if they have another media type, 400 if they are invalid JSON, and 422 if they are missing', async () => {
    const long = await send('POST', '/api/Thing', { id: 'x', note: 'n'.repeat(11 * 1024 * 1024) })
    expect([long.status, long.json.error.code]).toEqual([413, 'BODY_TOO_LARGE'])
    const text = await refused('POST', '/api/Thing', 'id=1', { 'content-type': 'text/plain' })
    expect(text.status).toBe(415)
    expect((await refused('POST', '/api/Thing', '{"id":')).status).toBe(400)
    expect((await refused('POST', '/api/Thing')).status).toBe(422)
    expect((await refused('POST', '/api/Thing', '"text"')).status).toBe(422)
    expect((await refused('PUT', '/api/Thing/busy', '[1]')).status).toBe(422)
    expect((await refused('GET', '/api/Thing/%E0%A4%A')).status).toBe(400)
  })

  it('bodies get 422 for an id that is too long for the ledger', async () => {
    const { status, details } = await refused('POST', '/api/Thing', {
      id: 'x'.repeat(300),
      note: '',
    })
    expect([status, details[0].code]).toEqual([422, 'ID_TOO_LONG'])
  })
})

describe('revisions', () => {
  it('revisions are sent as the ETag, and a request whose If-Match has another revision returns 412 and changes nothing', async () => {
    const created = await send('POST', '/api/Thing', { id: 'etag', note: '' })
    const etag = created.headers.get('etag') ?? ''
    expect((await send('GET', '/api/Thing/etag')).headers.get('etag')).toBe(etag)
    const changed = await send('PATCH', '/api/Thing/etag', { note: 'b' }, { 'if-match': etag })
    expect(changed.status).toBe(200)
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const body = method === 'DELETE' ? undefined : { note: 'c' }
      const { status, code } = await refused(method, '/api/Thing/etag', body, { 'if-match': etag })
      expect([status, code]).toEqual([412, 'RESOURCE_CHANGED'])
    }
    expect((await send('DELETE', '/api/Thing/etag', undefined, { 'if-match': '*' })).status).toBe(
      204,
    )
  })
})

it('rejects changes with 503 while a peer has a different chain of this node, and still answers reads', async () => {
  const node = await gateway()
  const trader = (tradeId: string) => ({ tradeId, firstName: 'Ada', lastName: 'Ueda' })
  expect((await node.send('POST', '/api/Trader', trader('A'))).status).toBe(200)
  node.ledger.mirrors.onConflict('a peer has another chain of this node')
  const { status, json } = await node.send('POST', '/api/Trader', trader('B'))
  expect([status, json.error.code, json.error.message]).toEqual([
    503,
    'CHAIN_DOUBTED',
    'a peer has another chain of this node',
  ])
  expect((await node.send('GET', '/api/Trader/A')).status).toBe(200)
})
