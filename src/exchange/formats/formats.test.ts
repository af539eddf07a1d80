import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { roundsOf } from '../../../test/support/rounds.ts'
import type { JsonObject } from '../../base/json.ts'
import { dumpTexts } from '../dump.ts'
import { recordsOf, type SourceFormat, type SourceOptions } from '../source.ts'
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
  for await (const page of recordsOf(chunks, { format, ...options })) records.push(...page)
  return records
}

/** Returns `[line, item]` or `[line, reason]` for each record. */
const shown = (records: readonly SourceRecord[]) =>
  records.map((record) => [record.line, record.kind === 'item' ? record.item : reasonOf(record)])
const reasonOf = (record: SourceRecord) => ('reason' in record ? record.reason : record)

const name = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
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
          const records = await read(text, null, {}, chunkBytes)
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

  it('yields records or throws a SourceError for any text', async () => {
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
          expect(error).toMatchObject({ name: 'SourceError' })
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

  it('takes types from a schema, and rejects an invalid header', async () => {
    const columnTypes = new Map([['n', 'number'] as const])
    expect(shown(await read('n\n5\n', 'csv', { columnTypes }))).toEqual([[2, { n: 5 }]])
    await expect(read('m\n5\n', 'csv', { columnTypes })).rejects.toThrow(
      'the schema has a column n',
    )
    await expect(read('a,a\n', 'csv')).rejects.toThrow(
      'the header must have a different name for each column',
    )
    await expect(read('__proto__\n', 'csv')).rejects.toThrow('a column must not be named __proto__')
    await expect(read('', 'csv')).rejects.toThrow('the input is empty')
    const wide = Array.from({ length: 1_001 }, (_, at) => `c${at}`).join(',')
    await expect(read(wide, 'csv', {}, 4_096)).rejects.toThrow('it has more than 1000 cells')
  })
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
    [{ $numberDouble: 'Infinity' }, 'Infinity'],
    [{ $numberDecimal: '1.10' }, '1.10'],
    [{ $date: { $numberLong: '1565546054692' } }, '2019-08-11T17:54:14.692Z'],
    [{ $date: '2019-08-11T17:54:14.692Z' }, '2019-08-11T17:54:14.692Z'],
    [
      { $binary: { base64: 'o0w498Or7cijeBSpkquNtg==', subType: '03' } },
      'o0w498Or7cijeBSpkquNtg==',
    ],
    [{ $binary: 'AQ==', $type: '00' }, 'AQ=='],
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
    { $oid: 1 },
    { $numberDouble: '' },
  ]) {
    expect(() => plainObject({ value: JSON.parse(JSON.stringify(wrong)) })).toThrow(/^\$/)
  }
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
