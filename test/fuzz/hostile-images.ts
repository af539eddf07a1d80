// Images of less than 10 MB for which a careless decoder uses much memory or time.
import { constants, crc32, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import sharp from 'sharp'

const MB = 1_000_000

type Images = Record<string, () => Buffer | Promise<Buffer>>

/** Returns the functions that create the images, by the name of the image. */
export async function hostileImages(): Promise<Images> {
  const pixel = { create: { width: 8, height: 8, channels: 3, background: 'red' } } as const
  const png = await sharp(pixel).png().toBuffer()
  const jpeg = await sharp(pixel).jpeg().toBuffer()
  const gif = await sharp(pixel).gif().toBuffer()
  return {
    ...pngs(png),
    ...jpegs(jpeg),
    ...gifs(gif),
    ...tiffs(),
    ...largeFrames(),
    ...svgs(png),
  }
}

function pngs(png: Buffer): Images {
  const header = png.readUInt32BE(8) + 12 + 8
  const insert = (chunks: Buffer[]) =>
    Buffer.concat([png.subarray(0, header), ...chunks, png.subarray(header)])
  const packed = deflateSync(Buffer.alloc(8 * MB, 'a'))
  const zText = chunkOf('zTXt', [Buffer.from('Comment\0\0'), packed])
  const iText = chunkOf('iTXt', [Buffer.from('Comment\0\x01\0\0\0'), packed])
  const xmp = chunkOf('iTXt', [Buffer.from('XML:com.adobe.xmp\0\x01\0\0\0'), packed])
  const text = chunkOf('tEXt', [Buffer.from('Comment\0'), Buffer.alloc(3 * MB, 'a')])
  const profile = Buffer.alloc(500 * MB)
  profile.writeUInt32BE(profile.length, 0)
  const iccp = () => chunkOf('iCCP', [Buffer.from('icc\0\0'), deflateSync(profile)])
  const exif = chunkOf('eXIf', [exifOf(9 * MB)])
  const empty = chunkOf('IDAT', [])
  return {
    'PNG with 10 zTXt chunks of 8 MB': () => insert(Array(10).fill(zText)),
    'PNG with 900 zTXt chunks of 8 MB': () => insert(Array(900).fill(zText)),
    'PNG with 900 iTXt chunks of 8 MB': () => insert(Array(900).fill(iText)),
    'PNG with 900 XMP chunks of 8 MB': () => insert(Array(900).fill(xmp)),
    'PNG with 3 tEXt chunks of 3 MB': () => insert([text, text, text]),
    'PNG with a colour profile of 500 MB': () => insert([iccp()]),
    'PNG with EXIF of 9 MB': () => insert([exif]),
    'PNG with 800,000 empty IDAT chunks': () => insert(Array(800_000).fill(empty)),
    'PNG of 900 megapixels': () => flatPng(30_000, 30_000, 1, 0),
    'PNG of 97 megapixels with 16 bits and alpha': () => flatPng(9_850, 9_850, 16, 6),
    'interlaced PNG of 97 megapixels': () => flatPng(9_850, 9_850, 8, 2, 1),
    'interlaced PNG of 33 megapixels with 16 bits and alpha': () => flatPng(5_790, 5_790, 16, 6, 1),
    'PNG of 1 by 99,000,000': () => flatPng(1, 99_000_000, 8, 2),
    'PNG of 99,000,000 by 1': () => flatPng(99_000_000, 1, 8, 2),
  }
}

/** Returns a PNG whose pixels are all 0. */
function flatPng(
  width: number,
  height: number,
  bits: number,
  color: number,
  interlace = 0,
): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([bits, color, 0, 0, interlace], 8)
  const channels = [1, 0, 3, 0, 2, 0, 4][color] ?? 0
  // Interlacing (Adam7) adds a filter byte for each row of each pass: at most two per row of the image.
  const bytes = (Math.ceil((width * bits * channels) / 8) + 1 + interlace * 2) * height
  const packed = deflatedZeros(bytes)
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunkOf('IHDR', [header]),
    chunkOf('IDAT', [packed]),
    chunkOf('IEND', []),
  ])
}

