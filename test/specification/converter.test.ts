// Every statement of the specification about the converter, over a real socket. The name of a test quotes the
// statement.
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Listener } from '../../src/http/index.ts'
import { partsOf } from '../converter/package-parts.ts'
import { type ReadWorkbook, readWithSheetJs } from '../converter/readers.ts'
import { type Fields, formOf, postImage, startConverter } from '../converter/service.ts'

const EXCEL = 'application/vnd.ms-excel'

let converter: Listener
beforeAll(async () => {
  converter = await startConverter()
})
afterAll(() => converter.close())

/** Returns a PNG in which the pixel (x, y) has the colour `color(x, y)`. */
async function png(
  width: number,
  height: number,
  color: (x: number, y: number) => readonly [number, number, number, number?] = (x, y) => [
    (x * 7) & 255,
    (y * 5) & 255,
    (x ^ y) & 255,
  ],
): Promise<Buffer> {
  const channels = color(0, 0).length === 4 ? 4 : 3
  const raw = Buffer.alloc(width * height * channels)
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      raw.set(color(x, y).map(Number), (y * width + x) * channels)
    }
  }
  return sharp(raw, { raw: { width, height, channels } }).png().toBuffer()
}

async function seen(bytes: Uint8Array, name = 'a.png', fields: Fields = {}): Promise<ReadWorkbook> {
  const response = await postImage(converter.url, bytes, name, fields)
  expect(response.status, await response.clone().text().catch(String)).toBe(200)
  return readWithSheetJs(new Uint8Array(await response.arrayBuffer()))
}

async function refusal(response: Response): Promise<{ status: number; code: string }> {
  const body: { status: unknown; code: string; message: unknown } = JSON.parse(
    await response.text(),
  )
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(body.status).toBe(false)
  expect(typeof body.message).toBe('string')
  return { status: response.status, code: body.code }
}

describe('What the service does', () => {
  it('“One operation turns an uploaded image into a spreadsheet file. Each pixel of the (resized) image becomes one cell whose background colour is the pixel colour.”', async () => {
    const image = await png(3, 2, (x, y) => [x * 100, y * 255, 18])
    const { fills, used } = await seen(image, 'a.png', { width: 3 })
    expect(used).toBe('A1:C2')
    expect(fills).toEqual(['000012', '640012', 'C80012', '00FF12', '64FF12', 'C8FF12'])
  })
})

describe('C: converter parameters', () => {
  it('“file | image file (jpg, gif, png and similar) | required”', async () => {
    const image = await png(4, 4)
    for (const bytes of [
      image,
      await sharp(image).jpeg().toBuffer(),
      await sharp(image).gif().toBuffer(),
    ]) {
      expect((await seen(bytes)).used).toBe('A1:CV100')
    }
    const body = formOf(null, '', { px: 2 })
    const response = await fetch(`${converter.url}/image`, { method: 'POST', body })
    expect(await refusal(response)).toEqual({ status: 400, code: 'FILE_MISSING' })
  })

  it('“px | integer | default 2 | Size in pixels of the side of one cell, applied to column width and row height”', async () => {
    const image = await png(2, 2)
    // A digit of the default font is 7 pixels wide, and a pixel is 0.75 points.
    expect(await seen(image)).toMatchObject({ widths: [73 / 256], heights: [1.5] })
    expect(await seen(image, 'a.png', { px: 7 })).toMatchObject({ widths: [1], heights: [5.25] })
    for (const px of ['0', '547', '-1', '1.5', 'two', '0x10', '1e2']) {
      const response = await postImage(converter.url, image, 'a.png', { px })
      expect(await refusal(response), px).toEqual({ status: 400, code: 'FIELD_INVALID' })
    }
  })

  it('“width | integer | default 100 | Number of cells (columns) across”', async () => {
    const image = await png(50, 25)
    expect((await seen(image)).used).toBe('A1:CV50')
    expect((await seen(await png(50, 1), 'a.png', { width: 703 })).used).toBe('A1:AAA14')
    for (const width of ['0', '16385', '-5', '10.0', 'NaN']) {
      const response = await postImage(converter.url, image, 'a.png', { width })
      expect(await refusal(response), width).toEqual({ status: 400, code: 'FIELD_INVALID' })
    }
  })

  it('“height | integer | default none | Number of cells (rows) down”', async () => {
    const image = await png(50, 25)
    expect((await seen(image, 'a.png', { height: 10 })).used).toBe('A1:T10')
    const response = await postImage(converter.url, image, 'a.png', { height: 0 })
    expect(await refusal(response)).toEqual({ status: 400, code: 'FIELD_INVALID' })
  })

  it('“configurable by environment variable DEFAULT_PX … DEFAULT_WIDTH”: the service gets both as arguments', async () => {
    const other = await startConverter({ defaults: { px: 14, width: 7 } })
    try {
      const response = await postImage(other.url, await png(7, 3), 'a.png')
      const book = readWithSheetJs(new Uint8Array(await response.arrayBuffer()))
      expect(book).toMatchObject({ used: 'A1:G3', widths: [2], heights: [10.5] })
    } finally {
      await other.close()
    }
  })
})

