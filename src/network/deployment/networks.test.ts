import { expect, it } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { networkItemId } from '../ownership.ts'
import { Networks } from './networks.ts'

it('ignores databases that contain no network, and reserves the database of an unreadable network', async () => {
  const owned: string[] = []
  const warnings: string[] = []
  const ledger = {
    databases: async () => ['fruit', 'broken', 'veg'],
    readItem: async (db: string, id: string) =>
      db === 'broken' && id === networkItemId(db) ? { text: '{"archive":"!"}' } : null,
    ownDatabase: (db: string) => owned.push(db),
  }
  const networks = await Networks.open({
    // `Networks` calls only these methods if it serves no network.
    ledger: ledger as unknown as LedgerService,
    clock: systemClock,
    version: '0',
    warn: (message) => warnings.push(message),
    deadlineMs: 1_000,
    log: () => {},
  })
  expect(networks.list()).toEqual([])
  expect(owned).toEqual(['broken'])
  expect(warnings).toEqual([expect.stringMatching(/^network broken is not served: ./)])
  await networks.close()
})
