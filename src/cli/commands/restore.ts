import { availableParallelism } from 'node:os'
import { Command, InvalidArgumentError } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { PeerClient, type Restored, restoreChain, rootUrl } from '../../ledger/core.ts'
import { count } from '../count.ts'
import { runOnData } from '../data-command.ts'
import { nodeFolder } from '../node-folder.ts'
import { exitingWithPeers } from '../peer-exits.ts'
import { ProgressLine, shareOf } from '../progress.ts'
import { readSettings } from '../settings.ts'

/** `daicho restore`. */
export function restoreCommand(): Command {
  return new Command('restore')
    .requiredOption('--from <url>', 'root of the listener of a node that has the chain')
    .requiredOption('--serverid <number>', 'whose chain', serverIdOf)
    .option('--key <vkey>', 'its verifier key, where its node.key is lost: data come back anew')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER holds the node.key of the node, and no store. Everything is verified against that\n' +
        'key before the store is there. Interrupted, it goes on where it was when it is run again.\n' +
        'Without that node.key, SYSTEM_FOLDER is empty, and --key names the key that everything is verified\n' +
        'against: the databases come back under a new key and chain, and the old chain is kept as a mirror.\n' +
        'PEERS_ALLOW_PRIVATE=1 lets the peer be on a private network.\n' +
        '\nExit code 0: the store is there. 1: the peer does not answer, or what it has does not hold.\n' +
        '2: wrong arguments. 78: the folder does not fit.',
    )
    .action(restore)
}

interface RestoreFlags {
  readonly from: string
  readonly serverid: number
  readonly key?: string
  readonly json?: boolean
}

async function restore({ from, serverid: serverId, key, json }: RestoreFlags): Promise<void> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: key !== undefined })
  const startedMs = systemClock.now()
  const line = new ProgressLine('restoring', process.stderr)
  const { PEERS_ALLOW_PRIVATE: allowPrivate, LEDGER_DIFFICULTY: difficulty } = settings
  const done = await runOnData(() =>
    exitingWithPeers(async () => {
      const url = rootUrl(from)
      return restoreChain({
        ...{ folder, serverId, difficulty, vkey: key ?? null, clock: systemClock },
        source: (signer) => new PeerClient({ url, serverId, allowPrivate, signer }),
        progress: (to) => line.update(shareOf(to), `${to.blocks} blocks`, systemClock.now()),
        threads: availableParallelism() - 1,
      })
    }),
  )
  line.end()
  const seconds = (systemClock.now() - startedMs) / 1000
  const text = json === true ? restoredJson(folder, done) : restoredText(done, seconds)
  process.stdout.write(`${text}\n`)
}

/** What came back, as one line of JSON. */
export function restoredJson(folder: string, { own, mirrored, absent }: Restored): string {
  const { serverId, blocks, entries, databases, items, headId } = own
  const from = mirrored === null ? {} : { mirrored: mirrored.serverId }
  return JSON.stringify({
    ...{ status: true, folder, serverId, ...from, blocks, entries, databases, items, headId },
    absent,
  })
}

/** The same in words. */
export function restoredText({ own, mirrored, absent }: Restored, seconds: number): string {
  const { serverId, blocks, entries, databases, items, headId } = own
  const all = entries + (mirrored?.entries ?? 0)
  const what = `${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything holds.`
  return [
    mirrored === null ? `Restored: ${what}` : `Restored under a new chain: ${what}`,
    `server id  ${serverId}`,
    ...(mirrored === null
      ? []
      : [`mirrored   ${mirrored.serverId} with ${count(mirrored.blocks, 'block')}`]),
    `databases  ${databases} with ${count(items, 'item')}`,
    ...(absent === 0
      ? []
      : [`ABSENT     ${count(absent, 'attached content')}, not to be had there`]),
    `head       ${headId ?? '(none)'}`,
    `time       ${seconds.toFixed(1)} s, ${Math.round(all / Math.max(seconds, 0.001))} entries/s`,
  ].join('\n')
}

function serverIdOf(text: string): number {
  const serverId = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(serverId)) return serverId
  throw new InvalidArgumentError('a server id is an integer; /api/serverid of a node shows it.')
}