describe('Size rules', () => {
  const table: [string, [number, number], Fields, string][] = [
    [
      '1. “When neither width nor height is given, width = default width and height = width * H / W.”',
      [200, 100],
      {},
      'A1:CV50',
    ],
    ['2. “When only width is given, height = width * H / W.”', [30, 60], { width: 10 }, 'A1:J20'],
    ['3. “When only height is given, width = height * W / H.”', [60, 30], { height: 13 }, 'A1:Z13'],
    [
      '4. “When both are given, both are used as given.”',
      [60, 30],
      { width: 2, height: 9 },
      'A1:B9',
    ],
    [
      '5. “How fractional computed sizes are rounded”: truncated (10 * 99 / 100 = 9.9)',
      [100, 99],
      { width: 10 },
      'A1:J9',
    ],
    [
      '5. “How fractional computed sizes are rounded”: to at least 1 (10 * 1 / 100 = 0.1)',
      [100, 1],
      { width: 10 },
      'A1:J1',
    ],
    ['an empty field counts as not given', [30, 60], { width: '10', height: '' }, 'A1:J20'],
  ]
  it.each(table)('%s', async (_, [width, height], fields, used) => {
    expect((await seen(await png(width, height), 'a.png', fields)).used).toBe(used)
  })
})

describe('Output workbook', () => {
  const sheetNames: [string, string][] = [
    ['photo.png', 'photo.png'],
    ['two.dots.and.more.png', 'two.dots.and.more.png'],
    ['写真 🍎 été.jpg', '写真 🍎 été.jpg'],
    [`${'x'.repeat(56)}.png`, 'x'.repeat(31)],
    [`${'x'.repeat(30)}🍎.png`, 'x'.repeat(30)],
    ['a/b\\c?d*e[f]g:h.png', 'a_b_c_d_e_f_g_h.png'],
    ["'quoted'", '_quoted_'],
    ['History', '_History'],
    ['<&"\'>.png', '<&"\'>.png'],
    ['tab\there\u0007.png', 'tabhere.png'],
    ['_x003A__x0041_.png', '_x003A__x0041_.png'],
  ]
  it.each(sheetNames)(
    '1. “It has one sheet. The sheet name is the original upload file name.” The file %j gives the sheet %j',
    async (name, sheet) => {
      expect((await seen(await png(2, 2), name)).sheets).toEqual([sheet])
    },
  )

  const bookNames: [string, string][] = [
    ['photo.png', 'attachment; filename=photo.xlsx'],
    ['two.dots.and.more.png', 'attachment; filename=two.dots.and.more.xlsx'],
    ['none', 'attachment; filename=none.xlsx'],
    ['my photo.png', 'attachment; filename="my photo.xlsx"'],
    [`${'x'.repeat(56)}.png`, `attachment; filename=${'x'.repeat(56)}.xlsx`],
    ['写真.png', `attachment; filename="_.xlsx"; filename*=UTF-8''%E5%86%99%E7%9C%9F.xlsx`],
    ['a"b.png', 'attachment; filename=a_b.xlsx'],
    ['a;b\r\nx: y.png', 'attachment; filename="a;bx_ y.xlsx"'],
    ['a/b.png', 'attachment; filename=a_b.xlsx'],
  ]
  it.each(bookNames)(
    '2. “The output file name is the original file name with its extension replaced by xlsx.” %j: %s',
    async (name, disposition) => {
      const response = await postImage(converter.url, await png(2, 2), name)
      expect(response.headers.get('content-disposition')).toBe(disposition)
      await response.arrayBuffer()
    },
  )

  it('3. “The sheet has one cell per pixel of the resized image. Cell name = column letters (A..Z, AA..) for the x position, followed by the row number (starting at 1) for the y position.”', async () => {
    const response = await postImage(converter.url, await png(3, 2), 'a.png', {
      width: 28,
      height: 2,
    })
    const xml = partsOf(new Uint8Array(await response.arrayBuffer())).get(
      'xl/worksheets/sheet1.xml',
    )
    const names = [...(xml ?? '').matchAll(/<c r="([A-Z]+\d+)"/g)].map(([, name]) => name)
    const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'AA', 'AB']
    expect(names).toEqual([1, 2].flatMap((row) => letters.map((letter) => `${letter}${row}`)))
  })

  it("4. “Each cell's background fill is the pixel colour as RRGGBB, hexadecimal, two digits per channel. The alpha channel is not used.”", async () => {
    const image = await png(4, 1, (x) => [255, x, 10 + x, [255, 0, 128, 1][x] ?? 0])
    expect((await seen(image, 'a.png', { width: 4 })).fills).toEqual([
      'FF000A',
      'FF010B',
      'FF020C',
      'FF030D',
    ])
  })

  it('4. a transparent white pixel stays white when the image is resized', async () => {
    const image = await png(8, 8, () => [255, 255, 255, 0])
    expect(new Set((await seen(image, 'a.png', { width: 4 })).fills)).toEqual(new Set(['FFFFFF']))
  })

  it('5. “Cell contents are empty strings.”', async () => {
    expect((await seen(await png(5, 5), 'a.png', { width: 5 })).values).toEqual([''])
  })

  it('6. “Every column width is px pixels and every row height is px pixels.”', async () => {
    const fields = { width: 30, height: 40, px: 20 }
    const response = await postImage(converter.url, await png(5, 5), 'a.png', fields)
    const xml = partsOf(new Uint8Array(await response.arrayBuffer())).get(
      'xl/worksheets/sheet1.xml',
    )
    const widths = [...(xml ?? '').matchAll(/<col min="\d+" max="\d+" width="([^"]+)"/g)]
    const heights = [...(xml ?? '').matchAll(/<row r="\d+" ht="([^"]+)"/g)]
    expect(widths.length).toBe(30)
    expect(heights.length).toBe(40)
    // The width in pixels that a spreadsheet program shows: ECMA-376 part 1, 18.3.1.13.
    const shown = (width: number) => Math.trunc(((256 * width + Math.trunc(128 / 7)) / 256) * 7)
    expect(new Set(widths.map(([, width]) => shown(Number(width))))).toEqual(new Set([20]))
    expect(new Set(heights.map(([, height]) => (Number(height) * 96) / 72))).toEqual(new Set([20]))
  })

  it('7. “The used range is A1 to the bottom-right cell.”', async () => {
    const image = await png(3, 3)
    expect((await seen(image, 'a.png', { width: 3 })).used).toBe('A1:C3')
    const response = await postImage(converter.url, image, 'a.png', { width: 3 })
    const parts = partsOf(new Uint8Array(await response.arrayBuffer()))
    expect(parts.get('xl/worksheets/sheet1.xml')).toContain('<dimension ref="A1:C3"/>')
  })
})