/** Returns `bytes` zeros in the zlib format, without a buffer of that size. */
function deflatedZeros(bytes: number): Buffer {
  const block = 8 * MB
  // A flush ends the compressed piece on a byte boundary, so the piece can be repeated.
  const piece = deflateRawSync(Buffer.alloc(block), { finishFlush: constants.Z_SYNC_FLUSH })
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE((bytes % 65_521) * 65_536 + 1)
  return Buffer.concat([
    Buffer.from([0x78, 0x9c]),
    ...Array<Buffer>(Math.floor(bytes / block)).fill(piece),
    deflateRawSync(Buffer.alloc(bytes % block)),
    checksum,
  ])
}

function chunkOf(type: string, data: readonly Buffer[]): Buffer {
  const body = Buffer.concat([Buffer.from(type), ...data])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length - 4)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, checksum])
}

/** Returns EXIF data of `bytes` bytes, which is a TIFF directory with up to 65,000 text tags. */
function exifOf(bytes: number): Buffer {
  const count = Math.min(65_000, Math.floor(bytes / 24))
  const exif = Buffer.alloc(bytes, 'a')
  exif.write('II*\0')
  exif.writeUInt32LE(8, 4)
  exif.writeUInt16LE(count, 8)
  const length = Math.min(900_000, bytes / 2 - 20)
  for (let at = 0; at < count; at += 1) {
    // The text of each tag is most of the file, so the texts overlap.
    tag(exif, 10 + at * 12, 0x10e + at, 2, length, bytes - length)
  }
  return exif
}

function tag(into: Buffer, at: number, id: number, type: number, count: number, value: number) {
  into.writeUInt16LE(id & 0xffff, at)
  into.writeUInt16LE(type, at + 2)
  into.writeUInt32LE(count, at + 4)
  into.writeUInt32LE(value, at + 8)
}

function jpegs(jpeg: Buffer): Images {
  const insert = (segments: Buffer[]) =>
    Buffer.concat([jpeg.subarray(0, 2), ...segments, jpeg.subarray(2)])
  const segment = (marker: number, data: Buffer) => {
    const head = Buffer.from([0xff, marker, 0, 0])
    head.writeUInt16BE(data.length + 2, 2)
    return Buffer.concat([head, data])
  }
  const full = (head: string) => Buffer.concat([Buffer.from(head, 'latin1'), Buffer.alloc(65_000)])
  const profile = Array.from({ length: 140 }, (_, at) =>
    segment(0xe2, full(`ICC_PROFILE\0${String.fromCharCode(at + 1, 140)}`)),
  )
  const exif = segment(0xe1, Buffer.concat([Buffer.from('Exif\0\0'), exifOf(65_000)]))
  const xmp = segment(0xe1, full('http://ns.adobe.com/xap/1.0/\0'))
  const create = { width: 9_300, height: 9_300, channels: 3, background: 'red' } as const
  const large = sharp({ create, limitInputPixels: false })
  const progressive = () => large.clone().jpeg({ progressive: true, quality: 1 }).toBuffer()
  return {
    'JPEG with 150 EXIF segments': () => insert(Array(150).fill(exif)),
    'JPEG with 150 XMP segments': () => insert(Array(150).fill(xmp)),
    'JPEG with 2,000,000 empty comments': () =>
      insert(Array(2_000_000).fill(segment(0xfe, Buffer.of()))),
    'JPEG with 150 comments of 65 kB': () => insert(Array(150).fill(segment(0xfe, full('')))),
    'JPEG with a colour profile of 9 MB': () => insert(profile),
    'JPEG of 86 megapixels': () => large.clone().jpeg().toBuffer(),
    'progressive JPEG of 86 megapixels': progressive,
    'progressive JPEG of 86 megapixels with its scans 40 times': async () =>
      repeatedScans(await progressive(), 40),
    'progressive JPEG of 4,294,836,225 pixels': async () => resized(await progressive(), 65_535),
  }
}

