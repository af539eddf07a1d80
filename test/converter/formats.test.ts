import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { crc32, deflateSync } from 'node:zlib'
import sharp, { type Sharp } from 'sharp'
import { describe, expect, it } from 'vitest'
import { type DecodeOptions, decode } from '../../src/converter/decode.ts'
import { essentialPng } from '../../src/converter/formats.ts'
import { bmpOf } from './bmp.ts'

const PLAIN: DecodeOptions = { resample: 'nearest', grayscale: false, background: null }

/** Returns the cells of a converted image as rows of 0xRRGGBB. The image has one block of pixels for each cell. */
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
/** Six different colours, so that every orientation looks different. */
const MOTIF = [
  [R, G, B],
  [W, K, Y],
]

/**
 * Returns the motif as pixels, 16 × 16 per colour, because lossy formats do not keep the colours of single
 * pixels.
 */
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

/** Checks that each channel of each cell differs by at most `reach` from `expected`. */
function expectNear(
  actual: number[][],
  expected: readonly (readonly number[])[],
  reach: number,
): void {
  const channels = (colors: readonly (readonly number[])[]) =>
    colors.flat().flatMap((color) => [color >>> 16, (color >>> 8) & 255, color & 255])
  const expectedChannels = channels(expected)
  const off = channels(actual).map((value, at) =>
    Math.abs(value - (expectedChannels[at] ?? Number.NaN)),
  )
  expect(Math.max(...off), JSON.stringify(actual)).toBeLessThanOrEqual(reach)
}

/** The motif as it must be displayed for each EXIF orientation. */
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

