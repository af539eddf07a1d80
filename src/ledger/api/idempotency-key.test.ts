import { expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Json } from '../../base/json.ts'
import { parseKey } from './conditions.ts'

const asked = { method: 'POST', url: '/api/fruit', body: { a: 1 } as Json | undefined }
const once = (header: string, subject = '', what = asked) =>
  parseKey(header, subject, what).with(what.body === undefined ? null : canonicalJson(what.body))

it.each([
  ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
  ['"a"', ' a '],
  ['"a+/b=="', 'a+/b=='],
])('%s names the same request as %s', (quoted, bare) => {
  expect(once(quoted)).toEqual(once(bare))
})

it('different keys, and equal keys of different subjects, do not match', () => {
  const keys = [
    once('a'),
    once('b'),
    once('"a "'),
    once('"\\"a"'),
    once('"\\\\a"'),
    once('a', 'ann'),
    once('a', 'bob'),
  ]
  expect(new Set(keys.map(({ key }) => key)).size).toBe(keys.length)
  expect(keys.every(({ key }) => /^[0-9a-f]{64}$/.test(key))).toBe(true)
})

it.each(['', ' ', '""', '"a', 'a"b', 'a b', '"é"', '"a\\b"', '"a";p=1', 'a, b', 'x'.repeat(256)])(
  'refuses %j',
  (header) => {
    expect(() => once(header)).toThrow('Idempotency-Key is')
  },
)

it('accepts 255 characters', () => {
  expect(once('x'.repeat(255))).toEqual(once(`"${'x'.repeat(255)}"`))
})

it('the fingerprint ignores the order of members and the token', () => {
  const of = (what: Partial<typeof asked>) => once('a', '', { ...asked, ...what }).fingerprint
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
