import { describe, expect, it } from 'vitest'
import { matchesPattern, normalizeInstant } from './validation.ts'

describe('normalizeInstant', () => {
  it.each(['', ' ', 'T', '2026', '2026-13-01', '2026-02-30', '2026-01-01T24:01:00Z'])(
    'returns null for %j',
    (text) => {
      expect(normalizeInstant(text)).toBe(null)
    },
  )

  it.each([
    ['2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z'],
    ['2026-11-20', '2026-11-20T00:00:00.000Z'],
    ['2026-11-20T12:00', '2026-11-20T12:00:00.000Z'],
    ['2026-11-20T12:00:00.5+09:00', '2026-11-20T03:00:00.500Z'],
    ['2026-11-20t12:00:00,123456789z', '2026-11-20T12:00:00.123Z'],
    ['+002026-11-20T00:00:00Z', '2026-11-20T00:00:00.000Z'],
  ])('normalizes %j to %j, also in a second call', (text, instant) => {
    expect([normalizeInstant(text), normalizeInstant(text)]).toEqual([instant, instant])
  })

  it('returns null for years that have no four digits, because dates are compared as texts', () => {
    const texts = ['+012026-11-20', '9999-12-31T23:59:59-01:00', '-000001-01-01']
    expect(texts.map(normalizeInstant)).toEqual([null, null, null])
  })

  it('returns null for 30 February, even after a valid date', () => {
    const texts = ['2026-02-28T00:00:00.000Z', '2026-02-30T00:00:00.000Z', '']
    expect(texts.map(normalizeInstant)).toEqual([texts[0], null, null])
  })
})

it('`matchesPattern` returns the same as `RegExp.test`, for simple and complex patterns and for long strings', () => {
  const patterns = [/^[a-z]*$/, /^(ab)+$/i, /^\p{L}{1,3}(?=x)/u, /(.)\1/, /^a?b?c?d?$/]
  const texts = ['', 'abab', 'ABab', 'éx', 'aa', 'abcd', 'a'.repeat(300), `${'ab'.repeat(200)}x`]
  for (const pattern of patterns) {
    for (const text of texts) {
      expect([pattern, text, matchesPattern(pattern, text)]).toEqual([
        pattern,
        text,
        pattern.test(text),
      ])
    }
  }
})

it('`matchesPattern` returns null for catastrophic backtracking, and still matches the next text', () => {
  for (const pattern of [/^(a+)+$/, /^(a|aa)*$/, /^(?:[a-z]+\s?)*$/]) {
    expect(matchesPattern(pattern, `${'a'.repeat(200)}!`)).toBeNull()
    expect(matchesPattern(pattern, 'aaa')).toBe(true)
  }
})
