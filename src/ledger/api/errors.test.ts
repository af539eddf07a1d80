import { expect, it } from 'vitest'
import { LedgerError, mayBeRecorded } from '../errors.ts'

it.each([
  ['WRITER_STOPPED', true],
  ['OUTCOME_UNKNOWN', true],
  ['STORE_UNAVAILABLE', false],
  ['STORE_FULL', false],
  ['ITEM_NOT_FOUND', false],
] as const)('for %s, `mayBeRecorded` returns %s', (code, expected) => {
  expect(mayBeRecorded(new LedgerError(code, 'message'))).toBe(expected)
})
