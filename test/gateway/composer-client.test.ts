// The requests of Composer's client: archives, changes of several resources, queries and the removal of a network.
import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import { RESOURCES_MAX } from '../../src/network/resources/instances.ts'
import { type GatewayNode, gateway, networkOf, startGateway } from '../support/gateway.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'

const SYSTEM = 'org.hyperledger.composer.system'
const KEY = { 'x-api-key': 'the key' }
const MODEL = `namespace org.test
enum Colour { o RED o GREEN }
concept Size { o Integer width o Double height optional o Size inner optional }
asset Thing identified by id {
  o String id
  o Integer count default=0
  o Boolean open optional
  o Double weight optional
  o DateTime made optional
  o Colour colour optional
  o String[] tags
  o Integer[] numbers
  o Size size optional
  o Size[] sizes
  --> Person owner optional
}
participant Person identified by name { o String name }
transaction Grow { o Integer by }
event Grown {}`
const SCRIPT = `/** @param {org.test.Grow} grow
 * @transaction */
async function grow({ by }) {
  const things = await getAssetRegistry('org.test.Thing')
  const all = await things.getAll()
  for (const thing of all) thing.count += by
  await things.updateAll(all)
}`
const RULES = `
rule Own { description: "" participant(p): "org.test.Person" operation: ALL resource(r): "org.test.Thing" condition: (r.owner.getIdentifier() == p.getIdentifier()) action: ALLOW }
rule See { description: "" participant: "org.test.Person" operation: READ resource: "org.test.Thing#open" action: ALLOW }
rule Submit { description: "" participant: "org.test.Person" operation: CREATE resource: "${SYSTEM}.**" action: ALLOW }
rule Admin { description: "" participant: "${SYSTEM}.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`

const FILES = { 'lib/grow.js': SCRIPT, 'permissions.acl': RULES }
const definition = networkOf(MODEL, FILES)

/** Starts a gateway with an API key and two participants. Returns the headers of each caller. */
async function started(folder: string | null = null) {
  const node = await startGateway({ folder, apiKey: KEY['x-api-key'], deploy: [definition] })
  await node.send('POST', '/api/Person', [{ name: 'ann' }, { name: 'bob' }], KEY)
  const bearer = async (name: string) => {
    const body = { participant: `org.test.Person#${name}`, userID: name }
    const { json } = await node.send('POST', '/api/system/identities/issue', body, KEY)
    return { authorization: `Bearer ${json.userSecret}` }
  }
  return { node, ann: await bearer('ann'), bob: await bearer('bob') }
}

let node: GatewayNode
let ann: Record<string, string>
let bob: Record<string, string>
beforeAll(async () => {
  ;({ node, ann, bob } = await started())
  return () => node.close()
})

const admin: GatewayNode['send'] = (method, path, body, headers = {}) =>
  node.send(method, path, body, { ...KEY, ...headers })
const things = async () =>
  (await admin('GET', '/api/Thing')).json.map(({ id, count }: { id: string; count: number }) => [
    id,
    count,
  ])
const add = (...ids: string[]) =>
  admin(
    'POST',
    '/api/Thing',
    ids.map((id) => ({ id, owner: id === 'theirs' ? 'bob' : 'ann' })),
  )
const clear = async () => {
  const ids = (await things()).map(([id]: [string]) => id)
  if (ids.length > 0) expect((await admin('DELETE', '/api/Thing', ids)).status).toBe(204)
}
const blocks = async () => (await node.ledger.read.chainSize()).blocks

describe('GET /api/system/archive', () => {
  it('returns the deployed archive byte for byte to callers who may read the network', async () => {
    const headers = { 'x-api-key': KEY['x-api-key'] }
    const reply = await fetch(`${node.url}/api/system/archive`, { headers })
    const bytes = Buffer.from(await reply.arrayBuffer())
    expect([reply.status, bytes.equals(definition.archive)]).toEqual([200, true])
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(definition.sha256)
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment; filename="test-network@1.0.0.bna"',
      etag: `"${definition.sha256}"`,
    })
    const refused = await node.send('GET', '/api/system/archive', undefined, ann)
    expect([refused.status, refused.json.error.code]).toEqual([404, 'RESOURCE_NOT_FOUND'])
    expect((await node.send('GET', '/api/system/archive')).status).toBe(401)
    expect((await admin('POST', '/api/system/archive', {})).status).toBe(405)
  })

  it('returns the archive of the default network even before the network is recorded', async () => {
    const own = await gateway()
    expect((await own.send('HEAD', '/api/system/archive')).status).toBe(200)
  })
})

