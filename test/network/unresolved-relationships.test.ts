// Relationships to resources that do not exist, or that the caller may not read. Processors get the same results as
// in Composer 0.20.9 (invalidrelationship.js of composer-runtime).
import { expect, it } from 'vitest'
import { gateway, networkOf } from '../support/gateway.ts'

const SYSTEM = 'org.hyperledger.composer.system'
const MODEL = `namespace org.test
asset Thing identified by id { o String id o String colour default="red" --> Thing next optional }
participant Person identified by name { o String name }
@returns(String)
transaction Ask { o String code --> Thing thing }`
const LIB = `
/** @param {org.test.Ask} tx the transaction
 *  @transaction */
async function ask(tx) { return JSON.stringify(await (0, eval)('(async (thing) => {' + tx.code + '})')(tx.thing)) ?? 'undefined' }`
const RULES = `
rule System { description: "d" participant: "ANY" operation: ALL resource: "${SYSTEM}.**" action: ALLOW }
rule Hidden { description: "d" participant: "org.test.Person" operation: READ resource: "org.test.Thing#hidden" action: DENY }
rule Rest { description: "d" participant: "ANY" operation: ALL resource: "**" action: ALLOW }`

async function started() {
  const files = { 'lib/ask.js': LIB, 'permissions.acl': RULES }
  const node = await gateway({ deploy: [networkOf(MODEL, files)] })
  await node.send('POST', '/api/Thing', [{ id: 'there', next: 'gone' }, { id: 'hidden' }])
  await node.send('POST', '/api/Person', { name: 'ann' })
  const identity = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', identity)
  const headers = { authorization: `Bearer ${json.userSecret}` }
  return async (thing: string, code: string) => {
    const { status, json: reply } = await node.send('POST', '/api/Ask', { code, thing }, headers)
    return status === 200 ? JSON.parse(reply) : [status, reply.error.message]
  }
}

it.each(['gone', 'hidden'])(
  'returns undefined for an undeclared property and throws for a declared property if the target is %s',
  async (id) => {
    const ask = await started()
    const missing = `Object with ID '${id}' in collection with ID 'Asset:org.test.Thing' does not exist`
    expect(
      await ask(id, 'return [thing.id, thing.getIdentifier(), thing.getType(), thing.toURI()]'),
    ).toEqual([id, id, 'Thing', `resource:org.test.Thing#${id}`])
    const undeclared = `return ['size', 'length', '0', 'toFixed', 'then', 'getSize', '$colour', '__proto__x']
    .map((name) => typeof thing[name]).join()`
    expect(await ask(id, undeclared)).toBe(Array(8).fill('undefined').join())
    expect(
      await ask(id, `return ['size' in thing, Object.hasOwn(thing, 'size'), delete thing.size]`),
    ).toEqual([false, false, true])
    expect(await ask(id, 'thing.note = 1; return thing.note')).toBe(1)
    expect(await ask(id, 'return (await thing) === thing')).toBe(true)
    for (const code of [
      'return thing.colour',
      'thing.colour = "blue"',
      'return thing.next',
      'return "colour" in thing',
    ]) {
      expect(await ask(id, code)).toEqual([422, missing])
    }
    expect(
      await ask(id, 'try { thing.colour } catch { return [thing.id, typeof thing.size] }'),
    ).toEqual([id, 'undefined'])
  },
)

it('returns undefined for an undeclared property and throws for a declared property if the target of a related resource is gone', async () => {
  const ask = await started()
  expect(
    await ask('there', 'return [thing.colour, thing.next.id, typeof thing.next.size]'),
  ).toEqual(['red', 'gone', 'undefined'])
  expect(await ask('there', 'return thing.next.colour')).toEqual([
    422,
    "Object with ID 'gone' in collection with ID 'Asset:org.test.Thing' does not exist",
  ])
})

