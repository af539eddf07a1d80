// Guarantees for transaction processors on which networks rely, tested over HTTP.
import { expect, it } from 'vitest'
import { gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.test
enum State { o OPEN o DONE }
concept Line { o String what o Double amount o State state default="OPEN" }
asset Thing identified by id {
  o String id
  o String note default="none"
  o Double amount default=0
  o DateTime made optional
  o Line[] lines optional
  o String[] tags optional
  --> Person owner optional
  --> Person[] approvers optional
}
participant Person identified by name { o String name o Integer age optional }
abstract transaction Base { o String note optional }
transaction Run extends Base { o String code --> Thing thing optional --> Person person optional }
@returns(String)
transaction Ask { o String code }
@returns(Line[])
@commit(false)
transaction Lines { o String code }
@returns(DateTime[])
transaction Times { o String code }
@returns(Integer)
transaction Twice { o String code }
transaction Quiet { }
event Noticed { o String text --> Thing thing optional }`

const LIB = `
/** @param {org.test.Base} tx the transaction
 *  @transaction */
async function base(tx) { throw new Error('runs for a subtype') }
/** @param {org.test.Run} tx the transaction
 *  @transaction */
async function first(tx) { globalThis.order = ['first'] }
/** @param {org.test.Run} tx the transaction
 *  @transaction */
async function run(tx) { order.push('run'); return (0, eval)('(async (tx) => {' + tx.code + '})')(tx) }
/** @param {org.test.Ask} tx the transaction
 *  @transaction */
async function ask(tx) { return (0, eval)('(async (tx) => {' + tx.code + '})')(tx) }
/** @param {org.test.Lines} tx the transaction
 *  @transaction */
async function lines(tx) { return (0, eval)('(async (tx) => {' + tx.code + '})')(tx) }
/** @param {org.test.Times} tx the transaction
 *  @transaction */
async function times(tx) { return (0, eval)('(async (tx) => {' + tx.code + '})')(tx) }
/** @param {org.test.Twice} tx the transaction
 *  @transaction */
async function one(tx) { return (0, eval)('(async (tx) => {' + tx.code + '})')(tx) }
/** @param {org.test.Twice} tx the transaction
 *  @transaction */
async function two(tx) { return one(tx) }
const NS = 'org.test'
const things = () => getAssetRegistry('org.test.Thing')
const people = () => getParticipantRegistry('org.test.Person')
const factory = getFactory()`

const QUERIES = `
query byAmount { description: "d" statement:
  SELECT org.test.Thing WHERE (_$least <= amount) ORDER BY [amount DESC, id ASC] LIMIT _$most SKIP 0 }
query tagged { description: "d" statement: SELECT org.test.Thing WHERE (tags CONTAINS _$tag) }
query taggedBoth { description: "d" statement: SELECT org.test.Thing WHERE (tags CONTAINS ["x", "y"]) }
query withLine { description: "d" statement:
  SELECT org.test.Thing WHERE (lines CONTAINS (what == "a" AND amount > 2)) }
query owned { description: "d" statement: SELECT org.test.Thing WHERE (owner == _$owner) }`

const definition = networkOf(MODEL, { 'lib/logic.js': LIB, 'queries.qry': QUERIES })

async function started() {
  const node = await gateway({ deploy: [definition] })
  await node.send('POST', '/api/Person', [{ name: 'ann', age: 30 }, { name: 'bob' }])
  const ann = 'resource:org.test.Person#ann'
  await node.send('POST', '/api/Thing', [
    { id: 'a', owner: 'ann', approvers: ['ann', 'bob'], amount: 1, tags: ['x'] },
    { id: 'b', owner: 'bob', amount: 2, tags: ['x', 'y'], lines: [{ what: 'a', amount: 3 }] },
    {
      id: 'c',
      owner: 'gone',
      amount: 3,
      lines: [
        { what: 'a', amount: 1 },
        { what: 'b', amount: 3 },
      ],
    },
  ])
  /** Runs `code` as a transaction, and returns its result. */
  const ask = async (code: string) => {
    const reply = await node.send('POST', '/api/Ask', {
      code: `return String(await (async () => {${code}})())`,
    })
    return reply.status === 200
      ? reply.json
      : `${reply.status} ${reply.json.error.code} ${reply.json.error.message}`
  }
  const run = (code: string, rest = {}) => node.send('POST', '/api/Run', { code, ...rest })
  return { node, ask, run, ann }
}

it('represents a resource by one object within a transaction, however the processor obtained the resource', async () => {
  const { node, ask } = await started()
  const code = `const registry = await things(), owners = await people()
    const a = await registry.get('a'), ann = await owners.get('ann')
    const listed = (await registry.getAll()).find((thing) => thing.getIdentifier() === 'a')
    const [found] = await query('owned', { owner: ann })
    const made = factory.newResource(NS, 'Thing', 'new'); await registry.add(made)
    return [a.approvers.includes(ann), a.owner === ann, a.approvers[0] === a.owner, listed === a,
      found === a, factory.newRelationship(NS, 'Person', 'ann') === ann,
      (await registry.get('new')) === made].join()`
  expect(await ask(code)).toBe('true,true,true,true,true,true,true')
  const same = await node.send('POST', '/api/Run', {
    code: 'if (tx.thing.owner !== tx.person) throw new Error("two objects")',
    thing: 'a',
    person: 'ann',
  })
  expect(same.status).toBe(200)
})

it('an object returns its new id after the processor changed the id, whether the object was read or only referenced', async () => {
  const { ask } = await started()
  const code = `const a = await (await things()).get('a'), owner = a.owner
    a.id = 'z'
    owner.name = 'eve'
    return [a, owner].flatMap((one) => [one.getIdentifier(), one.$identifier, one.toURI(),
      one.getFullyQualifiedIdentifier(), one.getIdentifierFieldName()]).join()`
  const thing = 'z,z,resource:org.test.Thing#z,org.test.Thing#z,id'
  const person = 'eve,eve,resource:org.test.Person#eve,org.test.Person#eve,name'
  expect(await ask(code)).toBe(`${thing},${person}`)
})

it('gives the id of a resource that does not exist, and throws if the processor reads another member', async () => {
  const { ask } = await started()
  const code = `const c = await (await things()).get('c')
    const said = [c.owner.getIdentifier(), c.owner.$identifier, c.owner.name, c.owner.getType()]
    try { c.owner.age } catch (error) { said.push(error.message) }
    await c.owner
    return said.join('|')`
  const missing =
    "Object with ID 'gone' in collection with ID 'Participant:org.test.Person' does not exist"
  expect(await ask(code)).toBe(`gone|gone|gone|Person|${missing}`)
})

it('resolves relationships when the processor uses them, and shows earlier writes in reads and queries', async () => {
  const { ask, node } = await started()
  const code = `const registry = await things(), said = []
    const a = await registry.get('a'); said.push(a.owner.age, typeof a.made)
    a.amount = 10; a.lines = [factory.newConcept(NS, 'Line')]
    Object.assign(a.lines[0], { what: 'a', amount: 7 }); a.made = new Date()
    await registry.update(a)
    await registry.remove('b')
    const d = factory.newResource(NS, 'Thing', 'd'); d.amount = 2.5; d.tags = ['x']
    d.owner = factory.newRelationship(NS, 'Person', 'bob'); await registry.add(d)
    const ids = (list) => list.map((thing) => thing.getIdentifier()).join('')
    said.push(ids(await query('byAmount', { least: 2, most: 2 })), ids(await query('tagged', { tag: 'x' })))
    said.push(ids(await query('withLine')), ids(await query('owned', { owner: 'resource:org.test.Person#bob' })))
    said.push(ids(await registry.getAll()), await registry.exists('b'), await registry.exists('d'))
    said.push(ids(await query(buildQuery('SELECT org.test.Thing WHERE (owner == _$who AND amount > 2)'), { who: 'bob' })))
    said.push((await registry.resolve('d')).owner.name, (await registry.resolveAll()).length)
    try { await registry.get('b') } catch (error) { said.push(error.message.slice(0, 19)) }
    return said.join('|')`
  expect(await ask(code)).toBe("30|undefined|ac|ad|a|d|acd|false|true|d|bob|3|Object with ID 'b' ")
  const reply = await node.send('GET', '/api/Thing')
  expect(reply.json.map(({ id }: { id: string }) => id)).toEqual(['a', 'c', 'd'])
  expect(reply.json[0]).toMatchObject({
    amount: 10,
    lines: [{ $class: 'org.test.Line', what: 'a', amount: 7, state: 'OPEN' }],
  })
  expect((await node.send('GET', '/api/queries/taggedBoth')).json).toEqual([])
})

it('sets the clock to the time of the transaction, in UTC, and derives random numbers from its id', async () => {
  const { node } = await started()
  const code = `return [Date.now(), new Date().getTime(), +new Date(Date.now()), new Date(0).getHours(),
    new Date(2020, 0, 1).toISOString(), new Date() instanceof Date, Date() === String(new Date()),
    Math.random() === Math.random(), new Date().constructor === Date].join()`
  const reply = await node.send('POST', '/api/Ask', { code })
  const nowMs = Date.parse('2027-01-15T08:00:00.000Z')
  expect(reply.json).toBe(
    `${nowMs},${nowMs},${nowMs},0,2020-01-01T00:00:00.000Z,true,true,false,true`,
  )
})

it('does not reveal the clock of the node through a property descriptor of Date', async () => {
  const { node } = await started()
  const code = 'return String(Object.getOwnPropertyDescriptor(Date, "now").value())'
  const reply = await node.send('POST', '/api/Ask', { code })
  expect(reply.json).toBe(String(Date.parse('2027-01-15T08:00:00.000Z')))
})

it('runs all processors of exactly the type of the transaction, in order', async () => {
  const { run } = await started()
  const reply = await run('if (order.join() !== "first,run") throw new Error(order.join())')
  expect(reply.status).toBe(200)
})

it('returns a value of the type in @returns, and records nothing with @commit(false)', async () => {
  const { node, ask } = await started()
  expect(await ask('return 5')).toBe('5')
  const returned = async (type: string, value: string) => {
    const { status, text } = await node.send('POST', `/api/${type}`, { code: `return ${value}` })
    return status === 200 ? text : status
  }
  expect(await returned('Ask', '5')).toBe('"5"')
  expect(await returned('Ask', 'new Date(0)')).toContain('Thu Jan 01 1970')
  expect(await returned('Ask', 'null')).toBe(422)
  expect(await returned('Times', '[new Date(0)]')).toBe('["1970-01-01T00:00:00.000Z"]')
  expect(await returned('Times', '["1970-01-01T00:00:00.000Z"]')).toBe(422)
  expect(await returned('Twice', '5')).toBe(422)
  const once = (value: string) => `globalThis.ran ? ${value} : void (globalThis.ran = true)`
  expect(await returned('Twice', once('new Number(5)'))).toBe(422)
  expect(await returned('Twice', once('5'))).toBe('5')
  const cyclic = 'const a = []; a.push(a); return a'
  expect((await node.send('POST', '/api/Run', { code: cyclic })).status).toBe(200)
  const code = `const a = await (await things()).get('a'); a.amount = 99; await (await things()).update(a)
    emit(Object.assign(factory.newEvent(NS, 'Noticed'), { text: 'x' }))
    const line = factory.newConcept(NS, 'Line'); line.what = 'w'; line.amount = a.amount; return [line]`
  const before = (await node.send('GET', '/api/system/historian')).json.length
  const lines = await node.send('POST', '/api/Lines', { code })
  expect([lines.status, lines.text]).toEqual([
    200,
    '[{"$class":"org.test.Line","what":"w","amount":99,"state":"OPEN"}]',
  ])
  expect((await node.send('GET', '/api/Thing/a')).json.amount).toBe(1)
  expect((await node.send('GET', '/api/system/historian')).json).toHaveLength(before)
})

it('writes nothing for a failed transaction, and logs its console output', async () => {
  const { node, run } = await started()
  const before = (await node.send('GET', '/api/system/historian')).text
  const wrote = `const r = await things(); const a = await r.get('a'); a.note = 'changed'; await r.update(a);`
  const failures = [
    ['throw new Error("not enough money")', 'not enough money'],
    ['null.x', 'TypeError: cannot read property'],
    [
      'a.amount = "many"; await r.update(a)',
      'Model violation in instance org.test.Thing#a field amount has value "many" (string) expected type Double',
    ],
    ['await r.add(factory.newResource(NS, "Thing", "a"))', "Failed to add object with ID 'a'"],
    ['await r.update(factory.newResource(NS, "Thing", "zz"))', "Object with ID 'zz'"],
    ['await r.remove("zz")', "Object with ID 'zz'"],
    ['a.amount = NaN; await r.update(a)', 'amount is not a finite number'],
    ['a.other = 1; await r.update(a)', '/other'],
    ['await getAssetRegistry("org.test.Nothing")', "Object with ID 'Asset:org.test.Nothing'"],
    ['emit(factory.newEvent(NS, "Noticed"))', 'Instance org.test.Noticed#'],
    ['await post("http://example.org", tx)', 'a transaction cannot send requests'],
    ['await query("nothing")', 'The specified query does not exist'],
    ['await query("byAmount", { least: "x", most: 1 })', 'the query needs the parameter least'],
    ['await query(buildQuery("SELECT x"))', 'the query is invalid'],
    [
      'await (await getTransactionRegistry("org.test.Quiet")).add(factory.newTransaction(NS, "Quiet"))',
      '',
    ],
  ] as const
  for (const [code, message] of failures) {
    const reply = await run(wrote + code)
    expect([code, reply.status, reply.json.error.code]).toEqual([code, 422, 'TRANSACTION_FAILED'])
    expect(reply.json.error.message.slice(0, message.length)).toBe(message)
  }
  expect((await node.send('GET', '/api/system/historian')).text).toBe(before)
  expect((await node.send('GET', '/api/Thing/a')).json.note).toBe('none')
})

it('lets a processor continue after it caught an error', async () => {
  const { ask } = await started()
  const code = `try { await (await things()).add(factory.newResource(NS, 'Thing', 'a')) } catch {}
    await (await things()).add(factory.newResource(NS, 'Thing', 'e')); return 'on'`
  expect(await ask(code)).toBe('on')
})

it('throws in the script at the line of a rejected write', async () => {
  const logged: string[] = []
  const log = (_network: string, _level: string, text: string) => logged.push(text)
  const node = await gateway({ deploy: [definition], log, deadlineMs: 1_000 })
  await node.send('POST', '/api/Thing', [{ id: 'a' }, { id: 't3' }])
  const run = async (code: string) => (await node.send('POST', '/api/Run', { code })).json
  const taken = `try { await (await things()).add(factory.newResource(NS, 'Thing', 'a')) }
    catch { console.log('taken'); seen = true }`
  const never = `let seen = false; console.log('begin'); ${taken}`
  expect(
    await run(`${never}; if (!seen) throw new Error('goes on as if it was made')`),
  ).not.toHaveProperty('error')
  expect(await run(`${never}; while (!seen) {}`)).not.toHaveProperty('error')
  expect(
    await run(`${never}; while (!seen) await (await things()).exists('b')`),
  ).not.toHaveProperty('error')
  const count = `let n = 0; try { for (;; n += 1) await (await things()).add(factory.newResource(NS, 'Thing', 't' + n)) }
    catch { throw new Error('got to ' + n) }`
  expect((await run(count)).error.message).toBe('got to 3')
  expect(
    (await run(`await (await things()).remove('none'); throw new Error('later')`)).error.message,
  ).toBe("Object with ID 'none' in collection with ID 'Asset:org.test.Thing' does not exist")
  // Each of the first three transactions runs again after its rejected write, but its output is logged only once.
  expect(logged).toEqual(['begin', 'taken', 'begin', 'taken', 'begin', 'taken'])
})

it('records the transaction, its historian record and its writes in one block, in this order', async () => {
  const { node, run } = await started()
  const code = `const r = await things(); const a = await r.get('a'); a.note = 'n'; await r.update(a)
    await r.remove('b'); emit(Object.assign(factory.newEvent(NS, 'Noticed'), { text: 't', thing: a }))`
  const reply = await run(code, { note: 'mine' })
  const { transactionId } = reply.json
  let last: unknown[] = []
  for await (const page of node.ledger.reader.blocks(0)) {
    last = page.at(-1)?.entries.map((text) => JSON.parse(text)) ?? []
  }
  expect(last).toMatchObject([
    { method: 'create_item', item: { id: `org.test.Run#${transactionId}` } },
    {
      method: 'create_item',
      item: {
        resource: {
          transactionId,
          eventsEmitted: [{ $class: 'org.test.Noticed', eventId: `${transactionId}#0`, text: 't' }],
        },
      },
    },
    { method: 'update_item', item: { id: 'org.test.Thing#a' } },
    { method: 'delete_item', id: 'org.test.Thing#b' },
  ])
})