describe('GET /api/system/ping', () => {
  it('names the participant and the identity of the caller', async () => {
    const { json } = await node.send('GET', '/api/system/ping', undefined, ann)
    expect(json).toEqual({
      version: '0.0.0',
      participant: 'org.test.Person#ann',
      identity: expect.stringMatching(new RegExp(`^${SYSTEM}\\.Identity#[0-9a-f]{64}$`)),
    })
  })
})

describe('PUT of an array', () => {
  it('replaces all resources in one block', async () => {
    await add('a', 'b')
    const before = await blocks()
    const reply = await admin('PUT', '/api/Thing', [
      { id: 'a', count: 1 },
      { id: 'b', count: 2 },
    ])
    expect([reply.status, reply.json.length, reply.json[1]]).toEqual([
      ...[200, 2],
      { $class: 'org.test.Thing', id: 'b', count: 2, tags: [], numbers: [], sizes: [] },
    ])
    expect(await blocks()).toBe(before + 1)
    expect(await things()).toEqual([
      ['a', 1],
      ['b', 2],
    ])
    const [record] = (
      await admin('GET', '/api/system/historian?filter[order]=transactionId DESC&filter[limit]=1')
    ).json
    expect(record.transactionType).toBe(`${SYSTEM}.UpdateAsset`)
    await clear()
  })

  it.each([
    ['a missing resource', [{ id: 'a' }, { id: 'none' }], 404, 'RESOURCE_NOT_FOUND'],
    ['an invalid resource', [{ id: 'a' }, { id: 'b', count: 'x' }], 422, 'RESOURCE_INVALID'],
    ['a repeated resource', [{ id: 'a' }, { id: 'a' }], 422, 'RESOURCE_INVALID'],
    ['an empty array', [], 422, 'LIST_EMPTY'],
    ['an object instead of an array', { id: 'a' }, 422, 'RESOURCE_INVALID'],
  ])(
    'PUT of an array is rejected and changes nothing for %s',
    async (_what, body, status, code) => {
      await add('a', 'b')
      const before = await blocks()
      const { json, status: given } = await admin('PUT', '/api/Thing', body)
      expect([given, json.error.code]).toEqual([status, code])
      expect(await blocks()).toBe(before)
      await clear()
    },
  )

  it('checks access rules for each resource, and changes nothing if one is denied', async () => {
    await add('mine', 'theirs', 'open')
    await admin('PATCH', '/api/Thing/open', { owner: 'bob' })
    const put = async (...ids: string[]) => {
      const body = ids.map((id) => ({ id, count: 5, owner: 'ann' }))
      const { status, json } = await node.send('PUT', '/api/Thing', body, ann)
      return [status, json.error?.code ?? json.length]
    }
    expect(await put('mine', 'theirs')).toEqual([404, 'RESOURCE_NOT_FOUND'])
    expect(await put('mine', 'open')).toEqual([403, 'ACCESS_DENIED'])
    expect((await things()).map(([, count]: [string, number]) => count)).toEqual([0, 0, 0])
    expect(await put('mine')).toEqual([200, 1])
    await clear()
  })

  it('PUT of an array is rejected with If-Match, or for a transaction type', async () => {
    const { status, json } = await admin('PUT', '/api/Thing', [{ id: 'a' }], {
      'if-match': '"1.0"',
    })
    expect([status, json.error.code]).toEqual([400, 'REQUEST_INVALID'])
    for (const method of ['PUT', 'DELETE']) {
      const refused = await admin(method, '/api/Grow', [])
      expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST'])
    }
  })
})

