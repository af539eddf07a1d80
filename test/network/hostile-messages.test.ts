// Messages from a sandbox are untrusted. If a processor sends an undocumented message, only its transaction fails,
// quickly and with a reason.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf, startGateway } from '../support/gateway.ts'
import { verifyFolder } from '../support/ledger-node.ts'

const MODEL = `namespace org.test
enum Colour { o RED }
concept Part { o String name o Part inner optional }
asset Thing identified by id { o String id o String text optional o Part part optional
  o String word regex=/^(a+)+$/ optional }
event Said { o String text }
transaction Run { o String code }
@returns(Colour)
transaction Pick { o String code }
transaction Judged { o String spoil }`
const LIB = `const REAL = JSON.stringify
/** Sends \`text\` in place of the next request. */
function say(text) { JSON.stringify = (value, ...more) => value && value.ask ? text : REAL(value, ...more) }
async function evaluate(code) { return (0, eval)('(async () => {' + code + '})')() }
/** @param {org.test.Run} tx the transaction
 *  @transaction */
async function run(tx) { await evaluate(tx.code) }
/** @param {org.test.Pick} tx the transaction
 *  @transaction */
async function pick(tx) { return evaluate(tx.code) }
/** @param {org.test.Judged} tx the transaction
 *  @transaction */
async function judged(tx) {}
function spoiled(tx) { (0, eval)(tx.spoil); return true }`
const RULES = `rule Spoil { description: "x" participant: "ANY" operation: CREATE
  resource(r): "org.test.Judged" condition: (spoiled(r)) action: ALLOW }
rule Things { description: "x" participant: "ANY" operation: ALL resource: "org.test.Thing" action: ALLOW }
rule Runs { description: "x" participant: "ANY" operation: ALL resource: "org.test.Run" action: ALLOW }
rule Picks { description: "x" participant: "ANY" operation: ALL resource: "org.test.Pick" action: ALLOW }
rule System { description: "x" participant: "ANY" operation: ALL
  resource: "org.hyperledger.composer.system.**" action: ALLOW }`

const network = networkOf(MODEL, { 'lib/run.js': LIB, 'permissions.acl': RULES })
let node: GatewayNode
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  node = await startGateway({ folder, deploy: [network], deadlineMs: 6_000 })
})
afterAll(async () => {
  await node.close()
  const { finding } = await verifyFolder(folder)
  rmSync(folder, { recursive: true, force: true })
  expect(finding).toBeNull()
})

const THINGS = 'const r = await getAssetRegistry("org.test.Thing"), f = getFactory();'
const NEW = 'const x = f.newResource("org.test", "Thing", "x");'
const LOOK = `${THINGS} await r.exists("a")`
const WRITE = `${THINGS} ${NEW} await r.add(x)`
/** Returns code that evaluates to JSON with `levels` nested parts. */
const parts = (levels: number) =>
  `'{"$class":"org.test.Part","name":"x","inner":'.repeat(${levels}) + '{"name":"x"}' + '}'.repeat(${levels})`
const thing = (part: string) =>
  `'{"ask":"add","resources":[{"$class":"org.test.Thing","id":"x","part":' + ${part} + '}]}'`

