import { expect, it } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import { LedgerError, parsePosition } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { networkItemId, ownNetworkDatabases } from '../ownership.ts'
import { Networks } from './networks.ts'

it('ignores databases that contain no network, and reserves the database of an unreadable network', async () => {
  const owned: string[] = []
  const warnings: string[] = []
  const ledger = {
    databases: async () => ['fruit', 'broken', 'veg'],
    reader: {
      readItem: async (db: string, id: string) =>
        db === 'broken' && id === networkItemId(db) ? { text: '{"archive":"!"}' } : null,
    },
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

/** A ledger with a database `broken` that records a network, and `gone`, which was deleted after it was listed. */
function ledgerWithDeletedDatabase(databases = ['gone', 'broken']) {
  const owned: string[] = []
  let report: (blocks: { from: number; last: number }) => void = () => {}
  const blocks = ['gone', 'broken'].map((db) => ({
    entries: [JSON.stringify({ db, item: { id: networkItemId(db) } })],
  }))
  const ledger = {
    isShared: true,
    knownBlocks: 0,
    databases: async () => databases,
    onBlocks(listener: typeof report) {
      report = listener
      return () => {}
    },
    async readItem(db: string) {
      if (db === 'broken') return { text: '{}' }
      throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
    },
    reader: {
      readItem: async (db: string) => (db === 'broken' ? { text: '{"archive":"!"}' } : null),
      async *blocks(height: number) {
        yield blocks.slice(height)
      },
    },
    ownDatabase: (db: string) => owned.push(db),
  }
  // Networks call only these methods if there is no readable network.
  return {
    ...{ owned, ledger: ledger as unknown as LedgerService },
    report: (height: number) => report({ from: height, last: parsePosition(`${height}.0`) ?? 0 }),
  }
}

const others = { clock: systemClock, version: '0', deadlineMs: 1_000, warn() {}, log() {} }

it('opens the networks although a database was deleted after it was listed', async () => {
  const { owned, ledger } = ledgerWithDeletedDatabase()
  await (await Networks.open({ ledger, ...others })).close()
  await ownNetworkDatabases(ledger)
  expect(owned).toEqual(['broken', 'broken'])
})

it('continues to follow the networks of other processes after the database of one network was deleted', async () => {
  const { owned, ledger, report } = ledgerWithDeletedDatabase([])
  const networks = await Networks.open({ ledger, ...others })
  report(0)
  report(1)
  await networks.close()
  expect(owned).toEqual(['broken'])
})
