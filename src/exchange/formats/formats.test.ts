import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { roundsOf } from '../../../test/support/rounds.ts'
import type { JsonObject } from '../../base/json.ts'
import type { SourceFormat } from '../choices.ts'
import { dumpTexts } from '../dump.ts'
import { InputError } from '../errors.ts'
import { readRecords, type SourceOptions } from '../source.ts'
import { plainObject } from './mongodb.ts'
import type { SourceRecord } from './record.ts'

async function* chunked(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function read(
  text: string | Uint8Array,
  format: SourceFormat | null,
  options: Partial<SourceOptions> = {},
  chunkBytes = 7,
): Promise<SourceRecord[]> {
  const records: SourceRecord[] = []
  const chunks = chunked(Buffer.from(text), chunkBytes)
  for await (const page of readRecords(chunks, { format, ...options })) records.push(...page)
  return records
}

/** Returns `[line, item]` or `[line, reason]` for each record. */
const shown = (records: readonly SourceRecord[]) =>
  records.map((record) => [record.line, record.kind === 'item' ? record.item : reasonOf(record)])
const reasonOf = (record: SourceRecord) => ('reason' in record ? record.reason : record)

const name = fc
  .string({ unit: 'grapheme', maxLength: 8 })
  .filter((text) => text !== '__proto__' && text.isWellFormed())
const value = fc
  .jsonValue({ maxDepth: 2 })
  .filter(
    (each) =>
      JSON.stringify(each).isWellFormed() && !/__proto__|-0|\\ud/.test(JSON.stringify(each)),
  )
const items = fc.array(
  fc
    .dictionary(name, value, { maxKeys: 5 })
    .map((item): JsonObject => JSON.parse(JSON.stringify(item))),
  { minLength: 1, maxLength: 6 },
)

describe('NDJSON and JSON arrays', () => {
  it('reads the same items from each format, independent of the chunk size', async () => {
    await fc.assert(
      fc.asyncProperty(items, fc.integer({ min: 1, max: 40 }), async (given, chunkBytes) => {
        const ndjson = given.map((item) => JSON.stringify(item)).join('\n')
        for (const text of [
          ndjson,
          `${ndjson}\r\n`,
          JSON.stringify(given),
          JSON.stringify(given, null, 2),
        ]) {
          const records = await read(text, null, { isGuess: false }, chunkBytes)
          expect(records.map((record) => (record.kind === 'item' ? record.item : record))).toEqual(
            given,
          )
        }
      }),
      { numRuns: roundsOf(60) },
    )
  })

  it('refuses an invalid line with its number and the reason, and reads the lines before and after it', async () => {
    const lines = [
      '\ufeff{"a":1}',
      '',
      '{"a":',
      '{"a":1,"a":2}',
      '[1]',
      '{"n":9007199254740993}',
      '{"b":2}\r',
    ]
    expect(shown(await read(lines.join('\n'), null))).toEqual([
      [1, { a: 1 }],
      [3, expect.stringMatching(/^it is not JSON: /)],
      [4, 'an object has a duplicate member'],
      [5, 'it is not a JSON object'],
      [6, 'the number 9007199254740993 cannot be represented exactly'],
      [7, { b: 2 }],
    ])
    const notUtf8 = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')])
    expect(shown(await read(notUtf8, null))).toEqual([[1, 'it is not UTF-8']])
    const deep = `{"a":${'['.repeat(70)}${']'.repeat(70)}}`
    expect(shown(await read(deep, null))).toEqual([[1, 'nesting exceeds 64 levels']])
  })

  it('refuses an invalid element of an array with its line, and reads the other elements', async () => {
    const text = '[\n {"a":"],[\\""},\n {"a":x},\n\n {"b":[{}]}\n]\n'
    expect(shown(await read(text, 'json'))).toEqual([
      [2, { a: '],["' }],
      [3, expect.stringMatching(/^it is not JSON/)],
      [5, { b: [{}] }],
    ])
    expect(await read('[]', 'json')).toEqual([])
    expect(shown(await read('[{},]', 'json'))).toMatchObject([
      [1, {}],
      [1, expect.any(String)],
    ])
  })

  it('reports an array that is cut off or followed by more text', async () => {
    await expect(read('[{"a":1},\n{"b"', 'json')).rejects.toThrow(
      'the input ends at line 2, inside its array',
    )
    await expect(read('[{}] {}', 'json')).rejects.toThrow(
      'line 1: there is more text after the end of the array',
    )
    await expect(read('{"a":1}', 'json')).rejects.toThrow('line 1: the input is not a JSON array')
    await expect(read('', 'json')).rejects.toThrow('the input is not a JSON array')
  })

  it('yields records or throws a InputError for any text', async () => {
    const soup = fc.array(
      fc.constantFrom('{', '}', '[', ']', '"', '\\', ',', ':', '\n', 'a', ' ', '"rows"'),
    )
    const formats = fc.constantFrom<SourceFormat | null>(
      'json',
      'couchdb',
      'csv',
      'ndjson',
      'mongodb',
      'qldb',
      null,
    )
    await fc.assert(
      fc.asyncProperty(soup, formats, async (parts, format) => {
        try {
          await read(parts.join(''), format)
        } catch (error) {
          expect(error).toBeInstanceOf(InputError)
        }
      }),
      { numRuns: roundsOf(400) },
    )
  })
})

describe('CSV', () => {
  it('reads quotes, line breaks in cells, CRLF and a byte order mark', async () => {
    const text =
      '\ufeffid,note,price:number,ok:boolean,tags:json,day:date\r\n1,"a ""b"",\r\nc",80,true,"[1,2]",2026-02-28\r\n2,"",,false,,\r\n'
    expect(shown(await read(text, 'csv'))).toEqual([
      [2, { id: '1', note: 'a "b",\r\nc', price: 80, ok: true, tags: [1, 2], day: '2026-02-28' }],
      [4, { id: '2', note: '', ok: false }],
    ])
  })

  it('refuses a cell with more than a million lines, and reads the next row', async () => {
    const lines = '\n'.repeat(1_000_000)
    const accepted = await read(`a\n"${lines.slice(1)}"\nb`, 'csv', {}, 65_536)
    expect(accepted.map(({ kind }) => kind)).toEqual(['item', 'item'])
    expect(shown(await read(`a\n"${lines}"\nb`, 'csv', {}, 65_536))).toEqual([
      [2, 'a quote is not closed within 1000000 lines'],
      [1_000_003, { a: 'b' }],
    ])
  })

  it('refuses an invalid row with its line and the reason, and reads the other rows', async () => {
    const text =
      'id,n:number,d:date\na,1\nb,x,\nc,"1"2,\nd,1"2,\ne,01,\nf,1,2026-02-30\ng,,\n\nh,"open\n'
    expect(shown(await read(text, 'csv'))).toEqual([
      [2, 'it has 2 cells, but the header has 3 columns'],
      [3, 'column n: "x" is not a number'],
      [4, 'there is text after a closing quote'],
      [5, 'a cell with a quote must be in quotes'],
      [6, 'column n: "01" is not a number'],
      [7, 'column d: "2026-02-30" is not a date'],
      [8, { id: 'g' }],
      [10, 'a quote is not closed before the end'],
    ])
  })

  it.each([
    ['a line that names the comma', 'sep=,\nid,v\na,1\n'],
    ['a line that names another separator', '"sep=;"\r\nid;v\r\na;1\r\n'],
    ['semicolons', 'id;v\na;1\n'],
    ['tabs', 'id\tv\r\na\t1\r\n'],
    ['vertical lines', 'id|v\na|1\n'],
    ['more tabs than commas', 'id\tv\tw, x\na\t1\t\n'],
    ['more commas than semicolons', 'id,v,w;x\na,1,\n'],
    ['line ends of old programs', 'id,v\ra,1\r'],
    ['blank and empty rows', '\n\nid,v\n,\na,1\n,\n'],
    ['a column without name and values', 'id,v,\na,1,\n'],
    ['UTF-16', Buffer.from('\ufeffid,v\r\na,1\r\n', 'utf16le')],
    ['UTF-16 without a byte order mark', Buffer.from('id,v\r\na,1\r\n', 'utf16le').swap16()],
  ])('reads a table with %s', async (_, text) => {
    for (const chunkBytes of [1, 4_096]) {
      const records = await read(text, 'csv', {}, chunkBytes)
      expect(records).toMatchObject([{ kind: 'item', item: { id: 'a', v: '1' } }])
    }
  })

  it('refuses a header that could have two separators, instead of splitting decimals at their comma', async () => {
    const ambiguous = ['id;price, net\nplum;1,5\n', 'id;a,b\n1,5;2\n', 'id\tprice, net\n']
    for (const text of ambiguous) {
      await expect(read(text, 'csv')).rejects.toThrow(
        /^the header has commas and .*: name the separator in a line before it/,
      )
    }
    const named = await read(`sep=;\n${ambiguous[0]}`, 'csv')
    expect(shown(named)).toEqual([[3, { id: 'plum', 'price, net': '1,5' }]])
  })

  it('refuses values in a column without a name, and a row that repeats the header', async () => {
    expect(shown(await read(',id\n0,a\n,b\n,id\n\ufeff,id\n', 'csv'))).toEqual([
      [2, 'column 1 has no name, but the value "0"'],
      [3, { id: 'b' }],
      [4, 'it is the header again'],
      [5, 'it is the header again'],
    ])
    await expect(read(',\n1,2\n', 'csv')).rejects.toThrow('the header has no names')
  })

  it('takes types from a schema, and rejects an invalid header', async () => {
    const columnTypes = new Map([['n', 'number'] as const])
    expect(shown(await read('n\n5\n', 'csv', { columnTypes }))).toEqual([[2, { n: 5 }]])
    await expect(read('m\n5\n', 'csv', { columnTypes })).rejects.toThrow(
      'the schema has a column n',
    )
    await expect(read('a,a\n', 'csv')).rejects.toThrow(
      'the columns 1 and 2 have the same name: "a"',
    )
    await expect(read('__proto__\n', 'csv')).rejects.toThrow('a column must not be named __proto__')
    await expect(read('', 'csv')).rejects.toThrow('the input is empty')
    const wide = Array.from({ length: 1_001 }, (_, at) => `c${at}`).join(',')
    await expect(read(wide, 'csv', {}, 4_096)).rejects.toThrow('it has more than 1000 cells')
  })
})

describe('an input whose format is a guess', () => {
  it.each([
    ['{"_id":{"$oid":"5d505646cf6d4fe581014ab2"},"a":1}\n', '--format mongodb'],
    ['[{"when":{"$date":"2019-08-11T17:54:14Z"},"n":1}]', '--format mongodb'],
    ['{"_id":"a","_rev":"1-a"}\n{"_id":"b","_rev":"1-b"}\n', '--format couchdb'],
    ['{"total_rows":1,"rows":[\n{"id":"a"}]}', '--format couchdb'],
    ['{"docs":[{"_id":"a"}]}', '--format couchdb'],
    ['{"Item":{"pk":{"S":"a"},"n":{"N":"1"}}}\n', 'DynamoDB'],
    ['{"pk":{"S":"a"},"n":{"N":"1"}}\n', 'DynamoDB'],
    ['{"_index":"i","_id":"1","_source":{"a":1}}\n', 'Elasticsearch'],
    ['{"blockAddress":{},"revisions":[]}\n', '--format qldb'],
    ['{"document":{"a":1}}\n{"document":{"a":2}}\n', 'inside a member document'],
    ['{"-Ma":{"n":1},"-Mb":{"n":2}}', 'one object of objects'],
    ['{"count":1,"results":[{"n":1}]}', 'with the list results'],
    ['{\n  "id": "a"\n}\n{\n  "id": "b"\n}\n', 'over several lines'],
    ['{"columns":["n"],"data":[[1]]}\n', 'objects or lists'],
    [
      '{"name":"projects/p/databases/d/documents/c/a","fields":{"n":{"integerValue":"1"}}}',
      'Firestore',
    ],
    ['{"version":"2020-06-30","exportArn":"arn:x"}\n', 'a manifest'],
    ['{"name":"@cloudant/couchbackup","mode":"full"}\n[{"_id":"a"}]\n', 'couchbackup'],
    [
      '[{"type":"header","comment":"Export to JSON plugin for phpMyAdmin"},{"type":"table"}]',
      'phpMyAdmin',
    ],
    ['{"ID":"a","n":1}\n', 'use --id ID'],
    ['{"_key":"a"}\n', 'use --id _key'],
    ['{"$id":"a"}\n', 'use --id $id'],
  ])(
    'an input whose format is a guess is rejected if its records would get new ids: %s',
    async (text, reason) => {
      await expect(read(text, null)).rejects.toThrow(reason)
      await expect(read(text, null)).rejects.toMatchObject({ name: 'FormatError' })
    },
  )

  it('an input whose format is a guess is rejected if a table has no header, or its id another name', async () => {
    const guess = { isGuess: true }
    await expect(read('1,plum,80\n2,fig,90\n', 'csv', guess)).rejects.toThrow('no header')
    await expect(read('Id,n\na,1\n', 'csv', guess)).rejects.toThrow('use --id Id')
    await expect(read('n, id\n1,a\n', 'csv', guess)).rejects.toThrow('use --id " id"')
    expect(await read('Id,n\na,1\n', 'csv', { ...guess, idMember: 'Id' })).toHaveLength(1)
    expect(await read('Id,n\na,1\n', 'csv')).toHaveLength(1)
  })

  it('an input whose format is a guess is read if its records have an id or no member for one', async () => {
    const texts = [
      '{"id":"a","_id":"b","rows":[{}]}\n',
      '{"n":1}\n',
      '{"a":{"b":1},"c":2}\n',
      '[]',
      '',
    ]
    for (const text of texts) expect(await read(text, null)).toHaveLength(text.length > 2 ? 1 : 0)
  })

  it.each([
    [Buffer.from('PK\x03\x04'), 'ZIP archive or a workbook'],
    [Buffer.from('SQLite format 3\0'), 'a database of SQLite'],
    [Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), 'compressed by zstd'],
  ])('an input whose format is a guess is named if it is not text', async (bytes, reason) => {
    await expect(read(bytes, 'csv')).rejects.toThrow(reason)
    await expect(read(bytes, null)).rejects.toThrow(reason)
  })
})

