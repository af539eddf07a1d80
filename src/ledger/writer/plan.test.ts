import { expect, it } from 'vitest'
import type { StoreReader } from '../../storage/index.ts'
import type { UnitOfWork } from '../unit-of-work.ts'
import { planBatch } from './plan.ts'

const ITEM_CHARACTERS = 9 * 1024 * 1024

const smallUnit: UnitOfWork = [{ kind: 'delete_db', db: 'b' }]

/** A store with one large item in every database. */
const store = {
  serverId: 7,
  database: async (name: string) => ({ name, created: 0 }),
  item: async (_db: string, id: string) => ({
    id,
    created: 1,
    revision: 1,
    text: `{"id":"${id}","text":"${'x'.repeat(ITEM_CHARACTERS)}"}`,
  }),
  // `store` has only the members that planning uses.
} as unknown as StoreReader

it('small patches of large items do not make a block too large to store', async () => {
  const patch = (n: number): UnitOfWork => [
    { kind: 'patch_item', db: 'a', id: 'x', text: `{"n":${n}}` },
  ]
  const units = Array.from({ length: 20 }, (_, n) => patch(n))
  const { entries, effects, outcomes } = await planBatch(store, [...units, smallUnit], 0)

  const done = outcomes.filter((outcome) => 'index' in outcome)
  const fitting = Math.floor((128 * 1024 * 1024) / ITEM_CHARACTERS)
  expect(done.length).toBe(fitting + 1) // the patches that fit, and the small unit after them
  expect([entries.length, effects.length]).toEqual([done.length, done.length])
  expect(outcomes[fitting]).toEqual({
    code: 'WRITER_BUSY',
    message: 'too many changes are being written; try again shortly',
  })
  expect(outcomes.at(-1)).toEqual({ index: fitting })
})
