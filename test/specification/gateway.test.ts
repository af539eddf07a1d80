// Every statement of the specification about the gateway. The name of a test quotes the statement.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type GatewayNode, networkOf, startGateway } from '../support/gateway.ts'

let node: GatewayNode
beforeAll(async () => {
  node = await startGateway()
  for (const [n, symbol] of ['AAA', 'BBB', 'CCC', 'DDD', 'EEE'].entries()) {
    const commodity = {
      tradingSymbol: symbol,
      description: `the ${symbol}`,
      mainExchange: n % 2 === 0 ? 'north' : 'south',
      quantity: n * 10,
      owner: `resource:org.acme.mynetwork.Trader#T${n}`,
    }
    const trader = { tradeId: `T${n}`, firstName: 'First', lastName: `Last${n}` }
    expect((await node.send('POST', '/api/Trader', trader)).status).toBe(200)
    expect((await node.send('POST', '/api/Commodity', commodity)).status).toBe(200)
    const trade = { commodity: symbol, newOwner: `T${n}` }
    expect((await node.send('POST', '/api/Trade', trade)).status).toBe(200)
  }
})
afterAll(() => node.close())

const list = async (path: string) => {
  const { status, json } = await node.send('GET', path)
  expect(status, path).toBe(200)
  return json
}
const symbols = async (query: string) =>
  (await list(`/api/commodities?${query}`)).map(
    (each: { tradingSymbol: string }) => each.tradingSymbol,
  )

