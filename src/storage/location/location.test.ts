import { expect, it } from 'vitest'
import { displayName, isDatabaseUrl } from './location.ts'

it.each([
  ['postgres://db/ledger', 'postgres://db/ledger'],
  ['postgresql://daicho@db:5432/ledger', 'postgresql://daicho@db:5432/ledger'],
  [
    'postgres://daicho:secret@db1:5432,db2:5432/ledger',
    'postgres://daicho@db1:5432,db2:5432/ledger',
  ],
  ['postgres://daicho:se@cr/et?#@db/ledger', 'postgres://daicho@db/ledger'],
  ['postgres://daicho:p@ss:word@db/ledger', 'postgres://daicho@db/ledger'],
  ['postgres://db/ledger?password=secret&user=daicho', 'postgres://db/ledger'],
])('shows the location %s without its password', (location, shown) => {
  expect(isDatabaseUrl(location)).toBe(true)
  expect(displayName(location)).toBe(shown)
})

it.each(['./data', '/srv/postgres://db', 'C:\\data', 'postgres'])(
  'treats %s as a folder',
  (location) => {
    expect(isDatabaseUrl(location)).toBe(false)
    expect(displayName(location)).toBe(location)
  },
)
