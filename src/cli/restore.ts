import { availableParallelism } from 'node:os'
import { Command, InvalidArgumentError } from 'commander'
import { systemClock } from '../base/clock.ts'
import { HttpSource, restoreChain, rootUrl } from '../ledger/index.ts'
import { count, runOnData, shareOf } from './data-command.ts'
import { nodeFolder } from './node-folder.ts'
import { exitingWithPeers } from './peer-exits.ts'
import { ProgressLine } from './progress.ts'
import { readSettings } from './settings.ts'

/** `daicho restore`. */
export function restoreCommand(): Command {
  return new Command('restore')
    .description('make the store of the node in SYSTEM_FOLDER again from a peer that mirrors it')
    .requiredOption('--from <url>', 'root of the listener of a node that has the chain')
    .requiredOption('--serverid <number>', 'whose chain', serverIdOf)
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER holds the node.key of the node, and no store. Everything is verified against that\n' +
        'key before the store is there. Interrupted, it goes on where it was when it is run again.\n' +
        'PEERS_ALLOW_PRIVATE=1 lets the peer be on a private network.\n' +
        '\nExit code 0: the store is there. 1: the peer does not answer, or what it has does not hold.\n' +
        '2: wrong arguments. 78: the folder does not fit.',
    )
    .action(restore)
}

interface RestoreFlags {
  readonly from: string
  readonly serverid: number
  readonly json?: boolean
}

async function restore({ from, serverid: serverId, json }: RestoreFlags): Promise<void> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  const startedMs = systemClock.now()
  const line = new ProgressLine('restoring', process.stderr)
  const done = await runOnData(() =>
    exitingWithPeers(() =>
      restoreChain({
        folder,
        serverId,
        source: new HttpSource({
          url: rootUrl(from),
          serverId,
          allowPrivate: settings.PEERS_ALLOW_PRIVATE,
        }),
        progress: (to) => line.update(shareOf(to), `${to.blocks} blocks`, systemClock.now()),
        threads: availableParallelism() - 1,
      }),
    ),
  )
  line.end()
  const { blocks, entries, databases, items, headId } = done
  const seconds = (systemClock.now() - startedMs) / 1000
  const rate = Math.round(entries / Math.max(seconds, 0.001))
  const said =
    json === true
      ? JSON.stringify({
          status: true,
          folder,
          serverId,
          blocks,
          entries,
          databases,
          items,
          headId,
        })
      : [
          `Restored: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything holds.`,
          `server id  ${serverId}`,
          `databases  ${databases} with ${count(items, 'item')}`,
          `head       ${headId ?? '(none)'}`,
          `time       ${seconds.toFixed(1)} s, ${rate} entries/s`,
        ].join('\n')
  process.stdout.write(`${said}\n`)
}

function serverIdOf(text: string): number {
  const serverId = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(serverId)) return serverId
  throw new InvalidArgumentError('a server id is an integer; /api/serverid of a node shows it.')
}
