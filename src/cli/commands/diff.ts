import { Command } from 'commander'
import { addNodeOptions, LOCAL_NODE } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/diff.ts'))

export function diffCommand(): Command {
  const command = new Command('diff')
    .description('list the items that changed between two heights or times of a running node')
    .argument('[database]', 'only this database')
    .requiredOption('--from <height>', 'the former state: a height, or a time of RFC 3339')
    .option('--to <height>', 'the later state (default: now)')
    .option('--docs', 'show the items before and after')
  return addNodeOptions(command, LOCAL_NODE).action(run('runDiff'))
}
