import { Command } from 'commander'
import { addFolderOption } from '../node/node-folder.ts'
import { addNodeOptions } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/log.ts'))

export function logCommand(): Command {
  const command = new Command('log')
    .description(
      'print the changes in the ledger, oldest first, of the running node at --url or of the node in SYSTEM_FOLDER',
    )
    .option('--by <name>', 'only changes of this author (the subject)')
    .option(
      '--iss <issuer>',
      'only changes of authors of this issuer; "" for the tokens of the node',
    )
    .option('--db <name>', 'only changes of this database')
    .option('--from <point>', 'height of a block, or a time such as 2026-03-01 (UTC)', '0')
    .option('--to <point>', 'height or time before which to stop (default: the newest block)')
    .addHelpText(
      'after',
      '\nWith --json, each change is one line of JSON. A node may be running in SYSTEM_FOLDER.\n' +
        '\nExit code 0: everything was printed. 1: the node refused or did not answer. 2: wrong arguments.',
    )
    .action(run('runLog'))
  return addFolderOption(addNodeOptions(command))
}
