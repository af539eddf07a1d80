import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp, { type Sharp } from 'sharp'
import { describe, expect, it } from 'vitest'
import { type DecodeOptions, decode } from '../../src/converter/decode.ts'
import { bmpOf } from './bmp.ts'

const PLAIN: DecodeOptions = { resample: 'nearest', grayscale: false, background: null }

/** The cells, as rows of 0xRRGGBB; every cell is one block of the image. */
async function cells(
  bytes: Uint8Array,
  [columns, rows]: readonly [number, number],
  options: Partial<DecodeOptions> = {},
): Promise<number[][]> {
  const { rgb } = await decode(bytes, { ...PLAIN, ...options }, () => ({ columns, rows }))
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (_, column) =>
      Buffer.from(rgb).readUIntBE((row * columns + column) * 3, 3),
    ),
  )
}

const R = 0xff0000
const G = 0x00ff00
const B = 0x0000ff
const W = 0xffffff
const K = 0x000000
const Y = 0xffff00
const BLOCK = 16
/** Six colours that say which way is up. */
const MOTIF = [
  [R, G, B],
  [W, K, Y],
]

/** The motif in blocks of 16 × 16, so that lossy kinds keep their colours. */
function motif(
  colors: readonly (readonly number[])[] = MOTIF,
  channels: 3 | 4 = 3,
  alpha = 255,
): Sharp {
  const width = (colors[0]?.length ?? 0) * BLOCK
  const height = colors.length * BLOCK
  const raw = Buffer.alloc(width * height * channels)
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const color = colors[Math.trunc(y / BLOCK)]?.[Math.trunc(x / BLOCK)] ?? 0
      const pixel = [color >>> 16, (color >>> 8) & 255, color & 255, alpha]
      raw.set(pixel.slice(0, channels), (y * width + x) * channels)
    }
  }
  return sharp(raw, { raw: { width, height, channels } })
}

/** Whether every channel of every cell is within `reach` of `expected`. */
function expectNear(
  seen: number[][],
  expected: readonly (readonly number[])[],
  reach: number,
): void {
  const channels = (colors: readonly (readonly number[])[]) =>
    colors.flat().flatMap((color) => [color >>> 16, (color >>> 8) & 255, color & 255])
  const wanted = channels(expected)
  const off = channels(seen).map((value, at) => Math.abs(value - (wanted[at] ?? Number.NaN)))
  expect(Math.max(...off), JSON.stringify(seen)).toBeLessThanOrEqual(reach)
}

/** Where EXIF orientation n says that the stored picture is to be looked at from. */
const UPRIGHT: Record<number, number[][]> = {
  1: [
    [R, G, B],
    [W, K, Y],
  ],
  2: [
    [B, G, R],
    [Y, K, W],
  ],
  3: [
    [Y, K, W],
    [B, G, R],
  ],
  4: [
    [W, K, Y],
    [R, G, B],
  ],
  5: [
    [R, W],
    [G, K],
    [B, Y],
  ],
  6: [
    [W, R],
    [K, G],
    [Y, B],
  ],
  7: [
    [Y, B],
    [K, G],
    [W, R],
  ],
  8: [
    [B, Y],
    [G, K],
    [R, W],
  ],
}

