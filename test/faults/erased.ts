// Searches all files for erased content: of a node with SQLite and with PostgreSQL, its mirror, an export and a backup.
//
//   npm run build && node scripts/run.mjs test/faults/erased.ts [--markers 1000] [--gone 100] [--engine sqlite|postgres]
//
// Before and while the content is erased, an index is removed, a database is deleted, the node is killed, and its disk
// is full (this needs root on Linux). 1,000 markers take about 3 minutes. Exit code 0: when the metric
// `daicho_erasures_unfinished` is 0, no file contains erased content, except for the WAL of PostgreSQL until it was
// filled, and everything can be verified.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { PostgresPrograms } from '../postgres/programs.ts'
import { runErasing } from '../support/erasing.ts'

const { values: flags } = parseArgs({
  options: {
    markers: { type: 'string', default: '1000' },
    gone: { type: 'string' },
    engine: { type: 'string' },
  },
})

for (const engine of flags.engine === undefined ? ['sqlite', 'postgres'] : [flags.engine]) {
  const programs = engine === 'postgres' ? await PostgresPrograms.create() : null
  const folder = mkdtempSync(join(tmpdir(), 'daicho-erased-'))
  try {
    const log = (line: string) => console.log(`${engine}: ${line}`)
    const gone = flags.gone === undefined ? {} : { gone: Number(flags.gone) }
    const options = { folder, markers: Number(flags.markers), ...gone, programs, log }
    const result = await runErasing(options)
    log(JSON.stringify(result))
    const { pg_wal: _, 'compressed in pg_wal': _packed, ...left } = result.left
    const isGone = Object.keys({ ...left, ...result.leftLater }).length === 0
    const isRight = isGone && result.verified.every((code) => code === 0)
    if (!isRight) process.exitCode = 1
  } finally {
    await programs?.remove()
    rmSync(folder, { recursive: true, force: true })
  }
}
