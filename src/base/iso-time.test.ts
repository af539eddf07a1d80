import { expect, it } from 'vitest'
import { isoTime, parseIsoTime } from './iso-time.ts'

it('formats times up to the last date of ECMAScript in ISO 8601, and later times as numbers', () => {
  expect(isoTime(8.64e15)).toBe('+275760-09-13T00:00:00.000Z')
  expect(isoTime(8.64e15 + 1)).toBe('8640000000000001 ms after 1970')
})

it('parses days and times with a zone, and no day or time that does not exist', () => {
  const times = [
    '2026-03-01',
    '2026-03-01T09:30+09:00',
    '2026-03-01t00:30:00.5z',
    '2026-03-01T00:30:00 00:00',
  ]
  expect(times.map((text) => new Date(parseIsoTime(text) ?? 0).toISOString())).toEqual([
    ...['2026-03-01T00:00:00.000Z', '2026-03-01T00:30:00.000Z'],
    ...['2026-03-01T00:30:00.500Z', '2026-03-01T00:30:00.000Z'],
  ])
  for (const text of [
    '',
    '2026-02-30',
    '2026-02-29T12:00:00Z',
    '2026-03-01T24:00:00Z',
    '2026-03-01T10:00',
    '2026-3-1',
    '2026-03-01T10:00:60Z',
  ]) {
    expect([text, parseIsoTime(text)]).toEqual([text, null])
  }
})
