import { expect, it } from 'vitest'
import { type EntryFilterInput, entryFilter } from './entry-filter.ts'

const HEADS = {
  'alice of A in x': { db: 'x', by: { sub: 'alice', iss: 'https://a' } },
  'alice of B in y': { db: 'y', by: { sub: 'alice', iss: 'https://b' } },
  'alice of the node in x': { db: 'x', by: { sub: 'alice' } },
  'nobody in x': { db: 'x', by: null },
}
const ALICES = ['alice of A in x', 'alice of B in y', 'alice of the node in x']

it.each<[EntryFilterInput, string[]]>([
  [{ db: ['x'] }, ['alice of A in x', 'alice of the node in x', 'nobody in x']],
  [{ db: ['x', 'y'] }, Object.keys(HEADS)],
  [{ by: 'alice' }, ALICES],
  [{ by: 'bob' }, []],
  [{ iss: 'https://a' }, ['alice of A in x']],
  [{ iss: '' }, ['alice of the node in x']],
  [{ db: ['x'], by: 'alice', iss: 'https://b' }, []],
])('selects entries by each of database, author and issuer, also alone: %j', (input, selected) => {
  const filter = entryFilter(input)
  const heads = Object.entries(HEADS).filter(([, head]) => filter?.matches(head))
  expect(heads.map(([name]) => name)).toEqual(selected)
  expect(filter?.matches(null)).toBe(false)
})

it('is no filter without a database, an author and an issuer', () => {
  expect(entryFilter({ db: [] })).toBeNull()
})
