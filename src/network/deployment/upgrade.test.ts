import { expect, it } from 'vitest'
import { networkOf } from '../../../test/support/gateway.ts'
import type { ResourceDatabase } from '../resources/database.ts'
import { planUpgrade } from './upgrade.ts'

const network = (more: string) =>
  networkOf(`namespace org.test
    asset Thing identified by id { o String id ${more} }`)

it('refuses an upgrade of too many resources before it has read all of them', async () => {
  let read = 0
  const database = {
    async *items() {
      for (; read < 20_000; read += 1) {
        const [id, resource] = [
          `org.test.Thing#${read}`,
          { $class: 'org.test.Thing', id: `${read}` },
        ]
        yield [{ id, text: JSON.stringify({ id, resource }) }]
      }
    },
  } as unknown as ResourceDatabase
  const next = network('o String grade default="A"')
  const planning = planUpgrade(database, network(''), next, [])
  await expect(planning).rejects.toMatchObject({ code: 'UNIT_TOO_LARGE' })
  expect(read).toBeLessThan(10_000)
})