describe('Endpoints', () => {
  it('“POST | /image | Header Content-Type: multipart/form-data, header accept: application/vnd.ms-excel … Binary spreadsheet. Header Content-Type: application/vnd.ms-excel. Header Content-Disposition: attachment; filename=<name>.xlsx.”', async () => {
    const response = await postImage(converter.url, await png(4, 4), 'photo.png')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(EXCEL)
    expect(response.headers.get('content-disposition')).toBe('attachment; filename=photo.xlsx')
    const bytes = Buffer.from(await response.arrayBuffer())
    expect(bytes.toString('latin1', 0, 4)).toBe('PK\x03\x04')
  })

  it('answers without an accept header, and sends the registered media type if the header accepts only that type', async () => {
    const ooxml = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'
    const image = await png(4, 4)
    for (const [accept, type] of [
      ['*/*', EXCEL],
      [`${ooxml}, ${EXCEL}`, EXCEL],
      [ooxml, ooxml],
    ] as const) {
      const response = await postImage(converter.url, image, 'a.png', {}, { accept })
      expect(response.headers.get('content-type'), accept).toBe(type)
      await response.arrayBuffer()
    }
  })

  it('“The OpenAPI documentation UI is served at the root path of the same service.”', async () => {
    const page = await fetch(`${converter.url}/`)
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toContain('text/html')
    expect(await page.text()).toContain('swagger-ui')
    const document: { openapi: string; paths: object } = JSON.parse(
      await (await fetch(`${converter.url}/json`)).text(),
    )
    expect(document.openapi).toBe('3.1.0')
    expect(Object.keys(document.paths)).toEqual(['/image', '/preview'])
  })
})

