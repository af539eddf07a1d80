import { expect, it, vi } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import { networkItemId, parsePosition, StoreError } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { Networks } from './networks.ts'

const others = { clock: systemClock, version: '0', deadlineMs: 1_000, log() {} }

it('ignores databases that contain no network, and warns about an unreadable network', async () => {
  const warnings: string[] = []
  const ledger = {
    read: { databases: async () => ['fruit', 'broken', 'veg'] },
    follower: { isShared: false },
    reader: {
      readItem: async (db: string, id: string) =>
        db === 'broken' && id === networkItemId(db) ? { text: '{"archive":"!"}' } : null,
    },
  }
  const networks = await Networks.open({
    // `Networks` calls only these methods if it serves no network.
    ...others,
    ledger: ledger as unknown as LedgerService,
    warn: (message) => warnings.push(message),
  })
  expect(networks.list()).toEqual([])
  expect(warnings).toEqual([expect.stringMatching(/^network broken is not served: ./)])
  await networks.close()
})

/** A ledger with a database `broken` that records a network, and `gone`, which was deleted after it was listed. */
function ledgerWithDeletedDatabase(databases = ['gone', 'broken']) {
  const warnings: string[] = []
  const warn = (message: string) => warnings.push(message)
  let report: (blocks: { from: number; last: number }) => void = () => {}
  const blocks = ['gone', 'broken'].map((db) => ({
    entries: [JSON.stringify({ db, item: { id: networkItemId(db) } })],
  }))
  const ledger = {
    follower: {
      isShared: true,
      size: 0,
      catchUp: async () => {},
      listen(listener: typeof report) {
        report = listener
        return () => {}
      },
    },
    read: { databases: async () => databases },
    reader: {
      readItem: async (db: string) => (db === 'broken' ? { text: '{"archive":"!"}' } : null),
      async *blocks(height: number) {
        yield blocks.slice(height)
      },
    },
  }
  // Networks call only these methods if there is no readable network.
  return {
    deps: { ...others, ledger: ledger as unknown as LedgerService, warn },
    warnings,
    report: (height: number) => report({ from: height, last: parsePosition(`${height}.0`) ?? 0 }),
  }
}

it('opens the networks although a database was deleted after it was listed', async () => {
  const { deps, warnings } = ledgerWithDeletedDatabase()
  await (await Networks.open(deps)).close()
  expect(warnings).toEqual([expect.stringMatching(/^network broken is not served: ./)])
})

it('continues to follow the networks of other processes after the database of one network was deleted', async () => {
  const { deps, warnings, report } = ledgerWithDeletedDatabase([])
  const networks = await Networks.open(deps)
  report(0)
  report(1)
  await networks.catchUp()
  await networks.close()
  expect(warnings).toEqual([expect.stringMatching(/^network broken is not served: ./)])
})

it('repeats a follow that failed until it succeeds, and reports the failure meanwhile', async () => {
  const { deps, warnings, report } = ledgerWithDeletedDatabase([])
  const { ledger } = deps
  const retries: (() => void)[] = []
  const schedule = {
    after(_ms: number, run: () => void) {
      retries.push(run)
      return () => {}
    },
  }
  const networks = await Networks.open({ ...deps, schedule })
  const read = vi.spyOn(ledger.reader, 'readItem')
  for (const reason of ['the server is down', 'the server is still down']) {
    read.mockRejectedValueOnce(new StoreError('STORE_UNAVAILABLE', reason))
  }
  report(1)
  await vi.waitFor(() => expect(retries).toHaveLength(1))
  expect(ledger.follower.findFailure()).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  await expect(networks.catchUp()).rejects.toThrow('the server is still down')
  expect(warnings).toEqual([])
  retries.at(-1)?.()
  await vi.waitFor(() => expect(ledger.follower.findFailure()).toBeNull())
  expect(warnings).toEqual([expect.stringMatching(/^network broken is not served: ./)])
  await networks.close()
})