it('a dump as CSV has a header without items, can be loaded if a name begins with NUL, and ends at a row that cannot be loaded', async () => {
  const dump = async (items: JsonObject[]) => {
    let text = ''
    const pages = async function* () {
      yield items.map((item) => JSON.stringify(item))
    }
    for await (const part of dumpTexts(pages, 'csv')) text += part
    return text
  }
  expect(await read(await dump([]), 'csv')).toEqual([])
  for (const item of [
    { '\0a': 1, id: 'x' },
    { 'a\0': 1, id: 'x' },
    { '\0\n': 1, id: 'x' },
  ]) {
    expect(await read(await dump([item]), 'csv')).toMatchObject([{ item }])
  }
  await expect(dump([{ id: 'a', text: '\n'.repeat(1_000_000) }])).rejects.toThrow(
    'choose another format',
  )
})

it.each(['ndjson', 'json', 'csv'] as const)(
  'a load of a %s dump restores the same items',
  async (format) => {
    await fc.assert(
      fc.asyncProperty(items, async (given) => {
        // Like stored items, all items have an id, so no row of the CSV is empty.
        const stored = given.map((item, at) => ({ ...item, id: `${at}` }))
        const pages = async function* () {
          yield stored.map((item) => JSON.stringify(item))
        }
        let text = ''
        for await (const part of dumpTexts(pages, format)) text += part
        const records = await read(text, format, {}, 64)
        expect(records.map((record) => (record.kind === 'item' ? record.item : record))).toEqual(
          stored,
        )
      }),
      { numRuns: roundsOf(100) },
    )
  },
)