/** Returns the JPEG with its scans repeated `times` times, or as often as 10 MB allow. */
function repeatedScans(jpeg: Buffer, times: number): Buffer {
  const from = jpeg.indexOf(Buffer.of(0xff, 0xda))
  const scans = jpeg.subarray(from, -2)
  const most = Math.min(times, Math.floor((9.9 * MB - from) / scans.length))
  return Buffer.concat([jpeg.subarray(0, from), ...Array(most).fill(scans), jpeg.subarray(-2)])
}

/** Returns the JPEG with a header that declares `side` × `side` pixels. */
function resized(jpeg: Buffer, side: number): Buffer {
  const copy = Buffer.from(jpeg)
  const at = copy.indexOf(Buffer.of(0xff, 0xc2))
  copy.writeUInt16BE(side, at + 5)
  copy.writeUInt16BE(side, at + 7)
  return copy
}

function gifs(gif: Buffer): Images {
  const extension = gif.indexOf(Buffer.of(0x21, 0xf9))
  const from = extension === -1 ? gif.indexOf(0x2c) : extension
  const [head, frame] = [gif.subarray(0, from), gif.subarray(from, -1)]
  const comment = Buffer.concat([
    Buffer.of(0x21, 0xfe),
    ...Array<Buffer>(35_000).fill(Buffer.concat([Buffer.of(255), Buffer.alloc(255, 'a')])),
    Buffer.of(0),
  ])
  const screen = Buffer.from(head)
  screen.writeUInt16LE(65_535, 6)
  screen.writeUInt16LE(65_535, 8)
  const frames = Array<Buffer>(Math.floor((9.9 * MB) / frame.length)).fill(frame)
  return {
    'GIF with comments of 9 MB': () => Buffer.concat([head, comment, frame, Buffer.of(0x3b)]),
    'GIF with a million empty comments': () =>
      Buffer.concat([
        head,
        ...Array<Buffer>(1_000_000).fill(Buffer.of(0x21, 0xfe, 0)),
        frame,
        Buffer.of(0x3b),
      ]),
    'GIF of many frames': () => Buffer.concat([head, ...frames, Buffer.of(0x3b)]),
    'GIF of 4,294,836,225 pixels': () => Buffer.concat([screen, frame, Buffer.of(0x3b)]),
  }
}

type Tags = readonly (readonly [id: number, type: number, count: number, value: number])[]
const [SHORT, LONG, UNDEFINED] = [3, 4, 7]

function tiffs(): Images {
  const small = (extra: Tags, width = 8, height = 8): Tags => [
    [256, LONG, 1, width],
    [257, LONG, 1, height],
    [258, SHORT, 1, 8],
    [259, SHORT, 1, 1],
    [262, SHORT, 1, 1],
    [277, SHORT, 1, 1],
    ...extra,
  ]
  const tiled = (side: number): Tags =>
    small([
      [322, LONG, 1, side],
      [323, LONG, 1, side],
      [324, LONG, 1, 8],
      [325, LONG, 1, 64],
    ])
  const strips: Tags = [
    [273, LONG, 1, 8],
    [278, LONG, 1, 8],
    [279, LONG, 1, 64],
  ]
  const metadata = (id: number, type: number): Tags => [[id, type, 9_000_000, 400]]
  return {
    'TIFF of 2,500 megapixels': () => tiffOf([small(strips, 50_000, 50_000)]),
    'TIFF with tiles of 60,000 by 60,000': () => tiffOf([tiled(60_000)]),
    'TIFF with tiles of 16,384 by 16,384': () => tiffOf([tiled(16_384)]),
    'TIFF with 60,000 directories': () => tiffOf(Array(60_000).fill(small(strips))),
    'TIFF with a colour profile of 9 MB': () =>
      tiffOf([small([...strips, ...metadata(34675, UNDEFINED)])]),
    'TIFF with XMP of 9 MB': () => tiffOf([small([...strips, ...metadata(700, 1)])]),
    'TIFF with a description of 9 MB': () => tiffOf([small([[270, 2, 9_000_000, 400], ...strips])]),
    'TIFF with 2,000,000 strip offsets': () =>
      tiffOf([
        small(
          [
            [273, LONG, 2_000_000, 400],
            [278, LONG, 1, 1],
            [279, LONG, 2_000_000, 400],
          ],
          8,
          2_000_000,
        ),
      ]),
  }
}

