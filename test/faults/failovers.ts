// Kills the primary of a PostgreSQL cluster under load, again and again. Every acknowledged write must survive.
//
//   npm run build && node scripts/run.mjs test/faults/failovers.ts [--rounds 20] [--requests 2000] [--control]
//
// Starts three PostgreSQL servers from the installed npm packages, in which a synchronous standby confirms each commit,
// and two nodes with one key that write to them. Each round kills the primary, promotes the standby that has received
// most, and replaces the dead server with a copy of the new primary.
//
// --control replicates asynchronously and stops the standbys before one failover. This must lose writes, and both nodes
// must notice and stop.
//
// 20 rounds take about 2 minutes. Exit code 0: no write is lost or stored twice; with --control, a loss was noticed.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runFailovers } from '../postgres/failover.ts'
import { PostgresPrograms } from '../postgres/programs.ts'

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    requests: { type: 'string', default: '2000' },
    control: { type: 'boolean', default: false },
  },
})

const programs = await PostgresPrograms.create()
const folder = mkdtempSync(join(tmpdir(), 'daicho-failovers-'))
try {
  const result = await runFailovers({
    programs,
    folder,
    rounds: Number(flags.rounds),
    requests: Number(flags.requests),
    isSynchronous: !flags.control,
    log: (line) => console.log(line),
  })
  console.log(JSON.stringify(result, null, 2))
  const { lost, twice, unexpected, verified } = result
  const isIntact = twice === 0 && verified.code === 0
  const isRight = flags.control ? lost > 0 : lost === 0 && unexpected.length === 0
  process.exitCode = isIntact && isRight ? 0 : 1
} finally {
  await programs.remove()
  rmSync(folder, { recursive: true, force: true })
}