describe('DELETE of an array of ids', () => {
  it('removes all resources in one block', async () => {
    await add('a', 'b', 'c#d')
    const before = await blocks()
    const reply = await admin('DELETE', '/api/Thing', ['a', 'c#d'])
    expect([reply.status, reply.text]).toEqual([204, ''])
    expect([await blocks(), await things()]).toEqual([before + 1, [['b', 0]]])
    await clear()
  })

  it.each([
    ['a missing resource', ['a', 'none'], 404, 'RESOURCE_NOT_FOUND'],
    ['a repeated id', ['a', 'a'], 422, 'RESOURCE_INVALID'],
    ['an element that is not an id', ['a', { id: 'b' }], 422, 'RESOURCE_INVALID'],
    ['an empty array', [], 422, 'LIST_EMPTY'],
    ['no body', undefined, 422, 'RESOURCE_INVALID'],
    ['a string instead of an array', '"a"', 422, 'RESOURCE_INVALID'],
  ])(
    'DELETE of an array of ids is rejected and changes nothing for %s',
    async (_what, body, status, code) => {
      await add('a', 'b')
      const before = await blocks()
      const { json, status: given } = await admin('DELETE', '/api/Thing', body)
      expect([given, json.error.code]).toEqual([status, code])
      expect([await blocks(), (await things()).length]).toEqual([before, 2])
      await clear()
    },
  )

  it('checks access rules for each resource, and changes nothing if one is denied', async () => {
    await add('mine', 'theirs', 'open')
    await admin('PATCH', '/api/Thing/open', { owner: 'bob' })
    const remove = async (...ids: string[]) => {
      const { status, json } = await node.send('DELETE', '/api/Thing', ids, ann)
      return [status, json?.error.code]
    }
    expect(await remove('mine', 'theirs')).toEqual([404, 'RESOURCE_NOT_FOUND'])
    expect(await remove('mine', 'open')).toEqual([403, 'ACCESS_DENIED'])
    expect(await things()).toHaveLength(3)
    expect(await remove('mine')).toEqual([204, undefined])
    expect((await node.send('DELETE', '/api/Thing', ['theirs', 'open'], bob)).status).toBe(204)
  })
})

it(`accepts an array of up to ${RESOURCES_MAX} resources in one request, and rejects a longer array`, async () => {
  const ids = Array.from({ length: RESOURCES_MAX + 1 }, (_, n) => String(n))
  const bodies = ids.map((id) => ({ id }))
  const statusOf = async (method: string, body: unknown) => {
    const { status, json } = await admin(method, '/api/Thing', body)
    return [status, json?.error?.code]
  }
  const all = RESOURCES_MAX
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const list: unknown[] = method === 'DELETE' ? ids : bodies
    expect(await statusOf(method, list)).toEqual([413, 'UNIT_TOO_LARGE'])
    const taken = await statusOf(method, list.slice(0, all))
    expect(taken).toEqual([method === 'DELETE' ? 204 : 200, undefined])
  }
  expect(await things()).toEqual([])
})

describe('POST /api/system/query', () => {
  const query = async (body: unknown, headers: Record<string, string> = KEY, path = '') => {
    const reply = await node.send('POST', `/api/system/query${path}`, body, headers)
    const { status, json } = reply
    return [status, json.error?.code ?? json.map(({ id }: { id: string }) => id)]
  }

  it('returns the readable results of a query with parameters', async () => {
    await add('a', 'b', 'theirs')
    await admin('PATCH', '/api/Thing/b', { count: 7, open: true })
    const text = 'SELECT org.test.Thing WHERE (count >= _$least) ORDER BY [id DESC]'
    expect(await query({ query: text, parameters: { least: 0 } })).toEqual([
      200,
      ['theirs', 'b', 'a'],
    ])
    expect(await query({ query: text, parameters: { least: '7' } })).toEqual([200, ['b']])
    expect(await query({ query: text, parameters: { least: 0 } }, ann)).toEqual([200, ['b', 'a']])
    const open = 'SELECT org.test.Thing WHERE (open == _$open)'
    expect(await query({ query: open, parameters: { open: true } })).toEqual([200, ['b']])
    expect(await query({ query: 'SELECT org.test.Thing' }, KEY, '?filter[limit]=1')).toEqual([
      200,
      ['a'],
    ])
    await clear()
  })

  it.each([
    ['no query', {}, '/query'],
    ['a query that is not a string', { query: 1 }, '/query'],
    [
      'parameters that are not an object',
      { query: 'SELECT org.test.Thing', parameters: [] },
      '/parameters',
    ],
    ['an unknown member', { query: 'SELECT org.test.Thing', what: 1 }, '/what'],
    ['a missing parameter', { query: 'SELECT org.test.Thing WHERE (count > _$n)' }, '/n'],
    [
      'a parameter of a wrong type',
      { query: 'SELECT org.test.Thing WHERE (count > _$n)', parameters: { n: {} } },
      '/n',
    ],
    ['an unknown parameter', { query: 'SELECT org.test.Thing', parameters: { n: 1 } }, '/n'],
  ])('POST /api/system/query rejects %s', async (_what, body, path) => {
    const { status, json } = await admin('POST', '/api/system/query', body)
    expect([status, json.error.code, json.error.details[0].path]).toEqual([
      ...[400, 'PARAMETER_INVALID', path],
    ])
  })

  it('rejects invalid queries and queries that are too long', async () => {
    for (const text of [
      '',
      'DROP',
      'SELECT org.test.None',
      `SELECT org.test.Thing ${' '.repeat(10_000)}`,
    ]) {
      expect(await query({ query: text })).toEqual([400, 'PARAMETER_INVALID'])
    }
    expect((await admin('GET', '/api/system/query')).status).toBe(405)
  })
})

