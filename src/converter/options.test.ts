import { describe, expect, it } from 'vitest'
import { optionsOf } from './options.ts'

const DEFAULTS = { px: 2, width: 100 }
const read = (fields: Record<string, string>) =>
  optionsOf(new Map(Object.entries(fields)), DEFAULTS)

describe('the options', () => {
  it('are filled in where nothing or an empty text is given', () => {
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
  ])('%j is read', (fields, expected) => expect(read(fields)).toMatchObject(expected))

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
  ])('%j is refused, with the field named', (fields) => {
    const [name = ''] = Object.keys(fields)
    expect(() => read(fields)).toThrow(
      expect.objectContaining({ code: 'FIELD_INVALID', message: expect.stringContaining(name) }),
    )
  })
})
