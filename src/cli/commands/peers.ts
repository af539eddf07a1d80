import { Command } from 'commander'
import { EXIT } from '../exit.ts'
import { callNode, type NodeReply } from '../node-call.ts'
import { textOrFile } from '../text-or-file.ts'

const PATH = '/api/config/peers'

interface Flags {
  readonly url: string
  readonly token?: string
  readonly json?: boolean
  readonly push?: boolean
}

interface Peers extends NodeReply {
  readonly peers: readonly {
    readonly serverid: number
    readonly url: string | null
    readonly state: 'current' | 'behind' | 'failing' | 'frozen'
    readonly blocks: number
    readonly lag: number
    readonly error: { readonly code: string; readonly message: string } | null
    readonly evidence: { readonly what: string } | null
  }[]
  readonly evidence: { readonly what: string } | null
}

/** `daicho peers`. */
export function peersCommand(): Command {
  const command = new Command('peers').addHelpText(
    'after',
    '\nlist ends with 0 when all is well, and with 1 when a peer fails, a chain is frozen, or the node\n' +
      'does not answer. The key of a node is at /api/ledgers/<serverid>/vkey.',
  )
  const sub = (name: string, about: string, isDefault = false) =>
    command
      .command(name, { isDefault })
      .description(about)
      .option('--url <url>', 'the running node', 'http://127.0.0.1:4126')
      .option('--token <token>', 'where the node asks for one; or a file that holds it', textOrFile)
      .option('--json', 'print the result as one line of JSON')
  sub('list', 'show the peers: blocks, lag, last error', true).action((flags: Flags) => list(flags))
  // `list`, which is meant where no command is named, would be handed the name of one that there is not.
  command.hook('preSubcommand', (_, chosen) => {
    const [first = '-'] = command.args
    if (!first.startsWith('-') && first !== chosen.name()) {
      command.error(`error: unknown command '${first}'`)
    }
  })
  sub('add', 'mirror the chain of a node')
    .argument('<vkey>', 'verifier key of that node')
    .argument('[address]', 'root of its listener, or of a node that mirrors it; else it pushes')
    .option('--push', 'push the own chain to that address')
    .action((vkey: string, url: string | undefined, flags: Flags) => add(vkey, url, flags))
  sub('remove', 'stop mirroring a chain; what was mirrored stays')
    .argument('<serverid>', 'whose chain')
    .action((serverId: string, flags: Flags) => remove(serverId, flags))
  return command
}

async function list(flags: Flags): Promise<void> {
  const reply = await callNode<Peers>(node(flags), PATH, 'GET')
  const { peers, evidence } = reply
  const isWell = evidence === null && peers.every(({ state }) => !/^f/.test(state))
  if (!isWell) process.exitCode = EXIT.finding
  if (flags.json === true) {
    process.stdout.write(`${JSON.stringify(reply)}\n`)
    return
  }
  for (const { serverid, url, state, blocks, lag, error, evidence: found } of peers) {
    const why = found?.what ?? error?.message
    const behind = lag === 0 ? '' : `, ${lag} behind`
    process.stdout.write(
      `${serverid}  ${url ?? '(pushes)'}  ${state}, ${blocks} blocks${behind}${why === undefined ? '' : `: ${why}`}\n`,
    )
  }
  if (peers.length === 0) process.stdout.write('there are no peers\n')
  if (evidence !== null) process.stdout.write(`THIS NODE  frozen: ${evidence.what}\n`)
}

async function add(vkey: string, url: string | undefined, flags: Flags): Promise<void> {
  const { push } = flags
  await callNode(node(flags), PATH, 'POST', { vkey, url, push })
  say(flags, 'added')
}

async function remove(serverId: string, flags: Flags): Promise<void> {
  await callNode(node(flags), `${PATH}/${encodeURIComponent(serverId)}`, 'DELETE')
  say(flags, 'removed')
}

function node({ url, token }: Flags) {
  return { url, token }
}

function say(flags: Flags, what: string): void {
  const json = JSON.stringify({ status: true, peer: what })
  process.stdout.write(flags.json === true ? `${json}\n` : `${what}\n`)
}
