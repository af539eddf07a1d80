import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { COLUMNS_MAX, computeGrid, PX_MAX, parseOptions, ROWS_MAX } from './options.ts'
import { columnWidth, rowHeight } from './workbook.ts'

const DEFAULTS = { px: 2, width: 100 }
const read = (fields: Record<string, string>) =>
  parseOptions(new Map(Object.entries(fields)), DEFAULTS)

describe('the options', () => {
  it('the options use their defaults if they are missing or empty', () => {
    const plain = {
      px: 2,
      defaultWidth: 100,
      colors: 65_428,
      background: null,
      resample: 'cubic',
      grayscale: false,
      zoom: null,
    }
    expect(read({})).toEqual(plain)
    expect(read({ px: '', width: ' ', height: '', grayscale: '' })).toEqual(plain)
  })

  it.each([
    [{ px: '546' }, { px: 546 }],
    [{ width: ' 16384 ' }, { width: 16_384 }],
    [{ height: '1048576' }, { height: 1_048_576 }],
    [{ colors: '1' }, { colors: 1 }],
    [{ background: '#fFaa00' }, { background: 0xffaa00 }],
    [{ resample: 'nearest' }, { resample: 'nearest' }],
    [{ grayscale: 'on' }, { grayscale: true }],
    [{ grayscale: 'false' }, { grayscale: false }],
    [{ zoom: '400' }, { zoom: 400 }],
  ])('the options are parsed from %j', (fields, expected) =>
    expect(read(fields)).toMatchObject(expected),
  )

  it.each([
    { px: '547' },
    { px: '0' },
    { px: '１' },
    { width: '1e3' },
    { height: '1048577' },
    { height: '99999999999' },
    { colors: '65429' },
    { background: 'red' },
    { background: '#fff' },
    { resample: 'lanczos' },
    { grayscale: 'maybe' },
    { zoom: '9' },
  ])('the options are rejected for %j, with the name of the field', (fields) => {
    const [name = ''] = Object.keys(fields)
    expect(() => read(fields)).toThrow(
      expect.objectContaining({ code: 'FIELD_INVALID', message: expect.stringContaining(name) }),
    )
  })
})

const CELLS_MAX = 10_000_000

describe('the grid of an image', () => {
  it('the grid of an image has the number of rows rounded down exactly, for images and columns of any size', () => {
    const side = fc.integer({ min: 1, max: 100_000_000 })
    const count = fc.integer({ min: 1, max: COLUMNS_MAX })
    fc.assert(
      fc.property(side, side, count, (width, height, columns) => {
        const exact = (BigInt(columns) * BigInt(height)) / BigInt(width)
        const rows = exact === 0n ? 1 : Number(exact)
        fc.pre(rows <= ROWS_MAX && rows * columns <= CELLS_MAX)
        expect(
          computeGrid({ width, height }, { width: columns, defaultWidth: 100 }, CELLS_MAX),
        ).toEqual({
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
  ])('with the options %j, at or just above a limit, has the error %s', (request, code) => {
    const make = () =>
      computeGrid({ width: 10, height: 10 }, { ...request, defaultWidth: 100 }, CELLS_MAX)
    if (code === null) expect(make).not.toThrow()
    else expect(make).toThrow(expect.objectContaining({ code }))
  })
})

it('columns and rows are displayed exactly `px` pixels wide and high, for every `px`', () => {
  for (let px = 1; px <= PX_MAX; px += 1) {
    const width = columnWidth(px)
    expect(Math.trunc(((256 * width + Math.trunc(128 / 7)) / 256) * 7)).toBe(px)
    expect(width).toBeLessThanOrEqual(255)
    expect((rowHeight(px) * 96) / 72).toBe(px)
    expect(rowHeight(px)).toBeLessThanOrEqual(409.5)
  }
})
