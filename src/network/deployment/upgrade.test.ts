import { expect, it } from 'vitest'
import { networkOf } from '../../../test/support/gateway.ts'
import type { ResourceDatabase } from '../resources/database.ts'
import { planUpgrade } from './upgrade.ts'

const network = (more: string) =>
  networkOf(`namespace org.test
    asset Thing identified by id { o String id o String text optional ${more} }`)

it.each([
  ['resources', 20_000, '', 10_000],
  ['characters', 20, 'x'.repeat(10_000_000), 7],
])('refuses an upgrade of too many %s before it has read all of them', async (_, count, text, most) => {
  let read = 0
  const database = {
    async *items() {
      for (read = 1; read <= count; read += 1) {
        const resource = { $class: 'org.test.Thing', id: `t${read}`, text }
        const id = `org.test.Thing#t${read}`
        yield [{ id, text: JSON.stringify({ id, resource }) }]
      }
    },
  } as unknown as ResourceDatabase
  const next = network('o String grade default="A"')
  const planning = planUpgrade(database, network(''), next, [])
  await expect(planning).rejects.toMatchObject({ code: 'UNIT_TOO_LARGE' })
  expect(read).toBeLessThan(most)
})
