// Values and calls that Hyperledger Composer 0.20.9 accepts or refuses, as tried with its embedded runtime.
import { expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.shop
concept Size { o Integer width default=4 }
asset Box identified by id {
  o String id
  o Integer n default=1
  o String note optional
  o DateTime made optional
  o Boolean sealed optional
  o Size size optional
  o String[] tags optional
  --> Person owner optional
}
participant Person identified by name { o String name o String team optional }
event Told {}
@returns(String)
transaction Ask { o String code }
transaction Fill { o Integer by }`
const LIB = `async function onAsk(tx) {
  const boxes = await getAssetRegistry('org.shop.Box')
  const box = () => getFactory().newResource('org.shop', 'Box', 'b')
  const read = (json) => getSerializer().fromJSON({ $class: 'org.shop.Box', id: 'r', ...json })
  return String(await eval('(async () => {' + tx.code + '})()'))
}
async function onFill(tx) { if (tx.by > 5) throw new Error('too much') }`
const QUERIES = 'query least { description: "" statement: SELECT org.shop.Box WHERE (n >= _$n) }'
const RULES = `rule Self { description: "" participant: "org.shop.Person" operation: READ resource: "org.shop.Person" action: DENY }
rule All { description: "" participant: "ANY" operation: ALL resource: "**" action: ALLOW }`

const started = () =>
  gateway({
    deploy: [
      networkOf(
        MODEL,
        { 'lib/script.js': LIB, 'queries.qry': QUERIES, 'permissions.acl': RULES },
        { engines: { composer: '^0.20' } },
      ),
    ],
  })

async function ask(node: GatewayNode, code: string, headers = {}): Promise<string> {
  const { json } = await node.send('POST', '/api/Ask', { code }, headers)
  return json.error?.message ?? json
}

it('a processor can use the calls of resources, of events and of the serializer', async () => {
  const node = await started()
  const results: [string, string][] = [
    [
      'return new Date(0) + String(new Date(NaN))',
      'Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)Invalid Date',
    ],
    [
      `const b = box(); b.setPropertyValue('n', 9); b.addArrayValue('tags', 'x'); b.addArrayValue('tags', 'y')
       b.setIdentifier('c'); const p = getFactory().newRelationship('org.shop', 'Person', 'p')
       return [b.n, b.tags.join('+'), b.id, b.isRelationship(), b.isResource(), p.isRelationship(), p.isResource()]`,
      '9,x+y,c,false,true,true,false',
    ],
    [
      `const told = getFactory().newEvent('org.shop', 'Told'); emit(told)
       return told.getIdentifier() === tx.transactionId + '#0' && told.timestamp.getTime() === tx.timestamp.getTime()`,
      'true',
    ],
    [
      `const r = read({ n: '7', owner: 'p', made: '2020-01-01', sealed: 'true', note: 5, size: { width: '3' } })
       return [r.n + 1, r.owner.toURI(), r.made.toISOString(), r.sealed === true, r.note + 1, r.size.width + 1]`,
      '8,resource:org.shop.Person#p,2020-01-01T00:00:00.000Z,true,51,4',
    ],
    [`return read({ owner: 'org.shop.Person#a%20b' }).owner.getIdentifier()`, 'a b'],
    [`const b = box(); b.$other = 1; return '$other' in getSerializer().toJSON(b)`, 'false'],
    [`console.dir(1); console.table([1]); console.time('x'); console.timeEnd('x')`, 'undefined'],
    [`return read({ other: 1 })`, 'Unexpected properties for type org.shop.Box: other'],
    [`assert(true); assert.equal(1, '1'); assert.strictEqual(1, 1); assert.equal(1, 2)`, '1 == 2'],
  ]
  for (const [code, result] of results)
    expect([code, await ask(node, code)]).toEqual([code, result])
})

it('a processor cannot store a value of another kind, although it could be read as the right kind', async () => {
  const node = await started()
  const refused = [
    ['note', 'new Date(0)', 'String'],
    ['note', '5', 'String'],
    ['n', `'5'`, 'Integer'],
    ['made', `'2020-01-01'`, 'DateTime'],
    ['sealed', `'true'`, 'Boolean'],
    ['size', `{ $class: 'org.shop.Size', width: 1 }`, 'Resource or a Concept'],
    ['owner', `'resource:org.shop.Person#p'`, 'Relationship'],
  ]
  for (const [name, value, expected] of refused) {
    const message = await ask(node, `const b = box(); b.${name} = ${value}; await boxes.add(b)`)
    expect(message).toMatch(/^Model violation in instance org.shop.Box#b /)
    expect(message).toMatch(
      new RegExp(
        ` (field ${name}|class org.shop.(Person|Size)) has value .* expected (type|a) ${expected}\\.?$`,
      ),
    )
  }
})

it('a processor cannot set, read or make what is not valid, and learns why in the words of Composer', async () => {
  const node = await started()
  const results: [string, string][] = [
    [`const b = box(); delete b.n; await boxes.add(b)`, '/n: Box needs n'],
    [
      `const b = box(); b.size = getFactory().newConcept('org.shop', 'Size'); b.size.width = null; await boxes.add(b)`,
      '/size/width: Size needs width',
    ],
    [`box().setPropertyValue('none', 1)`, 'The instance with id b trying to set field none which'],
    [`box().setPropertyValue('n', 'x')`, 'Model violation in instance org.shop.Box#b field n has'],
    [`box().setPropertyValue('n', null)`, 'Pushing null data!'],
    [`box().addArrayValue('n', 1)`, 'The instance with id b trying to add array item n which'],
    [`box().addArrayValue('tags', 1)`, 'Model violation in instance org.shop.Box#b field tags has'],
    [`const b = box(); b.other = 1; b.validate()`, 'Instance b has a property named other'],
    [
      `const b = box(); b.owner = b; b.validate()`,
      'Instance org.shop.Box#b has property owner with type',
    ],
    [
      `read({ n: 'x' })`,
      'Model violation in instance org.shop.Box#r field n has value Non-numeric',
    ],
    [`read({ owner: { name: 'p' } })`, 'Invalid JSON data. Found a value that is not a string'],
    [
      `getSerializer().fromJSON({})`,
      'Invalid JSON data. Does not contain a $class type identifier.',
    ],
    [`getSerializer().fromJSON({ $class: 'org.shop.Box' })`, 'Invalid or missing identifier for'],
    [`getSerializer().fromJSON({ $class: 'org.shop.Ask' })`, 'Instance org.shop.Ask#'],
    [`getFactory().newConcept('org.shop', 'Box')`, 'Class is not a concept org.shop.Box'],
    [`getFactory().newResource('org.shop', 'Size', 'a')`, 'Use newConcept to create concepts'],
    [`await getAssetRegistry('org.shop.Person')`, "Object with ID 'Asset:org.shop.Person'"],
    [`emit(getFactory().newEvent('org.shop', 'Box'))`, 'org.shop.Box is not an event'],
    [`assert.deepEqual({ a: [1] }, { a: [2] })`, 'the values are not deepEqual'],
    [`assert.notEqual(1, '1')`, '1 != 1'],
    [`assert.throws(() => {})`, 'Missing expected exception.'],
    [
      `getSerializer().toJSON(getFactory().newRelationship('org.shop', 'Person', 'p'))`,
      'Read org.shop.Person#p from its registry',
    ],
    [`await query('none')`, 'The specified query does not exist'],
  ]
  for (const [code, message] of results) {
    expect([code, (await ask(node, code)).slice(0, message.length)]).toEqual([code, message])
  }
  const valid = `const r = read({ $extra: 1 }); r.validate(); assert.throws(() => { throw new Error('') })
    const p = getFactory().newRelationship('org.shop', 'Person', 'p')
    return [r.n, p, r.size === undefined, getFactory().newConcept('org.shop', 'Size').isConcept()]`
  expect(await ask(node, valid)).toBe('1,Relationship {id=org.shop.Person#p},true,true')
})

it('a processor reads its participant without READ access to it', async () => {
  const node = await started()
  await node.send('POST', '/api/Person', { name: 'ann', team: 'red' })
  const issue = { participant: 'org.shop.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', issue)
  const headers = { authorization: `Bearer ${json.userSecret}` }
  expect((await node.send('GET', '/api/Person/ann', undefined, headers)).status).toBe(404)
  expect(await ask(node, 'return getCurrentParticipant().team', headers)).toBe('red')
})

it('the current participant is a resource, even in a script that does not name the function', async () => {
  const node = await started()
  await node.send('POST', '/api/Person', { name: 'ann', team: 'red' })
  const admin = 'Resource {id=org.hyperledger.composer.system.NetworkAdmin#admin}'
  expect(await ask(node, "return globalThis['getCurrent' + 'Participant']()")).toBe(admin)
})

it('an Integer is stored without its fraction, unless the network is strict', async () => {
  const node = await started()
  const made = [3.7, -3.7, -0.5].map((n, at) => ({ id: `b${at}`, n }))
  expect((await node.send('POST', '/api/Box', made)).json.map(({ n }: { n: number }) => n)).toEqual(
    [3, -3, 0],
  )
})

it('a named query ignores members that are no parameters, and accepts brackets after a name', async () => {
  const node = await started()
  await node.send('POST', '/api/Box', { id: 'b', n: 7 })
  for (const query of ['n=5', 'n=5&_=154300', 'n=5&access_token=abc', 'n[]=5']) {
    const reply = await node.send('GET', `/api/queries/least?${query}`)
    expect([query, reply.status, reply.json.length]).toEqual([query, 200, 1])
  }
  expect((await node.send('GET', '/api/queries/least?m=5')).status).toBe(400)
})

it('a blank field of a form is a missing value, except for a text', async () => {
  const node = await started()
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const body = 'id=b&n=&note=&made=&sealed=&owner='
  const reply = await node.send('POST', '/api/Box', body, form)
  expect(reply.json).toEqual({ $class: 'org.shop.Box', id: 'b', n: 1, note: '' })
})

it('an array of transactions is submitted one by one, up to the first that fails', async () => {
  const node = await started()
  const all = await node.send('POST', '/api/Fill', [{ by: 1 }, { by: 2 }])
  expect([all.status, all.json.map(({ by }: { by: number }) => by)]).toEqual([200, [1, 2]])
  const some = await node.send('POST', '/api/Fill', [{ by: 3 }, { by: 9 }, { by: 4 }])
  expect([some.status, some.json.error.message]).toEqual([
    422,
    'transaction 1 of the list failed, and the 1 before it are recorded: too much',
  ])
  expect((await node.send('GET', '/api/Fill')).json).toHaveLength(3)
  const tooLong = "const b = box(); b.note = 'x'.repeat(10_500_000); await boxes.add(b)"
  const long = await node.send('POST', '/api/Ask', [{ code: 'return 1' }, { code: tooLong }])
  expect([long.status, long.json.error]).toMatchObject([
    413,
    { code: 'ITEM_TOO_LARGE', message: expect.stringMatching(/^transaction 1 of .* 1 before it/) },
  ])
})

it('a missing member whose name every JavaScript object has stays missing', async () => {
  const model = `namespace org.race
asset Car identified by id {
  o String id
  o String constructor optional
  o String toString optional
  o Integer valueOf optional
  o Integer laps default=0
}
transaction Lap { o String car }`
  const lib = `async function onLap(tx) {
    const cars = await getAssetRegistry('org.race.Car')
    const car = await cars.get(tx.car)
    car.laps += 1
    car.validate()
    await cars.update(car)
  }`
  const node = await gateway({ deploy: [networkOf(model, { 'lib/lap.js': lib })] })
  await node.send('POST', '/api/Car', { id: 'a' })
  expect((await node.send('POST', '/api/Lap', { car: 'a' })).status).toBe(200)
  const { json } = await node.send('GET', '/api/Car/a')
  expect(json).toEqual({ $class: 'org.race.Car', id: 'a', laps: 1 })
})

it('a library that looks for the global object by its names can be used', async () => {
  const library = (find: string) => `(function () { var root = ${find}
    root.doubled = function (text) { return text + text } })()`
  for (const find of [
    "typeof window === 'object' ? window : typeof process === 'object' ? global : self",
    "typeof global === 'object' ? global : this",
  ]) {
    const model = 'namespace org.lib\n@returns(String)\ntransaction Twice { o String text }'
    const files = {
      'lib/doubled.js': library(find),
      'lib/twice.js': 'function onTwice(tx) { return doubled(tx.text) }',
    }
    const node = await gateway({ deploy: [networkOf(model, files)] })
    expect((await node.send('POST', '/api/Twice', { text: 'ab' })).json).toBe('abab')
  }
})
