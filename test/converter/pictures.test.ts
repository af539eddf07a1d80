import fc from 'fast-check'
import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { convert, type Job } from '../../src/converter/convert.ts'
import { COLORS_MAX } from '../../src/converter/palette.ts'
import { IS_THOROUGH, roundsOf } from '../support/rounds.ts'
import { overlookedFaults } from './package-parts.ts'
import { readWithPopulate, readWithSheetJs, validate, validatorRuns } from './readers.ts'

/** A generated picture that uses `colors` different colours, each at least once. */
interface Picture {
  readonly width: number
  readonly height: number
  readonly colors: number
  readonly seed: number
  readonly px: number
  readonly grayscale: boolean
  readonly zoom: number | null
  /** Cells per pixel along each side. With `nearest`, each pixel becomes a square of this size. */
  readonly magnified: number
  readonly compressed: 'png' | 'webp' | 'tiff'
}

const side = fc.integer({ min: 1, max: 40 })
const anyPicture: fc.Arbitrary<Picture> = fc
  .record({
    width: side,
    height: side,
    // The number of colours as a fraction of the maximum for the size. 0 is one colour.
    fraction: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1, noNaN: true }), fc.constant(1)),
    large: fc.nat({ max: 49 }).map((n) => n === 0),
    seed: fc.nat(),
    px: fc.oneof(fc.constantFrom(1, 2, 7, 546), fc.integer({ min: 1, max: 546 })),
    grayscale: fc.boolean(),
    zoom: fc.option(fc.integer({ min: 10, max: 400 })),
    magnified: fc.constantFrom(1, 1, 1, 2, 3),
    compressed: fc.constantFrom('png', 'webp', 'tiff'),
  })
  .map(({ fraction, large, width, height, magnified: times, ...rest }) => {
    const size = large ? { width: 120 + width, height: 120 + height } : { width, height }
    const most = Math.min(size.width * size.height, COLORS_MAX)
    const magnified = large ? 1 : times
    return { ...rest, ...size, magnified, colors: Math.max(1, Math.round(fraction * most)) }
  })

/** Returns the pixels of a picture. Its `colors` different colours are spread over the RGB cube. */
function pixelsOf({ width, height, colors, seed }: Picture): Uint8Array {
  const rgb = new Uint8Array(width * height * 3)
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    const color = Math.imul((pixel % colors) + seed, 0x9e3779b1) & 0xffffff
    rgb[pixel * 3] = color >>> 16
    rgb[pixel * 3 + 1] = (color >>> 8) & 255
    rgb[pixel * 3 + 2] = color & 255
  }
  return rgb
}

async function fileOf(one: Picture, rgb: Uint8Array): Promise<Buffer> {
  const image = sharp(rgb, { raw: { width: one.width, height: one.height, channels: 3 } })
  if (one.compressed === 'webp') return image.webp({ lossless: true }).toBuffer()
  return one.compressed === 'tiff'
    ? image.tiff({ compression: 'lzw' }).toBuffer()
    : image.png().toBuffer()
}

/** Returns the expected `RRGGBB` of every cell, row by row. */
function expectedFills(picture: Picture, rgb: Uint8Array): string[] {
  const fills: string[] = []
  const hex = (value: number) => value.toString(16).toUpperCase().padStart(2, '0')
  for (let row = 0; row < picture.height * picture.magnified; row += 1) {
    for (let column = 0; column < picture.width * picture.magnified; column += 1) {
      const at =
        (Math.trunc(row / picture.magnified) * picture.width +
          Math.trunc(column / picture.magnified)) *
        3
      const [r = 0, g = 0, b = 0] = rgb.subarray(at, at + 3)
      const luma = Math.round(0.2126 * r + 0.7152 * g + 0.0722 * b)
      fills.push(picture.grayscale ? hex(luma).repeat(3) : hex(r) + hex(g) + hex(b))
    }
  }
  return fills
}