it('converts each type of MongoDB Extended JSON, canonical and relaxed', () => {
  const rows: [unknown, unknown][] = [
    [{ $oid: '5d505646cf6d4fe581014ab2' }, '5d505646cf6d4fe581014ab2'],
    [{ $numberInt: '42' }, 42],
    [{ $numberLong: '9007199254740991' }, 9007199254740991],
    [{ $numberLong: '9007199254740993' }, '9007199254740993'],
    [{ $numberDouble: '1.5' }, 1.5],
    [{ $numberDouble: '-1.5E+3' }, -1500],
    [{ $numberDouble: 'Infinity' }, 'Infinity'],
    [{ $date: '2024-02-29T23:59:59.9+01:00' }, '2024-02-29T23:59:59.9+01:00'],
    [{ $date: '+012024-02-29T00:00:00Z' }, '+012024-02-29T00:00:00Z'],
    [{ $date: '0001-01-01T00:00:00Z' }, '0001-01-01T00:00:00Z'],
    [{ $numberDecimal: '1.10' }, '1.10'],
    [{ $date: { $numberLong: '1565546054692' } }, '2019-08-11T17:54:14.692Z'],
    [{ $date: '2019-08-11T17:54:14.692Z' }, '2019-08-11T17:54:14.692Z'],
    [
      { $binary: { base64: 'o0w498Or7cijeBSpkquNtg==', subType: '03' } },
      'o0w498Or7cijeBSpkquNtg==',
    ],
    [{ $binary: 'AQ==', $type: '00' }, 'AQ=='],
    [
      { $binary: { base64: 'yO2rw/c4TKO2jauSqRR4ow==', subType: '04' } },
      'c8edabc3-f738-4ca3-b68d-ab92a91478a3',
    ],
    [{ $binary: 'yO2rw/c4TKO2jauSqRR4ow==', $type: '4' }, 'c8edabc3-f738-4ca3-b68d-ab92a91478a3'],
    [{ $uuid: 'C8EDABC3F7384CA3B68DAB92A91478A3' }, 'c8edabc3-f738-4ca3-b68d-ab92a91478a3'],
    [{ $date: '2014-06-01T12:00:00.000-0400' }, '2014-06-01T12:00:00.000-04:00'],
    [{ $uuid: 'c8edabc3-f738-4ca3-b68d-ab92a91478a3' }, 'c8edabc3-f738-4ca3-b68d-ab92a91478a3'],
    [{ $regularExpression: { pattern: '^H', options: 'i' } }, '/^H/i'],
    [{ $timestamp: { t: 1565545664, i: 1 } }, { t: 1565545664, i: 1 }],
    [{ $code: 'f()' }, 'f()'],
    [
      { $code: 'f()', $scope: { n: { $numberInt: '1' } } },
      { code: 'f()', scope: { n: 1 } },
    ],
    [{ $symbol: 's' }, 's'],
    [{ $minKey: 1 }, '$minKey'],
    [{ $maxKey: 1 }, '$maxKey'],
    [{ $undefined: true }, null],
    [
      { $ref: 'c', $id: { $oid: 'ab' } },
      { $ref: 'c', $id: 'ab' },
    ],
    [[{ a: { $numberInt: '1' } }], [{ a: 1 }]],
  ]
  for (const [given, expected] of rows) {
    const value = JSON.parse(JSON.stringify(given))
    expect(plainObject({ value })).toEqual({ value: expected })
  }
  for (const wrong of [
    { $numberLong: 'x' },
    { $date: 'soon' },
    { $date: 'Jun 1, 2014' },
    { $uuid: 'c8edabc3' },
    { $oid: 1 },
    { $numberDouble: '' },
    { $numberDouble: '0x10' },
    { $numberDouble: ' 5' },
    { $date: '2014-02-31T00:00:00Z' },
    { $date: '2023-02-29' },
    { $binary: { base64: '!!', subType: '00' } },
    { $binary: { base64: 'AQ', subType: '00' } },
    { $oid: '5d505646cf6d4fe581014ab2', kept: 1 },
    { $code: 'f()', $options: 'i' },
  ]) {
    expect(() => plainObject({ value: JSON.parse(JSON.stringify(wrong)) })).toThrow(/^\$/)
  }
})

