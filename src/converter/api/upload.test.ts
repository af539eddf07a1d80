import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readForm, readUpload } from './upload.ts'

const TYPE = 'multipart/form-data; boundary=b0und'

/** Returns a multipart body with `parts`, each given as its headers and content. */
function body(...parts: [string, string | Buffer][]): Buffer {
  const pieces = parts.flatMap(([headers, content]) => [
    Buffer.from(`--b0und\r\n${headers}\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...pieces, Buffer.from('--b0und--\r\n')])
}

const disposition = (rest: string) => `Content-Disposition: form-data; ${rest}`

describe('a form', () => {
  it.each([
    ['name="file"; filename="a b.png"', 'a b.png'],
    ['name=file; filename=plain.png', 'plain.png'],
    ['name="file"; filename="写真.png"', '写真.png'],
    ['name="file"; filename="a\\"b.png"', 'a"b.png'],
    ['name="file"; filename="a%22b%41.png"', 'a"b%41.png'],
    ['name="file"; filename="a;b=c.png"', 'a;b=c.png'],
    ['name="file"; filename="x.png"; filename*=UTF-8\'\'%e5%86%99.png', '写.png'],
    ['name="file"; filename*=utf-8\'en\'%zz; filename="x.png"', 'x.png'],
    ['filename="C:\\dir\\x.png"; name="file"', 'C:\\dir\\x.png'],
    ['name="file"; filename=""', ''],
    ['name="file"', null],
  ])('with the parameters %s has the file name %j', (rest, fileName) => {
    const [part] = readForm(body([disposition(rest), 'x']), TYPE)
    expect(part).toMatchObject({ name: 'file', fileName })
  })

  it('a form can have a file name in Latin-1', () => {
    const bytes = body([disposition('name="file"; filename="#.png"'), 'x'])
    bytes[bytes.indexOf('#')] = 0xe9
    expect(readForm(bytes, TYPE)[0]?.fileName).toBe('é.png')
  })

  it('a form can have a preamble, an epilogue, unknown headers and parts, and blanks after a boundary', () => {
    const bytes = Buffer.from(
      'before\r\n--b0und \t\r\nX-Other: 1\r\ncontent-disposition:form-data;name=px\r\n\r\n7\r\n' +
        '--b0und\r\nContent-Type: text/plain\r\n\r\nskipped\r\n--b0und--after',
    )
    expect(readForm(bytes, 'multipart/form-data; boundary="b0und"; x=y')).toEqual([
      { name: 'px', fileName: null, bytes: Buffer.from('7') },
    ])
  })

  it('a form is refused if its boundary is on more than 1,000 lines of a file', () => {
    const send = (lines: number) =>
      readForm(body([disposition('name=file'), '\r\n--b0undX'.repeat(lines)]), TYPE)
    expect(send(1_000)).toHaveLength(1)
    expect(() => send(1_001)).toThrow('the boundary is part of a file')
  })

  it('a form can contain any bytes, even most bytes of a boundary', () => {
    const content = fc.oneof(
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom('\r\n--b0un', '--b0und', '\r\n--b0undX\r\n', '\r\n', '')
        .map((text) => Buffer.from(text)),
    )
    fc.assert(
      fc.property(fc.array(content, { maxLength: 5 }), (contents) => {
        const parts = contents.map((bytes): [string, Buffer] => [disposition('name="x"'), bytes])
        // Excludes contents with a complete boundary line, which would end the part.
        const line = /(?:^|\r\n)--b0und(?:--|[ \t]*\r\n)/
        fc.pre(contents.every((bytes) => !line.test(`${bytes.toString('latin1')}\r\n`)))
        expect(readForm(body(...parts), TYPE).map((part) => part.bytes)).toEqual(contents)
      }),
    )
  })

  it('ends a part only at a line that contains nothing but the boundary', () => {
    const content = Buffer.from('x--b0und\r\ny--b0und--\r\n--b0undX')
    expect(readForm(body([disposition('name="x"'), content]), TYPE)).toEqual([
      { name: 'x', fileName: null, bytes: content },
    ])
  })

  it('a form is rejected with FORM_MALFORMED if it is truncated at any length, or if it is not a form', () => {
    const whole = body([disposition('name="file"; filename="a.png"'), 'content'])
    for (let length = 0; length < whole.length - 3; length += 1) {
      expect(() => readForm(whole.subarray(0, length), TYPE), `${length}`).toThrow(
        expect.objectContaining({ code: 'FORM_MALFORMED' }),
      )
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.string(), (bytes, type) => {
        try {
          readForm(Buffer.from(bytes), type)
        } catch (error) {
          expect(error).toMatchObject({ code: 'FORM_MALFORMED' })
        }
      }),
    )
  })

  it.each([
    ['no boundary', 'multipart/form-data', body()],
    ['no headers', TYPE, Buffer.from('--b0und\r\nx\r\n--b0und--')],
    ['no name', TYPE, body([disposition('filename="a"'), 'x'])],
    [
      '65 parts',
      TYPE,
      body(...Array.from({ length: 65 }, (): [string, string] => [disposition('name="x"'), ''])),
    ],
  ])('a form is rejected if it has %s', (_, type, bytes) => {
    expect(() => readForm(bytes, type)).toThrow(expect.objectContaining({ code: 'FORM_MALFORMED' }))
  })
})

describe('an upload', () => {
  const file: [string, string] = [disposition('name="file"; filename="a.png"'), 'bytes']
  const field = (name: string, value: string): [string, string] => [
    disposition(`name="${name}"`),
    value,
  ]

  it('contains the file and the fields of the converter, without other fields', () => {
    const upload = readUpload(
      body(field('px', '3'), file, field('other', 'x'), field('__proto__', '1')),
      TYPE,
    )
    expect(upload).toEqual({
      name: 'a.png',
      bytes: Buffer.from('bytes'),
      fields: new Map([['px', '3']]),
    })
  })

  it.each([
    ['no file', [field('px', '3')], 'FILE_MISSING'],
    ['a file field without a file', [field('file', 'text')], 'FILE_MISSING'],
    ['a file that was not chosen', [[disposition('name="file"; filename=""'), '']], 'FILE_MISSING'],
    ['an empty file', [[disposition('name="file"; filename="a.png"'), '']], 'FILE_EMPTY'],
    ['two files', [file, file], 'FIELD_INVALID'],
    ['a duplicate field', [file, field('px', '3'), field('px', '3')], 'FIELD_INVALID'],
    ['a very long field', [file, field('px', '3'.repeat(65))], 'FIELD_INVALID'],
  ] satisfies [string, [string, string][], string][])(
    'an upload is rejected if it has %s',
    (_, parts, code) => {
      expect(() => readUpload(body(...parts), TYPE)).toThrow(expect.objectContaining({ code }))
    },
  )
})
