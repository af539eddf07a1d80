// Registry calls that a processor awaits in any order, and the limits of a transaction.
import { expect, it, onTestFinished, vi } from 'vitest'
import { HttpRefusal, ReplyBudget } from '../../src/http/index.ts'
import { gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.test
asset Thing identified by id { o String id o String text default="" --> Thing next optional }
@returns(String)
transaction Ask { o String code --> Thing thing optional }
event Noticed { o Integer number }`
const LIB = `
/** @param {org.test.Ask} tx the transaction
 *  @transaction */
async function ask(tx) { return String(await (0, eval)('(async (thing) => {' + tx.code + '})')(tx.thing)) }
const things = () => getAssetRegistry('org.test.Thing')
const made = (id, text) => Object.assign(getFactory().newResource('org.test', 'Thing', id), { text })`

async function started() {
  const lines: string[] = []
  const log = (_network: string, _level: string, text: string) => lines.push(text)
  const deploy = [networkOf(MODEL, { 'lib/ask.js': LIB })]
  const node = await gateway({ deploy, log, deadlineMs: 30_000 })
  await node.send('POST', '/api/Thing', [
    { id: 'a', text: 'A', next: 'b' },
    { id: 'b', text: 'B' },
  ])
  const ask = async (code: string, thing = 'a') => {
    const { status, json } = await node.send('POST', '/api/Ask', { code, thing })
    return status === 200 ? json : [status, json.error.code, json.error.message]
  }
  return { node, ask, lines }
}

it('answers registry calls that a processor awaits together, in another order, or never', async () => {
  const { node, ask } = await started()
  const together = `const r = await things()
    const [b, a, no] = await Promise.all([r.get('b'), r.get('a'), r.exists('c')])
    return [b.text, a.text, no].join()`
  expect(await ask(together)).toBe('B,A,false')
  const reversed = `const r = await things()
    const first = r.get('a'), second = r.get('b'), third = r.add(made('c', 'C')), fourth = r.get('c')
    const texts = []
    for (const read of [fourth, second, first]) texts.push((await read).text)
    await third
    return texts.join()`
  expect(await ask(reversed)).toBe('C,B,A')
  const unawaited = `const r = await things(); r.add(made('d', 'D')); r.remove('b'); return 'done'`
  expect(await ask(unawaited)).toBe('done')
  const ids = (await node.send('GET', '/api/Thing')).json.map(({ id }: { id: string }) => id)
  expect(ids).toEqual(['a', 'c', 'd'])
})

it('gives a related resource its id without a read, and reads the resource when the processor uses a property', async () => {
  const { ask } = await started()
  const names = `return [thing.getFullyQualifiedIdentifier(), thing.next.getFullyQualifiedIdentifier()].join()`
  expect(await ask(names)).toBe('org.test.Thing#a,org.test.Thing#b')
  expect(await ask('return thing.getFullyQualifiedIdentifier()', 'gone')).toBe(
    'org.test.Thing#gone',
  )
  expect(await ask('return [thing.text, thing.next.text].join()')).toBe('A,B')
})

it('accepts a thousand events per transaction, and rejects a transaction with one more event', async () => {
  const { node, ask } = await started()
  const emit = (count: number) => `await (await things()).add(made('e${count}', ''))
    for (let n = 0; n < ${count}; n += 1) {
      emit(Object.assign(getFactory().newEvent('org.test', 'Noticed'), { number: n }))
    }
    return 'done'`
  expect(await ask(emit(1_000))).toBe('done')
  const message = 'a transaction may emit at most 1000 events'
  expect(await ask(emit(1_001))).toEqual([422, 'TRANSACTION_FAILED', message])
  expect((await node.send('GET', '/api/Thing/e1000')).status).toBe(200)
  expect((await node.send('GET', '/api/Thing/e1001')).status).toBe(404)
})

it('accepts two thousand changes per transaction, and rejects a transaction with one more change', async () => {
  const { node, ask } = await started()
  const add = (count: number) => `await (await things()).addAll(
    Array.from({ length: ${count} }, (_, n) => made('n' + n, ''))); return 'done'`
  const message = 'a transaction may make at most 2000 changes'
  expect(await ask(add(2_001))).toEqual([422, 'TRANSACTION_FAILED', message])
  expect((await node.send('GET', '/api/Thing')).json).toHaveLength(2)
  expect(await ask(add(2_000))).toBe('done')
  expect((await node.send('GET', '/api/Thing')).json).toHaveLength(2_002)
})

it('logs up to a hundred lines per transaction, each truncated to 4096 characters', async () => {
  const { ask, lines } = await started()
  const code = `console.log('x'.repeat(5_000))
    for (let n = 1; n < 150; n += 1) console.log(n)
    return 'done'`
  expect(await ask(code)).toBe('done')
  expect(lines).toEqual(['x'.repeat(4_096), ...Array.from({ length: 99 }, (_, n) => `${n + 1}`)])
})

it('rejects a read that returns too many characters', async () => {
  const { node, ask } = await started()
  const big = (id: string) => ({ id, text: 'x'.repeat(6 * 1024 * 1024) })
  for (const id of ['x', 'y', 'z']) {
    expect((await node.send('POST', '/api/Thing', big(id))).status).toBe(200)
  }
  const message = 'a transaction cannot read so many resources'
  expect(await ask(`return (await (await things()).getAll()).length`)).toEqual([
    ...[422, 'TRANSACTION_FAILED', message],
  ])
  expect(await ask(`return (await (await things()).get('x')).text.length`)).toBe(`${6 << 20}`)
})

it('submits no further transaction of a list after results of 16 Mi characters', async () => {
  const { node } = await started()
  const list = Array(5).fill({ code: 'return "x".repeat(6e6)', thing: 'a' })
  const { status, json } = await node.send('POST', '/api/Ask', list)
  expect([status, json.error.code]).toEqual([413, 'UNIT_TOO_LARGE'])
  expect(json.error.message).toContain('the 3 before it are recorded')
  expect((await node.send('GET', '/api/Ask')).json).toHaveLength(3)
})

it('replies to a recorded change with success even if too many long replies are unsent', async () => {
  const { node } = await started()
  const busy = vi.spyOn(ReplyBudget.prototype, 'require').mockImplementation(() => {
    throw new HttpRefusal(503, 'REPLIES_BUSY', 'busy')
  })
  onTestFinished(() => busy.mockRestore())
  const text = 'x'.repeat(20_000)
  const made = await node.send('POST', '/api/Thing', { id: 'c', text })
  expect([made.status, made.text]).toEqual([204, ''])
  expect(made.headers.get('etag')).toMatch(/^"\d+\.\d+"$/)
  const asked = await node.send('POST', '/api/Ask', { code: `return "${text}"`, thing: 'c' })
  expect([asked.status, asked.headers.has('ledger-position')]).toEqual([204, true])
  busy.mockRestore()
  expect((await node.send('GET', '/api/Thing/c')).json.text).toBe(text)
})