it('logs console output without extra formatting', async () => {
  const logged: string[] = []
  const log = (network: string, level: string, text: string) => {
    logged.push(`${network} ${level} ${text}`)
  }
  const node = await gateway({ deploy: [definition], log })
  await node.send('POST', '/api/Run', {
    code: 'console.log("a", 1, { b: [2] }); console.error(new Error("e"))',
  })
  expect(logged).toEqual(['test-network log a 1 {"b":[2]}', 'test-network error Error: e'])
})

it('runs twenty concurrent transactions one after the other', async () => {
  const { node, run } = await started()
  const code = `const r = await things(); const a = await r.get('a'); a.amount += 1; await r.update(a)`
  const replies = await Promise.all(Array.from({ length: 20 }, () => run(code)))
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200))
  expect((await node.send('GET', '/api/Thing/a')).json.amount).toBe(21)
})

it('returns the updated resource to later reads, whichever object the script updated', async () => {
  const { ask } = await started()
  const code = `const registry = await things(), read = await registry.get('a')
    const other = factory.newResource(NS, 'Thing', 'a'); other.amount = 10
    await registry.update(other)
    const now = await registry.get('a'); now.amount += 5; await registry.update(now)
    const [found] = await query('byAmount', { least: 15, most: 1 })
    await registry.remove('b')
    const b = factory.newRelationship(NS, 'Thing', 'b')
    return [read.amount, now.amount, found === now, (() => { try { return b.amount } catch { return 'gone' } })()].join()`
  expect(await ask(code)).toBe('1,15,true,gone')
})