async function workbookOf(job: Partial<Job> & Pick<Job, 'bytes' | 'options'>): Promise<Buffer> {
  const { pieces } = await convert({
    name: 'picture.png',
    cellsMax: 10_000_000,
    product: 'workbook',
    ...job,
  })
  return Buffer.concat(Array.from(pieces, (piece) => piece.bytes))
}

function optionsFor(one: Picture): Job['options'] {
  return {
    px: one.px,
    width: one.width * one.magnified,
    height: one.height * one.magnified,
    defaultWidth: 100,
    colors: COLORS_MAX,
    background: null,
    resample: 'nearest',
    grayscale: one.grayscale,
    zoom: one.zoom,
  }
}

const VALIDATED_EVERY = IS_THOROUGH ? 1 : 50
const PICTURES = roundsOf(200)
const pictures = fc.sample(anyPicture, { numRuns: PICTURES - 2, seed: 20_231_208 })
const plain: Picture = {
  width: 1,
  height: 1,
  colors: 1,
  seed: 1,
  px: 2,
  grayscale: false,
  zoom: null,
  magnified: 1,
  compressed: 'png',
}
// A picture of one pixel, and a picture with the maximum number of colours of a workbook.
const edges: Picture[] = [plain, { ...plain, width: 257, height: 255, colors: COLORS_MAX }]

describe(`${PICTURES} generated pictures`, () => {
  const validated = validatorRuns()
  it(`${PICTURES} generated pictures become workbooks in which two other libraries read the same pixels, without faults that these libraries ignore`, async () => {
    for (const picture of [...pictures, ...edges]) {
      const rgb = pixelsOf(picture)
      const bytes = await fileOf(picture, rgb)
      const workbook = await workbookOf({ bytes, options: optionsFor(picture) })
      const label = JSON.stringify(picture)
      const expected = expectedFills(picture, rgb)
      for (const seen of [readWithSheetJs(workbook), await readWithPopulate(workbook)]) {
        expect(seen.fills.join(), label).toBe(expected.join())
        expect(seen.sheets, label).toEqual(['picture.png'])
        expect(seen.heights, label).toEqual([picture.px * 0.75])
        expect(seen.widths, label).toEqual([Math.trunc((picture.px * 256) / 7) / 256])
      }
      expect(overlookedFaults(workbook), label).toEqual([])
    }
  }, 600_000)

  const name = validated
    ? 'become workbooks that the Open XML SDK accepts (a sample; all with DAICHO_TEST_THOROUGH=1)'
    : 'SKIPPED: the Open XML validator is not available for this platform'
  it.skipIf(!validated)(
    name,
    async () => {
      for (const [at, picture] of [...edges, ...pictures].entries()) {
        if (at % VALIDATED_EVERY > 1) continue
        const bytes = await fileOf(picture, pixelsOf(picture))
        const workbook = await workbookOf({ bytes, options: optionsFor(picture) })
        expect(await validate(workbook), JSON.stringify(picture)).toEqual([])
      }
    },
    600_000,
  )
})

describe('a picture with more colours than a workbook can hold', () => {
  it('deviates by at most 3 of 255 in every channel for 90,000 colours', async () => {
    const picture = { ...plain, width: 300, height: 300, colors: 90_000 }
    const rgb = pixelsOf(picture)
    const bytes = await fileOf(picture, rgb)
    const workbook = await workbookOf({ bytes, options: optionsFor(picture) })
    const { fills } = readWithSheetJs(workbook)
    expect(fills.length).toBe(90_000)
    const off = fills.map((fill, at) =>
      Math.max(
        ...[0, 1, 2].map((channel) =>
          Math.abs(
            Number.parseInt(fill.slice(channel * 2, channel * 2 + 2), 16) -
              (rgb[at * 3 + channel] ?? 0),
          ),
        ),
      ),
    )
    expect(off.reduce((most, value) => Math.max(most, value), 0)).toBeLessThanOrEqual(3)
    expect(overlookedFaults(workbook)).toEqual([])
  })
})
