// Searches all files for erased content. `test/faults/erased.ts` does this with 1,000 items.
import { expect, it } from 'vitest'
import { sharedPostgres } from './postgres/shared.ts'
import { runErasing } from './support/erasing.ts'
import { temporaryFolder } from './support/ledger-node.ts'

const postgres = await sharedPostgres()
const COMMON = { markers: 20, gone: 100, log: () => {} }
const TEXTS = 124

it('no file of a node, its mirror, an export or a backup contains erased content when the metric is 0, after a kill and a full disk', async () => {
  const result = await runErasing({ ...COMMON, folder: temporaryFolder(), programs: null })
  expect(result).toMatchObject({ erased: TEXTS, left: {}, verified: [0, 0, 0, 0] })
})

it.skipIf(!postgres.canLaunch)(
  `no data file of a PostgreSQL server, a mirror or an export contains erased content when the metric is 0, nor the WAL after it was filled${postgres.note}`,
  async ({ onTestFinished }) => {
    const programs = await postgres.newPrograms()
    onTestFinished(() => programs.remove())
    const result = await runErasing({ ...COMMON, folder: temporaryFolder(), programs })
    // The WAL keeps erased content: docs/how-to/postgres.md.
    const { pg_wal: _, 'compressed in pg_wal': _packed, ...left } = result.left
    expect(result.erased).toBe(TEXTS)
    expect([left, result.leftLater, result.verified]).toEqual([{}, {}, [0, 0, 0]])
  },
)
