import { Command } from 'commander'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/copy.ts'))

export function copyCommand(): Command {
  return new Command('copy')
    .description('copy the store of a node between a folder and a PostgreSQL database')
    .argument('<from>', 'a data folder, or the postgres:// URL of a database')
    .argument('<to>', 'a folder or database without a store')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nCopies the chain, the databases, attachments, idempotency records and indexes, and verifies the copy.\n' +
        'Stop the node first. Then use only the copy, because two nodes with the same key would fork the chain.\n' +
        'Other files of a data folder, such as node.key, are not copied. PGPASSWORD can contain the password.\n' +
        '\nExit code 0: the copy is complete and valid. 1: it is not; the reason is printed. 2: wrong arguments.\n' +
        '78: <to> is not suitable.',
    )
    .action(run('runCopy'))
}