describe('what is decoded', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'JPEG and PNG with EXIF orientation %i stand upright, and W and H are theirs',
    async (orientation) => {
      const expected = UPRIGHT[orientation] ?? []
      const size = [expected[0]?.length ?? 0, expected.length] as const
      const jpeg = await motif().jpeg({ quality: 95 }).withMetadata({ orientation }).toBuffer()
      expectNear(await cells(jpeg, size), expected, 4)
      for (const channels of [3, 4] as const) {
        const png = await motif(MOTIF, channels, 99).png().withMetadata({ orientation }).toBuffer()
        expect(await cells(png, size)).toEqual(expected)
        const { width, height } = await decode(png, PLAIN, (given) => {
          expect(given).toEqual({ width: size[0] * BLOCK, height: size[1] * BLOCK })
          return { columns: 1, rows: 1 }
        })
        expect({ width, height }).toEqual({ width: size[0] * BLOCK, height: size[1] * BLOCK })
      }
    },
  )

  it('a large image with alpha and an orientation: the same, although it takes another way', async () => {
    const png = await motif(MOTIF, 4, 255)
      .resize({ width: 6000, height: 3000, fit: 'fill', kernel: 'nearest' })
      .png({ compressionLevel: 1 })
      .withMetadata({ orientation: 6 })
      .toBuffer()
    expect(await cells(png, [2, 3])).toEqual(UPRIGHT[6])
  })

  it('a CMYK JPEG: near the colours that its inks make', async () => {
    const cmyk = await motif([[W, K, R]])
      .toColourspace('cmyk')
      .jpeg({ quality: 95 })
      .toBuffer()
    expect((await sharp(cmyk).metadata()).space).toBe('cmyk')
    expectNear(await cells(cmyk, [3, 1]), [[W, K, R]], 60)
  })

  it('PNG of 16 bits, interlaced, with a palette, and of shades of gray: exactly', async () => {
    const kinds = [
      motif().toColourspace('rgb16').png(),
      motif().png({ progressive: true }),
      motif().png({ palette: true, colours: 16, dither: 0 }),
    ]
    for (const kind of kinds) expect(await cells(await kind.toBuffer(), [3, 2])).toEqual(MOTIF)
    const gray = [[0x000000, 0x808080, 0xfefefe]]
    const shades = await motif(gray).toColourspace('b-w').png().toBuffer()
    expect(await cells(shades, [3, 1])).toEqual(gray)
  })

  it('a transparent PNG: its colours without alpha, or over the background that was asked for', async () => {
    for (const resample of ['nearest', 'cubic'] as const) {
      const clear = await motif([[W, W]], 4, 0)
        .png()
        .toBuffer()
      expect(await cells(clear, [2, 1], { resample })).toEqual([[W, W]])
      expect(await cells(clear, [1, 1], { resample, background: 0x123456 })).toEqual([[0x123456]])
    }
    const half = await motif([[K, W]], 4, 128)
      .png()
      .toBuffer()
    expect(await cells(half, [2, 1], { background: R })).toEqual([[0x7f0000, 0xff8080]])
  })

  it('an animated GIF and an animated WebP: the first frame', async () => {
    const frames = await Promise.all(
      [[[R, G]], [[B, W]]].map((colors) => motif(colors).png().toBuffer()),
    )
    const joined = () => sharp(frames, { join: { animated: true } })
    for (const file of [
      await joined().gif().toBuffer(),
      await joined().webp({ lossless: true }).toBuffer(),
    ]) {
      expect((await sharp(file, { animated: true }).metadata()).pages).toBe(2)
      expect(await cells(file, [2, 1])).toEqual([[R, G]])
    }
  })

  it('AVIF, lossy WebP and TIFF', async () => {
    expectNear(await cells(await motif().avif({ quality: 90 }).toBuffer(), [3, 2]), MOTIF, 8)
    expectNear(await cells(await motif().webp({ quality: 95 }).toBuffer(), [3, 2]), MOTIF, 8)
    for (const compression of ['none', 'lzw', 'deflate', 'packbits'] as const) {
      const tiff = await motif().tiff({ compression }).toBuffer()
      expect(await cells(tiff, [3, 2]), compression).toEqual(MOTIF)
    }
  })

  it('BMP of 1, 4, 8, 16, 24 and 32 bits, upside down or not, of OS/2 and with masks', async () => {
    const indexes = [
      [0, 1, 2],
      [3, 4, 5],
    ]
    const colors = MOTIF.flat()
    const files = [
      bmpOf({ bits: 4 }, indexes, colors),
      bmpOf({ bits: 8 }, indexes, colors),
      bmpOf({ bits: 24 }, MOTIF),
      bmpOf({ bits: 24, core: true }, MOTIF),
      bmpOf({ bits: 24, topDown: true }, MOTIF),
      bmpOf({ bits: 32 }, MOTIF),
      bmpOf({ bits: 32, masks: [R, G, B] }, MOTIF),
      bmpOf({ bits: 16 }, [
        [0x7c00, 0x03e0, 0x001f],
        [0x7fff, 0, 0x7fe0],
      ]),
      bmpOf({ bits: 16, masks: [0xf800, 0x07e0, 0x001f] }, [
        [0xf800, 0x07e0, 0x001f],
        [0xffff, 0, 0xffe0],
      ]),
    ]
    for (const [at, file] of files.entries()) {
      expect(await cells(file, [3, 2]), `file ${at}`).toEqual(MOTIF)
    }
    const two = bmpOf({ bits: 1 }, [[0, 1, 1, 0, 1, 0, 0, 0, 1]], [R, W])
    expect(await cells(two, [9, 1])).toEqual([[R, W, W, R, W, R, R, R, W]])
  })

  it('in shades of gray: luma by Rec. 709', async () => {
    const file = await motif([[R, G, B, W]])
      .png()
      .toBuffer()
    const gray = [54, 182, 18, 255].map((luma) => luma * 0x010101)
    expect(await cells(file, [4, 1], { grayscale: true })).toEqual([gray])
  })
})

