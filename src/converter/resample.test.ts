import { describe, expect, it } from 'vitest'
import type { Resample } from './options.ts'
import { resample } from './resample.ts'

const grays = (...values: number[]) =>
  Uint8Array.from(values.flatMap((value) => [value, value, value]))

/** Resizes a row of gray pixels and returns the red channel. */
function row(values: number[], columns: number, method: Resample): number[] {
  const from = { columns: values.length, rows: 1 }
  const resized = resample(grays(...values), from, { columns, rows: 1 }, method)
  return [...resized].filter((_, at) => at % 3 === 0)
}

describe('resample', () => {
  it.each<[Resample, number[], number[]]>([
    ['nearest', [10, 20], [10, 10, 20, 20]],
    ['nearest', [10, 20, 30, 40, 50], [10, 30, 50]],
    ['nearest', [10, 20, 30, 40, 50, 60], [20, 50]],
    ['cubic', [0, 200], [0, 41, 159, 214]],
    ['cubic', [100], [100, 100, 100]],
    ['cubic', [0, 255, 0], [0, 255, 0]],
  ])('with %s resizes %j to %j', (method, values, expected) => {
    expect(row(values, expected.length, method)).toEqual(expected)
    // Vertical resizing gives the same result as horizontal resizing.
    const [from, to] = [values.length, expected.length]
    const column = resample(
      grays(...values),
      { columns: 1, rows: from },
      { columns: 1, rows: to },
      method,
    )
    expect(column).toEqual(grays(...expected))
  })

  it.each<[Resample, number, number]>([
    ['cubic', 37, 23],
    ['cubic', 23, 37],
    ['cubic', 64, 64],
    ['nearest', 37, 23],
    ['nearest', 7, 5],
  ])(
    'with %s to %i × %i gives the same pixels whether the image is rotated before or after resizing',
    (method, columns, rows) => {
      const from = { columns: 19, rows: 13 }
      const bytes = Uint8Array.from({ length: 19 * 13 * 3 }, (_, at) => (at * at * 7919) >> 5)
      const rotated = (rgb: Uint8Array) =>
        Uint8Array.from(rgb, (_, at) => rgb[rgb.length - 3 - at + 2 * (at % 3)] ?? 0)
      const actual = resample(rotated(bytes), from, { columns, rows }, method)
      const expected = rotated(resample(bytes, from, { columns, rows }, method))
      const off = actual.map((value, at) => Math.abs(value - (expected[at] ?? 0)))
      // The order of a sum may affect rounding.
      expect(Math.max(...off)).toBeLessThanOrEqual(method === 'cubic' ? 1 : 0)
    },
  )
})
