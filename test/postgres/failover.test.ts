// Kills the primary of three PostgreSQL servers while two nodes write. `test/faults/failovers.ts` repeats this.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../support/ledger-node.ts'
import { runFailovers } from './failover.ts'
import type { PostgresPrograms } from './programs.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()

describe.skipIf(!postgres.canLaunch)(`a failover${postgres.note}`, () => {
  let programs: PostgresPrograms
  beforeAll(async () => {
    programs = await postgres.newPrograms()
  })
  afterAll(() => programs?.remove())
  const common = { rounds: 1, requests: 200, log: () => {} }

  it('a failover to a synchronous standby loses no acknowledged write, and both nodes continue to write', async ({
    onTestFinished,
  }) => {
    const folder = temporaryFolder(onTestFinished)
    const result = await runFailovers({ ...common, programs, folder, isSynchronous: true })
    const { lost, twice, unexpected, ready, verified } = result
    expect({ lost, twice, unexpected }).toEqual({ lost: 0, twice: 0, unexpected: [] })
    expect(ready).toEqual(['{"status":true}', '{"status":true}'])
    expect(verified).toEqual({ code: 0, stdout: expect.stringContaining('"finding":null') })
  })

  it('a failover that loses acknowledged writes stops both nodes, which report the loss', async ({
    onTestFinished,
  }) => {
    const folder = temporaryFolder(onTestFinished)
    const result = await runFailovers({ ...common, programs, folder, isSynchronous: false })
    const { lost, twice, ready, verified } = result
    expect(lost).toBeGreaterThan(0)
    expect(twice).toBe(0)
    for (const text of ready) expect(text).toContain('"code":"STORE_ROLLED_BACK"')
    expect(verified.code).toBe(0)
  })
})
