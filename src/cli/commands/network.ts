import { Command } from 'commander'
import { addFolderOption } from '../node/node-folder.ts'
import { addAuthorOption } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/network.ts'))

const WHERE = `
Acts on the running node whose gateway is at --url (with GATEWAY_API_KEY if it has a key), or on the node in
SYSTEM_FOLDER, which must not be running.`

const JSON_ABOUT = 'print the result as one line of JSON'
const PATH_ABOUT = 'the directory of a network, or a .bna file'

export function networkCommand(): Command {
  const command = new Command('network').description(
    'check, pack, deploy, upgrade and verify business networks, and manage identities',
  )
  command
    .command('check')
    .description('report all errors in a network, with file, line and column')
    .argument('<path>', PATH_ABOUT)
    .option('--json', JSON_ABOUT)
    .addHelpText(
      'after',
      '\nExit code 0: no errors. 1: errors were found. 2: the network cannot be read.',
    )
    .action(run('runNetworkCheck'))
  command
    .command('pack')
    .description('pack a network into a .bna file; equal files give equal bytes')
    .argument('<directory>', 'the directory of a network')
    .option('--out <file>', 'the archive to write; <name>@<version>.bna if omitted')
    .option('--json', JSON_ABOUT)
    .action(run('runNetworkPack'))
  nodeCommand(command, 'deploy', 'deploy a network to a node')
    .argument('<path>', PATH_ABOUT)
    .action(run('runNetworkDeploy'))
  nodeCommand(
    command,
    'upgrade',
    'replace a deployed network, provided that all stored data fits the new model',
  )
    .argument('<path>', PATH_ABOUT)
    .option(
      '--default <Type.field=value>',
      'value for a new field; may be repeated',
      (text, before: readonly string[]) => [...before, text],
      [],
    )
    .action(run('runNetworkUpgrade'))
  nodeCommand(command, 'list', 'list the networks of a node').action(run('runNetworkList'))
  const verifyNetworks = command
    .command('verify')
    .description('replay all transactions and compare their writes with the ledger')
    .argument('[names...]', 'networks of the node in SYSTEM_FOLDER; all if omitted')
    .option('--json', JSON_ABOUT)
    .addHelpText(
      'after',
      '\nThe node must not be running. Exit code 0: no differences. 1: differences were found.',
    )
    .action(run('runNetworkVerify'))
  addFolderOption(verifyNetworks, 'data folder of the stopped node')
  command.addCommand(identityCommand())
  return command
}

function identityCommand(): Command {
  const command = new Command('identity').description(
    'manage the identities of the participants of a network',
  )
  const network = ['<network>', 'name of the network'] as const
  const participant = ['<participant>', 'such as org.example.Trader#ann'] as const
  nodeCommand(command, 'issue', 'issue an identity and print its secret, which is not stored')
    .argument(...network)
    .argument(...participant)
    .argument('<name>', 'display name of the identity')
    .option('--issuer', 'allow the identity to issue, bind and revoke identities of members')
    .addHelpText('after', '\nRequests with Authorization: Bearer <secret> act as the participant.')
    .action(run('runIdentityIssue'))
  nodeCommand(command, 'bind', 'create an identity for a secret or account of the participant')
    .argument(...network)
    .argument(...participant)
    .argument(
      '<certificate>',
      'sha256:<64 hexadecimal digits>, the hash of the secret, or "oidc:<issuer> <subject>"',
    )
    .action(run('runIdentityBind'))
  nodeCommand(command, 'list', 'list the identities of a network')
    .argument(...network)
    .action(run('runIdentityList'))
  nodeCommand(command, 'revoke', 'revoke an identity permanently')
    .argument(...network)
    .argument('<id>', 'id of the identity, as listed')
    .action(run('runIdentityRevoke'))
  return command
}

/** Adds a command that acts on a node. */
function nodeCommand(parent: Command, name: string, about: string): Command {
  const command = parent
    .command(name)
    .description(about)
    .option('--url <address>', 'the gateway of a running node')
    .option('--json', JSON_ABOUT)
    .addHelpText('after', WHERE)
  return addFolderOption(addAuthorOption(command), 'data folder of the stopped node')
}