/** Starts a network with 80 things. Each thing has a relationship to the next. */
async function chained(rules: string) {
  const files = { 'lib/ask.js': LIB, 'permissions.acl': rules }
  const node = await gateway({ deploy: [networkOf(MODEL, files)] })
  const chain = Array.from({ length: 80 }, (_, n) => ({ id: `${n}`, next: `${n + 1}` }))
  await node.send('POST', '/api/Thing', [...chain, { id: '80', colour: 'blue' }])
  return (code: string) => node.send('POST', '/api/Ask', { code, thing: '0' })
}
const ALL =
  'rule All { description: "d" participant: "ANY" operation: ALL resource: "**" action: ALLOW }'

it('follows a chain of up to 64 relationships, and applies writes once even if the processor runs again', async () => {
  const ask = await chained(ALL)
  const follow = (start: string, count: number) =>
    `let at = ${start}; for (let n = 0; n < ${count}; n += 1) at = at.next; return at.colour`
  const things = `await getAssetRegistry('org.test.Thing')`
  const read = `(await (${things}).get('0'))`
  for (const start of ['thing', read]) {
    expect((await ask(follow(start, 3))).json).toBe('"red"')
    expect((await ask(follow(start, 60))).json).toBe('"red"')
    const { status, json } = await ask(follow(start, 70))
    expect([status, json.error.code]).toEqual([422, 'TRANSACTION_FAILED'])
  }
  // The processor runs again for each relationship, but its writes are applied only once.
  const add = `const things = ${things}
    await things.add(Object.assign(getFactory().newResource('org.test', 'Thing', 'new'), { colour: 'green' }))
    try { thing.next.next.next.next.colour } catch {}
    return (await things.getAll()).length`
  expect((await ask(add)).json).toBe('82')
})

it('shows earlier writes through relationships, even in resources that the processor has not read', async () => {
  const ask = await chained(ALL)
  const code = `const things = await getAssetRegistry('org.test.Thing'), factory = getFactory()
    const made = (id, colour) => Object.assign(factory.newResource('org.test', 'Thing', id), { colour })
    const one = made('one', 'green'); one.next = factory.newRelationship('org.test', 'Thing', 'two')
    await things.add(one); await things.add(made('two', 'yellow'))
    await things.update(made('2', 'black')); await things.remove('3')
    const said = [one.next.colour, thing.next.next.colour]
    return said`
  expect(JSON.parse((await ask(code)).json)).toEqual(['yellow', 'black'])
})

it('follows relationships over several levels in the condition of a rule', async () => {
  const condition = 'condition: (ask.thing.next.next.next.next.next.id === "5") action: ALLOW'
  const rules = `
    rule Five { description: "d" participant: "ANY" operation: CREATE resource(ask): "org.test.Ask" ${condition} }
    rule Six { description: "d" participant: "ANY" operation: CREATE resource: "org.test.Ask" action: DENY }
    ${ALL}`
  const ask = await chained(rules)
  expect((await ask('return 1')).json).toBe('1')
  const wrong = await chained(rules.replace('"5")', '"6")'))
  expect((await wrong('return 1')).json.error.code).toBe('ACCESS_DENIED')
})

it('follows the relationships of the own participant, under the access rules, even if he may not read himself', async () => {
  const model = MODEL.replace('{ o String name }', '{ o String name --> Thing kept optional }')
  const hidden = RULES.replace('org.test.Thing#hidden', 'org.test.Person')
  const node = await gateway({
    deploy: [networkOf(model, { 'lib/ask.js': LIB, 'permissions.acl': hidden })],
  })
  await node.send('POST', '/api/Thing', [{ id: 'a', colour: 'blue' }, { id: 'b' }])
  await node.send('POST', '/api/Person', { name: 'ann', kept: 'a' })
  const identity = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await node.send('POST', '/api/system/identities/issue', identity)
  const headers = { authorization: `Bearer ${json.userSecret}` }
  const body = { code: 'return getCurrentParticipant().kept.colour', thing: 'b' }
  const reply = await node.send('POST', '/api/Ask', body, headers)
  expect([reply.status, reply.json]).toEqual([200, '"blue"'])
})