it('reads the id of MongoDB if it is a text, an integer, an ObjectId or a UUID, and refuses other types', async () => {
  const uuid = { $binary: { base64: 'yO2rw/c4TKO2jauSqRR4ow==', subType: '04' } }
  const ids = ['a', 5, { $numberDouble: '7.0' }, { $oid: '5d505646cf6d4fe581014ab2' }, uuid]
  const others = [{ $date: 1 }, { $numberDecimal: '1' }, { $binary: 'AQ==', $type: '03' }, { a: 1 }]
  const text = [...ids, ...others].map((_id) => `${JSON.stringify({ _id })}\n`).join('')
  const records = shown(await read(text, 'mongodb'))
  expect(records.slice(0, 5)).toEqual([
    [1, { _id: 'a' }],
    [2, { _id: 5 }],
    [3, { _id: 7 }],
    [4, { _id: '5d505646cf6d4fe581014ab2' }],
    [5, { _id: 'c8edabc3-f738-4ca3-b68d-ab92a91478a3' }],
  ])
  for (const [, reason] of records.slice(5)) expect(reason).toMatch(/^its _id is of another type/)
  expect(await read('{"_id":{"$date":1}}', 'mongodb', { idMember: 'n' })).toMatchObject([
    { kind: 'item' },
  ])
})

