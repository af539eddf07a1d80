import { describe, expect, it } from 'vitest'
import { instantOf } from './instant.ts'

describe('the moment that a text names', () => {
  // First: nothing has been read before it.
  it.each(['', ' ', 'T', '2026', '2026-13-01', '2026-02-30', '2026-01-01T24:01:00Z'])(
    'is none for %j',
    (text) => {
      expect(instantOf(text)).toBe(null)
    },
  )

  it.each([
    ['2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z'],
    ['2026-11-20', '2026-11-20T00:00:00.000Z'],
    ['2026-11-20T12:00', '2026-11-20T12:00:00.000Z'],
    ['2026-11-20T12:00:00.5+09:00', '2026-11-20T03:00:00.500Z'],
    ['2026-11-20t12:00:00,123456789z', '2026-11-20T12:00:00.123Z'],
    ['+012026-11-20T00:00:00Z', '+012026-11-20T00:00:00.000Z'],
  ])('of %j is %j, also when it is asked for again', (text, moment) => {
    expect([instantOf(text), instantOf(text)]).toEqual([moment, moment])
  })

  it('of a day that the calendar does not have is none, whatever stood before it', () => {
    const texts = ['2026-02-28T00:00:00.000Z', '2026-02-30T00:00:00.000Z', '']
    expect(texts.map(instantOf)).toEqual([texts[0], null, null])
  })
})
