import { Command } from 'commander'
import { addNodeOptions, LOCAL_NODE } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/erase.ts'))

export function eraseCommand(): Command {
  const command = new Command('erase')
    .description('erase the former revisions of items of a running node')
    .argument('<database>', 'name of the database, also of a deleted database')
    .option('--ids <ids...>', 'only the items with these ids')
    .option('--where <predicate>', 'only items that match this predicate of a filter, as JSON')
    .option('--deleted', 'only deleted items, and those of deleted databases of this name')
    .option('--reason <text>', 'why, recorded with the erasures')
    .option('--dry-run', 'count, and erase nothing')
  return addNodeOptions(command, LOCAL_NODE).action(run('runErase'))
}