/** Returns a TIFF of 9.9 MB with one directory for each element of `directories`. */
function tiffOf(directories: readonly Tags[]): Buffer {
  const tiff = Buffer.alloc(9.9 * MB, 1)
  tiff.write('II*\0')
  tiff.writeUInt32LE(72, 4)
  let at = 72
  for (const [index, tags] of directories.entries()) {
    const end = at + 2 + tags.length * 12
    tiff.writeUInt16LE(tags.length, at)
    for (const [place, [id, type, count, value]] of tags.entries()) {
      tag(tiff, at + 2 + place * 12, id, type, count, value)
    }
    tiff.writeUInt32LE(index === directories.length - 1 ? 0 : end + 4, end)
    at = end + 4
  }
  return tiff
}

/** Images at the maximum size, in formats that are decoded as a whole. */
function largeFrames(): Images {
  const flat = (width: number, height: number, channels: 3 | 4) =>
    sharp({
      create: { width, height, channels, background: { r: 9, g: 200, b: 30, alpha: 0.5 } },
      limitInputPixels: false,
    })
  const avif = () => flat(8_100, 8_100, 3).avif({ effort: 0, quality: 1 }).toBuffer()
  return {
    'WebP of 16,383 by 16,383': () =>
      flat(16_383, 16_383, 3).webp({ lossless: true, effort: 0 }).toBuffer(),
    'WebP of 67 megapixels': () => flat(8_180, 8_180, 3).webp({ effort: 0 }).toBuffer(),
    'WebP of 38 megapixels with alpha': () => flat(6_190, 6_190, 4).webp({ effort: 0 }).toBuffer(),
    'AVIF of 66 megapixels': avif,
    'AVIF of 66 megapixels that says it is small': async () => smallerHeader(await avif()),
    'GIF of 67 megapixels': () => flat(8_180, 8_180, 3).gif().toBuffer(),
    'TIFF of 67 megapixels': () => flat(8_180, 8_180, 3).tiff({ compression: 'lzw' }).toBuffer(),
  }
}

/** Returns the AVIF with 8 × 8 pixels declared in its `ispe` box. */
function smallerHeader(avif: Buffer): Buffer {
  const copy = Buffer.from(avif)
  const at = copy.indexOf('ispe')
  copy.writeUInt32BE(8, at + 8)
  copy.writeUInt32BE(8, at + 12)
  return copy
}

