// Addresses of the dashboard's views, and items as a table, CSV and NDJSON.
import { describe, expect, it } from 'vitest'
import {
  changesAt,
  databasesAt,
  formatRoute,
  itemAt,
  itemsAt,
  ledgerAt,
  parseRoute,
} from '../../src/dashboard/browser/routing/routes.ts'
import { previewKind } from '../../src/dashboard/browser/text/preview.ts'
import {
  commonPaths,
  findMember,
  formatCsv,
  memberPaths,
  nodePath,
} from '../../src/dashboard/browser/text/table.ts'

describe('addresses', () => {
  it.each([
    ['#/', databasesAt()],
    ['#/?at=12', databasesAt('12')],
    ['#/db/a?page=3&at=7', itemsAt('a', { page: 3, at: '7' })],
    ['#/db/fruit%20%26%20%E6%9E%9C%E7%89%A9', itemsAt('fruit & 果物')],
    [
      '#/db/a?where=%7B%22n%22%3A1%7D&order=n+DESC&column=n&column=a.b&size=200&page=3',
      itemsAt('a', {
        where: '{"n":1}',
        order: 'n DESC',
        columns: ['n', 'a.b'],
        size: 200,
        page: 3,
      }),
    ],
    ['#/db/a?json=true', itemsAt('a', { columns: [] })],
    ['#/db/a/b%3Fc%2Fd', itemAt('a', 'b?c/d')],
    ['#/db/a/b?at=2026-03-01T00%3A00%3A00.000Z', itemAt('a', 'b', '2026-03-01T00:00:00.000Z')],
    ['#/changes?db=a&from=3', changesAt({ db: 'a', from: '3' })],
    ['#/ledger', ledgerAt(null)],
    ['#/ledger/7?db=a&method=erase_item', { ...ledgerAt(7), db: 'a', method: 'erase_item' }],
    ['#/ledger/7?entry=3', ledgerAt(7, 3)],
    [
      '#/ledger?by=ada&from=2026-03-01T00%3A00%3A00.000Z',
      { ...ledgerAt(null), by: 'ada', from: '2026-03-01T00:00:00.000Z' },
    ],
    ['#/verify', { view: 'verification' }],
    ['#/node', { view: 'node' }],
  ] as const)(
    'parses the address %s to a view, and prints that view as the same address',
    (hash, route) => {
      expect(parseRoute(hash)).toEqual(route)
      expect(formatRoute(route)).toBe(hash)
    },
  )

  it.each([
    '#/nowhere',
    '#/db',
    '#/db/a/b/c',
    '#/ledger/x',
    '#/ledger/1/2',
    '#/ledger?entry=1',
    '#/ledger/1?entry=x',
    '#/node/1',
    '#section',
    '#/db/a?page=0',
    '#/db/a?page=1.5',
    '#/db/a?size=7',
    '#/db/%',
  ])('the address %s belongs to no view', (hash) => {
    expect(parseRoute(hash)).toEqual({ view: 'unknown', hash })
    expect(formatRoute(parseRoute(hash))).toBe(hash)
  })
})

const ITEMS = [
  { id: 'a', name: 'x, "y"', at: { town: 'Oslo', zip: 7 }, empty: {} },
  { id: 'b', name: '=1+1', list: [1, 2], gone: null, 'at.town': 'own' },
]

describe('a table of items', () => {
  it('offers the members of the items, and of the objects in them', () => {
    expect(memberPaths(ITEMS)).toEqual([
      ...['name', 'at.town', 'at.zip', 'empty', 'list', 'gone', '"at.town"'],
    ])
  })

  it('finds a value by its path, whatever characters a name has', () => {
    expect(ITEMS.map((item) => findMember(item, 'at.town'))).toEqual(['Oslo', undefined])
    expect(ITEMS.map((item) => findMember(item, '"at.town"'))).toEqual([undefined, 'own'])
    for (const path of ['at.none', 'toString', '', '.', '"at', '"\\x"']) {
      expect([path, findMember(ITEMS[0], path === '' ? 'none' : path)]).not.toEqual([path, 'Oslo'])
    }
    const names = ['a.b', 'a', 'b', '"', 'a"b', '', ' ', '\\', '__proto__', '.', 'é.ü', 'a,b']
    const wide = Object.fromEntries(
      names.map((name, at) => [
        name,
        Object.fromEntries(names.map((inner, n) => [inner, at * 100 + n])),
      ]),
    )
    const item = { ...wide, id: 'w' }
    const paths = memberPaths([item])
    expect(paths.map((path) => findMember(item, path))).toEqual(
      names.flatMap((_, at) => names.map((__, n) => at * 100 + n)),
    )
    expect(new Set(paths).size).toBe(names.length ** 2)
  })

  it('a table of items has a column for every member in CSV, and at first shows the members that most items have', () => {
    const wide = Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`m${n}`, n]))
    const item = { id: 'w', ...wide, a: { b: 'nested' }, 'a.b': 'own' }
    const [header, row] = formatCsv([item], memberPaths([item])).split('\r\n')
    expect(header).toMatch(/^id,m0,.*,m1999,a\.b,"""a\.b"""$/)
    expect(row).toMatch(/^w,0,.*,1999,nested,own$/)
    expect(formatCsv([item], ['m0'], ',', false)).toBe('w,0\r\n')
    expect(commonPaths([item])).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5'])
    const rare = [{ id: '1', once: 1 }, ...Array.from({ length: 9 }, (_, n) => ({ id: `${n}`, n }))]
    expect(commonPaths(rare)).toEqual(['n'])
  })

  it('offers for a summary only the members that the node can address', () => {
    expect(memberPaths(ITEMS).map(nodePath)).toEqual([
      ...['name', 'at.town', 'at.zip', 'empty', 'list', 'gone', null],
    ])
    expect(['"a\\"b".c', 'a,b', '""'].map(nodePath)).toEqual(['a"b.c', null, null])
  })

  it('prints CSV with quotes, and makes texts harmless that a spreadsheet would evaluate', () => {
    expect(formatCsv(ITEMS, ['name', 'at.town', 'list', 'gone'])).toBe(
      'id,name,at.town,list,gone\r\n' + 'a,"x, ""y""",Oslo,,\r\n' + 'b,\'=1+1,,"[1,2]",\r\n',
    )
    for (const n of ['\uff1d1+1', ' =1+1', '\u3000@a']) {
      expect(formatCsv([{ id: '1', n }], ['n'])).toBe(`id,n\r\n1,'${n}\r\n`)
    }
    expect(formatCsv([{ id: '1', n: -5 }], ['n'])).toBe('id,n\r\n1,-5\r\n')
    // An import reads an empty text as such, and not as a missing member.
    expect(formatCsv([{ id: '1', n: '', m: null }], ['n', 'm'])).toBe('id,n,m\r\n1,"",\r\n')
    expect(formatCsv([{ id: '1', n: 'a,b' }], ['n'], '\t')).toBe('id\tn\r\n1\ta,b\r\n')
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
  expect(previewKind(type, length)).toBe(kind)
})