describe('Authentication, errors, limits, versioning', () => {
  it('“C. Authentication: not shown.”: none is required', async () => {
    expect((await postImage(converter.url, await png(2, 2), 'a.png')).status).toBe(200)
  })

  it('“C | Any failure | Errors: not shown.”: status false, a code and a message, for every path and method', async () => {
    expect(await refusal(await fetch(`${converter.url}/nowhere`))).toEqual({
      status: 404,
      code: 'PATH_UNKNOWN',
    })
    expect(await refusal(await fetch(`${converter.url}/image`))).toEqual({
      status: 405,
      code: 'METHOD_NOT_ALLOWED',
    })
    const text = await postImage(converter.url, Buffer.from('no image'), 'a.png')
    expect(await refusal(text)).toEqual({ status: 415, code: 'FORMAT_NOT_ACCEPTED' })
  })

  it('“Upload size | 10 MB maximum”: accepts 10 MiB, and returns 413 for one byte more', async () => {
    const most = 10 * 1024 * 1024
    // Readers ignore bytes after the end of a PNG.
    const image = Buffer.concat([await png(2, 2), Buffer.alloc(most)])
    const exact = await postImage(converter.url, image.subarray(0, most), 'a.png')
    expect(exact.status).toBe(200)
    await exact.arrayBuffer()
    const over = await postImage(converter.url, image.subarray(0, most + 1), 'a.png')
    expect(await over.clone().text()).toContain('is 10 MiB (10485760 bytes)')
    expect(await refusal(over)).toEqual({ status: 413, code: 'FILE_TOO_LARGE' })
    const far = await postImage(converter.url, Buffer.alloc(most + 100_000), 'a.png')
    expect(await far.clone().text()).toContain('is 10 MiB (10485760 bytes)')
    expect(await refusal(far)).toEqual({ status: 413, code: 'BODY_TOO_LARGE' })
  })

  it('“JSON request body size | 10mb”: returns 413 for more, and rejects a smaller body because it is not a form', async () => {
    const post = (bytes: number) =>
      fetch(`${converter.url}/image`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: `"${'x'.repeat(bytes - 2)}"`,
      })
    const most = 10 * 1024 * 1024
    expect(await refusal(await post(most))).toEqual({ status: 415, code: 'CONTENT_TYPE_UNKNOWN' })
    expect(await refusal(await post(most + 1))).toEqual({ status: 413, code: 'BODY_TOO_LARGE' })
  })

  it('“Default px 2”, “Default width 100”', async () => {
    expect(await seen(await png(10, 10))).toMatchObject({ used: 'A1:CV100', heights: [1.5] })
  })

  it('“Maximum width, height and px values in C: not shown.”: the limits of a sheet, and 10,000,000 cells', async () => {
    const image = await png(2, 2)
    const post = (fields: Fields) => postImage(converter.url, image, 'a.png', fields)
    expect(await refusal(await post({ width: 16_384, height: 1_048_576 }))).toEqual({
      status: 413,
      code: 'GRID_TOO_LARGE',
    })
    expect(await refusal(await post({ width: 4_000, height: 2_501 }))).toEqual({
      status: 413,
      code: 'GRID_TOO_LARGE',
    })
    // A side that is computed from the other side can also exceed the limit.
    expect(await refusal(await post({ height: 16_385 }))).toEqual({
      status: 413,
      code: 'GRID_TOO_LARGE',
    })
  })

  it('“Versioning: not shown. No version identifier appears in any path or header.”', async () => {
    const response = await postImage(converter.url, await png(2, 2), 'a.png')
    await response.arrayBuffer()
    expect([...response.headers].join()).not.toMatch(/\bv?\d+\.\d+\.\d+\b/)
  })
})