describe('decoding', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'applies EXIF orientation %i of a JPEG and a PNG; orientations 5 to 8 swap width and height',
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

  it('decodes a large image with alpha and an orientation, for which the decoder has a separate code path', async () => {
    const png = await motif(MOTIF, 4, 255)
      .resize({ width: 6000, height: 3000, fit: 'fill', kernel: 'nearest' })
      .png({ compressionLevel: 1 })
      .withMetadata({ orientation: 6 })
      .toBuffer()
    expect(await cells(png, [2, 3])).toEqual(UPRIGHT[6])
  })

  it('decodes a CMYK JPEG to approximately the colours of its inks', async () => {
    const cmyk = await motif([[W, K, R]])
      .toColourspace('cmyk')
      .jpeg({ quality: 95 })
      .toBuffer()
    expect((await sharp(cmyk).metadata()).space).toBe('cmyk')
    expectNear(await cells(cmyk, [3, 1]), [[W, K, R]], 60)
  })

  it('decodes a PNG with 16 bits, interlacing, a palette or gray to its exact colours', async () => {
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

  it('decodes a transparent PNG without its alpha channel, or on the requested background', async () => {
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

  it('decodes a gray image with transparency on the requested background, not on its gray', async () => {
    const gray = await sharp(Buffer.from([0, 255, 0, 0]), {
      raw: { width: 2, height: 1, channels: 2 },
    })
      .toColourspace('b-w')
      .png()
      .toBuffer()
    expect((await sharp(gray).metadata()).channels).toBe(2)
    expect(await cells(gray, [2, 1], { background: 0x336699 })).toEqual([[K, 0x336699]])
    // A gray value that is transparent.
    const whole = await motif([[K, W]])
      .toColourspace('b-w')
      .png()
      .toBuffer()
    const keyed = withPngChunks(whole, [['tRNS', Buffer.from([0, 255])]])
    expect(await cells(keyed, [2, 1], { background: 0x336699 })).toEqual([[K, 0x336699]])
  })

  it('applies the gamma of a PNG that is not sRGB', async () => {
    const linear = await motif([[0x808080, R]])
      .png()
      .toBuffer()
    const gamma = (value: number) => {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32BE(value * 100_000)
      return bytes
    }
    const chunk = (value: number) => withPngChunks(linear, [['gAMA', gamma(value)]])
    expect(await cells(chunk(1), [2, 1])).toEqual([[0xbcbcbc, R]])
    expect(await cells(chunk(0.45455), [2, 1])).toEqual([[0x808080, R]])
    const srgb = withPngChunks(linear, [
      ['sRGB', Buffer.from([0])],
      ['gAMA', gamma(1)],
    ])
    expect(await cells(srgb, [2, 1])).toEqual([[0x808080, R]])
  })

  it('decodes what the first frame of a GIF does not cover as transparent', async () => {
    // A canvas of 3 x 1 pixels; its first frame is the red pixel in the middle.
    const canvas = '47494638396103000100800000ff0000000000'
    const frame = '2c01000000010001000002024401003b'
    const gif = Buffer.from(canvas + frame, 'hex')
    expect(await cells(gif, [3, 1], { background: 0x336699 })).toEqual([[0x336699, R, 0x336699]])
    expect(await cells(gif, [3, 1])).toEqual([[K, R, K]])
  })

  it('decodes a BMP with a short OS/2 header', async () => {
    const whole = bmpOf({ bits: 24 }, [[R, G]])
    const short = Buffer.concat([whole.subarray(0, 30), whole.subarray(54)])
    short.writeUInt32LE(16, 14)
    short.writeUInt32LE(30, 10)
    expect(await cells(short, [2, 1])).toEqual([[R, G]])
  })

  it('decodes a BMP with a mask for alpha on the requested background', async () => {
    const bmp = bmpOf({ bits: 32, masks: [R, G, B], alphaMask: 0xff000000 }, [
      [0xff00ff00, 0x0000ff00, 0x8000ff00],
    ])
    expect(await cells(bmp, [3, 1], { background: R })).toEqual([[G, R, 0x7f8000]])
    expect(await cells(bmp, [3, 1])).toEqual([[G, G, G]])
  })

  it('decodes the first frame of an animated GIF or WebP', async () => {
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

  it('decodes AVIF, lossy WebP and TIFF', async () => {
    expectNear(await cells(await motif().avif({ quality: 90 }).toBuffer(), [3, 2]), MOTIF, 8)
    expectNear(await cells(await motif().webp({ quality: 95 }).toBuffer(), [3, 2]), MOTIF, 8)
    for (const compression of ['none', 'lzw', 'deflate', 'packbits'] as const) {
      const tiff = await motif().tiff({ compression }).toBuffer()
      expect(await cells(tiff, [3, 2]), compression).toEqual(MOTIF)
    }
  })

  it('decodes a BMP of 1, 4, 8, 16, 24 or 32 bits, top-down or bottom-up, with an OS/2 header, and with masks', async () => {
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

  it('converts to gray with Rec. 709 luma', async () => {
    const file = await motif([[R, G, B, W]])
      .png()
      .toBuffer()
    const gray = [54, 182, 18, 255].map((luma) => luma * 0x010101)
    expect(await cells(file, [4, 1], { grayscale: true })).toEqual([gray])
  })
})

describe('rejection', () => {
  const noise = () => {
    const raw = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, at) => (at * 7919) >> 3))
    return sharp(raw, { raw: { width: 64, height: 64, channels: 3 } })
  }
  const kinds: [string, () => Promise<Buffer>][] = [
    ['JPEG', () => noise().jpeg().toBuffer()],
    ['progressive JPEG', () => noise().jpeg({ progressive: true }).toBuffer()],
    [
      'progressive JPEG without chroma subsampling',
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
  it.each(kinds)('rejects a truncated %s as damaged', async (_, make) => {
    const whole = await make()
    for (const part of [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]) {
      // Cuts after the bytes that identify the format (at most 32) and before the last byte.
      const length = Math.min(whole.length - 1, Math.max(32, Math.trunc(whole.length * part)))
      await expect(cells(whole.subarray(0, length), [2, 2]), `${part}`).rejects.toMatchObject({
        code: 'IMAGE_UNDECODABLE',
      })
    }
  })

  it.each([
    ['three bytes', 'abc'],
    ['a file with the first three bytes of a PNG', '\x89PN'],
    ['HTML', '<!doctype html><title>a</title>'],
    ['compressed SVG', '\x1f\x8b\x08'],
    ['a PDF', '%PDF-1.7\n'],
    ['HEIC', '\0\0\0\x18ftypheic\0\0\0\0mif1heic'],
    ['JPEG XL', '\0\0\0\x0cJXL \r\n\x87\n'],
    ['a PSD', '8BPS\0\x01'],
    ['a PPM', 'P6 1 1 255 abc'],
    ['text', 'hello'],
  ])('rejects %s with FORMAT_NOT_ACCEPTED', async (_, latin1) => {
    await expect(cells(Buffer.from(latin1, 'latin1'), [1, 1])).rejects.toMatchObject({
      code: 'FORMAT_NOT_ACCEPTED',
      message: expect.stringContaining('JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP, SVG'),
    })
  })

  it('rejects a compressed BMP with FORMAT_NOT_ACCEPTED', async () => {
    const bmp = bmpOf({ bits: 8 }, [[0]], [R])
    bmp.writeUInt32LE(1, 30)
    await expect(cells(bmp, [1, 1])).rejects.toMatchObject({ code: 'FORMAT_NOT_ACCEPTED' })
  })

  it.each<[string, Record<number, number>]>([
    ['LZMA compression', { 259: 34925 }],
    ['Zstandard compression', { 259: 50000 }],
    ['LERC compression', { 259: 34887 }],
    ['JBIG compression', { 259: 34661 }],
    ['JPEG 2000 compression', { 259: 34712 }],
    ['an unassigned compression', { 259: 9999 }],
    ['12 bits per sample', { 258: 12 }],
    ['64 bits per sample', { 258: 64, 339: 3 }],
    ['32-bit integers', { 258: 32, 339: 1 }],
    ['signed integers', { 258: 16, 339: 2 }],
    ['gray floats', { 258: 32, 339: 3 }],
    ['YCbCr without JPEG', { 262: 6 }],
    ['CIELAB', { 262: 8 }],
    ['complex numbers', { 258: 32, 339: 5 }],
    ['a colour filter array', { 262: 32803 }],
    ['10 channels', { 277: 10 }],
  ])('rejects a TIFF with %s as unsupported, not damaged', async (_, tags) => {
    await expect(cells(grayTiff(tags), [2, 2])).rejects.toMatchObject({
      code: 'FORMAT_NOT_ACCEPTED',
      message: expect.stringContaining('unsupported'),
    })
    expect(await cells(grayTiff({}), [2, 1])).toEqual([[0x555555, 0x555555]])
  })

  it('rejects images above the pixel limit', async () => {
    const bmp = bmpOf({ bits: 24 }, [[R]])
    bmp.writeInt32LE(100_000, 18)
    bmp.writeInt32LE(100_000, 22)
    await expect(cells(bmp, [1, 1])).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' })
  })
})

describe('SVG', () => {
  const svg = (content: string, attributes = 'width="2" height="1"', before = '') =>
    Buffer.from(
      `${before}<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ` +
        `${attributes}>${content}</svg>`,
    )
  const red = '<rect width="1" height="1" fill="red"/>'

  it('SVG is rendered at the size of the grid, on white or the requested background', async () => {
    const stripes = [0, 2, 4, 6].map((x) => `<rect x="${x}" width="1" height="4" fill="red"/>`)
    const fine = svg(stripes.join(''), 'width="2" height="1" viewBox="0 0 8 4"')
    const row = [R, W, R, W, R, W, R, W]
    const actual = await cells(fine, [8, 4], { resample: 'cubic' })
    expect(actual).toEqual([row, row, row, row])
    expect(await cells(svg(red), [2, 1], { background: B })).toEqual([[R, B]])
  })

  it.each(['', '\ufeff', ' \n', '<?xml version="1.0"?>\n<!-- a -->\n', '<!DOCTYPE svg>'])(
    'SVG is recognized after %j',
    async (before) => {
      expect(await cells(svg(red, undefined, before), [2, 1])).toEqual([[R, W]])
    },
  )

  it('reads no files and sends no requests, but renders embedded images', async () => {
    const png = await motif([[R]])
      .png()
      .toBuffer()
    const data = `data:image/png;base64,${png.toString('base64')}`
    const contained = svg(`<image width="1" height="1" xlink:href="${data}"/>`)
    expect(await cells(contained, [2, 1])).toEqual([[R, W]])
    const requests: string[] = []
    const server = createServer(({ url }, response) => {
      requests.push(String(url))
      response.end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const folder = await mkdtemp(join(tmpdir(), 'daicho-svg-'))
    try {
      await writeFile(
        join(folder, 'red.png'),
        await motif([[R]])
          .png()
          .toBuffer(),
      )
      await writeFile(join(folder, 'red.css'), 'rect { fill: red }')
      await writeFile(join(folder, 'red.svg'), svg(red.replace('<rect', '<rect id="r"')))
      const { port } = server.address() as AddressInfo
      for (const base of [folder, pathToFileURL(folder).href, `http://127.0.0.1:${port}`]) {
        const contents = [
          `<image width="1" height="1" xlink:href="${base}/red.png"/>`,
          `<style>@import url("${base}/red.css");</style><rect width="1" height="1" fill="white"/>`,
          `<use xlink:href="${base}/red.svg#r"/>`,
          `<rect width="1" height="1" fill="white" filter="url(${base}/red.svg#r)"/>`,
        ]
        for (const content of contents) {
          expect(await cells(svg(content), [2, 1]), content).toEqual([[W, W]])
        }
        const entity = `<!DOCTYPE svg [<!ENTITY e SYSTEM "${base}/red.svg">]>`
        await expect(cells(svg('&e;', undefined, entity), [2, 1])).rejects.toMatchObject({
          code: 'IMAGE_UNDECODABLE',
        })
      }
      expect(requests).toEqual([])
    } finally {
      server.close()
      await rm(folder, { recursive: true })
    }
  })

  it.each([
    ['long comments', `<!-- ${'a'.repeat(2_000)} -->`],
    ['a document type with entities', '<!DOCTYPE svg [<!ENTITY ns "http://a/">]>'],
  ])('SVG is recognized after %s', async (_, before) => {
    expect(await cells(svg(red, undefined, before), [2, 1])).toEqual([[R, W]])
  })

  it('SVG is drawn if comments and character data contain its end tag', async () => {
    const before = '<!-- </svg> --><?a </svg>?>'
    const file = `${svg(`<![CDATA[</svg>]]>${red}`, undefined, before)}\n${before}\n`
    expect(await cells(Buffer.from(file), [2, 1])).toEqual([[R, W]])
  })

  it('SVG is drawn if comments and instructions follow it without a space', async () => {
    for (const after of ['<!--a--><!--b-->', '<?a?><?b?>', '<!--a--><?b?><!-->-->']) {
      expect(await cells(Buffer.from(`${svg(red)}${after}`), [2, 1]), after).toEqual([[R, W]])
    }
  })

  it.each(['utf-16le', 'iso-8859-1'] as const)(
    'SVG is read in the encoding %s',
    async (encoding) => {
      const start =
        encoding === 'utf-16le' ? '\ufeff' : '<?xml version="1.0" encoding="ISO-8859-1"?>'
      const text = `${start}${svg(`<desc>\u00e9</desc>${red}`)}`
      const bytes = Buffer.from(text, encoding === 'utf-16le' ? 'utf16le' : 'latin1')
      expect(await cells(bytes, [2, 1])).toEqual([[R, W]])
    },
  )

  it.each([
    ['viewBox="0 0 24.5 10.4"', 24.5, 10.4],
    ['viewBox="0 0 0.5 0.25"', 0.5, 0.25],
    ['width="1in" viewBox="0 0 2 1"', 96, 48],
    ['height="7.5" viewBox="0 0 2 1"', 15, 7.5],
    ['width="100%" height="100%" viewBox="0 0 3 1"', 3, 1],
    ['style="width:30px;height:9px"', 30, 9],
  ])(
    'SVG has the size of its root element, also a fraction: %s',
    async (attributes, width, height) => {
      const image = await decode(svg(red, attributes), PLAIN, () => ({ columns: 2, rows: 1 }))
      expect([image.width, image.height]).toEqual([width, height])
    },
  )

  it('keeps preserveAspectRatio and percentages while it is stretched to the grid', async () => {
    const square = '<rect width="100%" height="100%" fill="red"/>'
    const size = 'width="4" height="1" viewBox="0 0 1 1"'
    expect(await cells(svg(square, size), [8, 1])).toEqual([[W, W, W, R, R, W, W, W]])
    const left = `${size} preserveAspectRatio="xMinYMid meet"`
    expect(await cells(svg(square, left), [8, 1])).toEqual([[R, R, W, W, W, W, W, W]])
  })

  it('SVG is drawn if its viewBox is tiny', async () => {
    const tiny = svg('<rect width="0.001" height="0.001" fill="red"/>', 'viewBox="0 0 .002 .001"')
    expect(await cells(tiny, [2, 1])).toEqual([[R, W]])
  })

  it('SVG is drawn with CSS variables that have one value', async () => {
    const style = '<style>/* { */:root{--b:var(--a); --a:red}</style>'
    const rect = '<rect width="1" height="1" style="fill:var(--b)"/>'
    const other = '<rect x="1" width="1" height="1" style="fill:var(--none, blue)"/>'
    expect(await cells(svg(style + rect + other), [2, 1])).toEqual([[R, B]])
  })

  it.each([
    ['an attribute', 'fill="red" transform="rotate(90)" transform-origin=".5 .5"'],
    ['a style', 'fill="red" style="transform-origin: .5px .5px; transform: rotate(90deg)"'],
    ['a style sheet', 'class="x"'],
  ])('SVG is drawn with the transform-origin of %s', async (_, attributes) => {
    const style = '<style>.x{fill:red;transform:rotate(90deg);transform-origin:.5px .5px}</style>'
    expect(await cells(svg(`${style}<rect width="1" height="1" ${attributes}/>`), [2, 1])).toEqual([
      [R, W],
    ])
  })

  it.each([
    ['has no size', svg(red, '')],
    [
      'has a CSS variable with two values',
      svg('<style>:root{--a:red}g{--a:blue}</style><g style="fill:var(--a)"/>'),
    ],
    [
      'turns a shape around its own middle',
      svg('<rect style="transform-box:fill-box;transform-origin:center;transform:scale(2)"/>'),
    ],
  ])('SVG is rejected with the reason if it %s', async (_, bytes) => {
    await expect(cells(bytes, [2, 1])).rejects.toMatchObject({
      code: 'FORMAT_NOT_ACCEPTED',
      message: expect.stringMatching(/^this SVG (?:has no size|uses )/),
    })
  })

  it.each([
    ['damaged', svg('<g>')],
    ['without a size', svg('', 'width="0" height="0"')],
    ['an entity bomb', svg('&b;', undefined, entityBomb())],
    ['nested too deeply', svg('<g>'.repeat(100_000) + '</g>'.repeat(100_000))],
  ])('SVG is rejected if it is %s', async (_, bytes) => {
    await expect(cells(bytes, [2, 1])).rejects.toMatchObject({ code: 'IMAGE_UNDECODABLE' })
  })
})

function entityBomb(): string {
  const entities = [...'bcdefghij'].map(
    (name, at) => `<!ENTITY ${name} "${`&${'cdefghijk'[at]};`.repeat(10)}">`,
  )
  return `<!DOCTYPE svg [${entities.join('')}<!ENTITY k "<rect/>">]>`
}

it('gives each cell the colour of its part of the image, whether the image is enlarged or reduced', async () => {
  const side = 32
  const ramp = Buffer.alloc(side * side * 3)
  for (let at = 0; at < side * side; at += 1) {
    ramp.set([(at % side) * 8 + 4, Math.trunc(at / side) * 8 + 4, 0], at * 3)
  }
  const png = await sharp(ramp, { raw: { width: side, height: side, channels: 3 } })
    .png()
    .toBuffer()
  const sizes = [
    ...[32, 37, 64, 100].flatMap((x) => [23, 32, 41].flatMap((y) => [[x, y] as const])),
    ...([
      [16, 64],
      [8, 8],
    ] as const),
  ]
  for (const resample of ['cubic', 'nearest'] as const) {
    for (const [columns, rows] of sizes) {
      const actual = await cells(png, [columns, rows], { resample })
      const [x, y] = [Math.trunc(columns / 2), Math.trunc(rows / 2)]
      const color = actual[y]?.[x] ?? 0
      const expected = [((x + 0.5) / columns) * 256, ((y + 0.5) / rows) * 256] as const
      // `nearest` may take the neighbouring source pixel, which differs by 4 colour levels here.
      const reach = resample === 'cubic' ? 1 : 4
      expect(Math.abs((color >>> 16) - expected[0])).toBeLessThanOrEqual(reach)
      expect(Math.abs(((color >>> 8) & 255) - expected[1])).toBeLessThanOrEqual(reach)
    }
  }
})

it('ignores PNG chunks that do not affect the pixels', async () => {
  const png = await motif().png().toBuffer()
  const image = await sharp(png).withMetadata({ orientation: 6 }).png().toBuffer()
  const text = deflateSync(Buffer.alloc(8_000_000, 'a'))
  const bloated = withPngChunks(image, [
    ...Array(10).fill(['zTXt', Buffer.concat([Buffer.from('Comment\0\0'), text])]),
    ['iTXt', Buffer.concat([Buffer.from('XML:com.adobe.xmp\0\x01\0\0\0'), text])],
    ['tEXt', Buffer.from('Comment\0a')],
    ['eXIf', Buffer.alloc(70_000)],
    ['aaAa', Buffer.alloc(9)],
  ])
  expect(essentialPng(bloated)).toEqual(essentialPng(image))
  expect(Buffer.from(essentialPng(png))).toEqual(withoutChunk(png, 'pHYs'))
  expect(await cells(bloated, [2, 3])).toEqual(UPRIGHT[6])
})

/** Returns the PNG with `chunks` added after its header. */
function withPngChunks(png: Buffer, chunks: readonly (readonly [string, Buffer])[]): Buffer {
  const headerEnd = 8 + 25
  const more = chunks.map(([type, data]) => {
    const chunk = Buffer.concat([Buffer.alloc(4), Buffer.from(type), data, Buffer.alloc(4)])
    chunk.writeUInt32BE(data.length, 0)
    chunk.writeUInt32BE(crc32(chunk.subarray(4, -4)), chunk.length - 4)
    return chunk
  })
  return Buffer.concat([png.subarray(0, headerEnd), ...more, png.subarray(headerEnd)])
}

/** Returns the PNG without its chunk of this type. */
function withoutChunk(png: Buffer, type: string): Buffer {
  const at = png.indexOf(type) - 4
  return Buffer.concat([png.subarray(0, at), png.subarray(at + 12 + png.readUInt32BE(at))])
}

/** Returns an uncompressed gray TIFF of 8 × 8 pixels. `changed` replaces values of its tags. */
function grayTiff(changed: Record<number, number>): Buffer {
  const usual = { 256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 200, 277: 1, 278: 8, 279: 64 }
  const tags = Object.entries({ ...usual, ...changed })
  const tiff = Buffer.alloc(4_096, 0x55)
  tiff.write('II*\0')
  tiff.writeUInt32LE(8, 4)
  tiff.writeUInt16LE(tags.length, 8)
  for (const [at, [id, value]] of tags.entries()) {
    tiff.writeUInt16LE(Number(id), 10 + at * 12)
    // Type 3 is a 16-bit value, and the count is 1.
    tiff.writeUInt16LE(3, 12 + at * 12)
    tiff.writeUInt32LE(1, 14 + at * 12)
    tiff.writeUInt32LE(value, 18 + at * 12)
  }
  tiff.writeUInt32LE(0, 10 + tags.length * 12)
  return tiff
}

describe('98 megapixels in a small file', () => {
  const whole = { width: 9_900, height: 9_900 }
  const flat = (channels: 3 | 4) =>
    sharp({
      create: { ...whole, channels, background: { r: 9, g: 200, b: 30, alpha: 0.5 } },
      limitInputPixels: false,
    })
  const kinds: [string, () => Promise<Buffer>, string][] = [
    ['JPEG', () => flat(3).jpeg().toBuffer(), '100x100'],
    ['rotated PNG', () => flat(3).png().withMetadata({ orientation: 6 }).toBuffer(), '100x100'],
    ['interlaced PNG', () => flat(3).png({ progressive: true }).toBuffer(), 'IMAGE_TOO_LARGE'],
  ]
  it.each(kinds)(
    'the conversion of a %s uses less than 450 MB, whether it succeeds or is rejected',
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
