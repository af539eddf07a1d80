// Access rules, identities, API keys and named queries.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readNetwork, requireDefinition } from '../../src/network/index.ts'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'

const SYSTEM_RULES = `
rule System { participant: "ANY" operation: ALL resource: "org.hyperledger.composer.system.**" action: ALLOW }
rule Admin { participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`
const MODELS = {
  'models/a.cto': `namespace org.a
abstract asset Base identified by id { o String id }
asset One extends Base {}
abstract participant Person identified by name { o String name }
participant Clerk extends Person {}
participant Boss extends Person {}`,
  'models/b.cto': `namespace org.a.deep
import org.a.Base
asset Two extends Base { o Integer n optional }
transaction Ask {}`,
}

/** Starts a node with `rules` and the rules that give access to the system types, which most tests need. */
async function under(rules: string) {
  const node = await gateway({
    deploy: [
      networkOf('namespace org.empty', { ...MODELS, 'permissions.acl': rules + SYSTEM_RULES }),
    ],
  })
  const secrets = new Map<string, string>()
  for (const [type, name] of [
    ['Clerk', 'c1'],
    ['Clerk', 'c2'],
    ['Boss', 'b1'],
  ] as const) {
    expect((await node.send('POST', `/api/${type}`, { name })).status).toBe(200)
    const participant = `resource:org.a.${type}#${name}`
    const { json } = await node.send('POST', '/api/system/identities/issue', {
      participant,
      userID: name,
    })
    secrets.set(name, json.userSecret)
  }
  await node.send('POST', '/api/One', [{ id: '1' }, { id: '2' }])
  await node.send('POST', '/api/Two', [{ id: '1' }, { id: '2' }])
  const as = (name: string, method: string, path: string, body?: unknown) =>
    node.send(method, path, body, { authorization: `Bearer ${secrets.get(name)}` })
  return { node, as, secrets }
}

describe('rules', () => {
  it('rules apply in order: the first rule that matches decides, and without a match access is denied', async () => {
    const { as } = await under(`
      rule A { participant: "org.a.Clerk#c1" operation: READ resource: "org.a.One#2" action: DENY }
      rule B { participant: "org.a.Clerk" operation: READ resource: "org.a.One" action: ALLOW }`)
    const ids = async (name: string, path: string) =>
      (await as(name, 'GET', path)).json.map(({ id }: { id: string }) => id)
    expect(await ids('c1', '/api/One')).toEqual(['1'])
    expect(await ids('c2', '/api/One')).toEqual(['1', '2'])
    expect(await ids('b1', '/api/One')).toEqual([])
    expect(await ids('c1', '/api/Two')).toEqual([])
  })

  it('rules hide resources that the caller may not read: reads and changes return “does not exist”', async () => {
    const { as } = await under('')
    const missing = await as('c1', 'GET', '/api/One/none')
    for (const [method, body] of [
      ['GET', undefined],
      ['PUT', {}],
      ['PATCH', {}],
      ['DELETE', undefined],
    ] as const) {
      const { status, json } = await as('c1', method, '/api/One/1', body)
      expect([status, json.error.code]).toEqual([404, 'RESOURCE_NOT_FOUND'])
      expect(json.error.message).toBe(missing.json.error.message.replace('none', '1'))
    }
  })

  it('rules deny a change of a readable resource with 403', async () => {
    const { as } = await under(
      'rule R { participant: "org.a.Person" operation: READ, CREATE resource: "org.a.**" action: ALLOW }',
    )
    expect((await as('c1', 'POST', '/api/Two', { id: '3' })).status).toBe(200)
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const body = method === 'DELETE' ? undefined : {}
      const { status, json } = await as('c1', method, '/api/Two/3', body)
      expect([status, json.error.code]).toEqual([403, 'ACCESS_DENIED'])
    }
    expect((await as('c1', 'GET', '/api/Two/3')).status).toBe(200)
  })

  it('rules match a namespace with *, a namespace and its nested namespaces with **, and a type with its subtypes', async () => {
    const counts = async (rules: string) => {
      const { as } = await under(rules)
      const count = async (path: string) => (await as('c1', 'GET', path)).json.length
      return [await count('/api/One'), await count('/api/Two')]
    }
    const rule = (resource: string) =>
      `rule R { participant: "org.a.*" operation: READ resource: "${resource}" action: ALLOW }`
    expect(await counts(rule('org.a.*'))).toEqual([2, 0])
    expect(await counts(rule('org.a.**'))).toEqual([2, 2])
    expect(await counts(rule('org.a.deep.*'))).toEqual([0, 2])
    expect(await counts(rule('org.a.Base'))).toEqual([2, 2])
    expect(await counts(rule('org.a.Base#1'))).toEqual([1, 1])
    expect(await counts(rule('**'))).toEqual([2, 2])
  })

  it('with a transaction clause apply only during such a transaction', async () => {
    const { as } = await under(`
      rule R { participant: "ANY" operation: ALL resource: "org.a.One"
        transaction: "org.hyperledger.composer.system.AddAsset" action: ALLOW }`)
    expect((await as('c1', 'POST', '/api/One', { id: '9' })).status).toBe(200)
    expect((await as('c1', 'GET', '/api/One/9')).status).toBe(404)
  })

  it('rules reject a change if the caller may not create its transaction or its historian record', async () => {
    for (const type of ['AddAsset', 'HistorianRecord']) {
      const { as } = await under(`
        rule D { participant: "org.a.Clerk" operation: CREATE resource: "org.hyperledger.composer.system.${type}" action: DENY }
        rule R { participant: "org.a.Clerk" operation: ALL resource: "org.a.**" action: ALLOW }`)
      const { status, json } = await as('c1', 'POST', '/api/One', { id: '9' })
      expect([status, json.error.message]).toEqual([
        403,
        expect.stringContaining(`system.${type}#`),
      ])
      expect((await as('c1', 'GET', '/api/One/9')).status).toBe(404)
    }
  })
})

