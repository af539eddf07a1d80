import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { COLUMNS_MAX, columnWidth, gridOf, PX_MAX, ROWS_MAX, rowHeight } from './grid.ts'

const CELLS_MAX = 10_000_000

describe('the grid of an image', () => {
  it('has exactly the truncated quotient, whatever the numbers', () => {
    const side = fc.integer({ min: 1, max: 100_000_000 })
    const count = fc.integer({ min: 1, max: COLUMNS_MAX })
    fc.assert(
      fc.property(side, side, count, (width, height, columns) => {
        const exact = (BigInt(columns) * BigInt(height)) / BigInt(width)
        const rows = exact === 0n ? 1 : Number(exact)
        fc.pre(rows <= ROWS_MAX && rows * columns <= CELLS_MAX)
        expect(gridOf({ width, height }, { width: columns }, 100, CELLS_MAX)).toEqual({
          columns,
          rows,
        })
      }),
    )
  })

  it.each([
    [{ width: 16_384, height: 610 }, null],
    [{ width: 16_384, height: 611 }, 'GRID_TOO_LARGE'],
    [{ width: 1, height: 1_048_576 }, null],
    [{ height: 16_385 }, 'GRID_TOO_LARGE'],
  ])('%j: %s', (wish, code) => {
    const make = () => gridOf({ width: 10, height: 10 }, wish, 100, CELLS_MAX)
    if (code === null) expect(make).not.toThrow()
    else expect(make).toThrow(expect.objectContaining({ code }))
  })
})

it('a column is exactly px pixels wide by the rule that spreadsheets use, for every px', () => {
  for (let px = 1; px <= PX_MAX; px += 1) {
    const width = columnWidth(px)
    expect(Math.trunc(((256 * width + Math.trunc(128 / 7)) / 256) * 7)).toBe(px)
    expect(width).toBeLessThanOrEqual(255)
    expect((rowHeight(px) * 96) / 72).toBe(px)
    expect(rowHeight(px)).toBeLessThanOrEqual(409.5)
  }
})
