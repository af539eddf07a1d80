// Kills one of two nodes that write. `test/faults/process-kills.ts` repeats this.
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/ledger-node.ts'
import { runKills } from './kills.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()

it.skipIf(postgres.missing !== null)(
  `one of two nodes continues when the other node is killed, and no write is lost or stored twice${postgres.note}`,
  async () => {
    await using database = await postgres.newDatabase()
    const { url } = database
    const common = { folder: temporaryFolder(), kills: 2, requests: 50, log: () => {} }
    const { lost, twice, gaps, unexpected, verified } = await runKills({ url, ...common })
    expect({ lost, twice, gaps, unexpected }).toEqual({
      lost: 0,
      twice: 0,
      gaps: 0,
      unexpected: [],
    })
    expect(verified).toEqual({ code: 0, stdout: expect.stringContaining('"finding":null') })
  },
)