describe('identities', () => {
  it('identities can be issued, act for their participant, and can be revoked permanently', async () => {
    const { node, as, secrets } = await under(
      'rule R { participant: "ANY" operation: ALL resource: "**" action: ALLOW }',
    )
    const ping = await as('c1', 'GET', '/api/system/ping')
    expect(ping.json.participant).toBe('org.a.Clerk#c1')
    const id = createHash('sha256')
      .update(secrets.get('c1') ?? '')
      .digest('hex')
    expect(ping.json.identity).toBe(`org.hyperledger.composer.system.Identity#${id}`)
    const { json } = await node.send('GET', `/api/system/identities/${id}`)
    expect(json).toMatchObject({
      name: 'c1',
      state: 'ISSUED',
      participant: 'resource:org.a.Clerk#c1',
    })
    expect(JSON.stringify(json)).not.toContain(secrets.get('c1'))
    await as('c1', 'POST', '/api/One', { id: 'by-c1' })
    const last = await node.send(
      'GET',
      '/api/system/historian?filter[order]=transactionId DESC&filter[limit]=1',
    )
    expect(last.json[0]).toMatchObject({
      participantInvoking: 'resource:org.a.Clerk#c1',
      identityUsed: `resource:org.hyperledger.composer.system.Identity#${id}`,
    })
    expect((await node.send('POST', `/api/system/identities/${id}/revoke`)).status).toBe(204)
    const refused = await as('c1', 'GET', '/api/system/ping')
    expect([refused.status, refused.json.error.code]).toEqual([401, 'IDENTITY_UNKNOWN'])
    expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer/)
    expect((await as('c2', 'GET', '/api/system/ping')).status).toBe(200)
  })

  it('identities are not valid while their participant does not exist', async () => {
    const { node, as } = await under(
      'rule R { participant: "ANY" operation: ALL resource: "**" action: ALLOW }',
    )
    expect((await node.send('DELETE', '/api/Clerk/c1')).status).toBe(204)
    const refused = await as('c1', 'GET', '/api/system/ping')
    expect([refused.status, refused.json.error.code]).toEqual([401, 'IDENTITY_UNKNOWN'])
    expect((await node.send('POST', '/api/Clerk', { name: 'c1' })).status).toBe(200)
    expect((await as('c1', 'GET', '/api/system/ping')).status).toBe(200)
  })

  it('identities can be bound by the hash of a secret, so that the gateway never receives the secret', async () => {
    const { node } = await under('')
    const hash = createHash('sha256').update('my own').digest('hex')
    const body = { participant: 'org.a.Boss#b1', certificate: `sha256:${hash}` }
    expect((await node.send('POST', '/api/system/identities/bind', body)).status).toBe(204)
    expect((await node.send('POST', '/api/system/identities/bind', body)).status).toBe(409)
    const ping = await node.send('GET', '/api/system/ping', undefined, {
      authorization: 'Bearer my own',
    })
    expect(ping.status).toBe(401)
    const other = createHash('sha256').update('my-own').digest('hex')
    await node.send('POST', '/api/system/identities/bind', {
      ...body,
      certificate: `sha256:${other}`,
    })
    const pinged = await node.send('GET', '/api/system/ping', undefined, {
      authorization: 'Bearer my-own',
    })
    expect(pinged.json.participant).toBe('org.a.Boss#b1')
    const pem = { ...body, certificate: '-----BEGIN CERTIFICATE-----' }
    expect((await node.send('POST', '/api/system/identities/bind', pem)).status).toBe(422)
  })

  it('identities require an existing participant', async () => {
    const { node } = await under('')
    const issue = (participant: unknown) =>
      node.send('POST', '/api/system/identities/issue', { participant, userID: 'x' })
    expect((await issue('org.a.Boss#none')).status).toBe(404)
    expect((await issue('org.a.One#1')).status).toBe(422)
    expect((await issue('b1')).status).toBe(422)
    expect((await issue(7)).status).toBe(422)
  })
})

