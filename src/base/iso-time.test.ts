import { expect, it } from 'vitest'
import { isoTime } from './iso-time.ts'

it('formats times up to the last date of ECMAScript in ISO 8601, and later times as numbers', () => {
  expect(isoTime(8.64e15)).toBe('+275760-09-13T00:00:00.000Z')
  expect(isoTime(8.64e15 + 1)).toBe('8640000000000001 ms after 1970')
})
