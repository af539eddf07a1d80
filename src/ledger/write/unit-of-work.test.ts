import { expect, it } from 'vitest'
import { ENTRIES_BYTES_MAX } from '../../chain/index.ts'
import { toUnit } from './unit-of-work.ts'

it('the author of its changes counts for the size of a unit of work', () => {
  // Seven changes of the maximum total size; each counts 128 bytes, and one for the name of the database.
  const text = 'x'.repeat(Math.floor(ENTRIES_BYTES_MAX / 7) - 129)
  const changes = Array.from({ length: 7 }, (_, at) => {
    return { kind: 'update_item', db: 'd', id: `${at}`, text } as const
  })
  expect(toUnit(changes, { sub: '' })).toHaveLength(7)
  const large = () => toUnit(changes, { sub: 'ann' })
  expect(large).toThrow(expect.objectContaining({ code: 'UNIT_TOO_LARGE' }))
})
