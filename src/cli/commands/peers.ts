import { Command } from 'commander'
import { EXIT } from '../exit.ts'
import { callNode } from '../node/node-client.ts'
import { addNodeOptions, LOCAL_NODE, type NodeFlags } from '../node/node-options.ts'
import { print } from '../output/output.ts'

interface Flags extends NodeFlags {
  readonly url: string
}

interface AddFlags extends Flags {
  readonly push?: boolean
}

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
  sub('list', 'show blocks, lag and last error of each peer', true).action(list)
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
    .action(async (vkey: string, url: string | undefined, flags: AddFlags) => {
      const body = { vkey, ...(url && { url }), ...(flags.push && { push: true }) }
      await callNode(flags, 'POST /api/config/peers', { body })
      print(flags.json, { status: true, peer: 'added' }, 'added')
    })
  sub('remove', 'stop mirroring a chain; mirrored data is kept')
    .argument('<serverid>', 'server id of the chain')
    .action(async (serverid: string, flags: Flags) => {
      await callNode(flags, 'DELETE /api/config/peers/{serverid}', { path: { serverid } })
      print(flags.json, { status: true, peer: 'removed' }, 'removed')
    })
  return command
}

async function list(flags: Flags): Promise<void> {
  const reply = await callNode(flags, 'GET /api/config/peers', {})
  const lines = reply.peers.map(({ serverid, url, state, blocks, lag, error, evidence }) => {
    const behind = lag === 0 ? '' : `, ${lag} behind`
    const problem = evidence?.what ?? error?.message
    const suffix = problem === undefined ? '' : `: ${problem}`
    return `${serverid}  ${url ?? '(pushes)'}  ${state}, ${blocks} blocks${behind}${suffix}`
  })
  if (lines.length === 0) lines.push('there are no peers')
  if (reply.evidence !== null) lines.push(`THIS NODE  frozen: ${reply.evidence.what}`)
  print(flags.json, reply, lines.join('\n'))
  const isFine = reply.peers.every(({ state }) => state === 'current' || state === 'behind')
  if (!isFine || reply.evidence !== null) process.exitCode = EXIT.finding
}
