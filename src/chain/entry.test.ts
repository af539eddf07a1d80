import { expect, it } from 'vitest'
import type { Json } from '../base/json.ts'
import {
  decodeAttachment,
  decodeEntry,
  type Entry,
  entryText,
  packPosition,
  parsePosition,
  positionText,
  unpackHeight,
} from './entry.ts'

const sha256 = '0123456789abcdef'.repeat(4)
const BOB = { by: { sub: 'bob', iss: 'net' } }
const note = { name: 'n"1', content_type: 'text/plain', length: 0, sha256 }

it.each<[string, string, Entry]>([
  [
    entryText.database('create_db', 7, 'ä"'),
    '{"db":"ä\\"","method":"create_db","serverid":7}',
    { serverid: 7, method: 'create_db', db: 'ä"' },
  ],
  [
    entryText.database('delete_db', 7, 'd'),
    '{"db":"d","method":"delete_db","serverid":7}',
    { serverid: 7, method: 'delete_db', db: 'd' },
  ],
  [
    entryText.item('create_item', 7, 'd"', '{"id":"1"}'),
    '{"db":"d\\"","item":{"id":"1"},"method":"create_item","serverid":7}',
    { serverid: 7, method: 'create_item', db: 'd"', item: { id: '1' } },
  ],
  [
    entryText.item('update_item', 7, 'd', '{"id":"1","n":2}'),
    '{"db":"d","item":{"id":"1","n":2},"method":"update_item","serverid":7}',
    { serverid: 7, method: 'update_item', db: 'd', item: { id: '1', n: 2 } },
  ],
  [
    entryText.deleteItem(7, 'd"', 'i"'),
    '{"db":"d\\"","id":"i\\"","method":"delete_item","serverid":7}',
    { serverid: 7, method: 'delete_item', db: 'd"', id: 'i"' },
  ],
  [
    entryText.attachment('create_attachment', 7, { db: 'd"', id: 'i"' }, note),
    `{"attachment":{"content_type":"text/plain","length":0,"name":"n\\"1","sha256":"${sha256}"},"db":"d\\"","id":"i\\"","method":"create_attachment","serverid":7}`,
    { serverid: 7, method: 'create_attachment', db: 'd"', id: 'i"', attachment: note },
  ],
  [
    entryText.attachment('delete_attachment', 7, { db: 'd', id: 'i' }, null),
    '{"attachment":{},"db":"d","id":"i","method":"delete_attachment","serverid":7}',
    { serverid: 7, method: 'delete_attachment', db: 'd', id: 'i', attachment: {} },
  ],
  [
    entryText.eraseItem(7, 'd"', 'i"', [3, 16_384 + 2]),
    '{"db":"d\\"","id":"i\\"","method":"erase_item","positions":["0.3","1.2"],"serverid":7}',
    { serverid: 7, method: 'erase_item', db: 'd"', id: 'i"', positions: ['0.3', '1.2'] },
  ],
  [
    entryText.database('create_db', 7, 'd', { by: { sub: 'a"' }, reason: 'w"y' }),
    '{"by":{"sub":"a\\""},"db":"d","method":"create_db","reason":"w\\"y","serverid":7}',
    { serverid: 7, method: 'create_db', db: 'd', by: { sub: 'a"' }, reason: 'w"y' },
  ],
  [
    entryText.item('create_item', 7, 'd', '{"id":"1"}', BOB),
    '{"by":{"iss":"net","sub":"bob"},"db":"d","item":{"id":"1"},"method":"create_item","serverid":7}',
    { serverid: 7, method: 'create_item', db: 'd', item: { id: '1' }, ...BOB },
  ],
  [
    entryText.deleteItem(7, 'd', 'i', BOB),
    '{"by":{"iss":"net","sub":"bob"},"db":"d","id":"i","method":"delete_item","serverid":7}',
    { serverid: 7, method: 'delete_item', db: 'd', id: 'i', ...BOB },
  ],
  [
    entryText.attachment('delete_attachment', 7, { db: 'd', id: 'i' }, note, BOB),
    `{"attachment":{"content_type":"text/plain","length":0,"name":"n\\"1","sha256":"${sha256}"},"by":{"iss":"net","sub":"bob"},"db":"d","id":"i","method":"delete_attachment","serverid":7}`,
    { serverid: 7, method: 'delete_attachment', db: 'd', id: 'i', attachment: note, ...BOB },
  ],
  [
    entryText.eraseItem(7, 'd', 'i', [3], { ...BOB, reason: 'GDPR' }),
    '{"by":{"iss":"net","sub":"bob"},"db":"d","id":"i","method":"erase_item","positions":["0.3"],"reason":"GDPR","serverid":7}',
    {
      serverid: 7,
      method: 'erase_item',
      db: 'd',
      id: 'i',
      positions: ['0.3'],
      ...BOB,
      reason: 'GDPR',
    },
  ],
])('prints and parses the entry %s', (text, bytes, entry) => {
  expect(text).toBe(bytes)
  expect(decodeEntry(JSON.parse(text))).toEqual(entry)
})