describe('CouchDB', () => {
  const row = (doc: object | null) =>
    JSON.stringify({ id: 'a', key: 'a', value: { rev: '1-a' }, doc })
  const reply = (...rows: string[]) =>
    `{"total_rows":${rows.length},"offset":0,"rows":[\r\n${rows.join(',\r\n')}\r\n]}\n`

  it('reads documents with their attachments, and leaves design documents out', async () => {
    const attachment = { content_type: 'text/plain', revpos: 1, digest: 'md5-x', data: 'aGVsbG8=' }
    const document = { _id: 'a', _rev: '1-a', price: 1, _attachments: { 'note.txt': attachment } }
    const text = reply(row(document), row({ _id: '_design/views', views: {} }), row(null))
    const [first, ...others] = await read(text, 'couchdb')
    expect(first).toEqual({
      kind: 'item',
      line: 2,
      item: { _id: 'a', price: 1 },
      attachments: [{ name: 'note.txt', contentType: 'text/plain', bytes: Buffer.from('hello') }],
    })
    expect(others).toEqual([
      { kind: 'left-out', line: 3, reason: 'design documents' },
      { kind: 'refused', line: 4, reason: expect.stringContaining('include_docs=true') },
    ])
  })

  it('refuses a document with an attachment without data, unless attachments are left out', async () => {
    const text = reply(row({ _id: 'a', _attachments: { 'x.png': { stub: true } } }))
    expect(shown(await read(text, 'couchdb'))).toEqual([
      [2, expect.stringContaining('attachments=true')],
    ])
    const records = await read(text, 'couchdb', { withoutAttachments: true })
    expect(shown(records)).toEqual([[2, { _id: 'a' }]])
  })

  it.each([
    ['{"rows":[{"_id":"a"}],"x":"docs","docs":[{"_id":"b"}]}', 'docs'],
    ['{"docs":[{"_id":"a"}],\n"rows":[]}', 'rows'],
    ['{"rows":[{"_id":"a"}],"rows":[{"_id":"b"}]}', 'rows'],
  ])(
    'rejects the second array of documents in %j, instead of loading only the first',
    async (text, name) => {
      await expect(read(text, 'couchdb')).rejects.toThrow(
        `the object has a second array, "${name}", which is not read; put each array into its own file`,
      )
    },
  )

  it('reads the documents of a reply with other members, of any value, after its documents', async () => {
    const text =
      '{"docs":[{"_id":"a"}],"bookmark":"rows","warnings":["docs"],"x":{"rows":[1]},"rows":2}'
    expect(shown(await read(text, 'couchdb'))).toEqual([[1, { _id: 'a' }]])
  })

  it('rejects input that is not a reply of CouchDB', async () => {
    await expect(read('{"error":"unauthorized"}', 'couchdb')).rejects.toThrow(
      'an array "rows" or "docs"',
    )
  })
})

