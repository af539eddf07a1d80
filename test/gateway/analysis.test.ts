// Histories and aggregations of resources over HTTP, under the access rules.
import { expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.test
concept Size { o Integer width }
asset Thing identified by id {
  o String id
  o String owner
  o Double weight optional
  o Size size optional
  o Boolean secret default=false
}
participant Person identified by name { o String name }
transaction Touch { o String id o Integer times }`
const LIB = `async function onTouch({ id, times }) {
  const things = await getAssetRegistry('org.test.Thing')
  for (let n = 0; n < times; n += 1) {
    const thing = await things.get(id)
    thing.weight = n
    await things.update(thing)
  }
}`
const RULES = `
rule Own { description: "-" participant(p): "org.test.Person" operation: READ resource(t): "org.test.Thing"
  condition: (t.owner === p.getIdentifier()) action: ALLOW }
rule Touch { description: "-" participant: "org.test.Person#ann" operation: ALL resource: "org.test.Touch" action: ALLOW }
rule Update { description: "-" participant: "org.test.Person#ann" operation: UPDATE resource: "org.test.Thing" action: ALLOW }
rule Records { description: "-" participant: "org.test.Person#ann" operation: ALL
  resource: "org.hyperledger.composer.system.**" action: ALLOW }
rule All { description: "-" participant: "org.test.Person#eve" operation: READ resource: "org.test.Thing" action: ALLOW }
rule Admin { description: "-" participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`

async function started() {
  const files = { 'lib/logic.js': LIB, 'permissions.acl': RULES }
  const node = await gateway({ deploy: [networkOf(MODEL, files)] })
  const people = ['ann', 'bob', 'eve']
  await node.send(
    'POST',
    '/api/Person',
    people.map((name) => ({ name })),
  )
  const secrets = new Map<string, string>()
  for (const userID of people) {
    const identity = { participant: `org.test.Person#${userID}`, userID }
    const issued = await node.send('POST', '/api/system/identities/issue', identity)
    secrets.set(userID, issued.json.userSecret)
  }
  const as = async (name: string, path: string, body?: object, method = body ? 'POST' : 'GET') => {
    const headers = name === 'admin' ? {} : { authorization: `Bearer ${secrets.get(name)}` }
    const { status, json } = await node.send(method, `/api/${path}`, body, headers)
    return json?.error === undefined ? json : [status, json.error.code]
  }
  return { node, as }
}

type Revision = { revision: string; change: string; participant: string | null }
const changes = (history: Revision[]) => history.map(({ change }) => change)

it('lists the revisions of a resource with time, transaction and participant, in both orders and page by page', async () => {
  const { as, node } = await started()
  await as('admin', 'Thing', { id: 'a', owner: 'ann' })
  const { transactionId } = await as('ann', 'Touch', { id: 'a', times: 2 })
  await as('admin', 'Thing/a', {}, 'DELETE')
  await as('admin', 'Thing', { id: 'a', owner: 'bob' })
  const history = await as('admin', 'Thing/a/history')
  expect(changes(history)).toEqual(['create', 'update', 'update', 'delete', 'create'])
  expect(history[1]).toEqual({
    revision: expect.stringMatching(/^\d+\.2$/),
    timestamp: '2027-01-15T08:00:00.000Z',
    change: 'update',
    transaction: `resource:org.test.Touch#${transactionId}`,
    participant: 'resource:org.test.Person#ann',
  })
  expect(history[2]).toEqual({ ...history[1], revision: expect.stringMatching(/^\d+\.3$/) })
  expect(history[0].participant).toBe('resource:org.hyperledger.composer.system.NetworkAdmin#admin')
  expect(history[0].transaction).toContain('AddAsset#')
  expect(history[3].transaction).toContain('RemoveAsset#')
  expect(await as('admin', 'Thing/a/history?order=newest')).toEqual(history.toReversed())
  for (const order of ['oldest', 'newest']) {
    const pages: Revision[] = []
    for (;;) {
      const after = pages.length === 0 ? '' : `&after=${pages.at(-1)?.revision}`
      const page = await as('admin', `Thing/a/history?limit=2&order=${order}${after}`)
      pages.push(...page)
      if (page.length < 2) break
    }
    expect(pages).toEqual(order === 'oldest' ? history : history.toReversed())
  }
  expect(changes(await as('admin', `Touch/${transactionId}/history`))).toEqual(['create'])
  for (const wrong of ['limit=0', 'limit=1001', 'order=up', 'after=1', 'limit=1&limit=2']) {
    expect(await as('admin', `Thing/a/history?${wrong}`)).toEqual([400, 'REQUEST_INVALID'])
  }
  expect((await node.send('POST', '/api/Thing/a/history', {})).headers.get('allow')).toBe(
    'GET, HEAD',
  )
})

