import { expect, it } from 'vitest'
import { toIndexKeys } from './index-keys.ts'

/** Returns the keys as hex, and whether each key sorts the item. */
const keys = (value: unknown) =>
  toIndexKeys({ v: value } as never, ['v']).map(({ key, sorts }) => [
    Buffer.from(key).toString('hex'),
    sorts,
  ])

it.each([
  [null, '00'],
  [false, '10'],
  [true, '11'],
  [-1.5, '204007ffffffffffff'],
  [0, '208000000000000000'],
  [1.5, '20bff8000000000000'],
  ['', '30'],
  ['é', '30c3a9'],
])('the key of %j never changes, so that stored indexes stay readable', (value, key) => {
  expect(keys(value)).toEqual([[key, true]])
})

it('the keys of a list, an object and an absent value never change', () => {
  expect(keys({ w: 1 })).toEqual([['40', true]])
  expect(keys(undefined)).toEqual([['00', true]])
  expect(keys([2, 1, 2])).toEqual([
    ['40', true],
    ['20c000000000000000', false],
    ['20bff0000000000000', false],
  ])
})
