import { expect, it } from 'vitest'
import { entriesOfBundle, entryBundle, hasTile, nodesOfTile, parseTile, tilePath } from './tiles.ts'

it.each([
  [{ level: 0, index: 0, width: 256 }, '0/000'],
  [{ level: 0, index: 1_234_067, width: 256 }, '0/x001/x234/067'],
  [{ level: 2, index: 999, width: 1 }, '2/999.p/1'],
  [{ level: 1, index: 1_000, width: 255 }, '1/x001/000.p/255'],
  [{ level: 'entries' as const, index: 273, width: 112 }, 'entries/273.p/112'],
  [{ level: 63, index: 12, width: 256 }, '63/012'],
])('tile %j has the path %s', (tile, path) => {
  expect(tilePath(tile)).toBe(path)
  expect(parseTile(path)).toEqual(tile)
})

it.each([
  ...['0/0', '0/00', '0/0000', '0/x000/000', '0/001/000', '0/x001/x000', '00/000', '64/000'],
  ...['0/000.p/0', '0/000.p/256', '0/000.p/01', '0/000.p', '0/000/', '/0/000', '0//000', '-1/000'],
  ...['entries', 'entries/', 'data/000', '0/000.p/1/', '0/x1/000', '0/ 00', '', '0/x001/X234/067'],
])('rejects the path %j, because each tile has exactly one path', (path) => {
  expect(parseTile(path)).toBeNull()
})

it('a log has the full and partial tiles of the C2SP specification', () => {
  const last = (level: number, size: number) => {
    let index = 0
    while (hasTile({ level, index, width: 256 }, size)) index += 1
    let width = 0
    while (width < 255 && hasTile({ level, index, width: width + 1 }, size)) width += 1
    return [index, width]
  }
  expect([0, 1, 2, 3].map((level) => last(level, 70_000))).toEqual([
    [273, 112],
    [1, 17],
    [0, 1],
    [0, 0],
  ])
  expect([0, 1].map((level) => last(level, 256))).toEqual([
    [1, 0],
    [0, 1],
  ])
  expect(hasTile({ level: 0, index: 0, width: 1 }, 0)).toBe(false)
  expect(hasTile({ level: 'entries', index: 1, width: 3 }, 259)).toBe(true)
  expect(hasTile({ level: 'entries', index: 1, width: 4 }, 259)).toBe(false)
})

it('a tile of level l contains the tree nodes of level 8 × l', () => {
  expect(nodesOfTile(1, { level: 1, index: 2, width: 2 })).toEqual([
    { level: 8, index: 512 },
    { level: 8, index: 513 },
  ])
})

it('reads back the entry bundles that it writes, and rejects malformed bundles', () => {
  const entries = [Buffer.from('a'), Buffer.from('x'.repeat(700)), Buffer.alloc(0)]
  const bundle = entryBundle(entries)
  expect(Buffer.from(bundle.subarray(0, 5))).toEqual(Buffer.from([0, 1, 0x61, 2, 0xbc]))
  expect(entriesOfBundle(bundle)?.map((entry) => Buffer.from(entry))).toEqual(entries)
  expect(entriesOfBundle(bundle.subarray(0, 100))).toBeNull()
  expect(entriesOfBundle(Buffer.of(0))).toBeNull()
  expect(entriesOfBundle(new Uint8Array(0))).toEqual([])
})
