// Replies to changes that access rules deny. As in Composer 0.20.9, they depend on the operations that the rules
// allow (registry.js of composer-runtime, businessnetworkconnector.js of loopback-connector-composer).
import { expect, it } from 'vitest'
import { gateway, networkOf } from '../support/gateway.ts'

const SYSTEM = 'org.hyperledger.composer.system'
const MODEL = `namespace org.test
asset Thing identified by id { o String id o Integer size default=0 --> Person owner optional }
participant Person identified by name { o String name }
transaction Change { o String how o String id }`
const LIB = `
/** @param {org.test.Change} tx the transaction
 *  @transaction */
async function change(tx) {
  const things = await getAssetRegistry('org.test.Thing')
  const named = async () => {
    if (tx.how.endsWith('Read')) return things.get(tx.id)
    return getFactory().newResource('org.test', 'Thing', tx.id)
  }
  if (tx.how.startsWith('remove')) return things.remove(tx.how.endsWith('Read') ? await named() : tx.id)
  const thing = await named()
  thing.size = 5
  if (tx.how === 'add') await things.add(thing)
  else await things.update(thing)
}`
const rule = (
  name: string,
  participant: string,
  operation: string,
  resource: string,
  end: string,
) =>
  `rule ${name} { description: "d" participant${participant} operation: ${operation} resource${resource} ${end} }\n`
const allow = (name: string, participant: string, operation: string, resource: string) =>
  rule(name, `: "${participant}"`, operation, `: "${resource}"`, 'action: ALLOW')
const BASE =
  allow('System', `${SYSTEM}.Participant`, 'ALL', `${SYSTEM}.**`) +
  allow('Admin', `${SYSTEM}.NetworkAdmin`, 'ALL', '**') +
  allow('Submit', 'org.test.Person', 'CREATE', 'org.test.Change') +
  allow('People', 'org.test.Person', 'READ', 'org.test.Person')
const PERSON = 'org.test.Person'
const THING = 'org.test.Thing'

/** Starts a network with `rules`. The returned `send` sends a request as ann and returns status, code and message. */
async function under(rules: string) {
  const files = { 'permissions.acl': rules + BASE, 'lib/change.js': LIB }
  const node = await gateway({ deploy: [networkOf(MODEL, files)] })
  await node.send('POST', '/api/Person', { name: 'ann' })
  const things = [1, 2, 3, 4, 5, 6, 7].map((n) => ({ id: `${n}`, owner: 'ann' }))
  expect((await node.send('POST', '/api/Thing', things)).status).toBe(200)
  const body = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', body)
  const headers = { authorization: `Bearer ${json.userSecret}` }
  const send = async (method: string, path: string, sent?: object) => {
    const { status, json: reply } = await node.send(method, path, sent, headers)
    const error = reply?.error
    return error === undefined ? [status] : [status, error.code, error.message]
  }
  const submit = (how: string, id: string) => send('POST', '/api/Change', { how, id })
  return { node, send, submit }
}

const refused = (operation: string, id: string) => [
  403,
  'ACCESS_DENIED',
  `Participant 'org.test.Person#ann' does not have '${operation}' access to resource 'org.test.Thing#${id}'`,
]
const notThere = (id: string) =>
  `Object with ID '${id}' in collection with ID 'Asset:org.test.Thing' does not exist`
const missing = (id: string) => [404, 'RESOURCE_NOT_FOUND', notThere(id)]
const failed = (message: string) => [422, 'TRANSACTION_FAILED', message]
const taken = (id: string) =>
  `Failed to add object with ID '${id}' in collection with ID 'Asset:org.test.Thing' as the object already exists`

