// Addresses of the dashboard's views, and items as a table, CSV and NDJSON.
import { describe, expect, it } from 'vitest'
import { previewOf } from '../../src/dashboard/browser/preview.ts'
import { hrefOf, itemsOf, ledgerAt, parseRoute } from '../../src/dashboard/browser/routes.ts'
import { csvOf, memberPaths, ndjsonOf, valueAt } from '../../src/dashboard/browser/table.ts'

describe('addresses', () => {
  it.each([
    ['#/', { view: 'databases' }],
    ['#/db/fruit%20%26%20%E6%9E%9C%E7%89%A9', itemsOf('fruit & 果物')],
    [
      '#/db/a?where=%7B%22n%22%3A1%7D&order=n+DESC&column=n&column=a.b&size=200&page=3',
      itemsOf('a', {
        where: '{"n":1}',
        order: 'n DESC',
        columns: ['n', 'a.b'],
        size: 200,
        page: 3,
      }),
    ],
    ['#/db/a/b%3Fc%2Fd', { view: 'item', db: 'a', id: 'b?c/d' }],
    ['#/ledger', ledgerAt(null)],
    ['#/ledger/7?db=a&method=erase_item', { ...ledgerAt(7), db: 'a', method: 'erase_item' }],
    ['#/verify', { view: 'verification' }],
    ['#/node', { view: 'node' }],
  ] as const)(
    'parses the address %s to a view, and prints that view as the same address',
    (hash, route) => {
      expect(parseRoute(hash)).toEqual(route)
      expect(hrefOf(route)).toBe(hash)
    },
  )

  it.each([
    '#/nowhere',
    '#/db',
    '#/db/a/b/c',
    '#/ledger/x',
    '#/ledger/1/2',
    '#/node/1',
    '#section',
    '#/db/a?page=0',
    '#/db/a?page=1.5',
    '#/db/a?size=7',
    '#/db/%',
  ])('the address %s belongs to no view', (hash) => {
    expect(parseRoute(hash)).toEqual({ view: 'unknown', hash })
    expect(hrefOf(parseRoute(hash))).toBe(hash)
  })
})

const ITEMS = [
  { id: 'a', name: 'x, "y"', at: { town: 'Oslo', zip: 7 }, empty: {} },
  { id: 'b', name: '=1+1', list: [1, 2], gone: null, 'at.town': 'own' },
]

describe('a table of items', () => {
  it('offers at most 60 columns: the members of the items and of the objects in them', () => {
    expect(memberPaths(ITEMS)).toEqual([...['name', 'at.town', 'at.zip', 'empty', 'list', 'gone']])
    const wide = Object.fromEntries(Array.from({ length: 99 }, (_, n) => [`m${n}`, n]))
    expect(memberPaths([{ id: 'w', ...wide }])).toHaveLength(60)
  })

  it('finds a value by its path, and prefers a member whose name equals the whole path', () => {
    expect(ITEMS.map((item) => valueAt(item, 'at.town'))).toEqual(['Oslo', 'own'])
    expect([valueAt(ITEMS[0], 'at.none'), valueAt(ITEMS[0], 'toString')]).toEqual([
      undefined,
      undefined,
    ])
  })

  it('prints CSV with quotes, and makes texts harmless that a spreadsheet would evaluate', () => {
    expect(csvOf(ITEMS, ['name', 'at.town', 'list', 'gone'])).toBe(
      'id,name,at.town,list,gone\r\n' + 'a,"x, ""y""",Oslo,,\r\n' + 'b,\'=1+1,own,"[1,2]",\r\n',
    )
    expect(csvOf([{ id: '1', n: -5 }], [])).toBe('id,n\r\n1,-5\r\n')
    expect(csvOf([{ id: '1', n: 'a,b' }], [], '\t')).toBe('id\tn\r\n1\ta,b\r\n')
  })

  it('prints NDJSON with whole items, or with only the id and the chosen members', () => {
    expect(ndjsonOf(ITEMS, [])).toBe(ITEMS.map((item) => `${JSON.stringify(item)}\n`).join(''))
    expect(ndjsonOf(ITEMS, ['at.zip'])).toBe('{"id":"a","at.zip":7}\n{"id":"b"}\n')
  })
})

it.each([
  ['image/png', 5 * 1024 * 1024, 'image'],
  ['image/png', 5 * 1024 * 1024 + 1, null],
  ['IMAGE/SVG+XML; a=b', 1, 'image'],
  ['image/tiff', 1, null],
  ['text/plain; charset=utf-8', 256 * 1024, 'text'],
  ['text/plain', 256 * 1024 + 1, null],
  ['application/ld+json', 1, 'text'],
  ['application/pdf', 1, null],
] as const)('the preview of an attachment of type %s with %d bytes is %j', (type, length, kind) => {
  expect(previewOf(type, length)).toBe(kind)
})