it('shows in a history only the revisions that the caller may read, and no history of a deleted resource unless the caller may read all', async () => {
  const { as } = await started()
  await as('admin', 'Thing', { id: 'a', owner: 'bob' })
  await as('admin', 'Thing/a', { owner: 'ann' }, 'PUT')
  await as('admin', 'Thing/a', { owner: 'bob' }, 'PUT')
  expect(changes(await as('bob', 'Thing/a/history'))).toEqual(['create', 'update'])
  expect(await as('ann', 'Thing/a/history')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect(changes(await as('eve', 'Thing/a/history'))).toEqual(['create', 'update', 'update'])
  const [{ transaction, participant }] = await as('bob', 'Thing/a/history')
  expect([transaction, participant]).toEqual([null, null])
  await as('admin', 'Thing/a', {}, 'DELETE')
  expect(await as('bob', 'Thing/a/history')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect((await as('eve', 'Thing/a/history')).at(-1).change).toBe('delete')
  expect(await as('eve', 'Thing/never/history')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  await as('admin', 'Thing', { id: 'a', owner: 'bob' })
  expect(changes(await as('bob', 'Thing/a/history'))).toEqual(['create'])
  expect(await as('bob', 'Thing/a/history?order=newest')).toEqual(
    await as('bob', 'Thing/a/history'),
  )
})

async function filled(node: GatewayNode) {
  await node.send('POST', '/api/Thing', [
    { id: 'a', owner: 'ann', weight: 1.5, size: { $class: 'org.test.Size', width: 2 } },
    { id: 'b', owner: 'ann', weight: 2 },
    { id: 'c', owner: 'bob', weight: 40, secret: true },
  ])
}

it('counts and computes sums, averages and extremes of the resources that the caller may read, by up to two properties', async () => {
  const { as, node } = await started()
  await filled(node)
  const path = 'Thing/aggregate?group=owner,secret&sum=weight&avg=weight&min=id&max=id'
  const ann = {
    group: { owner: 'ann', secret: false },
    count: 2,
    ...{ sum: { weight: 3.5 }, avg: { weight: 1.75 }, min: { id: 'a' }, max: { id: 'b' } },
  }
  expect(await as('ann', path)).toEqual([ann])
  expect(await as('eve', path)).toHaveLength(2)
  expect(await as('bob', 'Thing/aggregate?count=true')).toEqual([{ group: {}, count: 1 }])
  expect(await as('admin', 'Thing/aggregate?sum=size.width&sum=weight')).toEqual([
    { group: {}, count: 3, sum: { 'size.width': 2, weight: 43.5 } },
  ])
  const filter = `filter=${JSON.stringify({ where: { weight: { gt: 1.5 } } })}`
  expect(await as('admin', `Thing/aggregate?count=true&${filter}`)).toEqual([
    { group: {}, count: 2 },
  ])
  for (const [query, code] of [
    ['group=nothing', 'AGGREGATION_INVALID'],
    ['group=id,owner,secret', 'AGGREGATION_INVALID'],
    ['sum=weight,weight', 'AGGREGATION_INVALID'],
    ['count=true&filter={"limit":1}', 'FILTER_UNKNOWN'],
    ['count=true&filter={"include":"resolve"}', 'FILTER_UNKNOWN'],
    ['count=true&filter={"where":{"x":1}}', 'FILTER_FIELD_UNKNOWN'],
  ]) {
    expect(await as('admin', `Thing/aggregate?${query}`)).toEqual([400, code])
  }
  const more = Array.from({ length: 1_001 }, (_, n) => ({ id: `m${n}`, owner: 'ann' }))
  await node.send('POST', '/api/Thing', more)
  expect(await as('ann', 'Thing/aggregate?group=id')).toEqual([422, 'GROUPS_TOO_MANY'])
  expect(await as('bob', 'Thing/aggregate?group=id')).toHaveLength(1)
})

it('keeps the path of every resource, also with the ids aggregate and history', async () => {
  const { as, node } = await started()
  await filled(node)
  expect(await as('admin', 'Thing/aggregate')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect((await node.send('HEAD', '/api/Thing/aggregate')).status).toBe(404)
  for (const id of ['aggregate', 'history']) {
    await as('admin', 'Thing', { id, owner: 'ann' })
    expect((await as('admin', `Thing/${id}`)).id).toBe(id)
    expect((await as('admin', `Thing/${id}?filter[include]=resolve`)).id).toBe(id)
    expect(changes(await as('admin', `Thing/${id}/history`))).toEqual(['create'])
    expect((await as('admin', `Thing/${id}?count=true`, { owner: 'bob' }, 'PUT')).owner).toBe('bob')
  }
  expect(await as('admin', 'Thing/aggregate?count=1')).toEqual([{ group: {}, count: 5 }])
  expect((await as('admin', 'Thing/history?count=1')).id).toBe('history')
})
