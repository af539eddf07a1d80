// Kills one of two nodes that write to one PostgreSQL database. Every acknowledged write must survive.
//
//   npm run build && node scripts/run.mjs test/faults/process-kills.ts [--kills 20] [--requests 1000]
//
// Starts a PostgreSQL server from the installed npm packages, and two nodes with one key that write to it. Each round
// kills one node with SIGKILL. The other node must continue, and the killed node starts again.
//
// 20 kills take about a minute. Exit code 0: no write is lost or stored twice, and the chain has no gap.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runKills } from '../postgres/kills.ts'
import { PostgresPrograms } from '../postgres/programs.ts'
import { PostgresServer } from '../postgres/server.ts'

const { values: flags } = parseArgs({
  options: {
    kills: { type: 'string', default: '20' },
    requests: { type: 'string', default: '1000' },
  },
})

const programs = await PostgresPrograms.create()
const folder = mkdtempSync(join(tmpdir(), 'daicho-kills-'))
try {
  const server = await PostgresServer.create(programs, 'shared')
  await server.start()
  const result = await runKills({
    url: server.url(),
    folder,
    kills: Number(flags.kills),
    requests: Number(flags.requests),
    log: (line) => console.log(line),
  })
  console.log(JSON.stringify(result, null, 2))
  const { lost, twice, gaps, unexpected, verified } = result
  const isRight = lost + twice + gaps + unexpected.length === 0 && verified.code === 0
  process.exitCode = isRight ? 0 : 1
  await server.stop()
} finally {
  await programs.remove()
  rmSync(folder, { recursive: true, force: true })
}