describe('What the service does (specification, part N)', () => {
  it('A tool exposes a deployed business network (assets, participants, transactions) as a REST API', async () => {
    expect(await list('/api/Commodity')).toHaveLength(5)
    expect(await list('/api/Trader')).toHaveLength(5)
    expect(await list('/api/Trade')).toHaveLength(5)
  })

  it('with an OpenAPI explorer.', async () => {
    const page = await node.send('GET', '/explorer')
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    for (const [, file] of page.text.matchAll(/(?:src|href)="([^"#]+)"/g)) {
      expect((await node.send('GET', file ?? '')).status, file).toBe(200)
    }
  })
})

describe('Resources and their fields (specification, part N)', () => {
  it('asset Commodity (identified by tradingSymbol): tradingSymbol String, description String, mainExchange String, quantity Double, owner (reference to Trader)', async () => {
    const { json } = await node.send('GET', '/api/Commodity/BBB')
    expect(json).toEqual({
      $class: 'org.acme.mynetwork.Commodity',
      tradingSymbol: 'BBB',
      description: 'the BBB',
      mainExchange: 'south',
      quantity: 10,
      owner: 'resource:org.acme.mynetwork.Trader#T1',
    })
    const wrong = { tradingSymbol: 1, description: 2, mainExchange: 3, quantity: '4', owner: 5 }
    const refused = await node.send('POST', '/api/Commodity', wrong)
    expect(refused.status).toBe(422)
    const paths = refused.json.error.details.map(({ path }: { path: string }) => path)
    expect(paths).toEqual(Object.keys(wrong).map((name) => `/${name}`))
  })

  it('participant Trader (identified by tradeId): tradeId String, firstName String, lastName String', async () => {
    const { json } = await node.send('GET', '/api/Trader/T3')
    expect(json).toEqual({
      $class: 'org.acme.mynetwork.Trader',
      tradeId: 'T3',
      firstName: 'First',
      lastName: 'Last3',
    })
  })

  it('transaction Trade: commodity (reference to Commodity), newOwner (reference to Trader)', async () => {
    const [trade] = await list('/api/Trade')
    expect(trade).toEqual({
      $class: 'org.acme.mynetwork.Trade',
      commodity: expect.stringMatching(/^resource:org\.acme\.mynetwork\.Commodity#/),
      newOwner: expect.stringMatching(/^resource:org\.acme\.mynetwork\.Trader#/),
      transactionId: expect.any(String),
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    })
    expect((await node.send('GET', `/api/Trade/${trade.transactionId}`)).json).toEqual(trade)
  })

  it('The namespace is org.acme.mynetwork.', async () => {
    for (const type of ['Commodity', 'Trader', 'Trade']) {
      expect(await list(`/api/org.acme.mynetwork.${type}`)).toHaveLength(5)
    }
  })
})

describe('Endpoints (specification, part N)', () => {
  it('GET /explorer: OpenAPI explorer listing the operations for Commodity, Trader and Trade', async () => {
    const { json } = await node.send('GET', '/explorer/openapi.json')
    expect(json.openapi).toMatch(/^3\./)
    const operations = Object.entries<object>(json.paths).flatMap(([path, verbs]) =>
      Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
    )
    for (const type of ['Commodity', 'Trader']) {
      for (const verb of ['GET', 'POST']) expect(operations).toContain(`${verb} /${type}`)
      for (const verb of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE']) {
        expect(operations).toContain(`${verb} /${type}/{id}`)
      }
    }
    for (const each of ['GET /Trade', 'POST /Trade', 'GET /Trade/{id}']) {
      expect(operations).toContain(each)
    }
  })

  it('A generated list operation GET /api/<models>', async () => {
    expect(await list('/api/commodities')).toEqual(await list('/api/Commodity'))
    expect(await list('/api/traders')).toEqual(await list('/api/Trader'))
    expect(await list('/api/trades')).toEqual(await list('/api/Trade'))
  })

  it('filter[where][<field>][lt]=<number>: Keep records whose field is less than the number', async () => {
    expect(await symbols('filter[where][quantity][lt]=20')).toEqual(['AAA', 'BBB'])
    expect(await symbols('filter[where][quantity][lt]=20.5')).toEqual(['AAA', 'BBB', 'CCC'])
    expect(await symbols('filter[where][quantity][lt]=0')).toEqual([])
    expect(
      (await node.send('GET', '/api/commodities?filter[where][quantity][lt]=many')).status,
    ).toBe(400)
    expect((await node.send('GET', '/api/traders?filter[where][quantity][lt]=1')).status).toBe(400)
    expect((await node.send('GET', '/api/trades?filter[where][quantity][lt]=1')).status).toBe(400)
  })

  it('filter[limit]=<integer>: Maximum number of records', async () => {
    for (const path of ['commodities', 'traders', 'trades']) {
      const all = await list(`/api/${path}`)
      expect(await list(`/api/${path}?filter[limit]=2`)).toEqual(all.slice(0, 2))
      expect(await list(`/api/${path}?filter[limit]=99`)).toEqual(all)
      expect((await node.send('GET', `/api/${path}?filter[limit]=0`)).status).toBe(400)
      expect((await node.send('GET', `/api/${path}?filter[limit]=x`)).status).toBe(400)
    }
  })

  it('filter[offset]=<integer>: Number of records to skip', async () => {
    for (const path of ['commodities', 'traders', 'trades']) {
      const all = await list(`/api/${path}`)
      expect(await list(`/api/${path}?filter[offset]=3`)).toEqual(all.slice(3))
      expect(await list(`/api/${path}?filter[skip]=3`)).toEqual(all.slice(3))
      expect(await list(`/api/${path}?filter[offset]=5`)).toEqual([])
      expect((await node.send('GET', `/api/${path}?filter[offset]=-1`)).status).toBe(400)
    }
  })

  it('The parameters can be combined in one request.', async () => {
    const query = 'filter[where][quantity][lt]=40&filter[limit]=2&filter[offset]=1'
    expect(await symbols(query)).toEqual(['BBB', 'CCC'])
    const { headers } = await node.send('GET', `/api/commodities?${query}`)
    expect(headers.get('x-total-count')).toBe('4')
    for (const path of ['traders', 'trades']) {
      const all = await list(`/api/${path}`)
      expect(await list(`/api/${path}?filter[limit]=2&filter[offset]=2`)).toEqual(all.slice(2, 4))
    }
  })

  it('filter[where][<field>][lt] also on participants and transactions that have a number', async () => {
    const model = `namespace org.test
participant Clerk identified by id { o String id o Integer desk }
transaction Count { o Long sum }`
    const script = `/** @param {org.test.Count} count
 * @transaction */
function count() {}`
    const other = await startGateway({ deploy: [networkOf(model, { 'lib/count.js': script })] })
    for (const n of [1, 2, 3]) {
      await other.send('POST', '/api/Clerk', { id: `c${n}`, desk: n })
      await other.send('POST', '/api/Count', { sum: n })
    }
    const { json } = await other.send(
      'GET',
      '/api/clerks?filter[where][desk][lt]=3&filter[offset]=1',
    )
    expect(json).toEqual([{ $class: 'org.test.Clerk', id: 'c2', desk: 2 }])
    const counts = await other.send('GET', '/api/counts?filter[where][sum][lt]=3&filter[limit]=9')
    expect(counts.json.map(({ sum }: { sum: number }) => sum)).toEqual([1, 2])
    await other.close()
  })
})

describe('Authentication (specification, part N)', () => {
  it('The sample setup runs with the REST API not secured.', async () => {
    const { status, json } = await node.send('GET', '/api/system/ping')
    expect(status).toBe(200)
    expect(json.participant).toBe('org.hyperledger.composer.system.NetworkAdmin#admin')
  })
})

describe('Limits', () => {
  it('Default offset (guideline only) is 0 on generated list APIs', async () => {
    expect(await list('/api/commodities?filter[offset]=0')).toEqual(await list('/api/commodities'))
  })
})
