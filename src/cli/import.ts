import { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { importExport } from '../ledger/index.ts'
import { bytesOfFile, count, runOnExport, shareOf } from './data-command.ts'
import { nodeFolder } from './node-folder.ts'
import { ProgressLine } from './progress.ts'
import { readSettings } from './settings.ts'

/** `daicho import`. */
export function importCommand(): Command {
  return new Command('import')
    .description('make the store of the node in SYSTEM_FOLDER from an export of it')
    .argument('<file>', 'what daicho export wrote, compressed or not; - for stdin')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER holds the node.key of the node that was exported, and no store. Everything is\n' +
        'verified before the store is there.\n' +
        '\nExit code 0: the store is there. 1: the export does not hold; line, height and entry are named.\n' +
        '2: no export. 78: the folder does not fit.',
    )
    .action(importFrom)
}

async function importFrom(file: string, flags: { json?: boolean }): Promise<void> {
  const folder = nodeFolder(readSettings(process.env), { mayBeNew: false })
  const chunks = bytesOfFile(file)
  const startedMs = systemClock.now()
  const line = new ProgressLine('importing', process.stderr)
  const { serverId, blocks, entries, headId } = await runOnExport(file, () =>
    importExport({
      folder,
      chunks,
      progress: (done) => line.update(shareOf(done), `${done.entries} entries`, systemClock.now()),
    }),
  )
  line.end()
  const seconds = (systemClock.now() - startedMs) / 1000
  const rate = Math.round(entries / Math.max(seconds, 0.001))
  const said =
    flags.json === true
      ? JSON.stringify({ status: true, folder, serverId, blocks, entries, headId })
      : [
          `Imported: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything holds.`,
          `server id  ${serverId}`,
          `head       ${headId ?? '(none)'}`,
          `time       ${seconds.toFixed(1)} s, ${rate} entries/s`,
        ].join('\n')
  process.stdout.write(`${said}\n`)
}