describe('form bodies', () => {
  const FORM = { ...KEY, 'content-type': 'application/x-www-form-urlencoded' }
  const post = (path: string, form: string, headers = {}) =>
    node.send('POST', path, form, { ...FORM, ...headers })

  it('form bodies create a resource, with values converted to the types in the model', async () => {
    const form = [
      ...['id=f+1%26', 'count=3', 'open=true', 'weight=1.5', 'made=2026-01-01', 'colour=RED'],
      ...['tags=a', 'tags=b', 'numbers[]=1', 'size[width]=2', 'size[inner][width]=4'],
      ...['sizes[0][width]=5', 'sizes[1][width]=6', 'sizes[1][height]=0.5', 'owner=ann', ''],
    ].join('&')
    const reply = await post('/api/Thing', form)
    const size = (more: object) => ({ $class: 'org.test.Size', ...more })
    expect([reply.status, reply.json]).toEqual([
      200,
      {
        $class: 'org.test.Thing',
        ...{ id: 'f 1&', count: 3, open: true, weight: 1.5, made: '2026-01-01T00:00:00.000Z' },
        ...{
          colour: 'RED',
          tags: ['a', 'b'],
          numbers: [1],
          size: size({ width: 2, inner: size({ width: 4 }) }),
        },
        sizes: [size({ width: 5 }), size({ width: 6, height: 0.5 })],
        owner: 'resource:org.test.Person#ann',
      },
    ])
    await clear()
  })

  it('form bodies submit a transaction', async () => {
    await add('a')
    expect((await post('/api/Grow', 'by=4')).status).toBe(200)
    expect(await things()).toEqual([['a', 4]])
    await clear()
  })

  it('form bodies are rejected with a pointer to each invalid field', async () => {
    const { status, json } = await post(
      '/api/Thing',
      'id=a&id=b&count=x&open=yes&what=1&tags=a&size=5',
    )
    expect([status, json.error.code]).toEqual([422, 'RESOURCE_INVALID'])
    const found = json.error.details.map(({ path }: { path: string }) => path)
    expect(found).toEqual(['/id', '/count', '/open', '/size', '/what'])
    const { json: none } = await post('/api/Thing', '')
    expect(none.error.details).toEqual([
      { path: '', code: 'MISSING', message: 'the body is missing; send JSON' },
    ])
  })

  it.each([
    ['invalid percent-encoding', 'id=%E0%A4%A'],
    ['an invalid field name', 'a]b=1'],
    ['too many brackets', `a${'[b]'.repeat(17)}=1`],
    ['too many fields', 'a=1&'.repeat(1_000)],
  ])('form bodies are rejected with 400 for %s', async (_what, form) => {
    const { status, json } = await post('/api/Thing', form)
    expect([status, json.error.code]).toEqual([400, 'REQUEST_INVALID'])
  })

  it('form bodies can have 1,000 fields, but no member names that are special to JavaScript', async () => {
    const many = await post('/api/Thing', `id=many${'&tags=a'.repeat(999)}`)
    expect([many.status, many.json.tags.length]).toEqual([200, 999])
    const { json } = await post('/api/Thing', 'id=a&__proto__=1&__proto__[x]=1')
    expect(json.error.code).toBe('JSON_FORBIDDEN_MEMBER')
    await clear()
  })

  it('form bodies are rejected by every other route, and from a page of another site', async () => {
    const identities = await post('/api/system/identities/issue', 'participant=x&userID=y')
    expect([identities.status, identities.json.error.code]).toEqual([415, 'CONTENT_TYPE_UNKNOWN'])
    expect((await node.send('PUT', '/api/Thing/a', 'count=1', FORM)).status).toBe(415)
    expect((await node.send('DELETE', '/api/Thing', 'a', FORM)).status).toBe(415)
    const foreign = await post('/api/Thing', 'id=x', { origin: 'http://other.example' })
    expect([foreign.status, foreign.json.error.code]).toEqual([403, 'CROSS_ORIGIN'])
    expect(await things()).toEqual([])
  })
})

