import { expect, it } from 'vitest'
import { parseFilter } from '../../filter/index.ts'
import type { ItemSearch } from '../port/store.ts'
import type { SearchRows } from './plan.ts'
import { searchItems } from './search.ts'

const everything = { where: null, order: [], after: null, offset: 0, limit: null, text: false }

/** A store whose scan gives the positions in `pieces`. The items at `deleted` no longer exist when items are read. */
function rowsOf(
  pieces: readonly (readonly number[])[],
  deleted: readonly number[],
  overrides: Partial<SearchRows> = {},
): SearchRows {
  return {
    end: async () => 0,
    readyIndexes: async () => [],
    hasMore: async () => false,
    positions: async () => [],
    scan: (_database, _access, where) => ({
      isExact: where === null,
      pieces: (async function* () {
        yield* pieces
      })(),
    }),
    async *counts() {},
    items: async (positions) =>
      positions
        .filter((created) => !deleted.includes(created))
        .map((created) => ({
          ...{ id: `i${created}`, created, revision: created },
          text: `{"id":"i${created}","n":${created}}`,
        })),
    ...overrides,
  }
}

async function found(rows: SearchRows, query: Partial<ItemSearch>): Promise<string[]> {
  const ids: string[] = []
  const { pieces } = await searchItems(rows, 0, { ...everything, ...query })
  for await (const items of pieces) ids.push(...items.map(({ id }) => id))
  return ids
}

it('fills the limit in order, without a gap, if items were deleted after their positions were read', async () => {
  const pieces = [
    [1, 2, 3, 4, 5],
    [6, 7],
  ]
  expect(await found(rowsOf(pieces, [2]), { limit: 3 })).toEqual(['i1', 'i3', 'i4'])
  expect(await found(rowsOf(pieces, [2, 3, 5]), { limit: 4 })).toEqual(['i1', 'i4', 'i6', 'i7'])
  expect(await found(rowsOf(pieces, [2]), { limit: 2, offset: 1 })).toEqual(['i3', 'i4'])
  expect(await found(rowsOf(pieces, [1, 2, 3, 4, 5]), { limit: 1 })).toEqual(['i6'])
})

it('keeps no item in memory while a search sorts', async () => {
  const read: unknown[][] = []
  const { items } = rowsOf([], [])
  const rows = rowsOf([[1, 2], [3]], [], {
    items: async (positions, options) => {
      const rows = await items(positions, options)
      read.push(rows)
      return rows
    },
  })
  const order = [{ path: ['n'], descending: true }]
  const kept: number[] = []
  const { pieces } = await searchItems(rows, 0, { ...everything, order, text: true })
  for await (const piece of pieces) {
    piece.splice(0)
    kept.push(read.flat().length)
  }
  expect(read.length).toBeGreaterThan(2)
  expect(kept.every((items) => items === 0)).toBe(true)
})

it('scans all items if the index was removed before its positions were read', async () => {
  const index = { number: 1, database: 0, path: 'n' }
  const where = parseFilter({ filter: '{"where":{"n":{"inq":[2,3]}}}' })?.where ?? null
  const rows = rowsOf([[1, 2, 3]], [], {
    readyIndexes: async () => [index],
    positions: async () => null,
  })
  expect(await found(rows, { where })).toEqual(['i2', 'i3'])
})
