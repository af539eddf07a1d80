import { availableParallelism } from 'node:os'
import { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { importAnew, importExport } from '../../ledger/core.ts'
import { count } from '../count.ts'
import { bytesOfFile, runOnExport } from '../data-command.ts'
import { nodeFolder } from '../node-folder.ts'
import { exitingWithPeers } from '../peer-exits.ts'
import { ProgressLine, shareOf } from '../progress.ts'
import { readSettings } from '../settings.ts'
import { restoredJson, restoredText } from './restore.ts'

/** `daicho import`. */
export function importCommand(): Command {
  return new Command('import')
    .argument('<file>', 'what daicho export wrote, compressed or not; - for stdin')
    .option('--key <vkey>', 'its verifier key, where its node.key is lost: data come back anew')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER holds the node.key of the node that was exported, and no store. Everything is\n' +
        'verified before the store is there.\n' +
        'Without that node.key, SYSTEM_FOLDER is empty, and --key names the key of the chain: the databases\n' +
        'come back under a new key and chain, and the old chain is kept as a mirror.\n' +
        '\nExit code 0: the store is there. 1: the export does not hold; line, height and entry are named.\n' +
        '2: no export. 78: the folder does not fit.',
    )
    .action(importFrom)
}

interface ImportFlags {
  readonly key?: string
  readonly json?: boolean
}

async function importFrom(file: string, { key, json = false }: ImportFlags): Promise<void> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: key !== undefined })
  const chunks = bytesOfFile(file)
  const startedMs = systemClock.now()
  const line = new ProgressLine('importing', process.stderr)
  const progress = (done: { blocks: number; ofBlocks: number; entries: number }) =>
    line.update(shareOf(done), `${done.entries} entries`, systemClock.now())
  const seconds = () => (systemClock.now() - startedMs) / 1000
  if (key !== undefined) {
    const done = await runOnExport(file, () =>
      exitingWithPeers(async () =>
        importAnew({
          ...{ folder, vkey: key, chunks, progress, clock: systemClock },
          difficulty: settings.LEDGER_DIFFICULTY,
          threads: availableParallelism() - 1,
        }),
      ),
    )
    line.end()
    process.stdout.write(`${json ? restoredJson(folder, done) : restoredText(done, seconds())}\n`)
    return
  }
  const { serverId, blocks, entries, headId } = await runOnExport(file, () =>
    importExport({ folder, chunks, progress }),
  )
  line.end()
  const rate = Math.round(entries / Math.max(seconds(), 0.001))
  const said = json
    ? JSON.stringify({ status: true, folder, serverId, blocks, entries, headId })
    : [
        `Imported: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything holds.`,
        `server id  ${serverId}`,
        `head       ${headId ?? '(none)'}`,
        `time       ${seconds().toFixed(1)} s, ${rate} entries/s`,
      ].join('\n')
  process.stdout.write(`${said}\n`)
}
