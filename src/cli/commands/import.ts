import { Command, InvalidArgumentError } from 'commander'
import { addFolderOption } from '../node/node-folder.ts'
import { addAuthorOption } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/import.ts'))

export function importCommand(): Command {
  const command = new Command('import')
    .description('create the store of the node in SYSTEM_FOLDER from an export of its chain')
    .argument('<file>', 'a file written by daicho export, compressed or not; - for stdin')
    .option(
      '--key <vkey>',
      'verifier key of the chain, if node.key is lost: restores into a new chain',
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER must contain the node.key of the exported node, and no store. Everything is verified\n' +
        'before the store is created.\n' +
        'Without that node.key, SYSTEM_FOLDER must be empty, and --key is the key of the chain: the databases\n' +
        'are restored into a new chain with a new key, and the old chain is kept as a mirror.\n' +
        'With STORE, the store is created in SYSTEM_FOLDER and then moved into that database, which must be empty.\n' +
        '\nExit code 0: the store was created. 1: the export is invalid; line, height and entry are printed.\n' +
        '2: the file is not an export. 78: the folder is not suitable.',
    )
    .action(run('runImport'))
  return addFolderOption(addAuthorOption(command))
}

export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('restore the node in SYSTEM_FOLDER from a peer that mirrors its chain')
    .requiredOption('--from <url>', 'base URL of a node that has the chain')
    .requiredOption('--serverid <number>', 'server id of the chain', parseServerId)
    .option(
      '--key <vkey>',
      'verifier key of the chain, if node.key is lost: restores into a new chain',
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER must contain the node.key of the node, and no store. Everything is verified against\n' +
        'that key before the store is created. After an interruption, run the command again to continue.\n' +
        'Without that node.key, SYSTEM_FOLDER must be empty, and everything is verified against --key: the\n' +
        'databases are restored into a new chain with a new key, and the old chain is kept as a mirror.\n' +
        'PEERS_ALLOW_PRIVATE=1 allows a peer on a private network.\n' +
        'With STORE, the store is created in SYSTEM_FOLDER and then moved into that database, which must be empty.\n' +
        '\nExit code 0: everything was restored. 1: attachments are missing, the peer does not answer, or its chain is invalid.\n' +
        '2: wrong arguments. 78: the folder is not suitable.',
    )
    .action(run('runRestore'))
  return addFolderOption(addAuthorOption(command))
}

function parseServerId(text: string): number {
  const serverId = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(serverId)) return serverId
  throw new InvalidArgumentError(
    'a server id must be an integer; GET /api/serverid of a node returns it.',
  )
}
