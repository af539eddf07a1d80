import { Command } from 'commander'
import { addNodeOptions, LOCAL_NODE } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/peers.ts'))

export function peersCommand(): Command {
  const command = new Command('peers')
    .description('manage the peers of a running node; the node mirrors their chains')
    .addHelpText(
      'after',
      '\nlist exits with 0 if all peers work, and with 1 if a peer fails, a chain is frozen, or the node\n' +
        'does not answer. The key of a node is at /api/ledgers/<serverid>/vkey.',
    )
  const sub = (name: string, about: string, isDefault = false) =>
    addNodeOptions(command.command(name, { isDefault }).description(about), LOCAL_NODE)
  sub('list', 'show blocks, lag and last error of each peer', true).action(run('runPeersList'))
  // Without this check, an unknown command would be an argument of `list`, the default command.
  command.hook('preSubcommand', (_, chosen) => {
    const [first = '-'] = command.args
    if (!first.startsWith('-') && first !== chosen.name()) {
      command.error(`error: unknown command '${first}'`)
    }
  })
  sub('add', 'mirror the chain of another node')
    .argument('<vkey>', 'verifier key of that node')
    .argument(
      '[address]',
      'base URL of that node or of one of its mirrors; omit it if that node pushes its chain',
    )
    .option('--push', "also push this node's chain to that address")
    .action(run('runPeersAdd'))
  sub('remove', 'stop mirroring a chain; mirrored data is kept')
    .argument('<serverid>', 'server id of the chain')
    .action(run('runPeersRemove'))
  return command
}
