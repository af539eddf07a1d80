import { Command } from 'commander'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/export.ts'))

export function exportCommand(): Command {
  return new Command('export')
    .description('write the chain of a node, with its proofs, as JSON lines')
    .argument(
      '<from>',
      'a data folder or the postgres:// URL of a database; the node may be running',
    )
    .requiredOption('--out <file>', 'output file, compressed if it ends in .gz; - for stdout')
    .option('--json', 'print the result as one line of JSON; not with --out -')
    .addHelpText(
      'after',
      '\nExit code 0: the file is complete. 1: no file, because the chain is invalid or older than signed-head, or the disk is full.\n' +
        '2: there is nothing to export. 78: the store needs another version of daicho.',
    )
    .action(run('runExport'))
}
