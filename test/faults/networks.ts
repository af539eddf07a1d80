// Two processes serve a business network on one PostgreSQL cluster, while processes, connections and servers fail.
//
//   npm run build && node scripts/run.mjs test/faults/networks.ts [--minutes 30] [--seed 1] [--faults 100000] [--measure 20] [--kind failover]
//
// Starts three PostgreSQL servers from the installed npm packages, in which a synchronous standby confirms each commit,
// and two processes with one key. Clients of both processes submit transfers, sums and guards, change access rules,
// issue and revoke identities, upgrade the network and deploy two networks under one name at once. Meanwhile, the
// script kills and suspends processes, cuts connections at every message, and restarts, pauses and kills servers.
//
// --measure measures the throughput of each process, alone and while both are busy, for so many seconds each.
// Exit code 0: no reply was wrong, nothing was lost or doubled, no process ended, each process got at least a third of
// its throughput while both were busy, and `daicho verify` and `daicho network verify` find no difference.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isFaultKind, runNetworkFaults } from '../postgres/network-faults.ts'
import { PostgresPrograms } from '../postgres/programs.ts'

const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    seed: { type: 'string', default: '1' },
    faults: { type: 'string', default: '100000' },
    measure: { type: 'string', default: '20' },
    kind: { type: 'string' },
  },
})

const programs = await PostgresPrograms.create()
const folder = mkdtempSync(join(tmpdir(), 'daicho-networks-'))
try {
  const result = await runNetworkFaults({
    ...{ programs, folder },
    ...(isFaultKind(flags.kind) ? { kinds: [flags.kind] } : {}),
    seed: Number(flags.seed),
    faults: Number(flags.faults),
    minutes: Number(flags.minutes),
    measureSeconds: Number(flags.measure),
    log: (line) => console.log(line),
  })
  console.log(JSON.stringify(result, null, 2))
  const { wrong, rates, verified } = result
  const alone = rates?.alone ?? []
  const isFair = rates === null || rates.both.every((rate, at) => 3 * rate >= (alone[at] ?? 0))
  const isVerified = Object.values(verified).every((text) => text.startsWith('0 '))
  process.exitCode = wrong.length === 0 && isFair && isVerified ? 0 : 1
} finally {
  await programs.remove()
  rmSync(folder, { recursive: true, force: true })
}
