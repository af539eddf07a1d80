import { expect, it } from 'vitest'
import { varianceCut } from './variance-cut.ts'

const cut = (bins: number[][], weight: number[], colorsMax: number) =>
  [
    ...varianceCut(
      { mean: Float64Array.from(bins.flat()), pixels: Uint32Array.from(weight) },
      colorsMax,
    ),
  ].map((color) => color.toString(16).padStart(6, '0'))

it('separates the most distant bins first, and weights the bins in a mean colour by their pixels', () => {
  const bins = [
    [0, 0, 0],
    [0, 0, 4],
    [200, 0, 0],
  ]
  expect(cut(bins, [1, 1, 1], 1)).toEqual(['430001', '430001', '430001'])
  expect(cut(bins, [3, 1, 1], 2)).toEqual(['000001', '000001', 'c80000'])
  expect(cut(bins, [3, 1, 1], 3)).toEqual(['000000', '000004', 'c80000'])
})

it('returns at most as many colours as bins', () => {
  expect(cut([[9, 8, 7]], [5], 4)).toEqual(['090807'])
})

it('merges bins of equal colour into one colour, even if more colours are allowed', () => {
  expect(
    cut(
      [
        [7, 7, 7.25],
        [7, 7, 7.75],
      ],
      [1, 1],
      2,
    ),
  ).toEqual(['070708', '070708'])
})

it('uses all colours, even if the bins with the greatest error cannot be separated', () => {
  const bins = [
    [10, 5.99, 0],
    [10.9, 6.01, 0],
    [100, 0, 0],
    [110, 0, 0],
  ]
  const [, , ...others] = cut(bins, [1e6, 1e6, 100, 100], 3)
  expect(others).toEqual(['640000', '6e0000'])
})
