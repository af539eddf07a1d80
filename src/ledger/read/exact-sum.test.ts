import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ExactSum } from './exact-sum.ts'

const sumOf = (values: readonly number[]): number => {
  const sum = new ExactSum()
  for (const value of values) sum.add(value)
  return sum.value
}
const double = fc.double({ noNaN: true, noDefaultInfinity: true })

it('rounds only the exact sum, not the intermediate sums', () => {
  const cases: [readonly number[], number][] = [
    [[], 0],
    [[1, 2, 3], 6],
    [[0.1, 0.2, 0.3], 0.6],
    [Array(10).fill(0.1), 1],
    [[1e308, 1e308, -1e308], 1e308],
    [[1e16, 1, -1e16], 1],
    [[2 ** 53, 1, 1], 2 ** 53 + 2],
    [[2 ** 53, 1], 2 ** 53],
    [[2 ** 53, 1, 2 ** -1074], 2 ** 53 + 2],
    [[2 ** 53 - 1, 2 ** 53 - 1, 1], 2 ** 54],
    [[2 ** 53 - 1, 2, 1 - 2 ** 53], 2],
    [[2 ** -1074, 2 ** -1074], 2 ** -1073],
    [[2 ** -1022, -(2 ** -1074)], 2 ** -1022 - 2 ** -1074],
    [[Number.MAX_VALUE, Number.MAX_VALUE], Number.POSITIVE_INFINITY],
    [[-Number.MAX_VALUE, -Number.MAX_VALUE], Number.NEGATIVE_INFINITY],
    [[0.5, -0.5], 0],
  ]
  for (const [values, sum] of cases) expect([values, sumOf(values) + 0]).toEqual([values, sum])
})

it('returns the same sum for any order of the numbers', () => {
  fc.assert(
    fc.property(
      fc.array(double, { maxLength: 20 }),
      fc.array(double, { maxLength: 20 }),
      (a, b) => {
        expect(sumOf([...a, ...b])).toBe(sumOf([...b, ...a.toReversed()]))
      },
    ),
  )
})

it('adds two numbers with the same result as the operator +', () => {
  fc.assert(
    fc.property(double, double, (a, b) => {
      expect(sumOf([a, b]) + 0).toBe(a + b + 0)
    }),
  )
})

it('returns zero as the sum of numbers and their negatives', () => {
  fc.assert(
    fc.property(fc.array(double), (values) => {
      expect(sumOf([...values, ...values.map((value) => -value)]) + 0).toBe(0)
    }),
  )
})