function svgs(png: Buffer): Images {
  const svg = (content: string, attributes = 'width="100" height="100"', doctype = '') =>
    Buffer.from(
      `<?xml version="1.0"?>${doctype}<svg xmlns="http://www.w3.org/2000/svg" ` +
        `xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:xi="http://www.w3.org/2001/XInclude" ` +
        `${attributes}>${content}</svg>`,
    )
  const entities = Array.from(
    { length: 12 },
    (_, at) => `<!ENTITY e${at + 1} "${`&e${at};`.repeat(10)}">`,
  )
  const uses = Array.from(
    { length: 20 },
    (_, at) => `<g id="u${at + 1}">${`<use xlink:href="#u${at}"/>`.repeat(10)}</g>`,
  )
  const data = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString('base64')}`
  const image = (href: string) => `<image width="100" height="100" xlink:href="${href}"/>`
  const nested = (depth: number): Buffer =>
    depth === 0
      ? svg(rectangle)
      : svg(image(data('image/svg+xml', nested(depth - 1))).repeat(depth < 12 ? 2 : 1))
  const filter = (primitives: string) =>
    `<filter id="f" x="-1000000" y="-1000000" width="9000000" height="9000000" ` +
    `filterUnits="userSpaceOnUse">${primitives}</filter><rect width="90" height="90" filter="url(#f)"/>`
  const rectangle = '<rect width="100" height="100"/>'
  return {
    'SVG with an entity bomb': () =>
      svg(
        '<text>&e12;</text>',
        '',
        `<!DOCTYPE svg [<!ENTITY e0 "aaaaaaaaaa">${entities.join('')}]>`,
      ),
    'SVG with an entity bomb of elements': () =>
      svg('&e12;', '', `<!DOCTYPE svg [<!ENTITY e0 "<rect/>">${entities.join('')}]>`),
    'SVG with an external entity': () =>
      svg(
        '<text y="50">&e;</text>',
        undefined,
        '<!DOCTYPE svg [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
      ),
    'SVG with 10^20 uses': () =>
      svg(`<g id="u0">${rectangle}</g>${uses.join('')}<use xlink:href="#u20"/>`),
    'SVG nested 1,000,000 deep': () => svg('<g>'.repeat(1_000_000) + '</g>'.repeat(1_000_000)),
    'SVG with 250 groups with opacity': () =>
      svg(`${'<g opacity="0.9">'.repeat(250)}${rectangle}${'</g>'.repeat(250)}`),
    'SVG with 900,000 elements': () => svg('<rect/>'.repeat(900_000)),
    'SVG with 150,000 blurred elements': () =>
      svg(
        '<filter id="f"><feGaussianBlur stdDeviation="40"/></filter>' +
          '<rect width="90" height="90" filter="url(#f)"/>'.repeat(150_000),
      ),
    'SVG of 2,000,000,000 by 2,000,000,000': () =>
      svg(rectangle, 'width="2000000000" height="2000000000" viewBox="0 0 100 100"'),
    'SVG of 30,000 by 30,000': () => svg(rectangle, 'width="30000" height="30000"'),
    'SVG of 1 by 1,000,000': () => svg(rectangle, 'width="1" height="1000000"'),
    'SVG with a huge viewBox': () => svg(rectangle, 'viewBox="0 0 1e30 1e30"'),
    'SVG without a size': () => svg(''),
    'SVG with a huge blur': () => svg(filter('<feGaussianBlur stdDeviation="100000"/>')),
    'SVG with huge turbulence': () =>
      svg(filter('<feTurbulence baseFrequency="0.9" numOctaves="1000"/>')),
    'SVG with huge morphology': () =>
      svg(filter('<feMorphology operator="dilate" radius="1000000"/>'.repeat(50))),
    'SVG with a huge convolution': () =>
      svg(
        filter(`<feConvolveMatrix order="300" kernelMatrix="${'1 '.repeat(90_000)}"/>`.repeat(20)),
      ),
    'SVG with a pattern of tiny tiles': () =>
      svg(
        '<pattern id="p" width="0.00001" height="0.00001"><rect width="1" height="1"/></pattern>' +
          '<rect width="100" height="100" fill="url(#p)"/>',
      ),
    'SVG with a path of 9 MB': () =>
      svg(`<path stroke="red" d="M0 0${'L9 9L0 9'.repeat(1_100_000)}"/>`),
    'SVG with dashes': () =>
      svg('<path stroke="red" stroke-dasharray="0.0000001" d="M0 0L100000000 90"/>'.repeat(50)),
    'SVG with an image of file:': () => svg(image('file:///etc/passwd') + rectangle),
    'SVG with an image of http:': () => svg(image('http://127.0.0.1:1/') + rectangle),
    'SVG with XInclude': () =>
      svg('<text y="50"><xi:include parse="text" href="/etc/passwd"/></text>'),
    'SVG with a style sheet of file:': () =>
      svg(`<style>@import url("file:///etc/passwd");</style>${rectangle}`),
    'SVG with nested SVG': () => nested(9),
    'SVG with 1,000 images': () => svg(image(data('image/png', png)).repeat(1_000)),
    'SVG with PNG of 900 megapixels': () =>
      svg(image(data('image/png', flatPng(30_000, 30_000, 8, 2)))),
    'SVG with PNG of 97 megapixels': () =>
      svg(image(data('image/png', flatPng(9_850, 9_850, 8, 6)))),
    'SVG with 20 PNG of 36 megapixels': () =>
      svg(image(data('image/png', flatPng(6_000, 6_000, 8, 6))).repeat(20)),
    'SVG with text': () => svg('<text y="50" font-family="No Such Font">あa🍎</text>'),
    'SVG with 5 MB of text': () => svg(`<text y="50">${'a '.repeat(2_500_000)}</text>`),
    'compressed SVG of 400 MB': () => gzipSync(svg(' '.repeat(400 * MB)), { level: 1 }),
  }
}
