import { expect, it } from 'vitest'
import { type BmpKind, bmpOf } from '../../test/converter/bmp.ts'
import { readBmp, readBmpInfo } from './bmp.ts'

const OFFSET_AT = 10
const INFO_AT = 14
const COMPRESSION_AT = 30

/** Returns the pixels of an image with one row as hexadecimal RRGGBB. */
function row(file: Buffer): string[] {
  const { pixels: rgb, width } = readBmp(file)
  return Array.from({ length: width }, (_, x) =>
    Buffer.from(rgb.subarray(x * 3, x * 3 + 3)).toString('hex'),
  )
}

it.each<[string, BmpKind, number[], number[], string[]]>([
  [
    'of OS/2, with colours of three bytes',
    { bits: 1, core: true },
    [1, 0],
    [0x102030, 0x405060],
    ['405060', '102030'],
  ],
  [
    'with an index outside the palette, which gives a black pixel',
    { bits: 8 },
    [0, 7],
    [0x102030],
    ['102030', '000000'],
  ],
  [
    'with an empty mask, which gives an empty channel',
    { bits: 32, masks: [0xff0000, 0, 0xff] },
    [0x112233],
    [],
    ['110033'],
  ],
  [
    'with channels of four bits, scaled to 0 to 255',
    { bits: 16, masks: [0xf00, 0xf0, 0xf] },
    [0x8af],
    [],
    ['88aaff'],
  ],
])('decodes a BMP %s', (_, kind, pixels, colors, expected) => {
  expect(row(bmpOf(kind, [pixels], colors))).toEqual(expected)
})

it('assumes the maximum number of colours if a BMP does not state it', () => {
  const file = bmpOf({ bits: 1 }, [[1, 0]], [0x102030, 0x405060])
  file.writeUInt32LE(0, INFO_AT + 32)
  expect(row(file)).toEqual(['405060', '102030'])
})

it('reads the colour masks of a BMP at the same offset with and without an alpha mask', () => {
  const file = bmpOf({ bits: 32, masks: [0xff, 0xff00, 0xff0000] }, [[0x112233]])
  file.writeUInt32LE(6, COMPRESSION_AT)
  expect(row(file)).toEqual(['332211'])
})

it('takes the alpha of a BMP as unused if it is 0 everywhere', () => {
  const kind: BmpKind = { bits: 32, masks: [0xff0000, 0xff00, 0xff], alphaMask: 0xff000000 }
  const pixels = (...colors: number[]) => [...readBmp(bmpOf(kind, [colors])).pixels]
  expect(pixels(0x112233, 0x445566)).toEqual([0x11, 0x22, 0x33, 255, 0x44, 0x55, 0x66, 255])
  expect(pixels(0x112233, 0x1445566)).toEqual([0x11, 0x22, 0x33, 0, 0x44, 0x55, 0x66, 1])
})

it.each<[string, (file: Buffer) => void]>([
  ['a header that is too short', (file) => file.writeUInt32LE(15, INFO_AT)],
  ['no width', (file) => file.writeInt32LE(0, INFO_AT + 4)],
  ['a negative width', (file) => file.writeInt32LE(-1, INFO_AT + 4)],
  ['no height', (file) => file.writeInt32LE(0, INFO_AT + 8)],
  ['three bits per pixel', (file) => file.writeUInt16LE(3, INFO_AT + 14)],
])('rejects a BMP with %s', (_, change) => {
  const file = bmpOf({ bits: 24 }, [[0x112233]])
  expect(readBmpInfo(file)).toEqual({ width: 1, height: 1, channels: 3 })
  change(file)
  expect(() => readBmpInfo(file)).toThrow(expect.objectContaining({ code: 'IMAGE_UNDECODABLE' }))
})

it('finds the pixels of a BMP without their offset behind its header, colours and masks', () => {
  for (const [kind, pixels, colors] of [
    [{ bits: 8 }, [1, 0], [0x102030, 0x405060]],
    [{ bits: 1, core: true }, [1, 0], [0x102030, 0x405060]],
    [{ bits: 24 }, [0x112233], []],
    [{ bits: 32, masks: [0xff0000, 0xff00, 0xff] }, [0x112233], []],
  ] as const satisfies readonly [BmpKind, number[], number[]][]) {
    const file = bmpOf(kind, [pixels], colors)
    const expected = row(file)
    file.writeUInt32LE(0, OFFSET_AT)
    expect(row(file)).toEqual(expected)
    file.writeUInt32LE(INFO_AT, OFFSET_AT)
    expect(() => readBmp(file)).toThrow('BMP')
  }
})
