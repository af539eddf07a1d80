// Two processes serve one business network while connections, a process and the server fail. `test/faults/networks.ts`
// repeats this with all kinds of faults.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { temporaryFolder } from '../support/ledger-node.ts'
import { runNetworkFaults } from './network-faults.ts'
import type { PostgresPrograms } from './programs.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
let programs: PostgresPrograms

beforeAll(async () => {
  if (postgres.canLaunch) programs = await postgres.newPrograms()
})
afterAll(() => programs?.remove())

it.skipIf(!postgres.canLaunch)(
  `two processes of a network decide every request on the current state, whatever fails, and lose nothing${postgres.note}`,
  async () => {
    const { wrong, checked, transfers, verified } = await runNetworkFaults({
      ...{ programs, folder: temporaryFolder(), seed: 7, minutes: 2, measureSeconds: 0 },
      pauseMs: 50,
      kinds: ['cut', 'kill', 'crash'],
      faults: 3,
      log() {},
    })
    expect(wrong).toEqual([])
    expect(transfers.acknowledged).toBeGreaterThan(0)
    for (const kind of ['sum', 'guard', 'denied', 'revoked', 'version', 'deployment']) {
      expect([kind, checked[kind]]).toEqual([kind, expect.any(Number)])
    }
    expect(verified.chain).toMatch(/^0 .*"finding":null/)
    expect(verified.network).toMatch(/^0 /)
  },
)