const create = { serverid: 7, method: 'create_item', db: 'd', item: { id: '1' } }
const remove = { serverid: 7, method: 'delete_item', db: 'd', id: 'i' }
const attach = { serverid: 7, method: 'create_attachment', db: 'd', id: 'i', attachment: note }
const erase = { serverid: 7, method: 'erase_item', db: 'd', id: 'i', positions: ['0.3', '1.2'] }

it.each<[string, Json]>([
  ['that is a text', 'x'],
  ['that is null', null],
  ['that is a list', [create]],
  ['with a server that is a text', { ...create, serverid: '7' }],
  ['with a fractional server', { ...create, serverid: 7.5 }],
  ['with a database that is a number', { ...create, db: 1 }],
  ['of an unknown method', { ...create, method: 'create' }],
  ['of an item, with an extra member', { ...create, more: 1 }],
  ['of a database, with an extra member', { serverid: 7, method: 'create_db', db: 'd', more: 1 }],
  ['of an item that is a list', { ...create, item: ['1'] }],
  ['of an item without an id', { ...create, item: {} }],
  ['of an item whose id is a number', { ...create, item: { id: 1 } }],
  ['of a deletion, with an extra member', { ...remove, more: 1 }],
  ['of a deletion whose id is a number', { ...remove, id: 1 }],
  ['of an attachment, with an extra member', { ...attach, more: 1 }],
  ['of an attachment of an item whose id is a number', { ...attach, id: 1 }],
  ['of an attachment that is null', { ...attach, attachment: null }],
  ['of an attachment that is a list', { ...attach, attachment: [] }],
  ['of an erasure, with an extra member', { ...erase, more: 1 }],
  ['of an erasure whose id is a number', { ...erase, id: 1 }],
  ['of an erasure without positions', { ...erase, positions: [] }],
  ['of an erasure whose positions are a text', { ...erase, positions: '0.3' }],
  ['of an erasure with a repeated position', { ...erase, positions: ['0.3', '0.3'] }],
  ['of an erasure with unordered positions', { ...erase, positions: ['1.2', '0.3'] }],
  ['of an erasure of a number', { ...erase, positions: [3] }],
  ['of an erasure of an invalid position', { ...erase, positions: ['0.3', '1'] }],
])('rejects an entry %s', (_, value) => {
  expect(decodeEntry(value)).toBeNull()
})

it('rejects an attachment unless it has exactly four members of the right types', () => {
  expect(decodeAttachment(note)).toEqual(note)
  expect(decodeAttachment({ ...note, length: 2 ** 53 - 1 })).not.toBeNull()
  const wrong: (Json | undefined)[] = [
    ...[undefined, null, 'x', [], {}, { ...note, more: 1 }],
    ...[
      { ...note, name: 1 },
      { ...note, content_type: 1 },
      { ...note, length: '0' },
    ],
    ...[
      { ...note, length: -1 },
      { ...note, length: 0.5 },
      { ...note, length: 2 ** 53 },
    ],
    ...[5, '', `${sha256}a`, sha256.slice(1), sha256.toUpperCase()].map((other) => ({
      ...note,
      sha256: other,
    })),
  ]
  for (const value of wrong) expect(decodeAttachment(value), JSON.stringify(value)).toBeNull()
})

it('prints positions as text, parses that text back, and rejects any other text', () => {
  for (const [height, index] of [
    [0, 0],
    [1, 9_999],
    [549_755_813_887, 16_383],
  ] as const) {
    const packed = packPosition(height, index)
    expect([parsePosition(positionText(packed)), unpackHeight(packed)]).toEqual([packed, height])
  }
  for (const text of [
    '',
    '1',
    '1.',
    '.1',
    '1.16384',
    '01.0',
    '1.00',
    '-1.0',
    ' 1.0',
    '549755813888.0',
  ]) {
    expect([text, parsePosition(text)]).toEqual([text, null])
  }
})