describe('QLDB', () => {
  const hash = '{{WYLOfZClk0lYWT3lUsSr0ONXh+Pw8MxxB+9zvTgSvlQ=}}'
  const block = (revisions: string) => `{
  blockAddress:{strandId:"S",sequenceNo:1}, blockHash:${hash},
  transactionInfo:{documents:{ 'D1':{tableName:"Vehicle",tableId:"T"} }},
  revisions:[${revisions}]
}
`
  const metadata = (version: number) =>
    `metadata:{id:"D1",version:${version},txTime:2019-10-25T17:20:20.618Z,txId:"X${version}"}`
  const revision = (version: number, data: string) =>
    `{hash:${hash},data:${data},${metadata(version)}}`

  it('reads revisions in order, with metadata and converted Ion types', async () => {
    const data =
      '{VIN:"1N4", id:"own", price:10.50, exact:123456789.123456789123, big:12345678901234567890, day:2019-01-02, at:2019-01-02T03:04Z, bytes:{{AQI=}}, sym:red, none:null.string, list:[1,(a b)]}'
    const text =
      block(`{hash:${hash}},${revision(0, data)}`) +
      block(revision(1, '{VIN:"2N5"}')) +
      block(`{hash:${hash},${metadata(2)}}`) +
      block(`{hash:${hash},dataHash:${hash},${metadata(1)}}`)
    const qldb = { txTime: '2019-10-25T17:20:20.618Z' }
    const of = { kind: 'revision', table: 'Vehicle', id: 'D1' }
    expect(await read(text, 'qldb')).toEqual([
      { kind: 'left-out', line: 1, reason: "revisions of QLDB's system data" },
      {
        ...{ ...of, line: 1, isFirst: true },
        item: {
          ...{
            VIN: '1N4',
            price: 10.5,
            exact: '123456789.123456789123',
            big: '12345678901234567890',
          },
          ...{ day: '2019-01-02', at: '2019-01-02T03:04Z', bytes: 'AQI=', sym: 'red', none: null },
          ...{ list: [1, ['a', 'b']], qldb: { ...qldb, version: 0, txId: 'X0', dataId: 'own' } },
        },
      },
      {
        ...of,
        line: 6,
        isFirst: false,
        item: { VIN: '2N5', qldb: { ...qldb, version: 1, txId: 'X1' } },
      },
      { ...of, line: 11, isFirst: false, item: null },
      { kind: 'left-out', line: 16, reason: 'redacted revisions' },
    ])
  })

  it('reads the JSON form of an export too', async () => {
    const documents = { D1: { tableName: 'Vehicle', tableId: 'T' } }
    const metadata = { id: 'D1', version: 0, txTime: '2019-10-25T17:20:20.618Z', txId: 'X' }
    const json = {
      transactionInfo: { documents },
      revisions: [{ hash: 'aa', data: { n: 1.5 }, metadata }],
    }
    const [record] = await read(`${JSON.stringify(json)}\n`, 'qldb')
    expect(record).toMatchObject({
      table: 'Vehicle',
      isFirst: true,
      item: { n: 1.5, qldb: { txId: 'X' } },
    })
  })

  it('reads records of a stream and rows of history(), and leaves out what has no data', async () => {
    const row = `{blockAddress:{strandId:"S"},hash:${hash},data:{n:1},${metadata(3)}}`
    const text = `{exportId:"E",bucket:"b"} {keys:["a"]}
      {qldbStreamArn:"arn:x",recordType:"CONTROL",payload:{controlRecordType:"CREATED"}}
      {qldbStreamArn:"arn:x",recordType:"REVISION_DETAILS",payload:{tableInfo:{tableName:"T"},revision:${row}}}
      ${row} {blockAddress:{strandId:"S"},transactionInfo:{statements:[]}} {n:1}`
    const id = 'D1'
    expect(await read(text, 'qldb')).toMatchObject([
      { kind: 'left-out', reason: 'manifests of an export' },
      { kind: 'left-out', reason: 'manifests of an export' },
      { kind: 'left-out', reason: 'records of a stream without data' },
      { kind: 'revision', table: 'T', id, isFirst: false, item: { n: 1 } },
      { kind: 'revision', table: null, id, isFirst: false, item: { n: 1 } },
      { kind: 'left-out', reason: 'blocks without revisions' },
      { kind: 'refused', reason: expect.stringContaining('neither a block') },
    ])
  })

  it('refuses revisions without a table, and rejects input that is not Ion', async () => {
    const text = block(revision(0, '{a:1}')).replace("'D1':", "'D2':")
    expect(shown(await read(text, 'qldb'))).toEqual([[1, 'document D1 has no table in its block']])
    await expect(read('{a:', 'qldb')).rejects.toThrow('the input is not Ion')
    expect(shown(await read('5 {revisions:3}', 'qldb'))).toMatchObject([
      [1, 'it is not a block of QLDB'],
      [1, 'its revisions are not a list'],
    ])
  })
})
