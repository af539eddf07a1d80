// Relationships to resources that do not exist or that the caller may not read, in processors: as Composer 0.20.9 (invalidrelationship.js of composer-runtime).
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
  'is undefined for undeclared properties and throws for declared ones: %s',
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

it('is the same for a property of a property', async () => {
  const ask = await started()
  expect(
    await ask('there', 'return [thing.colour, thing.next.id, typeof thing.next.size]'),
  ).toEqual(['red', 'gone', 'undefined'])
  expect(await ask('there', 'return thing.next.colour')).toEqual([
    422,
    "Object with ID 'gone' in collection with ID 'Asset:org.test.Thing' does not exist",
  ])
})
