import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { startLedgerNode, temporaryFolder } from '../../../test/support/ledger-node.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Json } from '../../base/json.ts'
import { parseKey } from './conditions.ts'

const request = { method: 'POST', url: '/api/fruit', body: { a: 1 } as Json | undefined }
const keyOf = (header: string, subject = '', what = request) =>
  parseKey(header, [subject], what).with(what.body === undefined ? null : canonicalJson(what.body))

it.each([
  ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
  ['"a"', ' a '],
  ['"a+/b=="', 'a+/b=='],
])('the header %s contains the same key as %s', (quoted, bare) => {
  expect(keyOf(quoted)).toEqual(keyOf(bare))
})

it('two requests do not match if their keys differ, or if their callers differ', () => {
  const keys = [
    keyOf('a'),
    keyOf('b'),
    keyOf('"a "'),
    keyOf('"\\"a"'),
    keyOf('"\\\\a"'),
    keyOf('a', 'ann'),
    keyOf('a', 'bob'),
  ]
  expect(new Set(keys.map(({ key }) => key)).size).toBe(keys.length)
  expect(keys.every(({ key }) => /^[0-9a-f]{64}$/.test(key))).toBe(true)
})

it.each(['', ' ', '""', '"a', 'a"b', 'a b', '"é"', '"a\\b"', '"a";p=1', 'a, b', 'x'.repeat(256)])(
  'rejects the header %j',
  (header) => {
    expect(() => keyOf(header)).toThrow('Idempotency-Key must be')
  },
)

it('accepts a key of 255 characters', () => {
  expect(keyOf('x'.repeat(255))).toEqual(keyOf(`"${'x'.repeat(255)}"`))
})

it('the fingerprint of a request does not depend on its token or the order of the members of its body', () => {
  const of = (what: Partial<typeof request>) => keyOf('a', '', { ...request, ...what }).fingerprint
  const same = of({ body: { a: 1, b: [2] } })
  expect(of({ body: { b: [2], a: 1 } })).toBe(same)
  expect(of({ body: { a: 1, b: [2] }, url: '/api/fruit?token=x' })).toBe(same)
  expect(of({ body: { a: 1, b: [2] }, url: '/api/fruit?%74oken=y' })).toBe(same)
  const others = [
    of({}),
    of({ method: 'PATCH' }),
    of({ url: '/api/fruit/x' }),
    of({ url: '/api/fruit?x=1' }),
    of({ body: undefined }),
    of({ body: {} }),
    of({ body: [] }),
    same,
  ]
  expect(new Set(others).size).toBe(others.length)
})

it('executes a repeated request again if its idempotency record was removed', async () => {
  const folder = temporaryFolder()
  const repeat = async () => {
    const node = await startLedgerNode({ folder })
    await node.send('POST', '/api/fruit')
    const send = () => node.send('POST', '/api/fruit', { n: 1 }, { 'idempotency-key': 'one' })
    const ids = [(await send()).json.id, (await send()).json.id]
    await node.close()
    expect(ids[0]).toBe(ids[1])
    return ids[0]
  }
  const id = await repeat()
  expect(await repeat()).toBe(id)
  const database = new DatabaseSync(join(folder, 'ledger.db'))
  database.exec('DELETE FROM answers')
  database.close()
  expect(await repeat()).not.toBe(id)
})