describe('authentication', () => {
  it('accepts the API key as the administrator, and an identity as its participant; otherwise returns 401', async () => {
    const node = await gateway({ apiKey: 'the key' })
    const ping = (headers: Record<string, string>) =>
      node.send('GET', '/api/system/ping', undefined, headers)
    expect((await ping({})).status).toBe(401)
    expect((await ping({ 'x-api-key': 'a key' })).status).toBe(401)
    expect((await ping({ authorization: 'Bearer x' })).status).toBe(401)
    expect((await ping({ authorization: 'Basic eDp5' })).status).toBe(401)
    expect((await ping({ 'x-api-key': 'the key' })).json.participant).toMatch(/NetworkAdmin#admin$/)
    for (const path of ['/networks', '/api/Commodity', '/api/queries/x', '/api/system/historian']) {
      expect([path, (await node.send('GET', path)).status]).toEqual([path, 401])
    }
    const key = { 'x-api-key': 'the key' }
    const trader = { tradeId: 'T', firstName: '', lastName: '' }
    expect((await node.send('POST', '/api/Trader', trader)).status).toBe(401)
    expect((await node.send('POST', '/api/Trader', trader, key)).status).toBe(200)
    const issue = { participant: 'org.acme.mynetwork.Trader#T', userID: 't' }
    const { json } = await node.send('POST', '/api/system/identities/issue', issue, key)
    const mine = { authorization: `Bearer ${json.userSecret}` }
    expect((await ping(mine)).json.participant).toBe('org.acme.mynetwork.Trader#T')
    expect((await node.send('GET', '/networks', undefined, mine)).status).toBe(401)
  })
})

describe('named queries', () => {
  const deployed = async (): Promise<GatewayNode> => {
    const folder = fileURLToPath(new URL('../networks/trade', import.meta.url))
    const node = await gateway({ deploy: [requireDefinition(readNetwork(folder))] })
    for (const n of [1, 2, 3, 4]) {
      const commodity = {
        tradingSymbol: `C${n}`,
        description: '',
        mainExchange: n < 3 ? 'X' : 'Y',
        quantity: n * 25,
        owner: `T${n % 2}`,
      }
      expect((await node.send('POST', '/api/Commodity', commodity)).status).toBe(200)
    }
    return node
  }
  const symbols = (json: { tradingSymbol: string }[]) =>
    json.map(({ tradingSymbol }) => tradingSymbol)

  it('named queries run on the network of a public Composer sample, with typed parameters', async () => {
    const node = await deployed()
    const ask = async (path: string) => node.send('GET', `/api/queries/${path}`)
    expect(symbols((await ask('selectCommodities')).json)).toEqual(['C1', 'C2', 'C3', 'C4'])
    expect(symbols((await ask('selectCommoditiesByExchange?exchange=Y')).json)).toEqual([
      'C3',
      'C4',
    ])
    for (const owner of ['T1', 'resource:org.example.trading.Trader%23T1']) {
      expect(symbols((await ask(`selectCommoditiesByOwner?owner=${owner}`)).json)).toEqual([
        'C1',
        'C3',
      ])
    }
    const high = await ask(
      'selectCommoditiesWithHighQuantity?filter[order]=quantity DESC&filter[limit]=1',
    )
    expect(symbols(high.json)).toEqual(['C4'])
    expect(high.headers.get('x-total-count')).toBe('2')
    const missing = await ask('selectCommoditiesByExchange')
    expect([missing.status, missing.json.error.details[0].path]).toEqual([400, '/exchange'])
    expect((await ask('selectCommodities?surprise=1')).status).toBe(200)
    expect((await ask('nothing')).status).toBe(404)
    expect((await node.send('POST', '/api/queries/selectCommodities', {})).status).toBe(405)
  })

  it('named queries support conditions, order, limit and skip', async () => {
    const model = `namespace org.test
      concept Part { o String name o Integer size }
      asset Thing identified by id { o String id o Part[] parts o String[] tags o Double weight o DateTime made }`
    const queries = `
      query big { description: "d" statement: SELECT org.test.Thing
        WHERE ((_$least <= weight AND weight < 100) OR id == "t0") ORDER BY [weight DESC] LIMIT _$count SKIP 1 }
      query tagged { statement: SELECT org.test.Thing WHERE (tags CONTAINS ["a", _$tag]) }
      query part { statement: SELECT org.test.Thing WHERE (parts CONTAINS (name == _$name AND size > 1)) }
      query since { statement: SELECT org.test.Thing WHERE (made >= _$from) }`
    const node = await gateway({ deploy: [networkOf(model, { 'queries.qry': queries })] })
    const things = [0, 1, 2, 3].map((n) => ({
      id: `t${n}`,
      parts: [
        { name: 'x', size: n },
        { name: 'y', size: 3 - n },
      ],
      tags: n % 2 === 0 ? ['a', 'b'] : ['a'],
      weight: n,
      made: `202${n}-01-01T00:00:00Z`,
    }))
    await node.send('POST', '/api/Thing', things)
    const ids = async (path: string) => {
      const { status, json } = await node.send('GET', `/api/queries/${path}`)
      expect([path, status]).toEqual([path, 200])
      return json.map(({ id }: { id: string }) => id)
    }
    expect(await ids('big?least=1&count=2')).toEqual(['t2', 't1'])
    expect(await ids('tagged?tag=b')).toEqual(['t0', 't2'])
    expect(await ids('part?name=x')).toEqual(['t2', 't3'])
    expect(await ids('part?name=y')).toEqual(['t0', 't1'])
    expect(await ids('since?from=2022-01-01')).toEqual(['t2', 't3'])
    for (const path of ['big?least=x&count=2', 'big?least=1&count=-1', 'since?from=soon']) {
      expect((await node.send('GET', `/api/queries/${path}`)).status).toBe(400)
    }
  })

  it('named queries return only readable resources', async () => {
    const model =
      'namespace org.test asset Thing identified by id { o String id } participant Person identified by name { o String name }'
    const rules = `rule D { participant: "org.test.Person" operation: READ resource: "org.test.Thing#b" action: DENY }
      rule R { participant: "ANY" operation: ALL resource: "**" action: ALLOW }`
    const queries = 'query all { statement: SELECT org.test.Thing }'
    const files = { 'permissions.acl': rules, 'queries.qry': queries }
    const node = await gateway({ deploy: [networkOf(model, files)] })
    await node.send('POST', '/api/Thing', [{ id: 'a' }, { id: 'b' }, { id: 'c' }])
    await node.send('POST', '/api/Person', { name: 'p' })
    const issue = { participant: 'org.test.Person#p', userID: 'p' }
    const { json } = await node.send('POST', '/api/system/identities/issue', issue)
    const mine = { authorization: `Bearer ${json.userSecret}` }
    const found = await node.send('GET', '/api/queries/all', undefined, mine)
    expect(found.json.map(({ id }: { id: string }) => id)).toEqual(['a', 'c'])
    expect(found.headers.get('x-total-count')).toBe('2')
  })
})

it('the copies of the Composer samples for these tests contain their licence', () => {
  const path = fileURLToPath(new URL('../networks/trade/models/trading.cto', import.meta.url))
  expect(readFileSync(path, 'utf8')).toContain('Apache License')
})