it.each([
  ['only READ', allow('R', PERSON, 'READ', THING)],
  [
    'only READ, under a condition',
    rule(
      'R',
      '(p): "org.test.Person"',
      'READ',
      '(t): "org.test.Thing"',
      'condition: (t.owner.getIdentifier() === p.getIdentifier()) action: ALLOW',
    ),
  ],
  [
    'READ, but not CREATE, UPDATE and DELETE',
    rule('D', `: "${PERSON}"`, 'CREATE, UPDATE, DELETE', `: "${THING}"`, 'action: DENY') +
      allow('R', PERSON, 'ALL', THING),
  ],
])('returns 403 with the message of a denial if the rules allow %s', async (_name, rules) => {
  const { send, submit } = await under(rules)
  expect(await send('GET', '/api/Thing/1')).toEqual([200])
  expect(await send('PUT', '/api/Thing/1', {})).toEqual(refused('UPDATE', '1'))
  expect(await send('PATCH', '/api/Thing/1', {})).toEqual(refused('UPDATE', '1'))
  expect(await send('DELETE', '/api/Thing/1')).toEqual(refused('DELETE', '1'))
  expect(await send('POST', '/api/Thing', { id: '9' })).toEqual(refused('CREATE', '9'))
  for (const how of ['update', 'updateRead']) {
    expect(await submit(how, '1')).toEqual(refused('UPDATE', '1'))
  }
  for (const how of ['remove', 'removeRead']) {
    expect(await submit(how, '1')).toEqual(refused('DELETE', '1'))
  }
  expect(await send('PUT', '/api/Thing/none', {})).toEqual(missing('none'))
  expect(await send('DELETE', '/api/Thing/none')).toEqual(missing('none'))
})

it('reports the resource as missing if neither READ nor the change is allowed', async () => {
  const { send, submit } = await under('')
  for (const [method, body] of [
    ['GET', undefined],
    ['PUT', {}],
    // An invalid body gets the same reply, because the body is validated only if the caller may read the resource.
    ['PUT', { size: 'large' }],
    ['PATCH', {}],
    ['DELETE', undefined],
  ] as const) {
    expect(await send(method, '/api/Thing/1', body)).toEqual(missing('1'))
    expect(await send(method, '/api/Thing/none', body)).toEqual(missing('none'))
  }
  for (const how of ['update', 'updateRead', 'remove', 'removeRead']) {
    expect(await submit(how, '1')).toEqual(failed(notThere('1')))
    expect(await submit(how, 'none')).toEqual(failed(notThere('none')))
  }
  expect(await send('POST', '/api/Thing', { id: '1' })).toEqual(refused('CREATE', '1'))
})

it('requires only UPDATE to replace a resource, but also READ to patch or delete a resource over HTTP', async () => {
  const { node, send, submit } = await under(allow('U', PERSON, 'UPDATE, DELETE', THING))
  const size = async (id: string) => (await node.send('GET', `/api/Thing/${id}`)).json.size
  expect(await send('PUT', '/api/Thing/1', { size: 3 })).toEqual([200])
  expect(await size('1')).toBe(3)
  expect(await send('PUT', '/api/Thing/1', { size: 'large' })).toEqual([
    422,
    'RESOURCE_INVALID',
    expect.stringContaining('/size'),
  ])
  expect(await send('PATCH', '/api/Thing/1', { size: 4 })).toEqual(missing('1'))
  expect(await send('DELETE', '/api/Thing/1')).toEqual(missing('1'))
  expect(await submit('update', '2')).toEqual([200])
  expect(await size('2')).toBe(5)
  expect(await submit('updateRead', '3')).toEqual(failed(notThere('3')))
  expect(await submit('remove', '4')).toEqual([200])
  expect(await size('4')).toBeUndefined()
  expect(await submit('removeRead', '5')).toEqual(failed(notThere('5')))
})

it('requires only CREATE to add a resource, and reports that a resource with the same id exists', async () => {
  const { send, submit } = await under(allow('C', PERSON, 'CREATE', THING))
  expect(await send('POST', '/api/Thing', { id: '8' })).toEqual([200])
  expect(await send('GET', '/api/Thing/8')).toEqual(missing('8'))
  expect(await send('POST', '/api/Thing', { id: '8' })).toEqual([
    409,
    'RESOURCE_EXISTS',
    taken('8'),
  ])
  expect(await submit('add', '9')).toEqual([200])
  expect(await submit('add', '9')).toEqual(failed(taken('9')))
  expect(await send('PUT', '/api/Thing/8', {})).toEqual(missing('8'))
})
