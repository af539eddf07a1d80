import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { type Filter, parseFilter } from '../../filter/index.ts'
import { appendEntries, CONTRACT_SERVER_ID } from '../contract/test-store.ts'
import { openStore } from '../open.ts'

const serverid = CONTRACT_SERVER_ID
const read = (filter: object): Filter | null => parseFilter({ filter: JSON.stringify(filter) })

it('a search over items of megabytes returns all matches, piece by piece, in order', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const store = await openStore({ location: folder, serverId: serverid, durable: false })
  onTestFinished(() => store.close())
  const ids = Array.from({ length: 12 }, (_, at) => `${at}`.padStart(2, '0'))
  await appendEntries(store, [
    { serverid, method: 'create_db', db: 'd' },
    ...ids.map(
      (id, at) =>
        ({
          serverid,
          method: 'create_item',
          db: 'd',
          item: { id, k: 100 - at, text: 'x'.repeat(1_000_000) },
        }) as const,
    ),
  ])
  const { created } = (await store.database('d')) ?? { created: -1 }
  const plans: string[] = []
  const expectAll = async () => {
    for (const [filter, backwards] of [
      [{ where: { k: { gt: 0 } } }, false],
      [{ where: { k: { inq: ids.map((_, at) => 100 - at) } } }, false],
      [{ where: { k: { gt: 0 } }, order: 'k' }, true],
      [{ where: { k: { gt: 0 } }, order: 'k DESC' }, false],
      [{ order: 'k' }, true],
      [{ where: { text: { like: 'x%' } }, order: 'id DESC' }, true],
    ] as const) {
      const { where = null, order = [] } = read(filter) ?? {}
      const query = { where, order, after: null, offset: 0, limit: null, text: false }
      const { index, pieces } = await store.search(created, query)
      const found: string[] = []
      for await (const piece of pieces) found.push(...piece.map(({ id }) => id))
      expect([filter, found]).toEqual([filter, backwards ? ids.toReversed() : ids])
      plans.push(index ?? 'scan')
    }
  }
  await expectAll()
  await store.addIndex('d', 'k')
  while (await store.maintain());
  await expectAll()
  expect(plans.slice(0, 6)).not.toContain('k')
  expect(plans.slice(6, 11)).toEqual(['k', 'k', 'k', 'k', 'k'])
})