describe('what is refused', () => {
  const noise = () => {
    const raw = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, at) => (at * 7919) >> 3))
    return sharp(raw, { raw: { width: 64, height: 64, channels: 3 } })
  }
  const kinds: [string, () => Promise<Buffer>][] = [
    ['JPEG', () => noise().jpeg().toBuffer()],
    ['progressive JPEG', () => noise().jpeg({ progressive: true }).toBuffer()],
    [
      'progressive JPEG with all its colours',
      () => noise().jpeg({ progressive: true, chromaSubsampling: '4:4:4' }).toBuffer(),
    ],
    ['PNG', () => noise().png().toBuffer()],
    ['interlaced PNG', () => noise().png({ progressive: true }).toBuffer()],
    ['GIF', () => noise().gif().toBuffer()],
    ['WebP', () => noise().webp().toBuffer()],
    ['lossless WebP', () => noise().webp({ lossless: true }).toBuffer()],
    ['AVIF', () => noise().avif().toBuffer()],
    ['TIFF', () => noise().tiff({ compression: 'lzw' }).toBuffer()],
    [
      'BMP',
      async () =>
        bmpOf({ bits: 24 }, [
          [R, G, B],
          [W, K, Y],
        ]),
    ],
  ]
  it.each(kinds)('a %s that is cut short anywhere is damaged', async (_, make) => {
    const whole = await make()
    for (const part of [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]) {
      // As many bytes as it takes to know what kind of image this is, and one less than all.
      const length = Math.min(whole.length - 1, Math.max(32, Math.trunc(whole.length * part)))
      await expect(cells(whole.subarray(0, length), [2, 2]), `${part}`).rejects.toMatchObject({
        code: 'IMAGE_UNDECODABLE',
      })
    }
  })

  it.each([
    ['three bytes', 'abc'],
    ['three bytes that start like a PNG', '\x89PN'],
    ['an SVG', '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'],
    ['an SVG with a prolog', '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'],
    ['a PDF', '%PDF-1.7\n'],
    ['HEIC', '\0\0\0\x18ftypheic\0\0\0\0mif1heic'],
    ['JPEG XL', '\0\0\0\x0cJXL \r\n\x87\n'],
    ['a PSD', '8BPS\0\x01'],
    ['a PPM', 'P6 1 1 255 abc'],
    ['text', 'hello'],
  ])('%s is not of an accepted kind', async (_, latin1) => {
    await expect(cells(Buffer.from(latin1, 'latin1'), [1, 1])).rejects.toMatchObject({
      code: 'FORMAT_NOT_ACCEPTED',
      message: expect.stringContaining('JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP'),
    })
  })

  it('a compressed BMP is not accepted, and says so', async () => {
    const bmp = bmpOf({ bits: 8 }, [[0]], [R])
    bmp.writeUInt32LE(1, 30)
    await expect(cells(bmp, [1, 1])).rejects.toMatchObject({ code: 'FORMAT_NOT_ACCEPTED' })
  })

  it('more pixels than are decoded', async () => {
    const bmp = bmpOf({ bits: 24 }, [[R]])
    bmp.writeInt32LE(100_000, 18)
    bmp.writeInt32LE(100_000, 22)
    await expect(cells(bmp, [1, 1])).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' })
  })
})

describe('98 megapixels in a small file', () => {
  const whole = { width: 9_900, height: 9_900 }
  const flat = (channels: 3 | 4) =>
    sharp({
      create: { ...whole, channels, background: { r: 9, g: 200, b: 30, alpha: 0.5 } },
      limitInputPixels: false,
    })
  const kinds: [string, () => Promise<Buffer>, string][] = [
    ['JPEG', () => flat(3).jpeg().toBuffer(), '100x100'],
    ['PNG on its side', () => flat(3).png().withMetadata({ orientation: 6 }).toBuffer(), '100x100'],
    ['interlaced PNG', () => flat(3).png({ progressive: true }).toBuffer(), 'IMAGE_TOO_LARGE'],
  ]
  it.each(kinds)(
    'as %s cost less than 450 MB, whether they are decoded or refused',
    async (_, make, expected) => {
      const folder = await mkdtemp(join(tmpdir(), 'daicho-large-'))
      try {
        const file = join(folder, 'image')
        await writeFile(file, await make())
        const program = fileURLToPath(new URL('./measure.ts', import.meta.url))
        const { stdout } = await promisify(execFile)(process.execPath, [program, file])
        const { outcome, megabytes } = JSON.parse(stdout)
        expect(outcome).toBe(expected)
        expect(megabytes).toBeLessThan(450)
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  )
})