const NOT_ASKED = 'the network does not support this request'
it.each([
  [
    'an object instead of a type',
    `say('{"ask":"get","type":{"toString":1},"id":"a"}'); ${LOOK}`,
    NOT_ASKED,
  ],
  [
    'an object instead of an id',
    `say('{"ask":"get","type":"org.test.Thing","id":{}}'); ${LOOK}`,
    NOT_ASKED,
  ],
  ['a missing id', `say('{"ask":"get","type":"org.test.Thing"}'); ${LOOK}`, NOT_ASKED],
  [
    'an object instead of an id in a list',
    `say('{"ask":"remove","type":"org.test.Thing","ids":[{"valueOf":1}]}'); ${WRITE}`,
    NOT_ASKED,
  ],
  [
    'an object instead of the name of a query',
    `say('{"ask":"query","name":{"toString":1}}'); await query("x")`,
    NOT_ASKED,
  ],
  [
    'an object instead of the text of a log line',
    `say('{"ask":"log","level":"log","text":{"toString":1}}'); console.log(1)`,
    NOT_ASKED,
  ],
  [
    'an object instead of a class',
    `say('{"ask":"add","resources":[{"$class":{"toString":1}}]}'); ${WRITE}`,
    NOT_ASKED,
  ],
  [
    'an object instead of the class of a part',
    `say(${thing(`'{"$class":{"toString":1},"name":"x"}'`)}); ${WRITE}`,
    '/part/$class: $class must be org.test.Part or a type that extends it',
  ],
  [
    'an object instead of the class of an event',
    `JSON.stringify = () => '{"events":[{"$class":{"toString":1}}]}'`,
    NOT_ASKED,
  ],
  [
    'a log text nested too deeply',
    `say('{"ask":"log","text":' + '['.repeat(200000) + ']'.repeat(200000) + '}'); console.log(1)`,
    'nesting exceeds 64 levels',
  ],
  [
    'a resource nested too deeply for the ledger',
    `say(${thing(parts(62))}); ${WRITE}`,
    'nesting exceeds 64 levels',
  ],
  [
    'a result nested too deeply',
    `JSON.stringify = () => '{"events":' + '['.repeat(99) + ']'.repeat(99) + '}'`,
    'nesting exceeds 64 levels',
  ],
  [
    'half of an emoji in a resource',
    `${THINGS} ${NEW} x.text = "🍎".slice(0, 1); await r.add(x)`,
    'a string contains a lone surrogate',
  ],
  [
    'half of an emoji in an event',
    `const e = getFactory().newEvent("org.test", "Said"); e.text = "🍎"[1]; emit(e)`,
    'a string contains a lone surrogate',
  ],
  [
    'a member named __proto__',
    `say('{"ask":"add","resources":[{"$class":"org.test.Thing","id":"x","__proto__":{}}]}'); ${WRITE}`,
    'a member must not be named __proto__',
  ],
  [
    'a very long message',
    `say('{"ask":"log","text":"' + 'x'.repeat(17e6) + '"}'); console.log(1)`,
    'a processor may send at most 16777216 characters at a time',
  ],
  [
    'an error with invalid members',
    `throw { name: { toString: 1 }, message: { toString: 1 } }`,
    'Error',
  ],
  ['an error with an invalid name', `const e = new Error("no"); e.name = {}; throw e`, 'no'],
])('a transaction whose script sends %s fails with a reason', async (_name, code, message) => {
  const { json } = await node.send('POST', '/api/Run', { code })
  expect([json.error.statusCode, json.error.code]).toEqual([422, 'TRANSACTION_FAILED'])
  expect(json.error.message).toBe(message)
  expect((await node.send('GET', '/api/Thing')).text).toBe('[]')
})

it('truncates long error messages', async () => {
  for (const code of [
    'throw new Error("x".repeat(5e6))',
    `say('{"ask":"query","name":"' + 'x'.repeat(5e6) + '"}'); await query("x")`,
    `say('{"ask":"remove","type":"org.test.Thing","ids":["' + 'x'.repeat(5e6) + '"]}'); await query("x")`,
  ]) {
    const { status, text } = await node.send('POST', '/api/Run', { code })
    expect([code, status, text.length < 5_000]).toEqual([code, 422, true])
  }
})

it('rejects a transaction that writes too many characters in total, even to one resource', async () => {
  const code = `${THINGS} ${NEW} x.text = "x".repeat(8e6); await r.add(x)
    for (;;) await r.update(x)`
  const { json } = await node.send('POST', '/api/Run', { code })
  // On a slow computer, the transaction may reach its deadline before the limit.
  expect([
    'a transaction may write at most 67108864 characters',
    'the transaction took too long: out of time',
  ]).toContain(json.error.message)
  expect((await node.send('GET', '/api/Thing')).text).toBe('[]')
})

it('stops a transaction that continues to run after it returned its result', async () => {
  const code = '(async () => { for (;;) await null })(); return'
  const brief = await gateway({ deploy: [network], deadlineMs: 1_000 })
  const { json } = await brief.send('POST', '/api/Run', { code })
  expect([json.error.statusCode, json.error.code]).toEqual([504, 'PROCESSOR_DEADLINE'])
})

it('rejects a return value that is not in the declared enum', async () => {
  for (const returned of ['{ toString: 1 }', '["RED"]', '"BLUE"', 'null']) {
    const { json } = await node.send('POST', '/api/Pick', { code: `return ${returned}` })
    expect(json.error.message).toBe('Pick must return a value of the type Colour')
  }
  expect((await node.send('POST', '/api/Pick', { code: 'return "RED"' })).json).toBe('RED')
})

it('denies access if a condition tampers with its result', async () => {
  expect((await node.send('POST', '/api/Judged', { spoil: '' })).status).toBe(200)
  for (const spoil of [
    'Array.prototype.toJSON = () => undefined',
    'Array.prototype.toJSON = () => [1]',
    'Array.prototype.toJSON = () => "[true]"',
  ]) {
    const { json } = await node.send('POST', '/api/Judged', { spoil })
    expect([json.error.statusCode, json.error.code]).toEqual([403, 'ACCESS_DENIED'])
  }
})

it('rejects a string if matching it with a pattern of the model takes too long', async () => {
  const { status, json } = await node.send('POST', '/api/Thing', {
    id: 'x',
    word: `${'a'.repeat(99)}!`,
  })
  expect([status, json.error.code, json.error.message]).toEqual([
    ...[422, 'RESOURCE_INVALID', '/word: takes too long to match /^(a+)+$/'],
  ])
})

it('rejects a resource with an object instead of its class', async () => {
  const { status, json } = await node.send('POST', '/api/Thing', {
    $class: { toString: 1 },
    id: 'x',
  })
  expect([status, json.error.code]).toEqual([422, 'RESOURCE_INVALID'])
})