describe('DELETE /networks/<name>', () => {
  it('removes a network permanently, but keeps its name and history in the ledger', async () => {
    const folder = temporaryFolder()
    const { node: own, ann: member } = await started(folder)
    await own.send('POST', '/api/Thing', [{ id: 'a' }, { id: 'b' }], KEY)
    await own.send('POST', '/api/Grow', { by: 1 }, KEY)
    const path = '/networks/test-network'
    expect((await own.send('DELETE', path, undefined, member)).status).toBe(401)
    expect((await own.send('DELETE', path)).status).toBe(401)
    const waiting = Array.from({ length: 5 }, () => own.send('POST', '/api/Grow', { by: 1 }, KEY))
    const removed = await own.send('DELETE', path, undefined, KEY)
    expect([removed.status, removed.text]).toEqual([204, ''])
    for (const { status } of await Promise.all(waiting)) expect([200, 410]).toContain(status)

    const gone = async (at: GatewayNode) => {
      const answers = []
      for (const [method, where, body] of [
        ['GET', '/test-network/api/Thing', undefined],
        ['GET', '/test-network/api/Thing/a', undefined],
        ['POST', '/test-network/api/Grow', { by: 1 }],
        ['GET', '/test-network/api/system/archive', undefined],
        ['GET', '/test-network/explorer', undefined],
        ['DELETE', path, undefined],
      ] as const) {
        const { status, json } = await at.send(method, where, body, KEY)
        answers.push([status, json?.error?.code])
      }
      const archive = (method: string, where: string, bytes: Buffer) =>
        at.send(method, where, new Uint8Array(bytes), {
          ...KEY,
          'content-type': 'application/octet-stream',
        })
      const again = await archive('POST', '/networks', definition.archive)
      const next = networkOf(MODEL, FILES, { version: '2.0.0' })
      const upgrade = await archive('PUT', path, next.archive)
      return {
        answers: [...new Set(answers.map((answer) => answer.join(' ')))],
        listed: (await at.send('GET', '/networks', undefined, KEY)).json,
        deploy: [again.status, again.json.error.code],
        upgrade: [upgrade.status, upgrade.json.error.code],
        item: JSON.parse(
          (await at.ledger.read.item('test-network', `${SYSTEM}.Network#test-network`))?.text ?? '',
        ),
        finding: (await at.networks.verify('test-network', () => {})).finding,
      }
    }
    const expected = {
      answers: ['410 NETWORK_REMOVED'],
      listed: [],
      deploy: [409, 'NETWORK_NAME_TAKEN'],
      upgrade: [410, 'NETWORK_REMOVED'],
      item: {
        id: `${SYSTEM}.Network#test-network`,
        resource: {
          $class: `${SYSTEM}.Network`,
          networkId: 'test-network',
          runtimeVersion: '0.0.0',
        },
        ...{ version: '1.0.0', sha256: definition.sha256, removed: true },
      },
      finding: null,
    }
    expect(await gone(own)).toEqual(expected)
    // The ledger still serves the data, but rejects changes of it.
    expect(await own.ledger.read.item('test-network', 'org.test.Thing#a')).not.toBeNull()
    const write = own.ledger.write.createItem('test-network', { id: 'x' })
    await expect(write).rejects.toMatchObject({ code: 'OWNED_BY_NETWORK' })
    await own.close()
    const again = await startGateway({ folder, apiKey: KEY['x-api-key'], deploy: [] })
    expect(await gone(again)).toEqual(expected)
    expect(again.networks.recorded()).toEqual(['test-network'])
    await again.close()
    expect((await verifyFolder(folder)).finding).toBeNull()
  })

  it('returns 404 for an unknown network, and also removes a network without any writes', async () => {
    const own = await gateway()
    expect((await own.send('DELETE', '/networks/none')).status).toBe(404)
    expect((await own.send('DELETE', '/networks/mynetwork')).status).toBe(204)
    expect((await own.send('GET', '/api/Trader')).status).toBe(410)
    expect(await own.networks.verify('mynetwork', () => {})).toMatchObject({ finding: null })
  })

  it('lets `daicho network verify` find any change that was made after the removal', async () => {
    const own = await gateway({ deploy: [definition] })
    await own.send('DELETE', '/networks/test-network')
    const id = 'org.test.Thing#x'
    const text = `{"id":"${id}","resource":{"id":"x"}}`
    const unit = [{ kind: 'create_item', db: 'test-network', id, text, assigned: false }] as const
    await own.ledger.write.ownDatabase('test-network').record(unit)
    expect((await own.networks.verify('test-network', () => {})).finding).toBe(
      'block 2: the block changes a network that was removed',
    )
  })
})
